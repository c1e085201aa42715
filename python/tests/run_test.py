"""onnxfit.run, without torch: a command and functions that use CUDA by themselves."""

import contextlib
import ctypes
import functools
import io
import os
import subprocess
import sys
import types
import unittest
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

    def test_another_failure_is_raised(self):
        with contextlib.redirect_stderr(io.StringIO()), \
                self.assertRaisesRegex(onnxfit.OnnxfitError, "never used CUDA|before it used CUDA"):
            onnxfit.run(print, "nothing", gpu="t4")
        program = ("import ctypes; ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), "
                   "ctypes.c_size_t(1)); raise SystemExit(7)")
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "the program ended with 7"):
            onnxfit.run([sys.executable, "-c", program], gpu="t4")


class Refused(unittest.TestCase):
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
