"""What goes wrong, in the words of the command."""

from __future__ import annotations

import contextlib
import contextvars
import os
import re
import sys
import warnings
from typing import Iterator, List, Optional

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
# What is said while a question is answered, or a file is written; None outside of both.
_NOTES: contextvars.ContextVar[Optional[List[str]]] = contextvars.ContextVar("notes", default=None)


@contextlib.contextmanager
def noted() -> Iterator[List[str]]:
    """Within, each sentence of note() and warn() is added to the list, once: the answer, or the
    file, has them among its assumptions."""
    sentences: List[str] = []
    outer = _NOTES.set(sentences)
    try:
        yield sentences
    finally:
        _NOTES.reset(outer)


def note(text: str) -> None:
    """Each line of `text` is something that the answer assumes, and has to say."""
    sentences = _NOTES.get()
    for line in map(str.strip, text.splitlines()):
        if sentences is not None and line and line not in sentences:
            sentences.append(line)


def warn(text: str) -> None:
    """note(), and an OnnxfitWarning at the line that asked this package."""
    note(text)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, OnnxfitWarning, stacklevel=level)
