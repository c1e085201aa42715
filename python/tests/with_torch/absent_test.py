"""PyTorch on a card that is not there: what `onnxfit run` puts into it from outside.  Skipped where
the command has no `run`."""

import json
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from onnxfit import _command


def has_run():
    return subprocess.run([_command.binary(), "run", "--help"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


@unittest.skipUnless(has_run(), "no `onnxfit run` here")
class Absent(unittest.TestCase):
    def lines(self, program):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "train.py").write_text(textwrap.dedent(program))
            run = subprocess.run([_command.binary(), "run", "-g", "a100-80gb", "--", sys.executable,
                                  "train.py"], cwd=folder, stdout=subprocess.PIPE, encoding="utf-8",
                                 check=True)
        return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[")]

    def test_small_tensors_have_values(self):
        rows = [
            ("torch.tensor([True, False, True], device='cuda').sum().item()", 2),
            ("torch.tensor([0, 3, 0, 1], device='cuda').nonzero().tolist()", [[1], [3]]),
            ("(torch.arange(100000, device='cuda') % 3 == 0).sum().item()", 33334),
            ("torch.arange(9, device='cuda')[torch.arange(9, device='cuda') > 6].tolist()", [7, 8]),
            ("torch.unique(torch.tensor([3, 1, 3], device='cuda')).tolist()", [1, 3]),
            ("torch.tensor([1, 2], device='cuda').repeat_interleave("
             "torch.tensor([2, 1], device='cuda')).tolist()", [1, 1, 2]),
            ("torch.zeros(3, device='cuda').add_(1).cumsum(0).tolist()", [1.0, 2.0, 3.0]),
            ("str(torch.tensor([1, 2], device='cuda'))", "tensor([1, 2], device='cuda:0')"),
            # of large ones nothing is known, but that they are finite
            ("torch.isfinite(torch.randn(1000, 1000, device='cuda')).all().item()", True),
            ("torch.isnan(torch.randn(1000, 1000, device='cuda')).any().item()", False),
            ("0 < torch.randn(1000, 1000, device='cuda').mean().item() < 100", True),
            # and that experts are chosen about as often
            ("len(set(torch.randn(4096, 64, device='cuda').topk(2).indices.flatten().tolist()))", 64),
            ("torch.randn(4096, 64, device='cuda').argmax(1).bincount().tolist()[:2]", [64, 64]),
            # while a flag for each sentence stays one, as generate() has it
            ("(torch.ones(4, dtype=torch.long, device='cuda') & ~torch.isin(torch.randn("
             "4, 32000, device='cuda').argmax(1), torch.tensor([2], device='cuda')))"
             ".max().item()", 1),
        ]
        program = "import json, torch\n" + "".join(
            "print(json.dumps([%s]))\n" % call for call, _ in rows)
        for (call, expected), found in zip(rows, self.lines(program)):
            with self.subTest(call):
                self.assertEqual(found, [expected])

    def test_what_the_host_wrote_is_known(self):
        rows = [
            ("torch.tensor([0.0, 0.0], device='cuda').tolist()", [0.0, 0.0]),
            ("torch.tensor(0, device='cuda').item()", 0),
            ("torch.tensor([[False]], device='cuda').any().item()", False),
        ]
        program = "import json, torch\n" + "".join(
            "print(json.dumps([%s, sys.modules['_onnxfit_reads'].counts == {}]))\n" % call
            for call, _ in rows)
        for (call, expected), found in zip(rows, self.lines("import sys\n" + program)):
            with self.subTest(call):
                self.assertEqual(found, [expected, True])

    def test_children_forked_before_cuda_have_values(self):
        (found,), = self.lines("""
            import json, os, torch
            child = os.fork()
            if child == 0:
                print(json.dumps([torch.arange(4, device="cuda").diff().tolist()]), flush=True)
                os._exit(0)
            os.waitpid(child, 0)
            """)
        self.assertEqual(found, [1, 1, 1])

    def test_recurrent_layers(self):
        """Their weights are views of one space, of the size that cuDNN 9.19.0 says."""
        (is_shared, same, shape), = self.lines("""
            import json, torch
            lstm = torch.nn.LSTM(8, 16, 2, bidirectional=True, dropout=.5).cuda()
            parts = [p for p in lstm.parameters()]
            x = torch.randn(5, 3, 8, device="cuda")
            y, _ = lstm(x)
            y.sum().backward()
            print(json.dumps([len({p.untyped_storage().data_ptr() for p in parts}) == 1,
                              sum(p.numel() for p in parts) * 4
                              == parts[0].untyped_storage().nbytes(), y.shape]))
            """)
        self.assertTrue(is_shared)
        self.assertTrue(same)
        self.assertEqual(shape, [5, 3, 32])

    def test_gradient_scaler_steps(self):
        (steps, scale), = self.lines("""
            import json, torch
            net = torch.nn.Linear(1000, 1000).cuda()
            optimizer = torch.optim.AdamW(net.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for _ in range(3):
                loss = net(torch.randn(8, 1000, device="cuda")).pow(2).mean()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            print(json.dumps([optimizer.state[net.weight]["step"].item(), scaler.get_scale()]))
            """)
        self.assertEqual((steps, scale), (3, 65536))

    def test_timing_kernels_takes_no_values(self):
        # x is written to as kernels are timed, below another mode as custom operators have one
        (x,), = self.lines("""
            import json, torch
            from torch.utils._python_dispatch import TorchDispatchMode
            from torch._inductor.runtime.benchmarking import benchmarker
            class Other(TorchDispatchMode):
                def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                    return func(*args, **(kwargs or {}))
            x = torch.zeros(1, device="cuda")
            with Other():
                benchmarker.benchmark_gpu(lambda: x.add_(1))
            print(json.dumps([x.item()]))
            """)
        self.assertEqual(x, 0)

    def test_mask_of_which_the_gradient_is_put_back(self):
        (shape,), = self.lines("""
            import json, torch
            weight = torch.randn(1000, 8, device="cuda", requires_grad=True)
            weight[torch.arange(1000, device="cuda") % 2 == 0].sum().backward()
            print(json.dumps([list(weight.grad.shape)]))
            """)
        self.assertEqual(shape, [1000, 8])


# Who writes files from C++ or Rust, and how to read them again.
WRITERS = {
    "torch.save": ("torch.save({'a': 1}, 'model.pt')", "torch.load('model.pt')['a']", 1),
    "torch.jit": ("torch.jit.script(torch.nn.Linear(2, 3)).save('model.pt')",
                  "list(torch.jit.load('model.pt').weight.shape)", [3, 2]),
    "torch.export": ("torch.export.save(torch.export.export(torch.nn.Linear(2, 3), "
                     "(torch.ones(1, 2),)), 'model.pt')",
                     "list(torch.export.load('model.pt').state_dict['weight'].shape)", [3, 2]),
    "safetensors": ("safetensors.torch.save_file({'a': torch.ones(2)}, 'model.pt')",
                    "safetensors.torch.load_file('model.pt')['a'].tolist()", [1, 1]),
    "tokenizers": ("tokenizers.Tokenizer(tokenizers.models.BPE()).save('model.pt')",
                   "type(tokenizers.Tokenizer.from_file('model.pt').model).__name__", "BPE"),
    "cv2": ("cv2.imwrite('model.pt.png', numpy.zeros((2, 3, 3)))",
            "list(cv2.imread('model.pt.png').shape)", [2, 3, 3]),
    "memmap": ("numpy.memmap('model.pt', 'uint8', 'r+')[0] = 65",
               "chr(numpy.fromfile('model.pt', 'uint8')[0])", "A"),
    "workers": ("open('model.pt', 'w').write('0')",
                "next(iter(torch.utils.data.DataLoader(Lines(), num_workers=1)))", ["0"]),
}


@unittest.skipUnless(has_run(), "no `onnxfit run` here")
class Files(unittest.TestCase):
    def test_trained_model_stays(self):
        """Whoever writes over it, and whoever reads what was written."""
        program = textwrap.dedent("""
            import importlib, json, torch
            for name in ("numpy", "safetensors.torch", "tokenizers", "cv2"):
                try:
                    importlib.import_module(name)
                    globals()[name.split(".")[0]] = importlib.import_module(name.split(".")[0])
                except ImportError:
                    pass
            class Lines(torch.utils.data.Dataset):
                def __len__(self):
                    return 1
                def __getitem__(self, index):
                    return open("model.pt").read()
            torch.ones(1, device="cuda")
            """)
        for name, (write, read, _) in WRITERS.items():
            program += "if %r.split('.')[0] not in ('safetensors', 'tokenizers', 'cv2') or %r in " \
                       "globals():\n    %s\n    print(json.dumps([%r, %s]), flush=True)\n" % (
                           name, name, write, name, read)
        with tempfile.TemporaryDirectory() as folder:
            trained = Path(folder) / "model.pt"
            trained.write_bytes(b"trained" * 1000)
            (Path(folder) / "train.py").write_text(program)
            run = subprocess.run([_command.binary(), "run", "-g", "t4", "--", sys.executable,
                                  "train.py"], cwd=folder, stdout=subprocess.PIPE, encoding="utf-8",
                                 check=True)
            self.assertEqual(trained.read_bytes(), b"trained" * 1000)
            self.assertEqual({path.name for path in Path(folder).iterdir()}, {"model.pt", "train.py"})
        found = dict(json.loads(line) for line in run.stdout.splitlines() if line.startswith("["))
        self.assertGreater(len(found), 4)
        self.assertEqual(found, {name: WRITERS[name][2] for name in found})
        self.assertIn("kept apart from your files, and gone: model.pt", run.stdout)


if __name__ == "__main__":
    unittest.main()
