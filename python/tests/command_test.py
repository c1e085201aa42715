"""The command through Python, without torch: what it answers, what it refuses."""

import json
import os
import pickle
import stat
import tempfile
import subprocess
import sys
import unittest
import warnings
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import onnxfit
from onnxfit import _command, optimizers

ROOT = Path(__file__).resolve().parent.parent.parent
LENET = ROOT / "models/lenet.onnxtxt"
RESNET = ROOT / "tests/data/pt2/resnet18.train.pt2"


class OptimizersOfLibraries(unittest.TestCase):
    """By the names of their classes: these are not theirs."""

    @staticmethod
    def flags(module, name, group, **attributes):
        kind = type(name, (), {"__module__": module})
        optimizer = kind()
        optimizer.param_groups = [{"params": [], **group}]
        for attribute, value in attributes.items():
            setattr(optimizer, attribute, value)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", onnxfit.OnnxfitWarning)
            found = optimizers.flags_of(optimizer)
        return found.optimizer, [str(warning.message) for warning in said]

    def test_bits_of_bitsandbytes_are_told_by_arguments(self):
        for name, bits, expected in [
                ("AdEMAMix", 8, "ademamix-8bit"), ("AdEMAMix", 32, "ademamix-32bit"),
                ("AdEMAMix32bit", 32, "ademamix-32bit"), ("RMSprop", 8, "rmsprop-8bit"),
                ("PagedAdEMAMix32bit", 32, "paged-ademamix-32bit")]:
            told = SimpleNamespace(optim_bits=bits)
            self.assertEqual(self.flags("bitsandbytes.optim", name, {}, args=told), (expected, []))

    def test_galore_is_told_by_its_groups(self):
        weights = {name: SimpleNamespace(ndim=2) for name in ("h.0.q", "h.0.k", "h.1.q", "embed")}
        model = SimpleNamespace(
            named_parameters=lambda: [],
            named_modules=lambda: [(name, SimpleNamespace(weight=weight))
                                   for name, weight in weights.items()])
        optimizer = type("AdamW", (), {"__module__": "galore_torch.adamw"})()
        for names, expected in [(("h.0.q", "h.1.q"), "64:q"), (("h.0.q",), "64:h.0.q"),
                                (("h.0.q", "h.1.q", "h.0.k"), "64:k,q")]:
            optimizer.param_groups = [
                {"params": []}, {"params": [weights[name] for name in names], "rank": 64,
                                 "update_proj_gap": 200, "scale": 0.25, "proj_type": "std"}]
            found = optimizers.flags_of(optimizer, model)
            self.assertEqual((found.optimizer, found.galore), ("galore", expected))

    def test_what_timms_are_told_is_said(self):
        self.assertEqual(self.flags("timm.optim.lamb", "Lamb", {"caution": True}),
                         ("timm-lamb", ["optimizer: what caution=True takes is not in the figures"]))


