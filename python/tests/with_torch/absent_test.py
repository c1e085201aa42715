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
    def lines(self, program, cards=("-g", "a100-80gb")):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "train.py").write_text(textwrap.dedent(program))
            run = subprocess.run([_command.binary(), "run", *cards, "--", sys.executable,
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
            # as a beam search scores what has not ended
            ("((torch.randn(2, 32000, device='cuda').amax(1) + torch.tensor([0., -1e9], device='cuda'))"
             " > -1e8).tolist()", [True, False]),
            # rows that a padding mask leaves
            ("[len(row) for row in torch._nested_tensor_from_mask(torch.randn(2, 4, 8, device='cuda'),"
             " torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]], device='cuda').bool()).unbind()]", [4, 1]),
            # what the CPU makes for the gradient is not on the card
            ("[a := torch.cuda.memory_allocated(), torch.nn.functional.logsigmoid("
             "torch.zeros(100, device='cuda')), torch.cuda.memory_allocated() - a][2]", 512),
        ]
        program = "import json, torch\n" + "".join(
            "print(json.dumps([%s]))\n" % call for call, _ in rows)
        for (call, expected), found in zip(rows, self.lines(program)):
            with self.subTest(call):
                self.assertEqual(found, [expected])

    def opened(self, rows, before=""):
        """Compares what calls give, and what they leave open, with (call, expected, opened)."""
        program = "import json, sys, torch, torchvision\nreads = sys.modules['_onnxfit_reads']\n"
        program += "def t(values): return torch.tensor(values, device='cuda')\n" + before + "".join(
            "reads.counts.clear()\nvalue = %s\n"
            "print(json.dumps([value, sorted({k[2:] for k in reads.counts})]))\n" % call
            for call, _, _ in rows)
        for (call, expected, opened), found in zip(rows, self.lines(program)):
            with self.subTest(call):
                self.assertEqual(found, [expected, [list(key) for key in opened]])

    def test_what_the_host_wrote_is_known(self):
        self.opened([(call, expected, []) for call, expected in [
            ("t([0.0, 0.0]).tolist()", [0.0, 0.0]),
            ("t(0).item()", 0),
            ("t([[False]]).any().item()", False),
            ("t([1.0, float('inf')]).isfinite().tolist()", [True, False]),
            ("torch.allclose(t([1., 2.]), t([1., 2.]))", True),
            ("torch.allclose(t([1., 2.]), t([1., 3.]))", False),
            ("torch.equal(t([1, 2]), t([1, 2]))", True),
            ("bool((t([1, 2]) == t([1, 2])).all())", True),
            # by C++ that no mode sees
            ("torch.combinations(t([1, 2, 3])).tolist()", [[1, 2], [1, 3], [2, 3]]),
            ("torch.quantile(t([1., 2., 3.]), .5).item()", 2),
            ("torch.nn.utils.rnn.pad_sequence([t([1, 2]), t([3])], True).tolist()", [[1, 2], [3, 0]]),
            ("list(t([[0, 1], [1, 0]]).to_sparse().indices().shape)", [2, 2]),
            ("torchvision.ops.nms(t([[0., 0., 1., 1.], [0., 0., 1., 1.], [5., 5., 6., 6.]]),"
             "t([.9, .8, .7]), .5).tolist()", [0, 2]),
        ]])

    def test_lengths_on_the_host_are_known(self):
        packed = "torch.nn.utils.rnn.pack_padded_sequence(large, torch.tensor([3, 1]), True)"
        self.opened([
            (packed + ".batch_sizes.tolist()", [2, 1, 1], []),
            ("torch.nn.utils.rnn.pad_packed_sequence(" + packed + ")[1].tolist()", [3, 1], []),
            ("torch.isfinite(torch.nn.functional.ctc_loss(large.log_softmax(2), torch.tensor([[1], [1], "
             "[1]]), torch.tensor([2, 2, 2]), torch.tensor([1, 1, 1]))).item()", True,
             [("item()", "decides")]),
        ], "large = torch.randn(2, 3, 40000, device='cuda')\n")

    def test_attention_adds_its_mask_in_place(self):
        """Without a kernel of its own it asks for eight tensors; with another for the sum, for nine."""
        self.assertEqual(self.lines("""
            import json, torch
            for kind in ("flash", "mem_efficient", "cudnn"):
                getattr(torch.backends.cuda, f"enable_{kind}_sdp")(False)
            q = torch.zeros(1, 8, 256, 64, device="cuda", requires_grad=True)
            bias = torch.zeros(1, 8, 256, 256, device="cuda", requires_grad=True)
            def asked(): return torch.cuda.memory_stats()["allocation.all.allocated"]
            def attend(): return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=bias)
            attend()  # cuBLAS takes its workspace
            print(json.dumps([-asked() + 0 * len(attend()) + asked()]))
            """), [[8]])

    def test_a_size_that_a_guess_decides_is_the_most(self):
        def most(what):
            return [(what, "most")]
        self.opened([
            ("list((x < -5).nonzero().shape)", [100000, 2], most("nonzero()")),
            ("list(x[x < -5].shape)", [100000], most("nonzero()")),
            ("list(x[x > 0.1].shape)", [100000], most("nonzero()")),
            ("list(torch.masked_select(x, x < -5).shape)", [100000], most("masked_select()")),
            ("list(x.long().unique().shape)", [100000], most("unique()")),
            ("[list(y.shape) for y in torch.unique(x.long(), dim=0, return_counts=True)]",
             [[1000, 100], [1000]], most("unique()")),
            ("list(torchvision.ops.nms(x[:, :4], x[:, 4], .5).shape)", [1000], most("nms()")),
            # what was told stays so, and what is chosen has as many
            ("(lambda m: [m.any().item(), len(m.nonzero())])(x < -5)", [False, 0],
             [("item()", "decides"), ("nonzero()", "decides")]),
            ("(lambda m: [len(m.nonzero()), m.sum().item()])(x < -5)", [100000, 100000],
             [("item()", "decides"), ("nonzero()", "most")]),
            # of a known mask the size is known
            ("list(x[torch.arange(1000, device='cuda') % 2 == 0].shape)", [500, 100], []),
        ], "x = torch.randn(1000, 100, device='cuda')\n")

    def test_guesses_of_ranks_stay_guesses(self):
        rows = [
            ("reduced(big.mean())", 4, True),
            ("reduced(t(float(rank + 1)))", 3, False),
            ("reduced(big.mean() if rank == 0 else t(3.))", 5, True),
            ("reduced(big.mean().bfloat16())", 2, True),
            ("sent(big.mean() if rank == 0 else t(0.))", 2, True),
            ("sent(t(7.) if rank == 0 else t(0.))", 7, False),
            ("swapped(t([float(rank)]))", "1 - rank", False),
            ("swapped(big.mean()[None])", 2, True),
            ("together([t(float(rank + i)) for i in range(3)])", [1, 3, 5], False),
            ("together([t(float(rank)) for _ in range(600)])[599]", 1, False),
        ]
        program = """
            import json, os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
            def t(values): return torch.tensor(values, device="cuda")
            def tell(row): os.write(1, (json.dumps(row) + "\\n").encode())  # both, a line each
            def reduced(x):
                dist.all_reduce(x)
                return x.item()
            def sent(x):
                dist.broadcast(x, 0)
                return x.item()
            def swapped(x):
                other, got = 1 - dist.get_rank(), torch.zeros_like(x)
                for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, other),
                                                    dist.P2POp(dist.irecv, got, other)]):
                    work.wait()
                return got.item()
            def together(xs):
                with dist._coalescing_manager():
                    for x in xs:
                        dist.all_reduce(x)
                return [x.item() for x in xs]
            def main(rank):
                os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                                  MASTER_PORT=os.environ["PORT"])
                torch.cuda.set_device(rank)
                dist.init_process_group("nccl")
                counts, big = sys.modules["_onnxfit_reads"].counts, torch.randn(1000, 1000, device="cuda")
                ROWS
                dist.destroy_process_group()
            if __name__ == "__main__":
                import socket
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    os.environ["PORT"] = str(free.getsockname()[1])
                mp.start_processes(main, nprocs=2, start_method="spawn")
            """.replace("ROWS", "\n                ".join(
                f"counts.clear(); value = {call}; "
                f"tell([{i}, value == {expected}, bool(counts)])"
                for i, (call, expected, _) in enumerate(rows)))
        found = self.lines(program, ("--devices", "2xa100-80gb"))
        for i, (call, _, is_open) in enumerate(rows):
            with self.subTest(call):
                self.assertEqual([row for row in found if row[0] == i], [[i, True, is_open]] * 2)

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

    def test_constants_of_a_compiled_graph_are_what_they_are(self):
        self.assertEqual(self.lines("""
            import json, torch
            from torch._inductor.fx_passes import joint_graph
            torch.compiler.config.force_disable_caches = True
            found, add = [], joint_graph.UniformValueConstantFolder.add_node_replacement
            def add_node_replacement(self, node, tensor):
                add(self, node, tensor)
                found.append(self.node_replacements[node])
            joint_graph.UniformValueConstantFolder.add_node_replacement = add_node_replacement
            @torch.compile
            def call(x):
                return x * torch.full((512,), 0.25, device="cuda") + torch.full((512,), 7, device="cuda")
            call(torch.ones(512, device="cuda"))
            print(json.dumps(found))
            """), [[0.25, 7]])

    def test_mask_of_which_the_gradient_is_put_back(self):
        (shape,), = self.lines("""
            import json, torch
            weight = torch.randn(1000, 8, device="cuda", requires_grad=True)
            weight[torch.arange(1000, device="cuda") % 2 == 0].sum().backward()
            print(json.dumps([list(weight.grad.shape)]))
            """)
        self.assertEqual(shape, [1000, 8])

    def test_mask_of_which_the_gradient_is_chosen(self):
        # rows that a mask chooses are written to, and their gradient is chosen by the mask again
        (shapes,), = self.lines("""
            import json, torch
            rows = torch.randn(1000, 8, device="cuda", requires_grad=True)
            mask = torch.arange(1000, device="cuda") % 2 == 0
            out = torch.zeros(1000, 8, device="cuda")
            out[mask] = rows[mask] * 2
            chosen = rows.new_zeros(500, 8).requires_grad_()
            out = out.masked_scatter(mask[:, None], chosen)
            out[mask] = chosen
            out.sum().backward()
            print(json.dumps([[list(rows.grad.shape), list(chosen.grad.shape)]]))
            """)
        self.assertEqual(shapes, [[1000, 8], [500, 8]])


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
