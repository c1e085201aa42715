"""onnxfit.run of a function that trains: PyTorch's own peaks, and whose lines hold them."""

import contextlib
import io
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch

import onnxfit
from onnxfit import _command


def has_run():
    return subprocess.run([_command.binary(), "run", "--", "true"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False).stderr.find(b"never used CUDA") > 0


def train(batch, steps):
    net = torch.nn.Linear(1024, 1024).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(steps):
        net(torch.randn(batch, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def too_much():
    kept = []
    while True:
        kept.append(torch.empty(1 << 30, device="cuda"))


def infer(times):
    net = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU()).cuda().eval()
    with torch.no_grad():
        for _ in range(times):
            net(torch.randn(64, 1024, device="cuda"))


def alternates():
    """Training and evaluation, twice."""
    net = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU()).cuda()
    optimizer = torch.optim.SGD(net.parameters())
    for _ in range(2):
        net.train()
        for _ in range(2):
            net(torch.randn(64, 1024, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.reset_peak_memory_stats()
        net.eval()
        with torch.inference_mode():
            net(torch.randn(1 << 14, 1024, device="cuda"))


def finds_a_batch():
    batch = 1 << 24
    while True:
        try:
            train(batch, 6)
            return
        except torch.cuda.OutOfMemoryError:
            batch //= 2


def has_an_early_peak():
    early = torch.empty(1 << 28, device="cuda")
    del early
    for _ in range(60000):
        torch.empty(1024, device="cuda")


def replicates():
    net = torch.nn.DataParallel(torch.nn.Linear(1024, 1024).cuda())
    net(torch.randn(64, 1024, device="cuda")).sum().backward()


@unittest.skipUnless(has_run(), "no `onnxfit run` here")
class Run(unittest.TestCase):
    def test_a_function_that_trains(self):
        answer = onnxfit.run(train, 64, 5, gpu="rtx3060", steps=3)
        process, = answer.processes
        self.assertEqual((answer.verdict, process.steps, len(process.step_peaks)), ("fits", 3, 3))
        states = 2 * (1024 * 1024 + 1024) * 4
        self.assertGreaterEqual(answer.allocated_bytes, 2 * states)
        self.assertLessEqual(process.step_peaks[0].allocated_bytes,
                             process.step_peaks[1].allocated_bytes)
        by_source = {held.source: held.bytes for held in process.held}
        self.assertEqual(by_source["optimizer.step()"] // states, 1)
        self.assertEqual(by_source["net = torch.nn.Linear(1024, 1024).cuda()"], states // 2)
        self.assertTrue(all(held.place.startswith("run_test.py:") for held in process.held
                            if held.place))

    def test_the_largest_batch_of_a_function(self):
        with contextlib.redirect_stderr(io.StringIO()), tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.html")
            answer = onnxfit.run_max_batch(train, (1 << 18, 1 << 22), 3, gpu="t4",
                                           multiple_of=1 << 17, html=page)
            html = page.read_text(encoding="utf-8")
        largest, = answer.targets
        self.assertEqual((answer.max_batch % (1 << 17), largest.limited, largest.run.processes[0].steps),
                         (0, False, 3))
        # A batch's input and the net's output are what a sample takes, in fp32.
        self.assertGreaterEqual(largest.run.allocated_bytes, 2 * answer.max_batch * 1024 * 4)
        self.assertGreater(largest.run.device_bytes, 12 << 30)
        fails = min(row.batch for row in largest.tried if row.verdict == "oom")
        self.assertEqual(largest.fails, fails)
        self.assertIn("data-json=\"targets.0.run.processes.0.curve\"", html)
        self.assertIn("net(torch.randn(batch, 1024", html)

    def test_an_end_when_turns_are_the_same(self):
        answer = onnxfit.run(train, 64, 1000, gpu="t4", until_same=True)
        process, = answer.processes
        self.assertEqual(process.ended_by, "until-same")
        self.assertLessEqual(process.steps, 5)
        whole = onnxfit.run(train, 64, 20, gpu="t4")
        self.assertEqual(answer.reserved_bytes, whole.reserved_bytes)
        self.assertEqual(answer.allocated_bytes, whole.allocated_bytes)
        answer = onnxfit.run(infer, 1000, gpu="t4", until_same=True)
        self.assertRegex(str(answer), r"--until-same ended it after \d calls of its model")

    def test_what_alternates_has_its_own_peaks(self):
        answer = onnxfit.run(alternates, gpu="t4")
        process, = answer.processes
        phases = {phase.kind: phase for phase in process.phases}
        self.assertEqual([(name, phases[name].times) for name in ("training", "evaluation")],
                         [("training", 2), ("evaluation", 2)])
        weights = (1024 * 1024 + 1024) * 4
        evaluation = phases["evaluation"].devices[0]
        least = weights + 3 * (1 << 26)  # an input, two outputs; and cuBLAS's workspaces
        self.assertTrue(least <= evaluation.allocated_bytes < least + (32 << 20), evaluation)
        self.assertEqual(evaluation.allocated_bytes, answer.allocated_bytes)
        self.assertLess(phases["training"].devices[0].allocated_bytes, evaluation.allocated_bytes)
        self.assertIn("evaluation takes most", str(answer))
        self.assertEqual(onnxfit.run(train, 64, 2, gpu="t4").processes[0].phases, ())

    def test_a_finder_of_batches(self):
        answer = onnxfit.run(finds_a_batch, gpu="t4")
        process, = answer.processes
        self.assertEqual((answer.verdict, process.steps), ("tight", 6))
        self.assertTrue(process.refused)
        self.assertTrue(all(row.source.startswith("net(torch.randn(batch") for row in process.refused))
        sizes = [row.bytes for row in process.refused]
        self.assertEqual(sizes[0], (1 << 24) * 1024 * 4)
        self.assertIn("then it went on for 6 steps", " ".join(str(answer).split()))

    def test_lines_of_a_peak_that_lies_far_back(self):
        with mock.patch.dict(os.environ, {"ONNXFIT_RUN_EVENTS": "40000"}):
            process, = onnxfit.run(has_an_early_peak, gpu="t4").processes
        self.assertEqual(process.held[0].bytes, 1 << 30)
        self.assertEqual(process.held[0].source, 'early = torch.empty(1 << 28, device="cuda")')

    def test_several_cards_of_one_process(self):
        answer = onnxfit.run(replicates, devices="2xt4")
        self.assertIn("the run, cuda:1", str(answer))
        self.assertTrue(str(answer).splitlines()[1].startswith("FITS on t4 (cuda:1): "))
        self.assertEqual(answer.processes[0].held_device, 0)

    def test_a_full_card_is_explained(self):
        answer = onnxfit.run(too_much, gpu="t4")
        self.assertEqual((answer.verdict, answer.holds), ("oom", False))
        self.assertRegex(str(answer), r"full at run_test\.py:\d+ \(kept\.append\(.*\);\s+CAPACITY:"
                                      r"\s+4\.00\s+GiB\s+asked")


if __name__ == "__main__":
    unittest.main()
