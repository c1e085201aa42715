"""The texts that ONNX files get, as far as they need no torch."""

import unittest
from types import SimpleNamespace as Made

from onnxfit import onnx_metadata


class Dim(Made):
    def HasField(self, name):
        return hasattr(self, name)


def value(name, *dims):
    made = [Dim(dim_param=dim) if isinstance(dim, str) else Dim(dim_value=dim) for dim in dims]
    kind = Made(elem_type=1, shape=Made(dim=made))
    return Made(name=name, type=Made(tensor_type=kind))


class Metadata(unittest.TestCase):
    def test_structure(self):
        # tests/structure_test.cc has the same graph and digest.
        graph = Made(input=[value("x", "N", 3)], output=[value("y")],
                     initializer=[Made(name="w", data_type=1, dims=[3, 2])],
                     node=[Made(domain="", op_type="MatMul", input=["x", "w"], output=["h"]),
                           Made(domain="", op_type="Clip", input=["h", "", "w"], output=["y"])])
        self.assertEqual(onnx_metadata.structure_digest(Made(graph=graph)), "e28372bf75c2acc3")

    def test_names_of_dimensions(self):
        self.assertEqual(onnx_metadata.renamed("Max(1, 2*s7 + s77)", {"s77": "s7", "s7": "N"}),
                         "Max(1, 2*N + s7)")

    def test_folders(self):
        for said, expected in [
                ('File "/a/lib/site-packages/torch/nn/x.py", line 3', 'File "torch/nn/x.py", line 3'),
                ('File "/home/me/net.py", line 3', 'File "net.py", line 3')]:
            self.assertEqual(onnx_metadata.shortened(said), expected)


if __name__ == "__main__":
    unittest.main()
