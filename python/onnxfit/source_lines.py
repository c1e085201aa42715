"""Lines of the user's code, as sentences show them: 'net.py:24: return x @ y'."""

from __future__ import annotations

import linecache
import os
import sys
import traceback

_LONGEST = 100  # characters of a line, or of a reason, within a sentence of ours


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST - 1].rstrip() + "…"


def is_users(path: str) -> bool:
    """Whether a file is neither PyTorch's nor ours, nor a part of Python itself."""
    torch = getattr(sys.modules.get("torch"), "__file__", None) or __file__
    ours = tuple(os.path.dirname(file) + os.sep for file in (torch, __file__))
    is_pythons = path.startswith("<") or (path.startswith(os.path.dirname(os.__file__) + os.sep)
                                          and "-packages" + os.sep not in path)
    return not is_pythons and not path.startswith(ours)


def shown(file: str, number: int) -> str:
    """'net.py:24: return x @ y'; "" where the line cannot be read."""
    line = linecache.getline(file, number).strip()
    return f"{os.path.basename(file)}:{number}: {shortened(line)}" if line else ""


def innermost(frames: traceback.StackSummary) -> str:
    """The last of `frames` that is the user's; "" where none is."""
    inner = [frame for frame in frames if is_users(frame.filename)]
    return shown(inner[-1].filename, inner[-1].lineno or 0) if inner else ""
