"""Batches that differ in length, the longest that fits, and sessions of ONNX Runtime."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

import onnxfit
from onnxfit import _command

# What a step saves grows with the length alone.
ROWS = """<ir_version: 8, opset_import: ["" : 18]>
g (float[N, length, 64] x) => (float[N, length, 64] y) <float[64, 64] w = ["location": "none"]> {
  h = MatMul(x, w)
  y = Relu(h)
}
"""
MIB = 1 << 20


class Series(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = str(Path(folder.name, "rows.onnxtxt"))
        Path(self.model).write_text(ROWS, encoding="utf-8")

    def test_a_list_of_lengths(self):
        played = onnxfit.series(self.model, lengths=[4096, 8192, 16384], steps=6, batch=8, gpu="t4")
        self.assertEqual(played.lengths, (4096, 8192, 16384) * 2)
        self.assertEqual((played.dim, played.longest, played.different), ("length", 16384, 3))
        self.assertEqual(len(played.reserved_bytes), 6)
        self.assertEqual(max(played.reserved_bytes), played.most_reserved_bytes)
        self.assertGreater(played.most_reserved_bytes, 2 * 8 * 16384 * 64 * 4)
        self.assertTrue(played.targets[0].fits and played.holds)
        self.assertTrue(played.headline.startswith("FITS on t4"))

    def test_distributions_and_settings(self):
        seen = []
        ask = _command.ask_for_json

        def note(arguments, hide=()):
            seen.append(arguments[2:])
            return ask(arguments, hide)

        with mock.patch.object(_command, "ask_for_json", note):
            onnxfit.series(self.model, lengths="uniform:8..64", dim="length", steps=3, seeds=2,
                           pad_to=16, of_samples=True, batch=4)
        self.assertEqual(seen, [["--batch", "4", "--lengths", "length=uniform:8..64", "--steps",
                                 "3", "--seeds", "2", "--pad-to", "16", "--of-samples"]])

    def test_the_largest_batch(self):
        found = onnxfit.series_max_batch(self.model, lengths=[64, 128], steps=4, memory="2GiB",
                                         multiple_of=8)
        row, = found.targets
        self.assertEqual(found.max_batch % 8, 0)
        self.assertGreater(found.max_batch, 8)
        self.assertGreater(row.fails, row.max_batch)
        self.assertEqual((row.series.batch, row.series.longest), (row.max_batch, 128))
        self.assertIn(row.max_batch, [tried.batch for tried in row.tried])

    def test_batches_that_differ(self):
        played = onnxfit.series(self.model, lengths=[64, 256], steps=4, tokens=512)
        self.assertEqual(played.batches, (8, 2, 8, 2))
        played = onnxfit.series(self.model, lengths=[64], steps=3, batch=8, samples=20, seed=3)
        self.assertEqual((played.batches, played.smallest_batch, played.batch), ((8, 8, 4), 4, 8))

    def test_a_card_that_is_too_small(self):
        played = onnxfit.series(self.model, lengths=[16384], steps=2, batch=64, memory=512 * MIB)
        self.assertFalse(played.holds)
        self.assertEqual(played.targets[0].verdict, "oom")

    def test_refusals(self):
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "lengths: expected numbers"):
            onnxfit.series(self.model, lengths=[])
        with self.assertRaisesRegex(onnxfit.OnnxfitError, r"expected in onnxfit.series\(\)"):
            onnxfit.estimate(self.model, lengths="uniform:8..64")


    def test_the_longest_that_fits(self):
        found = onnxfit.solve(self.model, name="length", batch=[8, 16], memory="2GiB", multiple_of=64)
        first, second = found.rows
        self.assertEqual((found.solve, first.batch, second.batch), ("length", 8, 16))
        self.assertEqual(found.size, first.fits.size)
        self.assertEqual(first.fits.size % 64, 0)
        self.assertAlmostEqual(first.fits.size / second.fits.size, 2, delta=0.05)
        self.assertGreater(first.next.size, first.runs.size)
        at = {"batch": 8, "memory": "2GiB"}
        for size, verdict in [(first.fits.size, "fits"), (first.next.size, "oom")]:
            asked = onnxfit.estimate(self.model, dims={"length": size}, **at)
            self.assertEqual(asked.targets[0].verdict, verdict)

    def test_a_name_that_the_file_has_not(self):
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "length"):
            onnxfit.solve(self.model, name="width", memory="2GiB")


SESSIONS = {
    "text": "FITS on t4: 1.27 GiB\n", "runtime": "ONNX Runtime 1.31.1", "model": "m.onnx", "batch": 2,
    "targets": [{"gpu": "t4", "capacity_bytes": 9, "used_bytes": 4, "verdict": "fits"}],
    "runs": [{"context_bytes": 1, "low_bytes": 2, "high_bytes": 3, "orders": 200,
              "sessions": [{"used_bytes": [2, 3]}],
              "settings": [{"flag": "--session enable_mem_pattern=0", "low_bytes": 1,
                            "high_bytes": 2}]}]}


class Session(unittest.TestCase):
    def test_words_and_answer(self):
        answer = _command.Answer(SESSIONS, SESSIONS["text"], 0)
        with mock.patch.object(_command, "ask_for_json", return_value=answer) as ask:
            found = onnxfit.session("m.onnx", batch=[1, 2], gpu="t4", dims={"seq": [64, 128]},
                                    session={"enable_mem_pattern": 0},
                                    provider_option={"prefer_nhwc": 1}, io_binding=True)
        ask.assert_called_once_with(
            ["estimate", "m.onnx", "--runtime", "onnxruntime", "--batch", "1,2", "--gpu", "t4",
             "--dim", "seq=64,128", "--session", "enable_mem_pattern=0", "--provider-option",
             "prefer_nhwc=1", "--io-binding"])
        self.assertEqual((found.runs[0].high_bytes, found.runs[0].settings[0].low_bytes), (3, 1))
        self.assertEqual((found.targets[0].fits, found.headline), (True, "FITS on t4: 1.27 GiB"))

    def test_on_the_cpu(self):
        told = {"text": "FITS on 8.00 GiB of RAM\n", "runtime": "ONNX Runtime 1.31.1", "model": "m.onnx",
                "batch": 2, "provider": "cpu",
                "host": {"bytes": 9, "least_bytes": 7, "limit_bytes": 20, "verdict": "fits"},
                "settings": [{"flag": "--session enable_mem_pattern=0", "bytes": 6}]}
        answer = _command.Answer(told, told["text"], 0)
        with mock.patch.object(_command, "ask_for_json", return_value=answer) as ask:
            found = onnxfit.session("m.onnx", batch=2, provider="cpu", ram="8GiB")
        ask.assert_called_once_with(["estimate", "m.onnx", "--runtime", "onnxruntime", "--batch", "2",
                                     "--provider", "cpu", "--ram", "8GiB"])
        self.assertEqual((found.host.bytes, found.host.verdict, found.settings[0].bytes), (9, "fits", 6))
        self.assertEqual((found.targets, found.runs), ((), ()))

    def test_the_command_takes_the_words(self):
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "expected an ONNX file"):
            onnxfit.session("m.pt2", batch=2, provider="cpu", ram="8GiB")
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "expected an ONNX file"):
            onnxfit.session("m.pt2", batch=2, gpu="t4", session={"a": 1}, io_binding=True)


if __name__ == "__main__":
    unittest.main()
