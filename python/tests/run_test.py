"""onnxfit.run, without torch: a command and functions that use CUDA by themselves."""

import contextlib
import ctypes
import functools
import io
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import onnxfit
from onnxfit import _command, _program

GIB = 1 << 30


def has_run():
    return subprocess.run([_command.binary(), "run", "--", "true"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False).stderr.find(b"never used CUDA") > 0


def take(size, times=1):
    """Device memory, by the CUDA that the process finds.  A full card ends it."""
    for _ in range(times):
        pointer = ctypes.c_void_p()
        if ctypes.CDLL(None).cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) != 0:
            sys.exit(3)


def take_batch(batch, size, fails_at=None):
    """`size` bytes a sample, of which the card's context is not one."""
    if batch == fails_at:
        raise ValueError("no such batch")
    take(batch * size)


class Holder:
    """Pickled as an argument; its method is no function of a module's."""

    def __init__(self, size):
        self.size = size

    def take(self):
        take(self.size)

    @staticmethod
    def take_of(holder):
        take(holder.size)


@unittest.skipUnless(has_run(), "no `onnxfit run` here")
class Run(unittest.TestCase):
    def used(self, *arguments, **keywords):
        return onnxfit.run(*arguments, gpu="t4", **keywords).device_bytes

    def test_a_function_is_called_as_often_as_is_asked(self):
        one, two = self.used(take, GIB), self.used(take, GIB, 2)
        self.assertEqual(two - one, GIB)
        self.assertEqual(self.used(take, GIB, repeat=2), two)

    def test_what_is_nested_is_found_by_its_name(self):
        self.assertEqual(self.used(Holder.take_of, Holder(GIB)), self.used(take, GIB))

    def test_a_command_is_run_as_it_is(self):
        program = ("import ctypes; ctypes.CDLL(None).cudaMalloc("
                   "ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 30))")
        answer = onnxfit.run([sys.executable, "-c", program], gpu="t4")
        self.assertEqual(answer.device_bytes, self.used(take, GIB))
        self.assertEqual((answer.verdict, answer.holds), ("fits", True))
        self.assertTrue(str(answer).startswith("FITS on t4: "))
        self.assertEqual(answer.command[0], sys.executable)

    def test_verdicts_are_of_all_cards(self):
        answer = onnxfit.run(take, 13 * GIB, gpu=["rtx3060", "t4"])
        self.assertEqual([target.verdict for target in answer.targets], ["oom", "fits"])
        self.assertEqual((answer.verdict, answer.holds), ("oom", False))
        self.assertEqual([run.verdict for run in answer.runs], ["oom", "fits"])

    def test_ram_of_the_machine(self):
        program = ("import ctypes; ctypes.CDLL(None).cudaHostAlloc("
                   "ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 30), 0)")
        answer = onnxfit.run([sys.executable, "-c", program], gpu="t4", ram="900MB")
        self.assertEqual((answer.verdict, answer.holds), ("oom", False))
        self.assertEqual((answer.host.verdict, answer.host.pinned_bytes), ("oom", GIB))

    def test_a_page_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.html")
            onnxfit.run(take, GIB, gpu="t4", html=page)
            self.assertIn("<strong>FITS</strong> on t4", page.read_text(encoding="utf-8"))

    def test_another_failure_is_raised(self):
        with contextlib.redirect_stderr(io.StringIO()), \
                self.assertRaisesRegex(onnxfit.OnnxfitError, "never used CUDA|before it used CUDA"):
            onnxfit.run(print, "nothing", gpu="t4")
        program = ("import ctypes; ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), "
                   "ctypes.c_size_t(1)); raise SystemExit(7)")
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "the program ended with 7"):
            onnxfit.run([sys.executable, "-c", program], gpu="t4")

    def test_without_a_card_the_function_is_named(self):
        headline = str(onnxfit.run(take, GIB)).splitlines()[0]
        self.assertRegex(headline, r"^python\S* -m onnxfit\._called take: 1\.\d\d GiB on the device$")

    def test_who_asked_is_told_by_lines(self):
        held = onnxfit.run(take, GIB, 2, gpu="t4").asked
        self.assertEqual([(row.bytes, row.count) for row in held], [(2 * GIB, 2)])
        self.assertRegex(held[0].place, r"^run_test\.py:\d+$")
        self.assertIn("cudaMalloc", held[0].source)

    def test_a_python_that_leaves_the_hooks_out_is_told(self):
        program = ("import ctypes; ctypes.CDLL(None).cudaMalloc("
                   "ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 30))")
        for flags, count in (([], None), (["-I"], 1), (["-E"], 1), (["-S"], 1)):
            with self.subTest(flags):
                answer = onnxfit.run([sys.executable, *flags, "-c", program], gpu="t4")
                self.assertEqual(answer.raw.get("unwatched_processes"), count)
                self.assertEqual("ran without what onnxfit run puts into it" in str(answer),
                                 count is not None)

    def test_an_interrupt_ends_the_program_and_is_raised(self):
        heard = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "heard")
        program = ("import os, signal, sys, time\n"
                   "def end(*_):\n    open(%r, 'w').close(); sys.exit(0)\n"
                   "signal.signal(signal.SIGTERM, end)\n"
                   "os.kill(%d, signal.SIGINT)\ntime.sleep(60)" % (heard, os.getpid()))
        with self.assertRaises(KeyboardInterrupt):
            onnxfit.run([sys.executable, "-c", program], gpu="t4")
        self.assertTrue(os.path.exists(heard))


