"""Runs of a module in which its code asked for values, and what is said of them (recording.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

from onnxfit import recording
from onnxfit.errors import note, warn
from onnxfit.inputs import Inputs

if TYPE_CHECKING:
    import torch

Way = Callable[[recording.Recording], Any]  # a run: what it makes, while questions are answered

_BECAUSE = {"mean": "random numbers at their mean", "unknown": "a guess",
            "inputs": "by the values of inputs and weights"}
_OF_BRANCHES = "  guesses are those that take more memory of the ways that they open; "
_OF_SIZES = ("  sizes, or how often a loop runs, follow from this guess, and memory with them: {}")


def largest(way: Way, peak_of: Callable[[Any], int],
            has_size: Callable[[Any, int], bool]) -> recording.Recorded:
    """A run that computes small values, then all that it can where those were not enough; of runs
    that differ in what was guessed, the one that takes most."""
    recorded, computes_all = recording.record(way), False
    if any(answer.by == "unknown" for answer in recorded.answers):
        try:
            recorded, computes_all = recording.record(way, computes_all=True), True
        except Exception:  # a branch that the values take, and a program cannot
            pass
    others, sizing = recording.other_ways(way, recorded, computes_all, has_size)
    if others:
        recorded = max([recorded, *others], key=lambda each: peak_of(each.program))
    return recorded._replace(sizing=sizing)


def _what_says(model: torch.nn.Module, example: Inputs) -> str:
    """What is missing where a value is not known."""
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        return "weights and inputs with values, not on meta, say which are right"
    if any(tensor.is_meta for tensor in example.tensors()):
        return "inputs with values say which are right"
    return (f"values are computed up to {recording.MOST_WORK // 10**9} GFLOP and "
            f"{recording.MOST_KEPT >> 20} Mi elements: a smaller example may say which are right")


def _told(model: torch.nn.Module, example: Inputs, recorded: recording.Recorded, why: str,
          is_free: bool) -> str:
    """What a run was told, a line of code a line."""
    lines: Dict[Tuple[str, str], List[str]] = {}
    for answer in recorded.answers:
        if answer.by in _BECAUSE:
            lines.setdefault((answer.place, _BECAUSE[answer.by]), []).append(answer.shown)
    sizes = "its batch is free" if is_free else "its sizes are fixed"
    told = [f"{type(model).__name__}: {why}, {sizes}"]
    for (place, because), values in lines.items():
        shown = list(dict.fromkeys(values))
        more = ", …" if len(shown) > 4 else ""
        told.append(f"  {place} → {', '.join(shown[:4])}{more} ({because})")
    sizing = [answer.place for answer in recorded.answers if answer.line in recorded.sizing]
    told += [_OF_SIZES.format(place) for place in dict.fromkeys(sizing)]
    if any(answer.by == "unknown" for answer in recorded.answers):
        told.append(_OF_BRANCHES + _what_says(model, example))
    return "\n".join(told)


def tell(model: torch.nn.Module, example: Inputs, recorded: recording.Recorded, why: str,
         is_free: bool) -> None:
    """Warns of what was assumed; of a run that asked for nothing that inputs decide, nothing."""
    if any(answer.by in _BECAUSE for answer in recorded.answers):
        warn(_told(model, example, recorded, why, is_free))
        if example.are_zeros:
            note("inputs on meta have no values: they are zeros where the code asks")
