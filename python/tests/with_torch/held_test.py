"""What a step's code holds: modules, optimizers, tensors, and no more than that."""

import types
import unittest

import torch
from torch import nn

import onnxfit
from onnxfit import held_objects
from steps_test import estimated

# Two steps of a file; the name of the first is the name of an attribute in the second.
STEPS = """
def step(x):
    of_large.zero_grad()
    large(x).sum().backward()
    of_large.step()

def second(x):
    of_small.zero_grad()
    small(x).sum().backward()
    of_small.step()
    count_steps()

def count_steps():
    global count
    count = count + 1
"""


def module_of_two():
    made = types.ModuleType("two")
    made.large, made.small, made.count = nn.Linear(64, 4096), nn.Linear(64, 64), 0
    made.of_large = torch.optim.SGD(made.large.parameters(), 0.1)
    made.of_small = torch.optim.SGD(made.small.parameters(), 0.1)
    exec(compile(STEPS, __file__, "exec"), vars(made))
    return made


class Names(unittest.TestCase):
    def test_names_of_attributes_are_no_globals(self):
        two = module_of_two()
        held = held_objects.held_by(two.second)
        self.assertEqual((list(held.modules), list(held.optimizers)), (["small"], ["of_small"]))
        answer = estimated(two.second, torch.randn(8, 64))
        self.assertEqual(answer.bytes_of("parameters"), 4 * (64 * 64 + 64))

    def test_globals_of_functions_that_are_called_are_as_they_were(self):
        two = module_of_two()
        estimated(two.second, torch.randn(8, 64))
        self.assertEqual(two.count, 0)


def of_leaves():
    first, second = (torch.randn(512, 64, requires_grad=True) for _ in range(2))
    optimizer = torch.optim.Adam([first, second])

    def step(x):
        optimizer.zero_grad()
        (x @ (first - second).t()).pow(2).sum().backward()
        optimizer.step()

    return step, [first, second]


class Leaves(unittest.TestCase):
    def test_leaves_that_require_gradients_are_trained(self):
        step, leaves = of_leaves()
        answer = estimated(step, torch.randn(256, 64))
        self.assertEqual(answer.peak.exact_bytes, 19988488)  # PyTorch's on the stand-in
        self.assertEqual(answer.bytes_of("parameters"), 2 * 512 * 64 * 4)
        self.assertEqual([leaf.grad for leaf in leaves], [None, None])

    def test_a_step_without_arguments_is_told_what_to_do(self):
        step, _ = of_leaves()
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "found one without arguments"):
            onnxfit.estimate(lambda: step(torch.randn(256, 64)))


if __name__ == "__main__":
    unittest.main()
