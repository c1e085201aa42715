"""python -m onnxfit export, as typed."""

import base64
import importlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

import onnx
import torch

import onnxfit

PACKAGE = Path(onnxfit.__file__).resolve().parent.parent

NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(1000, 64)
        self.register_buffer("scale", torch.arange(64.0))
        self.head = torch.nn.Linear(64, 10)
    def forward(self, ids):
        return self.head((self.embed(ids) * self.scale).mean(1))
def build():
    return Net()
"""
# Of these calls nodes say little: one tensor under two names, a dropout that does nothing, a view.
LOSSES = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(1000, 64)
        self.head = torch.nn.Linear(64, 1000, bias=False)
        self.head.weight = self.embed.weight
        self.drop = torch.nn.Dropout(0.0)
    def forward(self, ids):
        x = self.drop(self.embed(ids))
        x = torch.nn.functional.relu(x * 2, inplace=True)
        return self.head(x.transpose(0, 1).contiguous().transpose(0, 1).detach() + x)
def build():
    return Net()
"""
# Functions that return what forward takes, too.
PAIRS = NET + """
def pair():
    return Net(), torch.zeros(4, 32, dtype=torch.long)
def half():
    return Net().bfloat16(), {"ids": torch.zeros(1, 32, dtype=torch.long)}
def raises():
    raise ValueError("bad width")
def number():
    return 3
def leaves():
    raise SystemExit(2)
"""
CONFIGS = {
    "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2},
    "classifier": {"model_type": "gpt2", "architectures": ["GPT2ForSequenceClassification"],
                   "n_layer": 2},
    "t5": {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "num_layers": 2},
    "vit": {"model_type": "vit", "architectures": ["ViTForImageClassification"],
            "num_hidden_layers": 2},
}
OPT = {"model_type": "opt", "architectures": ["OPTForCausalLM"], "num_hidden_layers": 2,
       "hidden_size": 64, "ffn_dim": 128, "word_embed_proj_dim": 64, "num_attention_heads": 4}


def metadata(file):
    return {entry.key: entry.value for entry in onnx.load(file, load_external_data=False).metadata_props}