class Estimates(unittest.TestCase):
    def test_a_file_is_answered(self):
        answer = onnxfit.estimate(LENET, batch=32, gpu="rtx3060", n=2)
        self.assertEqual(answer.model.path, str(LENET))
        self.assertEqual(answer.settings.batch, 32)
        self.assertEqual(sum(row.bytes for row in answer.breakdown), answer.device_bytes)
        self.assertEqual(answer.bytes_of("parameters"), answer.model.parameter_bytes)
        self.assertEqual([len(answer.steps), len(answer.largest)], [3, 2])
        self.assertIsInstance(answer.largest[0].shape, tuple)
        self.assertEqual((answer.targets[0].gpu, answer.targets[0].verdict), ("rtx3060", "fits"))
        self.assertTrue(answer.holds and answer.targets[0].fits)

    def test_a_pt2_is_answered_to_the_byte(self):
        # shared/truth of resnet18, fp32, AdamW, batch 8: PyTorch 2.11's own figures
        peak = onnxfit.estimate(RESNET, batch=8).peak
        self.assertEqual((peak.exact_bytes, peak.allocated_bytes, peak.reserved_bytes),
                         (368256616, 374589952, 476053504))

    def test_inference_has_no_backward(self):
        answer = onnxfit.estimate(RESNET, batch=8, mode="eval")
        self.assertEqual({step.after_backward for step in answer.steps}, {None})
        self.assertEqual([doubt.code for doubt in answer.warnings], ["OF113"])

    def test_a_card_that_is_too_small_is_an_answer(self):
        answer = onnxfit.estimate(RESNET, batch=64, memory="1GiB", gpu="rtx3060")
        self.assertFalse(answer.holds or answer.targets[0].fits)
        self.assertGreater(answer.targets[0].fails_at.asked_bytes, 0)

    def test_a_page_is_returned_and_written(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "r.html")
            page = onnxfit.report(RESNET, batch=8, gpu="t4", output=file)
            self.assertTrue(page.startswith("<!doctype html>"))
            self.assertIn("<strong>FITS</strong> on t4", page)
            self.assertEqual(file.read_text(encoding="utf-8"), page)
            with self.assertRaisesRegex(onnxfit.OnnxfitError, "r.html: it exists already"):
                onnxfit.report(RESNET, batch=8, output=file)
            onnxfit.report(RESNET, batch=9, output=file, force=True)
            self.assertNotEqual(file.read_text(encoding="utf-8"), page)

    def test_printed_it_is_the_report(self):
        answer = onnxfit.estimate(LENET, batch=32, gpu="rtx3060")
        self.assertTrue(str(answer).startswith("FITS on rtx3060: "))
        self.assertIn("\nWhere the bytes go\n", str(answer))
        self.assertNotIn("\x1b", str(answer))

    def test_it_is_a_value(self):
        answer = onnxfit.estimate(LENET)
        self.assertEqual(answer, onnxfit.estimate(LENET))
        self.assertEqual(answer, pickle.loads(pickle.dumps(answer)))
        with self.assertRaises(AttributeError):
            answer.peak.device_bytes = 0

    def test_the_environment_cannot_send_it_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "answer.txt")
            with mock.patch.dict(os.environ, ONNXFIT_OUTPUT=str(file), ONNXFIT_BATCH="4"):
                answer = onnxfit.estimate(LENET)
            self.assertFalse(file.exists())
        self.assertEqual(answer.settings.batch, 4)


class Others(unittest.TestCase):
    def test_a_sweep_has_a_row_for_each_combination(self):
        table = onnxfit.sweep(LENET, batch=[8, 16], precision=["fp32", "bf16"])
        self.assertEqual([(row.settings.batch, row.settings.precision) for row in table.rows],
                         [(8, "fp32"), (8, "bf16"), (16, "fp32"), (16, "bf16")])
        self.assertIn("2 batches", str(table))

    def test_a_sweep_of_one_is_a_row(self):
        self.assertEqual(len(onnxfit.sweep(LENET, batch=8).estimates), 1)

    def test_the_largest_batch(self):
        answer = onnxfit.max_batch(LENET, memory="1GiB", multiple_of=8)
        self.assertEqual(answer.max_batch, answer.targets[0].max_batch)
        self.assertEqual(answer.max_batch % 8, 0)
        self.assertEqual(answer.targets[0].estimate.settings.batch, answer.max_batch)
        self.assertGreater(answer.targets[0].next.batch, answer.max_batch)
        self.assertTrue(answer.targets[0].advice[0].change)

    def test_checks(self):
        answer = onnxfit.check(ROOT / "models/onnxfit.toml", only="mlps*")
        self.assertEqual((answer.status, answer.holds, answer.counts["pass"]), ("pass", True, 2))
        self.assertEqual(answer.checks[0].budgets[0].budget, "4GiB")
        self.assertTrue(str(answer).startswith("PASS: 2 pass"))

    def test_a_model_and_its_budget(self):
        good = onnxfit.check(RESNET, budget=["rtx3060", "2GiB"], batch=8, optimizer="sgdm")
        self.assertEqual((good.status, good.holds, len(good.checks[0].budgets)),
                         ("pass", True, 2))
        self.assertNotIn("lock", str(good))
        bad = onnxfit.check(RESNET, budget="512MiB", batch=8)
        self.assertEqual((bad.status, bad.holds), ("fail", False))
        self.assertIn("over the budget of 512MiB", str(bad))

    def test_a_model_and_what_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            before = Path(folder, "before.json")
            before.write_text(json.dumps(onnxfit.estimate(RESNET, batch=8).raw))
            same = onnxfit.check(RESNET, batch=8, against=str(before))
            grown = onnxfit.check(RESNET, batch=9, against=str(before), max_increase="1%")
        self.assertEqual((same.status, grown.status), ("pass", "fail"))

    def test_a_model_and_its_lock(self):
        with tempfile.TemporaryDirectory() as folder:
            lock = Path(folder, "nets.lock.json")
            none = onnxfit.check(RESNET, batch=8, lock=lock)
            self.assertEqual((none.holds, lock.exists()), (False, False))
            self.assertIn("there is no such file", str(none))
            new = onnxfit.check(RESNET, batch=8, lock=lock, update=True)
            self.assertEqual((new.holds, new.updated), (True, True))
            self.assertIn(f"{lock} is written", " ".join(new.notes))
            written = json.loads(lock.read_text())["checks"]
            self.assertEqual(list(written), ["resnet18.train"])
            self.assertEqual(Path(folder, written["resnet18.train"]["model"]["path"]).resolve(),
                             Path(RESNET).resolve())
            same = onnxfit.check(RESNET, batch=8, lock=lock)
            grown = onnxfit.check(RESNET, batch=9, lock=str(lock))
            self.assertEqual((same.status, grown.status), ("pass", "fail"))
            # Others have rows of their own.
            onnxfit.check(LENET, name="small", lock=lock, update=True)
            self.assertEqual(list(json.loads(lock.read_text())["checks"]),
                             ["resnet18.train", "small"])
            self.assertEqual(onnxfit.check(RESNET, batch=8, lock=lock).status, "pass")
            self.assertFalse(onnxfit.check(LENET, name="other", lock=lock).holds)

    def test_a_lock_that_would_be_nowhere(self):
        with self.assertRaises(onnxfit.OnnxfitError) as caught:
            onnxfit.check(RESNET, update=True)
        self.assertIn("update: expected a lock that it writes", str(caught.exception))
        self.assertEqual(caught.exception.hint, 'lock="model.lock.json"')

    def test_what_a_config_says_itself(self):
        config = ROOT / "models/onnxfit.toml"
        rows = [{"batch": 3}, {"budget": "t4"}, {"max_increase": "2%"}, {"name": "a"},
                {"optimizer": "sgd"}, {"mode": "eval"}]
        for keywords in rows:
            with self.subTest(keywords), self.assertRaises(onnxfit.OnnxfitError) as caught:
                onnxfit.check(config, **keywords)
            self.assertIn("found beside a config", str(caught.exception))
        self.assertTrue(onnxfit.check(config, only="mlps*", strict=True).holds)
        with tempfile.TemporaryDirectory() as folder:
            lock = Path(folder, "a.lock.json")
            self.assertTrue(onnxfit.check(config, lock=lock, update=True).updated)
            self.assertTrue(onnxfit.check(config, lock=lock, only="mlps*").holds)

    def test_a_closed_form(self):
        answer = onnxfit.closed_form("7B", layers=32, hidden=4096)
        self.assertEqual(answer.total_bytes, sum(row.bytes for row in answer.breakdown))


