"""How real_cards.py compares: what of an answer stands beside what was measured, what counts as
worse, and what it sums up."""

import base64
import json
import lzma
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks/real_cards"))
import contributions  # noqa: E402
import real_cards  # noqa: E402
import repeats  # noqa: E402

RUN = {"source": "someone/runs", "kind": "MLPs", "card": "A100, 40 GB", "metric": "nvml_delta",
       "real": "100", "unit": "B", "others": '{"other": [110, false], "none": [null, true]}'}
PEAK = {"allocated_bytes": 50, "reserved_bytes": 90, "device_bytes": 95}


def said(verdict, used, retries=0):
    target = {"verdict": verdict, "used_bytes": used, "retries": retries}
    return {"peak": PEAK, "targets": [target], "model": {"parameter_bytes": 20},
            "steps": [{"peak_allocated": 45}, {"peak_allocated": 50}]}


def row(**changed):
    return {"metric": "nvml_delta", "off": "1.00", "verdict": "fits", "refused": "", **changed}


class TestRealCards(unittest.TestCase):
    def test_a_card_that_is_full_gives_cached_memory_back(self):
        self.assertEqual(real_cards.reserved_on_card(said("tight", 85, 1)), 80)

    def test_where_it_is_not_full_the_estimate_counts(self):
        self.assertEqual(real_cards.reserved_on_card(said("fits", 99)), 90)

    def test_of_what_is_out_of_memory_all_counts(self):
        self.assertEqual(real_cards.reserved_on_card(said("oom", 120, 3)), 90)

    def test_each_metric_has_its_figure(self):
        for metric, figure in (("nvml_delta", 90), ("nvidia-smi", 95), ("allocated+ddp", 70),
                               ("allocated-first", 45), ("reserved", 90), ("device", 95)):
            self.assertEqual(real_cards.peak_of({**RUN, "metric": metric}, said("fits", 95)),
                             figure)

    def test_a_batch_is_off_by_its_distance_to_the_interval(self):
        for most, off in ((64, 0), (95, 0), (32, -0.5), (190, 1)):
            self.assertEqual(real_cards.beside_interval(most, 64, 96), off)

    def test_worse_is_further_off_or_a_wrong_verdict(self):
        self.assertFalse(real_cards.worse(row(), row(off="-1.00")))
        self.assertTrue(real_cards.worse(row(), row(off="-1.01")))
        self.assertTrue(real_cards.worse(row(), row(verdict="oom")))
        self.assertFalse(real_cards.worse(row(verdict="oom"), row()))
        self.assertTrue(real_cards.worse(row(), row(refused="why")))

    def test_others_are_compared_where_they_name_bytes(self):
        answers = [real_cards.Answer(RUN, "90", -0.1, "fits")]
        theirs, ours = real_cards.beside(answers, "other")
        self.assertAlmostEqual(theirs[0], 0.1)
        self.assertEqual(ours, [-0.1])
        self.assertEqual(real_cards.beside(answers, "none"), ([], []))

    def test_what_is_summed_up(self):
        self.assertEqual(real_cards.cells([0.005, -0.02, 0.2]),
                         "3 | 33 % | 67 % | 67 % | 67 % | +0.50 % | 2.00 % | 20.0 % | +20.0 %")

    def test_a_committed_row_is_read_back(self):
        run = {**RUN, **dict.fromkeys(real_cards.KEY, "x")}
        answer = real_cards.Answer(run, "90", -0.1, "fits")
        self.assertEqual(real_cards.answer_of(real_cards.row_of(answer), run), answer)


def repeat(limit_of, limit, again, path="a"):
    return repeats.Repeat(path, limit_of, limit, again)


