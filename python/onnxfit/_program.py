"""A program, or a function, run on a card that is not there: `onnxfit run` for Python."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from onnxfit import _command, flags
from onnxfit._from_json import from_json
from onnxfit.errors import OnnxfitError
from onnxfit.results import ProgramRun

Program = Union[Sequence[str], Callable[..., Any]]
_INSIDE = "ONNXFIT_RUN"  # set in all that such a run starts


def _main_file() -> Optional[str]:
    """The script that Python was started with, "" for a module (-m); None where there is none."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    return None if file is None or getattr(main, "__spec__", None) is not None else str(file)


def _found(function: Callable[..., Any]) -> Optional[Dict[str, Any]]:
    """Where a new process finds it: a module, or the script, and the name there."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    value: Any = sys.modules.get(module or "")
    for part in name.split("."):
        value = getattr(value, part, None)
    if value is not function:
        return None
    if module != "__main__":
        return {"module": module, "name": name}
    script = _main_file()
    return None if script is None else {"script": os.path.abspath(script), "name": name}


def _cloudpickle(what: str) -> Any:
    try:
        import cloudpickle  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise OnnxfitError(f"run: expected a function that another process can import, found {what}",
                           "a function at the top of a module, or pip install cloudpickle") from None
    return cloudpickle


def _task(function: Callable[..., Any], arguments: Sequence[Any], repeat: int) -> bytes:
    """What the child calls, as bytes."""
    found = _found(function)
    if found is None:
        name = getattr(function, "__qualname__", repr(function))
        pickled = _cloudpickle(name).dumps((function, tuple(arguments)))
    else:
        pickled = pickle.dumps(tuple(arguments))
    return pickle.dumps({"found": found, "pickled": pickled, "repeat": repeat, "path": sys.path})


def _echoed(process: subprocess.Popen[str]) -> str:
    """Shows what it says as it comes; the command's last error."""
    error = ""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("error: "):
            error = line[len("error: "):].rstrip("\n")
        else:
            sys.stderr.write(line)
    process.wait()
    return error


def _finds_us() -> Dict[str, str]:
    """The environment of a Python that finds this package, wherever ours did."""
    environment = _command.environment()
    ours = str(Path(__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(
        path for path in (ours, environment.get("PYTHONPATH")) if path)
    return environment


def _ask(words: Sequence[str], command: Sequence[str], folder: str,
         environment: Mapping[str, str]) -> ProgramRun:
    report = Path(folder, "report.json")
    arguments = [_command.binary(), "run", *words, "--format", "json", "--output", str(report),
                 "--", *command]
    sys.stdout.flush()
    with subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, encoding="utf-8",
                          errors="replace") as process:
        error = _echoed(process)
    if not report.exists():
        raise OnnxfitError(error or f"onnxfit run ended with {process.returncode}")
    data: Mapping[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    _refuse_failed(data)
    return from_json(ProgramRun, data, text=data["text"], raw=data, holds=process.returncode == 0)


def _refuse_failed(data: Mapping[str, Any]) -> None:
    for part in [data, *data.get("runs", ())]:
        if not part.get("failed"):
            continue
        said = [f": {process['exception']}: {process.get('message', '')}"
                for process in part["processes"] if "exception" in process]
        raise OnnxfitError(f"run: the program ended with {part['exit_code']}"
                           f"{said[0] if said else ''}")


def run(program: Program, *arguments: Any, gpu: Union[None, str, Sequence[str]] = None,
        devices: Optional[flags.Names] = None, memory: Optional[flags.Sizes] = None,
        reserve: Optional[flags.Size] = None, steps: Optional[int] = None,
        seconds: Optional[int] = None, repeat: int = 1, strict: bool = False,
        snapshot: Union[None, str, "os.PathLike[str]"] = None) -> ProgramRun:
    """What a program takes on a card that is not there, by running it there: its PyTorch allocates
    as it would, kernels do nothing, no GPU is needed.  Linux on x86-64.

    `program` is a command, such as ["python", "train.py"], or a function, which a new Python
    process imports and calls with `arguments`, `repeat` times: a step of training is called as
    often as steps differ.  A function that no process can import (a lambda, one of a notebook)
    goes there by cloudpickle, where that is installed.

    `gpu` and `memory` are cards that it has to fit, a run each; `devices` are cards that it sees
    at once, such as "2xt4".  `steps` (of an optimizer) and `seconds` end it early.  What it prints
    is printed.  Raises OnnxfitError where it fails for another reason than memory."""
    if os.environ.get(_INSIDE):
        raise OnnxfitError("run: expected outside of such a run, found inside of one",
                           'if __name__ == "__main__": around the call')
    words: List[str] = flags.arguments({
        "gpu": gpu, "devices": devices, "memory": memory, "reserve": reserve,
        "steps": steps, "seconds": seconds, "strict": strict,
        "snapshot": None if snapshot is None else os.fspath(snapshot)})
    with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        if not callable(program):
            if arguments or isinstance(program, str):
                raise OnnxfitError("run: expected a list of words or a function with arguments, "
                                   f"found {program!r}", 'onnxfit.run(["python", "train.py"])')
            return _ask(words, [os.fspath(word) for word in program], folder,
                        _command.environment())
        task = Path(folder, "task.pickle")
        task.write_bytes(_task(program, arguments, repeat))
        return _ask(words, [sys.executable, "-m", "onnxfit._called", str(task)], folder,
                    _finds_us())