class Spelling(unittest.TestCase):
    def test_optimizers_as_their_classes(self):
        for name, expected in (("Adam", "adam"), ("SGD", "sgd"), ("AdamW8bit", "adamw-8bit"),
                               ("paged_adamw_8bit", "paged-adamw-8bit")):
            self.assertEqual(onnxfit.estimate(LENET, optimizer=name).settings.optimizer, expected)
        table = onnxfit.sweep(LENET, optimizer=["Adam", "SGD"])
        self.assertEqual([row.settings.optimizer for row in table.rows], ["adam", "sgd"])

    def test_losses_as_their_classes(self):
        self.assertEqual(onnxfit.estimate(LENET, loss="MSELoss").settings.loss, "mse")

    def test_ranges_of_python(self):
        table = onnxfit.sweep(LENET, batch=range(8, 33, 8))
        self.assertEqual([row.settings.batch for row in table.rows], [8, 16, 24, 32])
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "expected one run, found a table of "
                                                          "several .try: onnxfit.sweep"):
            onnxfit.estimate(LENET, batch=range(8, 33, 8))

    def test_keywords_that_were_meant(self):
        for keyword, meant in (("batch_size", "batch"), ("precison", "precision"),
                               ("criterion", "loss"), ("targets", "labels")):
            with self.assertRaisesRegex(TypeError, f"{keyword}.*did you mean {meant}="):
                onnxfit.estimate(LENET, **{keyword: 3})


