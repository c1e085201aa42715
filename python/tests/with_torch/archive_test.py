"""Programs written for the command alone, beside torch.export.save's."""

import subprocess
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import torch
import torchvision
import transformers

import onnxfit
from onnxfit import _command, archive, programs

IMAGES = torch.empty(2, 3, 224, 224)
IDS = torch.zeros(2, 32, dtype=torch.long)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(32, 64, 2, batch_first=True, dropout=0.1)
        self.head = torch.nn.Linear(64, 10)

    def forward(self, x):
        y, (hidden, _) = self.lstm(x)
        first, second = y.chunk(2, 1)
        return self.head(first + second), hidden


class Unet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.down = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.up = torch.nn.ConvTranspose2d(8, 3, 2, stride=2)

    def forward(self, x):
        y = torch.nn.functional.relu(self.norm(self.down(x)), inplace=True)
        return torch.cat([x, self.up(y), torch.nn.functional.interpolate(y, scale_factor=2.0)], 1)


class Odd(torch.nn.Module):
    """Bodies of autocast and no_grad, ties, mutations, limits that are no numbers."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(8, 8)
        self.unread = torch.nn.Linear(8, 8)
        self.tied = torch.nn.Linear(8, 8)
        self.tied.weight = self.head.weight
        self.register_buffer("count", torch.ones(8))

    def forward(self, x, k, flag=True):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.head(x)
        with torch.no_grad():
            z = self.tied(x) * float("inf")
        y = y.float().clamp(min=float("-inf"))
        self.count.add_(1)
        first, second = torch.split(y, [3, 5], 1)
        return {"a": torch.cat([z, first, second, first], 1), "n": 3,
                "b": torch.einsum("ij,ik->jk", y, z), "c": k.reshape(x.shape[0] * 2, -1),
                "d": y.to(torch.float64)[:, None][..., torch.topk(y, 2)[1][0]]}


def gpt2(**more):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=64, n_head=2,
                                                                **more)).train()


def t5():
    return transformers.T5ForConditionalGeneration(transformers.T5Config(
        num_layers=2, d_model=64, d_kv=16, d_ff=128, num_heads=4)).train()


def opt():
    return transformers.OPTForCausalLM(transformers.OPTConfig(
        num_hidden_layers=2, hidden_size=64, ffn_dim=128, word_embed_proj_dim=64,
        num_attention_heads=4)).train()


MODELS = {
    "resnet18": lambda: (torchvision.models.resnet18(), IMAGES),
    "mobilenet": lambda: (torchvision.models.mobilenet_v3_small(), IMAGES),
    "efficientnet": lambda: (torchvision.models.efficientnet_b0(), IMAGES),
    "vit": lambda: (torchvision.models.vit_b_16(), IMAGES),
    "gpt2": lambda: (gpt2(use_cache=False), IDS),
    "gpt2 with a cache": lambda: (gpt2(), IDS),
    "t5": lambda: (t5(), {"input_ids": IDS, "decoder_input_ids": IDS}),
    "opt": lambda: (opt(), IDS),
    "lstm": lambda: (Recurrent(), torch.empty(2, 8, 32)),
    "unet": lambda: (Unet(), torch.empty(2, 3, 64, 64)),
    "odd": lambda: (Odd(), (torch.empty(4, 8), torch.empty(8, 6))),
}
FLAGS = [["-b", "4"], ["-b", "4", "-p", "amp-bf16", "-o", "sgdm"], ["-b", "4", "--mode", "eval"]]


class Archives(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        warnings.simplefilter("ignore")
        self.addCleanup(warnings.resetwarnings)

    def reports(self, path):
        """The command's text, without the path."""
        return [subprocess.run([_command.binary(), "estimate", path, *flags, "-v"], check=False,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               encoding="utf-8").stdout.replace(str(path), "")
                for flags in FLAGS]

    def test_the_command_answers_the_same(self):
        for name, make in MODELS.items():
            with self.subTest(name):
                program = programs.export(*make())
                quick, slow = self.folder / "quick.pt2", self.folder / "slow.pt2"
                archive.save(program, str(quick), {})
                programs.save(program, str(slow))
                self.assertEqual(self.reports(quick), self.reports(slow))
                self.assertTrue(all("on the device" in text for text in self.reports(quick)))

    def test_gradients_that_a_forward_asks_for(self):
        def body(asks):
            layers = [torch.nn.Embedding(100, 64), *[torch.nn.Linear(64, 64), torch.nn.GELU()] * 4]
            model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))
            model[:-1].requires_grad_(False)
            model[0].register_forward_hook(asks)
            return model

        def set_it(_, __, output):
            output.requires_grad = True

        activation = 4096 * 64 * 4
        ids = torch.zeros(4096, dtype=torch.long)
        plain, by_call, by_assignment = [
            onnxfit.estimate(body(asks), ids, loss="mse", optimizer="sgd", mode="train").raw["peak"]["exact_bytes"]
            for asks in (lambda *_: None, lambda _, __, out: out.requires_grad_(True), set_it)]
        self.assertEqual(by_call, by_assignment)
        self.assertGreater(by_call - plain, 4 * activation)  # what each GELU was given

    def test_what_it_does_not_know_is_torch_export_s(self):
        model = torchvision.models.resnet18()
        quick = onnxfit.estimate(model, IMAGES)
        with mock.patch.object(archive, "save", side_effect=archive.Unknown("a list")):
            self.assertEqual(onnxfit.estimate(model, IMAGES).peak, quick.peak)


if __name__ == "__main__":
    unittest.main()