@unittest.skipUnless(has_run(), "no `onnxfit run` here")
class LargestBatch(unittest.TestCase):
    def test_a_function_is_called_with_each_batch(self):
        with contextlib.redirect_stderr(io.StringIO()) as told:
            answer = onnxfit.run_max_batch(take_batch, (1, 64), GIB, gpu="t4")
        largest, = answer.targets
        self.assertEqual((answer.max_batch, largest.fails, largest.limited), (14, 15, False))
        self.assertEqual(answer.holds, True)
        by_batch = {row.batch: row for row in largest.tried}
        self.assertEqual((by_batch[2].verdict, by_batch[15].verdict), ("fits", "oom"))
        self.assertEqual(by_batch[2].used_bytes - by_batch[1].used_bytes, GIB)
        self.assertEqual(largest.max_batch_fits, 14)
        self.assertEqual(largest.per_sample_bytes, GIB)
        self.assertEqual(largest.run.device_bytes, by_batch[14].used_bytes)
        self.assertTrue(str(answer).startswith("batch 14 on t4: "))
        self.assertIn("batch 2: FITS on t4", told.getvalue())

    def test_a_command_has_its_batch_in_braces(self):
        program = ("import ctypes, sys; ctypes.CDLL(None).cudaMalloc(ctypes.byref("
                   "ctypes.c_void_p()), ctypes.c_size_t(int(sys.argv[1]) << 30)) and sys.exit(3)")
        with contextlib.redirect_stderr(io.StringIO()), \
                tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.html")
            answer = onnxfit.run_max_batch([sys.executable, "-c", program, "{}"], (2, 6), gpu="t4",
                                           multiple_of=2, html=page)
            self.assertIn("By batch on t4", page.read_text(encoding="utf-8"))
        self.assertEqual((answer.max_batch, answer.targets[0].limited), (6, True))
        self.assertEqual([row.batch for row in answer.targets[0].tried], [2, 4, 6])

    def test_cards_have_an_answer_each(self):
        with contextlib.redirect_stderr(io.StringIO()):
            answer = onnxfit.run_max_batch(take_batch, (1, 16), 2 * GIB, gpu=["rtx3060", "t4"])
        self.assertEqual([(row.gpu, row.max_batch) for row in answer.targets],
                         [("rtx3060", 5), ("t4", 7)])

    def test_where_not_even_the_least_runs(self):
        with contextlib.redirect_stderr(io.StringIO()):
            answer = onnxfit.run_max_batch(take_batch, (16, 32), GIB, gpu="t4")
        self.assertEqual((answer.max_batch, answer.holds), (0, False))
        self.assertEqual(answer.targets[0].run.verdict, "oom")

    def test_a_run_that_fails_is_raised(self):
        with contextlib.redirect_stderr(io.StringIO()), \
                self.assertRaisesRegex(onnxfit.OnnxfitError, "batch 4|ended with 1"):
            onnxfit.run_max_batch(take_batch, (2, 8), GIB, 4, gpu="t4")

    def test_a_command_without_braces(self):
        with self.assertRaisesRegex(onnxfit.OnnxfitError, r"expected \{\} in the program's words"):
            onnxfit.run_max_batch(["true"], (1, 8), gpu="t4")


class Refused(unittest.TestCase):
    def test_what_are_no_batches(self):
        for batches in [512, (8,), ("8", "512"), (1, 2, 3), (1.5, 2)]:
            with self.assertRaisesRegex(onnxfit.OnnxfitError, "the least and the most batch"):
                onnxfit.run_max_batch(take_batch, batches)
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "--max-batch: expected"):
            onnxfit.run_max_batch(take_batch, (8, 4))

    def test_what_is_no_program(self):
        for program in ["python train.py", ["python", "train.py"]]:
            arguments = () if isinstance(program, str) else (8,)
            with self.assertRaisesRegex(onnxfit.OnnxfitError, "expected a list of words"):
                onnxfit.run(program, *arguments)

    def test_functions_that_no_process_can_import(self):
        for function in [lambda: None, functools.partial(take, GIB), Holder(GIB).take]:
            with mock.patch.dict(sys.modules, {"cloudpickle": None}), \
                    self.assertRaisesRegex(onnxfit.OnnxfitError, "pip install cloudpickle"):
                onnxfit.run(function, gpu="t4")

    def test_they_go_by_cloudpickle_where_it_is(self):
        sent = []
        module = types.SimpleNamespace(dumps=lambda value: sent.append(value) or b"")
        with mock.patch.dict(sys.modules, {"cloudpickle": module}):
            _program._task(lambda: None, (8,), 1)
        self.assertEqual(sent[0][1], (8,))

    def test_a_run_inside_of_a_run(self):
        with mock.patch.dict(os.environ, {"ONNXFIT_RUN": "/tmp/run"}), \
                self.assertRaisesRegex(onnxfit.OnnxfitError, '__name__ == "__main__"'):
            onnxfit.run(take, 1)

    def test_keywords_are_checked(self):
        with self.assertRaises(TypeError):
            onnxfit.run(take, 1, gpus="t4")  # type: ignore[call-arg]


if __name__ == "__main__":
    unittest.main()