class Notes(unittest.TestCase):
    """What a Python warning says, the answer says, too."""

    SAID = "optimizer: what maximize=True takes is not in the figures"

    @staticmethod
    def optimizer():
        made = type("AdamW", (), {"__module__": "torch.optim.adamw"})()
        made.param_groups = [{"params": [], "maximize": True}]
        return made

    def test_every_answer_has_it(self):
        for ask in (onnxfit.estimate, onnxfit.sweep, onnxfit.max_batch, onnxfit.report):
            with self.subTest(ask.__name__), self.assertWarnsRegex(onnxfit.OnnxfitWarning,
                                                                   "maximize=True"):
                told = str(ask(LENET, optimizer=self.optimizer(),
                               **({"memory": "1GiB"} if ask is onnxfit.max_batch else {})))
            self.assertIn(self.SAID, " ".join(told.split()))

    def test_it_is_an_assumption_beside_those_of_the_user(self):
        with self.assertWarns(onnxfit.OnnxfitWarning):
            answer = onnxfit.estimate(LENET, optimizer=self.optimizer(), note="labels are pictures")
        self.assertEqual(answer.assumptions[:2], ("labels are pictures", self.SAID))
        self.assertEqual(answer.raw["assumptions"][1], self.SAID)

    def test_the_next_answer_has_none(self):
        self.assertNotIn(self.SAID, onnxfit.estimate(LENET).assumptions)


class Errors(unittest.TestCase):
    def refusal(self, *args, **keywords):
        with self.assertRaises(onnxfit.OnnxfitError) as caught:
            onnxfit.estimate(*args, **keywords)
        return caught.exception

    def test_they_are_the_command_s_sentences(self):
        self.assertEqual(str(self.refusal("/nowhere/none.onnx")),
                         "/nowhere/none.onnx: an ONNX file was expected, there is no such file (try: "
                         "python -m onnxfit export MODULE:FUNCTION, which writes one from Python: "
                         "docs/python.md)")
        self.assertEqual(
            str(self.refusal(LENET, optimizer="adamv")),
            "--optimizer: expected one of 44 names, found 'adamv' (did you mean adam, adamw or "
            "nadam?) (try: onnxfit --help optimizer)")

    def test_hints_stand_apart(self):
        error = self.refusal(LENET, gpu="nosuch")
        self.assertEqual((error.text, error.hint),
                         ("--gpu: expected a card, found 'nosuch'", "onnxfit gpus"))

    def test_a_table_is_no_estimate(self):
        self.assertIn("onnxfit.sweep", self.refusal(LENET, batch="8,16").hint)

    def test_what_is_no_model(self):
        self.assertEqual(str(self.refusal(3)), "model: expected a path, a torch.nn.Module, a training "
                                               "step or a torch.export.ExportedProgram, found int")

    def test_no_config(self):
        with self.assertRaises(onnxfit.OnnxfitError) as caught:
            onnxfit.check("none.toml")
        self.assertEqual(str(caught.exception),
                         "none.toml: a config file was expected, there is no such file")

    def test_a_command_that_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder, "onnxfit")
            with mock.patch.dict(os.environ, ONNXFIT_BINARY=str(broken)):
                self.assertIn("No such file", str(self.refusal(LENET)))
            broken.write_text("#!/bin/sh\necho broken >&2\nexit 7\n")
            broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
            with mock.patch.dict(os.environ, ONNXFIT_BINARY=str(broken)):
                self.assertEqual(str(self.refusal(LENET)), "expected an answer of onnxfit, found "
                                                           "exit code 7: broken")

    def test_it_is_looked_for_beside_python_then_on_the_path(self):
        with tempfile.TemporaryDirectory() as folder:
            found = Path(folder, "onnxfit")
            found.write_text("#!/bin/sh\n")
            found.chmod(0o755)
            plain = {k: v for k, v in os.environ.items() if k != "ONNXFIT_BINARY"}
            with mock.patch.dict(os.environ, {**plain, "PATH": folder}, clear=True):
                with mock.patch.object(_command, "_folders", return_value=[]):
                    self.assertEqual(_command.binary(), str(found))
                os.environ["PATH"] = "/nowhere"
                with mock.patch.object(_command, "_folders", return_value=[folder]):
                    self.assertEqual(_command.binary(), str(found))
                with mock.patch.object(_command, "_folders", return_value=[]):
                    self.assertRaises(onnxfit.OnnxfitError, _command.binary)

    def test_an_export_without_torch(self):
        code = ("import sys; sys.modules['torch'] = None; from onnxfit.__main__ import main; "
                "sys.exit(main(['export', 'torchvision:resnet18']))")
        run = subprocess.run([sys.executable, "-B", "-c", code], check=False, encoding="utf-8",
                             env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertTrue(run.stderr.startswith("error: expected torch to be installed"), run.stderr)


if __name__ == "__main__":
    unittest.main()
