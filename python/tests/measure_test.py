"""python -m onnxfit measure, without torch and without a card: what it writes and shows."""

import base64
import contextlib
import io
import json
import lzma
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from onnxfit import _measure, _networks
from onnxfit.errors import OnnxfitError

ROOT = Path(__file__).resolve().parent.parent.parent
RESNET = ROOT / "tests/data/pt2/resnet18.train.pt2"
CARD = {"name": "A card", "compute_capability": 80, "multiprocessors": 108, "driver": "580.65",
        "total_bytes": 8 << 30, "outside_bytes": 400 << 20, "system": "Linux",
        "versions": {"torch": "2.11.0"}}
# Of resnet18 at batch 8 PyTorch's own figure, made to look 1 % larger.
MEASURED = {"exact_bytes": 1, "allocated_bytes": 2, "reserved_bytes": 480814039,
            "outside_bytes": 500 << 20, "retries": 0}


def answers(*words):
    if words == ("card",):
        return dict(CARD)
    return {"out_of_memory": "CUDA out of memory."} if words[2] == "amp-bf16" else MEASURED


def measure(*words, answer=answers):
    """What it prints, and the file that it writes."""
    with tempfile.TemporaryDirectory() as folder, \
            mock.patch.object(_measure, "_in_own_process", answer), \
            mock.patch.object(_measure, "_driver", return_value="580.65"), \
            mock.patch.object(_measure, "_write_program", return_value=str(RESNET)), \
            mock.patch.object(_measure.targets, "library"), \
            contextlib.redirect_stdout(io.StringIO()) as said:
        path = Path(folder, "card.json")
        _measure.main([str(path), *words])
        return said.getvalue(), json.loads(path.read_text())


class Measure(unittest.TestCase):
    def test_each_run_stands_beside_its_estimate(self):
        said, file = measure("--only", "perceptron", "-b", "8")
        self.assertIn("A card, 8,192 MiB; driver 580.65, torch 2.11.0\n", said)
        row = next(line.split() for line in said.splitlines() if "fp32" in line)
        self.assertEqual(row, ["perceptron", "8", "fp32", "459", "MiB", "454", "MiB", "-0.99%",
                               "500", "MiB"])
        run = file["runs"][0]
        self.assertEqual(run["estimated"]["reserved_bytes"], 476053504)
        self.assertEqual(run["measured"], MEASURED)
        self.assertEqual(run["flags"], ["-b", "8", "-p", "fp32", "-o", "adamw"])

    def test_the_estimate_is_of_the_card_where_it_is_known(self):
        hopper = dict(CARD, name="NVIDIA H200")
        _, file = measure("--only", "perceptron",
                          answer=lambda *words: hopper if words == ("card",) else MEASURED)
        self.assertEqual(file["runs"][0]["flags"][-2:], ["--gpu", "NVIDIA H200"])

    def test_what_does_not_fit_is_a_row(self):
        said, file = measure("--only", "perceptron")
        self.assertIn("amp-bf16    out of memory\n", said)
        self.assertEqual(file["runs"][1]["measured"], {"out_of_memory": "CUDA out of memory."})

    def test_the_program_is_in_the_file(self):
        packed = measure("--only", "gpt2")[1]["programs"]["gpt2"]
        self.assertEqual(lzma.decompress(base64.b85decode(packed)), RESNET.read_bytes())

    def test_without_a_card_it_says_so(self):
        with self.assertRaisesRegex(OnnxfitError, r"expected a CUDA card that torch can use, found "
                                                  r"no driver \(try: nvidia-smi"):
            measure(answer=lambda *words: {"error": "no driver"})

    def test_a_build_without_cuda_says_why_nothing_is_verified(self):
        said, file = measure("--only", "convolutions")
        self.assertIn("\nnot verified: ", said)
        self.assertRegex(file["verify"]["error"], "no usable GPU|CUDA")  # not what it was given

    def test_a_network_that_nobody_knows_is_refused(self):
        with self.assertRaisesRegex(OnnxfitError, "'alexnet': expected one of perceptron, "):
            measure("--only", "alexnet")

    def test_what_a_process_ends_with_is_told(self):
        self.assertIn("expected one of", _measure._in_own_process("alexnet", "1", "fp32")["error"])

    def test_inputs_have_the_batch_first(self):
        t5 = _networks.find("t5")
        self.assertEqual([t5.sizes(spec, 3) for spec in t5.inputs], [[3, 256], [3, 256]])


class Notebook(unittest.TestCase):
    def test_its_commands_are_those_that_there_are(self):
        cells = json.loads((ROOT / "python/measure.ipynb").read_text())["cells"]
        lines = [line.strip() for cell in cells if cell["cell_type"] == "code"
                 for line in cell["source"]]
        commands = [line[1:].split() for line in lines if line.startswith("!")]
        self.assertEqual([words[0] for words in commands], ["nvidia-smi", "./project", "python"])
        self.assertTrue((ROOT / "project").exists())
        self.assertEqual(commands[2][:4], ["python", "-m", "onnxfit", "measure"])
        self.assertEqual(_measure._parser().parse_args(commands[2][4:]).file, "card.json")


if __name__ == "__main__":
    unittest.main()
