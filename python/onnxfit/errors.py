"""What goes wrong, in the words of the command."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings

_HINT = re.compile(r" \(try: (?P<hint>.*)\)$", re.DOTALL)


class OnnxfitError(Exception):
    """Input without an answer.  Reads as the command says it, without "error: ":
    WHERE: what was expected, what was found (try: HINT)."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(f"{text} (try: {hint})" if hint else text)

    @property
    def hint(self) -> str:
        """What to try instead; "" where nobody knows."""
        found = _HINT.search(str(self))
        return found["hint"] if found else ""

    @property
    def text(self) -> str:
        """The sentence without its hint."""
        return _HINT.sub("", str(self))


class OnnxfitWarning(UserWarning):
    """What of a model, an optimizer or a loss the answer leaves out."""


_OURS = (os.path.dirname(os.path.abspath(__file__)) + os.sep, contextlib.__file__)


def warn(text: str) -> None:
    """An OnnxfitWarning at the line that asked this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, OnnxfitWarning, stacklevel=level)
