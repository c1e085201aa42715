"""A step that others have gone before, from two runs of it: what the first alone has made, which
modules and caches keep, and what of the step before lives until when."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Dict, List, Sequence, Tuple

from onnxfit import schema_json
from onnxfit.schema_json import Json
from onnxfit.watching import OF_RUN_BEFORE


class OtherCalls(Exception):
    """The second run makes tensors that the first does not: it is the first that is special."""


def _is_in_place(node: Json) -> bool:
    return str(node["target"].split(".")[-2]).endswith("_")


def check(first: Sequence[Json], second: Sequence[Json]) -> None:
    """Raises OtherCalls where calls of `second` make what `first` has none of."""
    known = set(_pairs(first, second).values())
    if any(at not in known and node["outputs"] and not _is_in_place(node)
           for at, node in enumerate(second)):
        raise OtherCalls


def _key(node: Json) -> Tuple[str, str, str]:
    metadata = node["metadata"]
    return node["target"], metadata["nn_module_stack"], metadata["stack_trace"]


def _pairs(first: Sequence[Json], second: Sequence[Json]) -> Dict[int, int]:
    """Of calls of the first run, which of the second each is."""
    ours, theirs = [*map(_key, first)], [*map(_key, second)]
    if ours == theirs:
        return {index: index for index in range(len(ours))}
    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    return {block.a + at: block.b + at for block in blocks for at in range(block.size)}


def _names_of_pair(first: Json, second: Json) -> Dict[str, str]:
    """What `second` makes, by the name that `first` gives it.  Gradients have the same ones: a
    step makes those that the one before has dropped."""
    names = [*schema_json.made_by(second)]
    is_backward = first["target"] == "onnxfit.backward"
    return dict(zip(names, names if is_backward else schema_json.made_by(first)))


def merge(first: List[Json], second: Sequence[Json]) -> None:
    """Calls of `first` that `second` does not have are made once; the deaths of the others are
    those of the second run, of values of the step before by themselves."""
    pairs = _pairs(first, second)
    names: Dict[str, str] = {}  # of the second run, by that of the first
    for ours, theirs in pairs.items():
        names.update(_names_of_pair(first[ours], second[theirs]))
    at = -1  # the last call of the first run that both have
    dies: Dict[int, List[str]] = {}
    drops: Dict[int, List[str]] = {}
    back = {theirs: ours for ours, theirs in pairs.items()}
    for index, node in enumerate(second):
        at = back.get(index, at)
        dies.setdefault(at, []).extend(node["metadata"]["onnxfit"].get("dies", []))
        drops.setdefault(at, []).extend(node["metadata"]["onnxfit"].get("drops", []))
    for index, node in enumerate(first):
        state = node["metadata"]["onnxfit"]
        if index not in pairs:
            state["once"] = True
            continue
        gone = dies.get(index, [])
        state["dies"] = [names[name] for name in gone if name in names]
        state["dies_of_step_before"] = [name[:-len(OF_RUN_BEFORE)] for name in gone
                                        if name.endswith(OF_RUN_BEFORE)]
        if drops.get(index) or "drops" in state:
            state["drops"] = drops.get(index, [])
