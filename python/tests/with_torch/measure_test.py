"""The networks of python -m onnxfit measure: each becomes a program that is answered."""

import tempfile
import unittest
from importlib.util import find_spec

from onnxfit import _measure, _networks

LIBRARIES = all(find_spec(name) for name in ("torchvision", "transformers"))


class Programs(unittest.TestCase):
    @unittest.skipUnless(LIBRARIES, "needs torchvision and transformers")
    def test_each_is_answered(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in _networks.NETWORKS:
                path = _measure._write_program(name, folder)
                for flags in (["-b", "2"], ["-b", "4", "-p", "amp-bf16"]):
                    with self.subTest(name, flags=flags):
                        self.assertGreater(_measure._estimate(path, flags)["exact_bytes"], 0)

    def test_what_is_fed_and_lost_runs(self):
        network = _networks.find("convolutions")
        inputs, labels = _networks.batch_of(network, 2, "cpu")
        self.assertEqual([list(tensor.shape) for tensor in inputs], [[2, 3, 64, 64]])
        self.assertEqual(list(labels.shape), [2])
        loss = _networks.loss_of(network, network.build(), inputs, labels)
        loss.backward()
        self.assertEqual(loss.dim(), 0)


if __name__ == "__main__":
    unittest.main()