class TestRepeats(unittest.TestCase):
    def setUp(self):
        run = {**RUN, "source": "someone/runs", "path": "a", "real": "100",
               "others": '{"xmem": [130, false]}'}
        self.answers = [real_cards.Answer(run, "115", 0.15, "fits")]

    def test_a_limit_that_is_felt_makes_no_measurement(self):
        for limit, again, is_free in ((103, 90, True), (102, 90, False), (150, 146, False),
                                      (150, 0, False)):
            self.assertEqual(repeats.is_free(repeat("xmem", limit, again), 100), is_free)

    def test_a_repeat_is_of_one_run(self):
        tried = [repeat("xmem", 200, 90), repeat("xmem", 200, 80, path="b")]
        self.assertEqual(repeats.free_of(tried, "a", 100), tried[:1])

    def test_other_software_measures_another_thing(self):
        tried = [repeat("schedtune", 200, 120), repeat("dnnmem", 200, 100)]
        self.assertEqual(repeats.measured(100, tried), [100, 100])
        self.assertEqual(repeats.apart(self.answers, tried),
                         {"runs, MLPs: in a new process": [0],
                          "runs, MLPs: with PyTorch 2.3.1 and cuDNN 8": [120 / 100 - 1]})

    def test_an_estimate_is_held_to_each_measurement(self):
        tried = [repeat("xmem", 200, 120), repeat("dnnmem", 200, 130)]
        errors = repeats.beside(self.answers, tried, "onnxfit")
        self.assertEqual(errors, {"the first": [115 / 100 - 1], "the median": [115 / 120 - 1],
                                  "the nearest": [115 / 120 - 1]})
        theirs = repeats.beside(self.answers, tried, "xmem")
        self.assertEqual(theirs["the nearest"], [0])

    def test_a_run_that_was_measured_once_is_left_out(self):
        self.assertEqual(repeats.beside(self.answers, [], "onnxfit")["the first"], [])

    def test_what_is_committed_is_of_runs_that_are_there(self):
        runs = {run["path"]: float(run["real"]) for run in real_cards.read_runs()
                if run["metric"] == "nvml_delta"}
        for tried in repeats.read():
            self.assertIn(tried.path, runs)
            self.assertIn(tried.limit_of, repeats.WHERE)
            self.assertEqual(tried.bytes % 2**21, 0)


PROGRAM = b"a program"
MEASURED = {"exact_bytes": 1, "allocated_bytes": 2, "reserved_bytes": 300, "outside_bytes": 40}


def contribution():
    """A file of `onnxfit measure`: one run ended well, one was too large."""
    run = {"network": "gpt2", "batch": 4, "precision": "fp32", "flags": ["-b", "4", "--gpu", "A card"]}
    return {"measured": 1,
            "card": {"name": "A card", "driver": "580", "outside_bytes": 20,
                     "versions": {"torch": "2.9.1+cu130"}},
            "programs": {"gpt2": base64.b85encode(lzma.compress(PROGRAM)).decode()},
            "runs": [{**run, "measured": MEASURED},
                     {**run, "measured": {"out_of_memory": "no room"}}]}


class TestContributions(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name, "a-card.json.xz")
        self.path.write_bytes(lzma.compress(json.dumps(contribution()).encode()))

    def test_a_run_is_a_row_of_what_was_reserved_and_one_of_the_device(self):
        reserved, device = contributions.rows(Path(self.folder.name))
        self.assertEqual((reserved["metric"], reserved["real"]), ("reserved", "300"))
        self.assertEqual((device["metric"], device["real"]), ("device", "340"))
        self.assertEqual(reserved["flags"], "-b 4 --gpu 'A card' --framework pytorch-2.9")
        self.assertEqual(device["flags"], reserved["flags"])
        self.assertEqual(device["card"], "A card, driver 580")

    def test_rows_have_the_columns_of_the_others(self):
        columns = set(real_cards.read_runs()[0])
        for row in contributions.rows(Path(self.folder.name)):
            self.assertEqual(set(row), columns)

    def test_programs_lie_where_rows_say(self):
        folder = Path(self.folder.name)
        contributions.unpack(self.folder.name, folder)
        export = contributions.rows(folder)[0]["export"]
        self.assertEqual((folder / export).read_bytes(), PROGRAM)

    def test_another_file_is_refused(self):
        self.path.write_bytes(lzma.compress(b"{}"))
        with self.assertRaisesRegex(ValueError, "expected a file of `python -m onnxfit measure`"):
            contributions.rows(Path(self.folder.name))


if __name__ == "__main__":
    unittest.main()
