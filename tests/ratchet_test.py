"""What benchmarks/accuracy/committed.py lets through, and what it refuses."""

import contextlib
import csv
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks" / "accuracy"))
import accuracy  # noqa: E402
import calls  # noqa: E402
import committed  # noqa: E402
import goals  # noqa: E402
import max_batch  # noqa: E402
from runs import figures  # noqa: E402

RIGHT = {"model": "net", "batch": 1, "off": ""}
OFF = {**RIGHT, "off": "step2.reserved+512"}


def quiet(function, *args, **named):
    """(exit status, what it printed)"""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        return function(*args, **named), printed.getvalue()


class Ratchet(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.table = committed.Table(Path(self.folder.name) / "table.csv", ["model", "batch"],
                                     ["off"], accuracy.worse, lambda row: not row["off"])

    def commit(self, *rows, **named):
        return quiet(committed.update, self.table, [dict(row) for row in rows], **named)

    def check(self, *rows, keys=(("net", 1),)):
        return quiet(committed.check, self.table, list(rows), list(keys))

    def reasons(self):
        with self.table.path.open(newline="") as file:
            return [row["reason"] for row in csv.DictReader(file)]

    def test_what_is_committed_passes(self):
        self.commit(OFF)
        self.assertEqual(self.check(OFF)[0], 0)

    def test_a_figure_that_changes_fails(self):
        self.commit(OFF)
        for off in ["", "step2.reserved+511", "step2.reserved-512", "step1.reserved+512"]:
            with self.subTest(off):
                self.assertEqual(self.check({**RIGHT, "off": off})[0], 1)

    def test_of_a_table_that_allows_some_only_what_is_worse_fails(self):
        allowed = self.table._replace(is_exact=False, worse=lambda old, new: (
            [f"{new['off']}"] if int(new["off"]) > 1.03 * int(old["off"]) else []))
        committed.update(allowed, [{**RIGHT, "off": 1000}])
        for off, status in ((1000, 0), (900, 0), (1029, 0), (1031, 1)):
            with self.subTest(off):
                self.assertEqual(quiet(committed.check, allowed, [{**RIGHT, "off": off}],
                                       [("net", 1)])[0], status)

    def test_a_run_that_is_not_made_any_more_fails(self):
        self.commit(RIGHT, {**RIGHT, "batch": 2})
        status, printed = self.check(RIGHT)
        self.assertEqual((status, printed.splitlines()[0]),
                         (1, "net 2: in table.csv, not among the runs"))

    def test_a_run_that_is_not_committed_fails(self):
        self.commit(RIGHT)
        status, printed = self.check(RIGHT, keys=[("net", 1), ("net", 2)])
        self.assertEqual((status, printed.splitlines()[0]), (1, "net 2: not in table.csv"))

    def test_no_run_at_all_fails(self):
        self.commit(RIGHT)
        self.assertEqual(self.check()[0], 1)

    def test_worse_figures_need_a_reason_that_is_kept(self):
        self.commit(RIGHT)
        status, printed = self.commit(OFF)
        self.assertEqual(status, 1)
        self.assertIn("net 1: worse: step2.reserved was +0 off, is +512", printed)
        self.assertEqual(self.check(RIGHT)[0], 0)  # nothing was written
        self.assertEqual(self.commit(OFF, reason="a new rule")[0], 0)
        self.assertEqual(self.reasons(), ["a new rule"])
        self.commit({**OFF, "off": "step2.reserved+256"})
        self.assertEqual(self.reasons(), ["a new rule"])
        self.commit(RIGHT)
        self.assertEqual(self.reasons(), [""])

    def test_one_figure_better_does_not_hide_another_worse(self):
        self.commit({**RIGHT, "off": "step1.exact+4096"})
        self.assertEqual(self.commit({**RIGHT, "off": "step3.after_step-4"})[0], 1)

    def test_runs_that_are_gone_are_dropped_only_if_told(self):
        self.commit(RIGHT, {**RIGHT, "batch": 2})
        self.assertEqual(self.commit(RIGHT)[0], 1)
        self.assertEqual(self.commit(RIGHT, drop=True)[0], 0)
        self.assertEqual(self.reasons(), [""])


class Tables(unittest.TestCase):
    def test_every_figure_of_a_run_is_compared(self):
        peak = {"requested": 1, "allocated": 2, "reserved": 3}
        truth = {"steps": [{"peak": peak, "after_forward": 4}], "params": 5, "buffer_bytes": 6,
                 "opt_state_bytes": 7, "precision": "fp32", "mode": "train"}
        report = {"steps": [{"peak_exact": 11, "peak_allocated": 12, "peak_reserved": 13,
                             "after_forward": 14}],
                  "model": {"parameters": 15}, "optimizer_state_bytes": 17,
                  "breakdown": [{"kind": "buffers", "bytes": 16}]}
        self.assertEqual(figures(truth, report), {
            "step1.exact": (1, 11), "step1.allocated": (2, 12), "step1.reserved": (3, 13),
            "step1.after_forward": (4, 14), "parameters": (5, 15), "buffers": (6, 16),
            "optimizer_state": (7, 17)})
        with self.assertRaises(ValueError):  # a report of fewer steps
            figures(truth, {**report, "steps": []})

    def test_errors_are_written_and_read(self):
        errors = {"step1.exact": 5, "step2.after_step": -7, "buffers": 0}
        self.assertEqual(accuracy.write_off(errors), "step1.exact+5 step2.after_step-7")
        self.assertEqual(accuracy.read_off("step1.exact+5 step2.after_step-7"),
                         {"step1.exact": 5, "step2.after_step": -7})

    def test_worse_calls_and_batches(self):
        counts = {"calls": "10", "equal": "9", "first": "relu"}
        self.assertEqual(calls.worse(counts, {**counts, "equal": "8"}),
                         ["2 calls are not equal, 1 more"])
        self.assertEqual(calls.worse(counts, {**counts, "equal": "10"}), [])
        batches = {"runs": "4", "verdicts": "4", "same": "3", "reserved": "1", "max_batch": "30",
                   "bisected": "32"}
        self.assertEqual(max_batch.worse(batches, {**batches, "verdicts": "3"}),
                         ["verdicts was 4, is 3"])
        self.assertEqual(max_batch.worse(batches, {**batches, "max_batch": "29"}),
                         ["max_batch was 30, is 29 (by halving: 32)"])
        self.assertEqual(max_batch.worse(batches, {**batches, "max_batch": "33"}), [])

    def test_goals_fail_where_a_figure_is_worse_or_better(self):
        goal = goals.Goal("runs off", goals.is_any, len, 0, now=2)
        self.assertEqual(goals.reached(goal, 2), "")
        for value in [0, 1, 3]:
            self.assertNotEqual(goals.reached(goal, value), "")
        self.assertNotEqual(goals.reached(goal._replace(now=None), 1), "")
        self.assertEqual(goals.reached(goal._replace(now=None), 0), "")


if __name__ == "__main__":
    unittest.main()
