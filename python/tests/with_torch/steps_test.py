"""Whole training steps: against PyTorch's own engine, on a card that is not there."""

import subprocess
import sys
import unittest
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import onnxfit
import step_cases
from onnxfit import _command, programs, steps
from run_test import has_run


def engine_peaks():
    """Of each case, by name: what PyTorch's engine asked for."""
    script = Path(step_cases.__file__)
    done = subprocess.run([_command.binary(), "run", "-g", "a100-40gb", "--", sys.executable,
                           "-W", "ignore", str(script)], capture_output=True, text=True, check=False)
    rows = (line.split() for line in done.stdout.splitlines())
    names = {case.__name__ for case in step_cases.CASES}
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[0] in names}


def estimated(step, batch, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return onnxfit.estimate(step, batch, gpu="a100-40gb", **more)


class Engine(unittest.TestCase):
    def test_exact_peaks_are_the_engines_to_the_byte(self):
        if not has_run():
            self.skipTest("the command has no absent card here")
        peaks = engine_peaks()
        for case in step_cases.CASES:
            with self.subTest(case.__name__):
                answer = estimated(*case("cpu"))
                self.assertEqual(answer.peak.exact_bytes, peaks.get(case.__name__))


def network():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return model, torch.optim.AdamW(model.parameters(), 1e-3)


def batch(rows=8):
    return torch.randn(rows, 8), torch.randint(0, 4, (rows,))


def targets(step, example):
    """Of the watched program: its actions in order, and what is between."""
    made = programs.program(steps.step_of(step), example)
    found = [node["target"] for node in made.json["graph_module"]["graph"]["nodes"]]
    return [target.rpartition(".")[2] for target in found if target.startswith("onnxfit.")]


class Watched(unittest.TestCase):
    def test_actions_are_where_the_code_has_them(self):
        model, optimizer = network()

        def step(x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        self.assertEqual(targets(step, batch()), ["begin", "backward", "norm", "clip", "step"])

    def test_gradients_go_where_python_lets_go_of_them(self):
        model, optimizer = network()

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        made = programs.program(steps.step_of(step), batch())
        nodes = made.json["graph_module"]["graph"]["nodes"]
        drops = {node["name"]: node["metadata"]["onnxfit"]["drops"] for node in nodes
                 if node["metadata"]["onnxfit"].get("drops")}
        self.assertEqual(list(drops), ["cross_entropy_loss"])
        self.assertEqual(len(drops["cross_entropy_loss"]), 4)

    def test_the_batch_is_free(self):
        model, optimizer = network()

        def step(x, y):
            for part, labels in zip(x.chunk(4), y.chunk(4)):
                F.cross_entropy(model(part), labels).backward()
            optimizer.step()
            optimizer.zero_grad()

        made = programs.program(steps.step_of(step), batch(16))
        self.assertTrue(made.is_free("s0"), made.why_fixed)
        self.assertGreater(onnxfit.max_batch(step, batch(16), memory="1GiB").max_batch, 16)

    def test_all_is_as_it_was(self):
        model, optimizer = network()
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        seen = []

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            seen.append(loss)
            return loss

        x, y = batch()
        step(x, y).item()
        before = [parameter.clone() for parameter in model.parameters()]
        gradients = [parameter.grad for parameter in model.parameters()]
        state, random = optimizer.state_dict(), torch.get_rng_state()
        epoch = scheduler.last_epoch
        estimated(step, (x, y))
        for parameter, value, gradient in zip(model.parameters(), before, gradients):
            self.assertTrue(torch.equal(parameter, value))
            self.assertIs(parameter.grad, gradient)
        self.assertEqual(str(optimizer.state_dict()), str(state))
        self.assertEqual(optimizer.param_groups[0]["params"], list(model.parameters()))
        self.assertTrue(torch.equal(torch.get_rng_state(), random))
        self.assertEqual((scheduler.last_epoch, len(seen)), (epoch, 1))
        step(x, y)

    def test_a_model_on_meta_is_asked_as_well(self):
        model = nn.Linear(1 << 16, 1 << 16, bias=False, device="meta")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(x):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        answer = estimated(step, torch.empty(8, 1 << 16, device="meta"))
        self.assertGreaterEqual(answer.peak.exact_bytes, 2 << 34)

    def test_a_variable_that_says_the_device_is_the_card(self):
        model, optimizer = network()
        device = torch.device("cpu")

        def step(x, y):
            x, y = x.to(device), y.to(device)
            noise = torch.randn(len(x), 8, device=device)
            F.cross_entropy(model(x + noise), y).backward()
            optimizer.step()

        self.assertEqual(targets(step, batch()), ["begin", "backward", "step"])
        self.assertEqual(device, torch.device("cpu"))


class Refused(unittest.TestCase):
    def refuse(self, step, found, example=None, **more):
        with self.assertRaises(onnxfit.OnnxfitError) as raised:
            estimated(step, batch() if example is None else example, **more)
        self.assertIn(found, str(raised.exception))

    def test_second_derivatives_are(self):
        model, _ = network()

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            torch.autograd.grad(loss, list(model.parameters()), create_graph=True)

        self.refuse(step, "found torch.autograd.grad (steps_test.py:")
        self.refuse(lambda x, y: F.cross_entropy(model(x), y).backward(create_graph=True),
                    "a second derivative")

    def test_hooks_on_gradients_are(self):
        model, _ = network()
        model[0].weight.register_hook(lambda gradient: gradient * 2)
        self.refuse(lambda x, y: F.cross_entropy(model(x), y).backward(),
                    "a hook on the gradient of model.0.weight")

    def test_optimizers_that_are_not_known_are(self):
        model, _ = network()
        optimizer = torch.optim.LBFGS(model.parameters())

        def step(x, y):
            F.cross_entropy(model(x), y).backward()
            optimizer.step(lambda: 0.0)

        self.refuse(step, "torch.optim.lbfgs.LBFGS")

    def test_keywords_that_the_step_says_itself_are(self):
        model, optimizer = network()

        def step(x, y):
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

        self.refuse(step, "optimizer: expected none beside a step", optimizer="adamw")
        self.refuse(step, "step: inputs: expected a tensor", ())
        self.refuse(lambda x, y: x.sum(), "expected a function whose code holds a torch.nn.Module")

    def test_inputs_that_the_step_does_not_take_are(self):
        model, _ = network()
        self.refuse(lambda x, y: F.cross_entropy(model(x), y).backward(),
                    "expected a step that runs with these inputs, found: a and b must have same",
                    (torch.randn(8, 5), torch.zeros(8, dtype=torch.long)))

    def test_steps_that_differ_are(self):
        model, optimizer = network()
        count = [0]

        def step(x, y):
            F.cross_entropy(model(x), y).backward()
            count[0] += 1
            if count[0] % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()

        self.refuse(step, "another thing the second time")
        self.assertEqual(count, [0])


if __name__ == "__main__":
    unittest.main()
