"""An estimate of a model that is twice as large takes about twice the instructions, as callgrind counts them.

    growth_test.py --binary build/release/onnxfit

Each model is one on which a pass was once quadratic, or worse.  What a process costs before it looks at a file is
taken off; a list of layers may take three times as much, as which of its layers are whose is a table of pairs.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))
from onnx_writer import FLOAT, Graph
from transformer import write_transformer


def write_attentions(path, count):
    """That many attentions in one forward, whose sum is the result."""
    graph = Graph()
    x = graph.op("Mul", graph.input("x", FLOAT, ["N", 8, 16]), graph.weight("scale", 16))
    keys = graph.input("keys", FLOAT, ["N", 16, 8])
    total = x
    for _ in range(count):
        weights = graph.op("Softmax", graph.op("MatMul", x, keys), axis=-1)
        total = graph.op("Add", total, graph.op("MatMul", weights, x))
    graph.output(total, FLOAT, ["N", 8, 16])
    graph.write(path)


def write_doubled(path, count):
    """Scores that are added to themselves that often, with no product that made them."""
    graph = Graph()
    x = graph.op("Mul", graph.input("x", FLOAT, ["N", 8, 16]), graph.weight("scale", 16))
    scores = graph.op("Mul", graph.input("scores", FLOAT, ["N", 8, 8]), graph.weight("bias", 8))
    for _ in range(count):
        scores = graph.op("Add", scores, scores)
    graph.output(graph.op("MatMul", graph.op("Softmax", scores, axis=-1), x), FLOAT, ["N", 8, 16])
    graph.write(path)


def write_layers(path, count):
    """A list of layers, each a product with a weight of its own."""
    graph = Graph()
    x = graph.input("x", FLOAT, ["N", 4])
    for layer in range(count):
        x = graph.op("Mul", x, graph.weight(f"layers.{layer}.weight", 4), scope=f"layers.{layer}")
    graph.output(x, FLOAT, ["N", 4])
    graph.write(path)


# How a model is written, its size, and how many times as much one of twice the size may take.
GROWING = {
    "layers of a transformer": (write_transformer, 48, 2.1),
    "attentions in one forward": (write_attentions, 100, 2.6),
    "sums of sums": (write_doubled, 400, 2.7),
    "a list of layers": (write_layers, 60, 3.2),
}


class GrowthTest(unittest.TestCase):
    binary = None

    def test_growth(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            write_layers(path, 1)
            start = self.instructions(path)
            for name, (write, size, most) in GROWING.items():
                with self.subTest(name):
                    cost = []
                    for count in (size, 2 * size):
                        write(path, count)
                        cost.append(self.instructions(path) - start)
                    self.assertLess(cost[1] / cost[0], most, cost)

    def instructions(self, model):
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", self.binary, model, "-b", "4", "-n", "0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        found = re.search(r"Collected : (\d+)", run.stderr)
        self.assertTrue(run.returncode == 0 and found, run.stderr[-500:])
        return int(found[1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    args, rest = parser.parse_known_args()
    GrowthTest.binary = args.binary
    unittest.main(argv=[sys.argv[0], *rest])
