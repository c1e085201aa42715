"""Sizes as expressions of the batch, from runs at several: what differs between programs that are
otherwise the same follows the batch in a straight line or by its square, or is not free."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from onnxfit.schema_json import Json

SYMBOL = "s0"
_WRITTEN_SYMBOL = f"Symbol('{SYMBOL}', positive=True, integer=True)"


class NotFree(Exception):
    """Programs that differ in more than sizes."""


class Curve(NamedTuple):
    """square * n² + slope * n + start."""

    slope: Fraction
    start: Fraction
    square: Fraction = Fraction(0)

    def at(self, batch: int) -> Fraction:
        return (self.square * batch + self.slope) * batch + self.start


def _through(points: Sequence[Tuple[int, int]]) -> Optional[Curve]:
    """The line through the first two, else the parabola through the first three, where the others
    are on it."""
    (x0, y0), (x1, y1), (x2, y2) = points[:3]
    slope = Fraction(y1 - y0, x1 - x0)
    found = Curve(slope, y0 - slope * x0)
    if found.at(x2) != y2:
        if len(points) < 4:
            return None
        square = (Fraction(y2 - y0, x2 - x0) - slope) / (x2 - x1)
        slope -= square * (x0 + x1)
        found = Curve(slope, y0 - slope * x0 - square * x0 * x0, square)
    return found if all(found.at(x) == y for x, y in points) else None


def _term(factor: Fraction, power: int) -> str:
    symbols = [_WRITTEN_SYMBOL] * power
    parts = ([f"Integer({factor.numerator})"] if factor != 1 or power == 0 else []) + symbols
    return parts[0] if len(parts) == 1 else f"Mul({', '.join(parts)})"


def _written(curve: Curve) -> str:
    """As sympy's srepr would; of halves, what is divided at the end."""
    below = max(part.denominator for part in curve)
    terms = [_term(part * below, power) for part, power in
             ((curve.square, 2), (curve.slope, 1), (curve.start, 0)) if part != 0]
    whole = terms[0] if len(terms) == 1 else f"Add({', '.join(terms)})"
    return whole if below == 1 else f"FloorDiv({whole}, Integer({below}))"


class _Merger:
    def __init__(self, batches: Sequence[int]) -> None:
        self._batches = batches
        self._expressions: Dict[Tuple[int, ...], str] = {}
        self.numbers: Dict[str, Json] = {}  # by name: those that arguments are

    def _size(self, values: Tuple[int, ...]) -> Json:
        text = self._expressions.get(values)
        if text is None:
            curve = _through(list(zip(self._batches, values)))
            if curve is None:
                raise NotFree(f"a size that is {', '.join(map(str, values))}")
            text = self._expressions[values] = _written(curve)
        return {"as_expr": {"expr_str": text, "hint": {"as_int": values[0]}}}

    def _number(self, values: Tuple[int, ...]) -> Json:
        """Of an argument: the name of such a size."""
        name = "n_" + "_".join(map(str, values)).replace("-", "m")
        self.numbers[name] = self._size(values)
        return {"as_name": name}

    def sizes(self, all_sizes: Tuple[Json, ...]) -> Json:
        """Of tensor_values: lists of {"as_int": 3}."""
        made = []
        for each in zip(*all_sizes):
            values = tuple(size["as_int"] for size in each)
            made.append(each[0] if len(set(values)) == 1 else self._size(values))
        return made

    def merged(self, values: Tuple[Json, ...]) -> Json:
        """One JSON of several that differ in whole numbers of arguments."""
        first = values[0]
        if all(value == first for value in values[1:]):
            return first
        kinds = {type(value) for value in values}
        if len(kinds) != 1:
            raise NotFree("arguments of several types")
        if isinstance(first, dict):
            return self._merged_dict(values)
        if isinstance(first, list) and len({len(value) for value in values}) == 1:
            return [self.merged(each) for each in zip(*values)]
        if isinstance(first, float):
            return first  # 1 / batch
        raise NotFree(f"an argument that is {first!r} and {values[1]!r}")

    def _merged_dict(self, values: Tuple[Json, ...]) -> Json:
        first = values[0]
        if any(value.keys() != first.keys() for value in values):
            raise NotFree("arguments of several kinds")
        if "as_int" in first:
            return {"as_sym_int": self._number(tuple(value["as_int"] for value in values))}
        if "as_ints" in first:
            lists = [value["as_ints"] for value in values]
            if len({len(items) for items in lists}) != 1:
                raise NotFree("lists of several lengths")
            return {"as_sym_ints": [{"as_int": each[0]} if len(set(each)) == 1
                                    else self._number(each) for each in zip(*lists)]}
        return {key: self.merged(tuple(value[key] for value in values)) for key in first}


def _merged_node(merger: _Merger, nodes: Tuple[Json, ...]) -> Json:
    first = nodes[0]
    if any(node["target"] != first["target"] or node["name"] != first["name"] or
           node["metadata"]["nn_module_stack"] != first["metadata"]["nn_module_stack"]
           for node in nodes):
        raise NotFree(f"{first['name']} is another call")
    if any(node["outputs"] != first["outputs"] for node in nodes):
        raise NotFree(f"{first['name']} has other results")
    return {**first, "inputs": merger.merged(tuple(node["inputs"] for node in nodes))}


def merged(graphs: Sequence[Json], batches: Sequence[int]) -> Json:
    """The graph of the first of `batches`, with sizes that follow the batch as expressions of
    SYMBOL.  Raises NotFree.  REQUIRES: three or more."""
    first = graphs[0]
    merger = _Merger(batches)
    if len({len(graph["nodes"]) for graph in graphs}) != 1 or any(
            graph[part] != first[part] for graph in graphs for part in ("inputs", "outputs")):
        raise NotFree("other calls")
    nodes: List[Json] = [_merged_node(merger, each) for each in
                         zip(*(graph["nodes"] for graph in graphs))]
    tensors: Dict[str, Any] = {}
    for name, value in first["tensor_values"].items():
        others = tuple(graph["tensor_values"][name] for graph in graphs)
        tensors[name] = {**value, "sizes": merger.sizes(tuple(each["sizes"] for each in others)),
                         "strides": merger.sizes(tuple(each["strides"] for each in others))}
    return {**first, "nodes": nodes, "tensor_values": tensors, "sym_int_values": merger.numbers}
