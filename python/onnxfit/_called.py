"""`python -m onnxfit._called NAME [BATCH]`: the child of onnxfit.run(function), which calls the
function as often as was asked, and of run_max_batch, which calls it with a batch.  What it calls is
in the file that ONNXFIT_TASK names; NAME is for reports."""

from __future__ import annotations

import importlib
import os
import pickle
import runpy
import sys
import types
from pathlib import Path
from typing import Any, Callable, Mapping, Tuple


def _script(path: str) -> types.ModuleType:
    """The parent's script, run as multiprocessing does: what `if __name__ == "__main__":` guards
    is left out, and its classes are pickled as those of __main__."""
    module = types.ModuleType("__mp_main__")
    module.__dict__.update(runpy.run_path(path, run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    return module


def _task(task: Mapping[str, Any]) -> Tuple[Callable[..., Any], Tuple[Any, ...]]:
    found = task["found"]
    if found is None:  # by cloudpickle, whose pickles pickle reads
        function, arguments = pickle.loads(task["pickled"])
        return function, arguments
    value: Any = (_script(found["script"]) if "script" in found
                  else importlib.import_module(found["module"]))
    for part in found["name"].split("."):
        value = getattr(value, part)
    return value, pickle.loads(task["pickled"])


def main(path: str, *batch: str) -> None:
    task = pickle.loads(Path(path).read_bytes())
    sys.path[:] = task["path"]
    function, arguments = _task(task)
    for _ in range(task["repeat"]):
        function(*map(int, batch), *arguments)


if __name__ == "__main__":
    main(os.environ["ONNXFIT_TASK"], *sys.argv[2:])