class Export(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def typed(self, *words):
        environment = dict(os.environ, HF_HUB_OFFLINE="1")
        environment["PYTHONPATH"] = os.pathsep.join([str(PACKAGE), *sys.path])
        return subprocess.run([sys.executable, "-B", "-m", "onnxfit", "export", *words],
                              cwd=self.folder, env=environment, check=False, encoding="utf-8",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_a_file_behind_the_inputs(self):
        (self.folder / "net.py").write_text(NET)
        run = self.typed("net:build", "--input", "ids:int64=N,seq", "behind.pt2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue((self.folder / "behind.pt2").exists())

    def exported(self, *words):
        """Its last line, and the file that it names."""
        run = self.typed(*words)
        self.assertEqual(run.returncode, 0, run.stderr)
        said = run.stdout.splitlines()[-1]
        return said, self.folder / said.split()[1]

    def free(self, said):
        """The names that --dim takes."""
        return [word.split("=")[0] for word in said.split() if word.endswith("=N")]

    def test_torchvision(self):
        said, file = self.exported("torchvision:resnet18")
        self.assertEqual(said, "onnxfit resnet18.pt2 -b N")
        before = file.read_bytes()
        again = self.typed("torchvision:resnet18", "--eval")
        self.assertEqual((again.returncode, file.read_bytes()), (2, before))
        self.assertEqual(again.stderr,
                         "error: resnet18.pt2: it exists already (try: --force)\n")
        answer = onnxfit.estimate(file, batch=8)
        self.assertEqual((answer.peak.exact_bytes, answer.warnings), (368256616, ()))
        self.assertLess(file.stat().st_size, 400_000)

    def test_onnx_answers_the_same(self):
        _, file = self.exported("torchvision:resnet18", "resnet18.onnx")
        self.assertLess(file.stat().st_size, 400_000)
        self.assertEqual(onnxfit.estimate(file, batch=8).peak.exact_bytes, 368256616)

    def test_onnx_holds_what_it_loses(self):
        (self.folder / "net.py").write_text(LOSSES)
        words = ("--input", "ids:int64=N,seq")
        said, pt2 = self.exported("net:build", "net.pt2", *words)
        _, file = self.exported("net:build", "net.onnx", *words)
        held = metadata(file)
        self.assertEqual(held["onnxfit.metadata"], "1")
        self.assertEqual(json.loads(held["onnxfit.ties"]), {"head.weight": "embed.weight"})
        program = json.loads(zlib.decompress(base64.b64decode(held["onnxfit.program"])))
        self.assertEqual(sorted(program["range_constraints"]), ["N", "seq"])
        self.assertNotIn(str(self.folder), json.dumps(program))
        theirs = onnxfit.estimate(pt2, batch=8, dims={dim: 64 for dim in self.free(said)})
        ours = onnxfit.estimate(file, batch=8, dims={"seq": 64})
        self.assertEqual((ours.steps, ours.warnings), (theirs.steps, ()))

    def test_a_changed_onnx_is_said(self):
        (self.folder / "net.py").write_text(LOSSES)
        _, file = self.exported("net:build", "net.onnx", "--input", "ids:int64=N,seq")
        model = onnx.load(file, load_external_data=False)
        model.graph.output[0].name = "renamed"
        model.graph.node[-1].output[0] = "renamed"
        onnx.save(model, file)
        warning = onnxfit.estimate(file, batch=8, dims={"seq": 64}).warnings[0]
        self.assertEqual(warning.code, "OF114")
        self.assertIn("found one that was changed", warning.text)

    def test_inference(self):
        _, file = self.exported("torchvision:resnet18", "--eval")
        self.assertEqual(onnxfit.estimate(file, mode="eval").warnings, ())

    def test_timm(self):
        _, file = self.exported("timm:convnext_tiny", "--dtype", "bfloat16")
        self.assertGreater(onnxfit.estimate(file, batch=2, precision="bf16").device_bytes, 0)

    def test_functions(self):
        (self.folder / "net.py").write_text(NET)
        for name in ("net.pt2", "net.onnx"):
            said, file = self.exported("net:build", name, "--input", "ids:int64=N,seq", "--force")
            dims = {dim: 512 for dim in self.free(said)}
            answer = onnxfit.estimate(file, batch=8, dims=dims)
            self.assertEqual(answer.model.parameters, 64 * 1000 + 650)
        self.assertEqual(dims, {"seq": 512})

    def test_functions_that_return_an_example(self):
        (self.folder / "net.py").write_text(PAIRS)
        said, file = self.exported("net:pair", "pair.pt2")
        self.assertEqual(said, "onnxfit pair.pt2 -b N")
        net = {}
        exec(PAIRS, net)  # as the module has it
        model, example = net["pair"]()
        theirs = onnxfit.estimate(model, example, batch=8)
        ours = onnxfit.estimate(file, batch=8)
        self.assertEqual((ours.peak, ours.warnings), (theirs.peak, ()))
        _, file = self.exported("net:half", "half.onnx")
        self.assertEqual(onnxfit.estimate(file, batch=8).settings.precision, "bf16")
        _, file = self.exported("net:half", "cast.pt2", "--dtype", "float32")
        self.assertEqual(onnxfit.estimate(file, batch=8).settings.precision, "fp32")

    def test_checks(self):
        (self.folder / "net.py").write_text(PAIRS)
        (self.folder / "onnxfit.toml").write_text(f"""
[defaults]
python = "{sys.executable}"
batch = 8
lock = "none"
[[check]]
name = "pair"
model = "net:pair"
[[check]]
name = "asked"
model = "net:build"
input = "ids:int64=N,seq"
dims = {{ seq = 32 }}
[[check]]
name = "raises"
model = "net:raises"
""")
        old = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(PACKAGE), *sys.path])
        self.addCleanup(lambda: os.environ.update(PYTHONPATH=old) if old is not None
                        else os.environ.pop("PYTHONPATH"))
        answer = onnxfit.check(self.folder / "onnxfit.toml")
        pair, asked, raises = answer.checks
        self.assertEqual(pair.device_bytes, asked.device_bytes)
        _, file = self.exported("net:pair", "pair.pt2")
        self.assertEqual(pair.device_bytes, onnxfit.estimate(file, batch=8).device_bytes)
        self.assertEqual(raises.error, "net:raises: expected a function that returns a model, found "
                         "ValueError: bad width (net.py:19: raise ValueError(\"bad width\"))")

    def test_a_batch_that_is_not_the_first_dimension(self):
        (self.folder / "net.py").write_text("import torch\ndef build(): return torch.nn.LSTM(8, 8)")
        _, file = self.exported("net:build", "lstm.pt2", "--input", "input=50,N,8")
        answer = onnxfit.estimate(file, batch=32)
        self.assertIn("the batch is dimension 1 of input", answer.assumptions)

    def test_configs_of_transformers(self):
        for name, config in CONFIGS.items():
            (self.folder / name).mkdir()
            (self.folder / name / "config.json").write_text(json.dumps(config))
            said, file = self.exported(f"hf:{name}", f"{name}.pt2")
            answer = onnxfit.estimate(file, batch=2, dims={d: 64 for d in self.free(said)})
            self.assertGreater(answer.bytes_of("activations"), 0)

    def test_recorded_runs(self):
        (self.folder / "opt").mkdir()
        (self.folder / "opt" / "config.json").write_text(json.dumps(OPT))
        run = self.typed("hf:opt", "opt.pt2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("warning: OPTForCausalLM: its code asks for values",
                      run.stderr)
        self.assertIn("  modeling_opt.py:", run.stderr)
        dims = {dim: 64 for dim in self.free(run.stdout)}
        answer = onnxfit.estimate(self.folder / "opt.pt2", batch=2, dims=dims)
        self.assertGreater(answer.bytes_of("activations"), 0)
        self.assertEqual(self.typed("hf:opt", "opt.onnx").returncode, 0)
        others = onnxfit.estimate(self.folder / "opt.onnx", batch=2, dims={"seq": 64})
        for assumptions in (answer.assumptions, others.assumptions):
            self.assertIn("modeling_opt.py:", "\n".join(assumptions))
            self.assertIn("its code asks for values", "\n".join(assumptions))
        importlib.import_module("transformers.modeling_outputs")  # whose class the file names
        torch.export.load(self.folder / "opt.pt2")

    def test_refusals(self):
        rows = [
            (["resnet18"], "(try: torchvision:resnet18)"),
            (["torchvision:resnet19"], "expected a model of torchvision"),
            (["hf:nowhere/config.json"], "expected a folder, a config.json or an id"),
            (["nothing:build"], "expected torchvision:NAME, timm:NAME"),
            (["torchvision:resnet18", "x.txt"], "expected a file named *.pt2 or *.onnx"),
            (["torchvision:resnet18", "--dtype", "float99"], "expected a type of torch"),
            (["torchvision:resnet18", "--input", "x"], "expected NAME[:DTYPE]=DIM,DIM,…"),
            (["net:build"], "net:build: expected --input for what forward(ids) takes, or a function "
                            "that returns an example of it beside the model, found neither "
                            "(try: --input ids=N,3,224,224, of tokens --input ids:int64=N,seq)"),
            (["net:build", "--for-check"], "(try: input = \"ids=N,3,224,224\", of tokens input = "
                                           "\"ids:int64=N,seq\")"),
            (["net:raises"], "found ValueError: bad width (net.py:19: raise ValueError("),
            (["net:number"], "expected a function that returns a torch.nn.Module, or one and an "
                             "example of its inputs, found int (try: return model, "),
            (["net:leaves"], "found SystemExit: 2 (net.py:23: raise SystemExit(2)) (try: `if "
                             "__name__"),
            (["net:nothing"], "found no such function in net"),
            (["net.py:build"], "(try: net:build)"),
            (["wrong:build"], "found ModuleNotFoundError: No module named 'not_there' "
                              "(wrong.py:1: import not_there)"),
            (["torchvision:r3d_18"], "the inputs were x:float32=batch,3,224,224 (try: --input "),
        ]
        (self.folder / "net.py").write_text(PAIRS)
        (self.folder / "wrong.py").write_text("import not_there\n")
        for words, text in rows:
            run = self.typed(*words)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertTrue(run.stderr.splitlines()[-1].startswith("error: "), run.stderr)
            self.assertIn(text, run.stderr)


if __name__ == "__main__":
    unittest.main()
