"""What wraps modules is taken off for the answer, put back, and said."""

import tempfile
import unittest
import warnings
from pathlib import Path

import onnxfit
import torch
from torch import nn

X = torch.zeros(8, 16)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64))
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.features(x)))


def asked(model, **keywords):
    """The answer, and what was said of it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        answer = onnxfit.estimate(model, X, batch=8, **keywords)
    return answer, [str(w.message) for w in said if w.category is onnxfit.OnnxfitWarning]


class Wrappers(unittest.TestCase):
    def setUp(self):
        self.plain, said = asked(Net())
        self.assertEqual(said, [])

    def assert_plain(self, model, *sentences, **keywords):
        modules = [type(module) for module in model.modules()]
        answer, said = asked(model, **keywords)
        self.assertEqual((answer.peak, answer.model.path), (self.plain.peak, "Net.pt2"))
        self.assertEqual(len(said), len(sentences), said)
        for text, sentence in zip(said, sentences):
            self.assertIn(sentence, text)
        self.assertEqual([type(module) for module in model.modules()], modules)

    def test_data_parallel_is_said(self):
        said = "nn.DataParallel splits each batch among the cards"
        self.assert_plain(nn.DataParallel(Net()), said)
        wrapper = nn.DataParallel(Net())
        wrapper.device_ids = [0, 1, 2, 3]
        self.assert_plain(wrapper, "among its 4 cards: the answer is of one card that runs all")

    def test_data_parallel_inside(self):
        net = Net()
        net.features = nn.DataParallel(net.features)
        self.assert_plain(net, "nn.DataParallel around features splits each batch")
        net.features.module[0] = nn.DataParallel(net.features.module[0])
        self.assert_plain(net, "nn.DataParallel around features splits",
                          "nn.DataParallel around features.0 splits")

    def test_compiled_modules_inside(self):
        net = Net()
        net.features = torch.compile(net.features)
        self.assert_plain(net, "features is compiled by torch.compile, and is taken as it runs")
        net = Net()
        net.head.compile()
        self.assert_plain(net, "head is compiled by torch.compile, and is taken as it runs")
        self.assertIsNotNone(net.head._compiled_call_impl)

    def test_compiled_in_place(self):
        net = Net()
        net.compile()
        answer, said = asked(net)
        self.assertEqual((answer.settings.compile, said), ("inductor", []))
        self.assert_plain(net, compile="none")
        self.assertIsNotNone(net._compiled_call_impl)

    def test_several_wrappers(self):
        answer, said = asked(nn.DataParallel(torch.compile(Net())))
        self.assertEqual((answer.settings.compile, len(said)), ("inductor", 1))
        answer, said = asked(torch.compile(nn.DataParallel(Net())))
        self.assertEqual((answer.settings.compile, len(said)), ("inductor", 1))

    def test_the_mode_is_that_of_what_runs(self):
        answer, _ = asked(nn.DataParallel(Net().eval()))
        self.assertEqual(answer.settings.mode, "eval")


@unittest.skipUnless(torch.distributed.is_available(), "without torch.distributed")
class Ranks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder.name}/store",
                                             rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)

    def test_distributed_data_parallel_is_its_flags(self):
        ddp = nn.parallel.DistributedDataParallel(Net(), gradient_as_bucket_view=True)
        answer, said = asked(ddp)
        told, _ = asked(Net(), strategy="ddp", world=1, ddp_views=True)
        self.assertEqual((answer.peak, said), (told.peak, []))
        self.assertEqual(answer.raw["settings"]["strategy"], "ddp")
        self.assertEqual(asked(ddp, mode="eval")[0].peak, asked(Net(), mode="eval")[0].peak)
        compiled, said = asked(torch.compile(ddp))
        self.assertEqual((compiled.peak, len(said)), (told.peak, 1))
        self.assertIn("torch.compile beside DistributedDataParallel", said[0])


if __name__ == "__main__":
    unittest.main()
