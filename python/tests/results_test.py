"""JSON into values, values into HTML."""

import unittest

from onnxfit import _html, losses
from onnxfit._from_json import from_json
from onnxfit.results import Estimate, MaxBatch, Target

PEAK = {"exact_bytes": 1, "allocated_bytes": 2, "reserved_bytes": 3, "device_bytes": 1024}


def estimate(**more):
    return {"model": {"path": "x.onnx"}, "settings": {}, "peak": PEAK, **more}


class Results(unittest.TestCase):
    def test_unknown_fields_are_passed_over(self):
        data = estimate(tomorrow=[1], model={"path": "x", "flavour": {"a": 1}})
        self.assertEqual(from_json(Estimate, data).model.path, "x")

    def test_what_is_not_known_is_none(self):
        answer = from_json(Estimate, estimate())
        self.assertEqual((answer.model.opset, answer.range, answer.targets), (None, None, ()))

    def test_nested_values(self):
        data = {"model": {"path": "x"}, "targets": [
            {"gpu": "t4", "memory_bytes": 1, "max_batch": 3, "luckier": [5],
             "next": {"batch": 4, "fails_at": {"step": 2, "asked_bytes": 7}}}]}
        row = from_json(MaxBatch, data).targets[0]
        self.assertEqual((row.luckier, row.next.fails_at.asked_bytes), ((5,), 7))

    def test_a_tight_card_fits(self):
        row = {"gpu": "t4", "capacity_bytes": 1, "used_bytes": 1}
        fits = [from_json(Target, {**row, "verdict": word}).fits
                for word in ("fits", "tight", "oom")]
        self.assertEqual(fits, [True, True, False])

    def test_html(self):
        data = estimate(breakdown=[{"kind": "context", "bytes": 256, "basis": "measured"},
                                   {"kind": "optimizer_state", "bytes": 768, "basis": "exact"}])
        shown = from_json(Estimate, data, text="a < b\nc\n")._repr_html_()
        self.assertIn("<b>a &lt; b</b>", shown)
        self.assertLess(shown.index("optimizer state"), shown.index("context"))
        self.assertIn("75.0%", shown)
        self.assertNotIn("<script", shown)

    def test_sizes(self):
        sizes = {4: "4 B", 212904: "207.9 KiB", 8196000: "7.82 MiB", 3786407936: "3.53 GiB"}
        self.assertEqual({n: _html.size(n) for n in sizes}, sizes)


class Losses(unittest.TestCase):
    def test_names_stay(self):
        self.assertEqual([losses.of(name, None, False).flag for name in ("mse", None)],
                         ["mse", None])

    def test_functions_go_by_name(self):
        def cross_entropy():
            pass
        self.assertEqual(losses.of(cross_entropy, None, True).flag, "cross-entropy")


if __name__ == "__main__":
    unittest.main()
