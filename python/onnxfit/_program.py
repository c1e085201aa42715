"""A program, or a function, run on a card that is not there: `onnxfit run` for Python."""

from __future__ import annotations

import json
import operator
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from onnxfit import _command, flags
from onnxfit._from_json import from_json
from onnxfit.errors import OnnxfitError
from onnxfit.results import ProgramMaxBatch, ProgramRun

Program = Union[Sequence[str], Callable[..., Any]]
PathLike = Union[str, "os.PathLike[str]"]
_INSIDE = "ONNXFIT_RUN"  # set in all that such a run starts
TASK = "ONNXFIT_TASK"  # the path of what the child calls: no word of the command, which reports show


class _Answer(NamedTuple):
    data: Mapping[str, Any]
    code: int


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


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


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
        pickled = _cloudpickle(_name_of(function)).dumps((function, tuple(arguments)))
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
         environment: Mapping[str, str]) -> _Answer:
    report = Path(folder, "report.json")
    arguments = [_command.binary(), "run", *words, "--format", "json", "--output", str(report),
                 "--", *command]
    sys.stdout.flush()
    with subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, encoding="utf-8",
                          errors="replace") as process:
        try:
            error = _echoed(process)
        except KeyboardInterrupt:  # the program has heard of it, or hears of it now
            process.terminate()
            process.wait()
            raise
    if not report.exists():
        raise OnnxfitError(error or f"onnxfit run ended with {process.returncode}")
    data: Mapping[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    _refuse_failed(data)
    return _Answer(data, process.returncode)


def _refuse_failed(data: Mapping[str, Any]) -> None:
    for part in [data, *data.get("runs", ())]:
        if not part.get("failed"):
            continue
        said = [f": {process['exception']}: {process.get('message', '')}"
                for process in part["processes"] if "exception" in process]
        raise OnnxfitError(f"run: the program ended with {part['exit_code']}"
                           f"{said[0] if said else ''}")


def _run(name: str, words: Sequence[str], program: Program, arguments: Sequence[Any],
         repeat: int = 1, child: Sequence[str] = ()) -> _Answer:
    """Runs a program, or a function in a child that has `child` among its words."""
    if os.environ.get(_INSIDE):
        raise OnnxfitError(f"{name}: expected outside of such a run, found inside of one",
                           'if __name__ == "__main__": around the call')
    with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        if not callable(program):
            if arguments or isinstance(program, str):
                raise OnnxfitError(f"{name}: expected a list of words or a function with "
                                   f"arguments, found {program!r}",
                                   'onnxfit.run(["python", "train.py"])')
            return _ask(words, [os.fspath(word) for word in program], folder,
                        _command.environment())
        task = Path(folder, "task.pickle")
        task.write_bytes(_task(program, arguments, repeat))
        return _ask(words, [sys.executable, "-m", "onnxfit._called", _name_of(program), *child],
                    folder, dict(_finds_us(), **{TASK: str(task)}))


def _path(path: Optional[PathLike]) -> Optional[str]:
    return None if path is None else os.fspath(path)


def run(program: Program, *arguments: Any, gpu: Union[None, str, Sequence[str]] = None,
        devices: Optional[flags.Names] = None, memory: Optional[flags.Sizes] = None,
        reserve: Optional[flags.Size] = None, steps: Optional[int] = None,
        seconds: Optional[int] = None, until_same: bool = False, repeat: int = 1,
        strict: bool = False, snapshot: Optional[PathLike] = None,
        html: Optional[PathLike] = None, ram: Optional[flags.Size] = None) -> ProgramRun:
    """What a program takes on a card that is not there, by running it there: its PyTorch allocates
    as it would, kernels do nothing, no GPU is needed.  Linux on x86-64.

    `program` is a command, such as ["python", "train.py"], or a function, which a new Python
    process imports and calls with `arguments`, `repeat` times: a step of training is called as
    often as steps differ.  A function that no process can import (a lambda, one of a notebook)
    goes there by cloudpickle, where that is installed.

    `ram` is what the machine has, such as "12.7GB": a run of which the host's RAM has no room is
    "oom", too.  `gpu` and `memory` are cards that it has to fit, a run each; `devices` are cards that it sees
    at once, such as "2xt4".  `steps` (of an optimizer) and `seconds` end it early, `until_same` as
    soon as three turns of its loop have allocated the same.  `html` is a page for a browser that is
    written, too, `snapshot` PyTorch's own file.  What it prints is printed.  Raises OnnxfitError
    where it fails for another reason than memory."""
    words: List[str] = flags.arguments({
        "gpu": gpu, "devices": devices, "memory": memory, "reserve": reserve,
        "steps": steps, "seconds": seconds, "until_same": until_same, "strict": strict,
        "ram": ram, "snapshot": _path(snapshot), "html": _path(html)})
    answer = _run("run", words, program, arguments, repeat)
    return from_json(ProgramRun, answer.data, text=answer.data["text"], raw=answer.data,
                     holds=answer.code == 0)


def run_max_batch(program: Program, batches: Tuple[int, int], *arguments: Any,
                  gpu: Union[None, str, Sequence[str]] = None,
                  devices: Optional[flags.Names] = None, memory: Optional[flags.Sizes] = None,
                  reserve: Optional[flags.Size] = None, multiple_of: int = 1,
                  steps: Optional[int] = None, seconds: Optional[int] = None,
                  until_same: bool = False, strict: bool = False,
                  html: Optional[PathLike] = None,
                  ram: Optional[flags.Size] = None) -> ProgramMaxBatch:
    """The largest batch that a program runs on a card that is not there, from the least to the most
    of `batches`, found by running it: 4 to 12 runs, a line to stderr each.  Linux on x86-64.

    `program` is a function of the batch, which makes its model and data and trains some steps: a
    new Python process calls it as program(batch, *arguments) for each batch.  Or a command with
    "{}" where the batch stands: ["python", "train.py", "--batch-size", "{}"].

    Each run ends after `steps` steps of an optimizer (10 where nobody says) or `seconds`; with
    `until_same` as soon as three turns of its loop have allocated the same.
    `multiple_of`: only batches that it divides.  `strict`: a batch that is TIGHT does not count.
    `gpu`, `memory`, `devices` and `ram` are as in run(), a search for each; `html` is a page of all that
    was run.  The answer's max_batch is 0 where not even the least batch runs.  Raises OnnxfitError
    where a run fails for another reason than memory."""
    try:
        least, most = map(operator.index, batches)
    except (TypeError, ValueError):
        raise OnnxfitError("run_max_batch: expected the least and the most batch, found "
                           f"{batches!r}", "(8, 512)") from None
    words: List[str] = flags.arguments({
        "max_batch": f"{least}:{most}", "multiple_of": multiple_of, "gpu": gpu,
        "devices": devices, "memory": memory, "reserve": reserve, "steps": steps,
        "seconds": seconds, "until_same": until_same, "strict": strict, "ram": ram,
        "html": _path(html)})
    answer = _run("run_max_batch", words, program, arguments, child=["{}"])
    return from_json(ProgramMaxBatch, answer.data, text=answer.data["text"], raw=answer.data,
                     holds=answer.code == 0)
