"""Sizes as expressions of free ones, from runs at several sizes: what differs between programs that
are otherwise the same is a sum of products of the free sizes, or nothing is free."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any, Dict, List, Optional, Sequence, Tuple

from onnxfit.schema_json import Json

Point = Tuple[int, ...]  # what each free size is in a run
Powers = Tuple[int, ...]  # of each, in a product


class NotFree(Exception):
    """Programs that differ in more than sizes, or in sizes that are no such sum."""


class OtherCalls(NotFree):
    """Those that differ in their calls."""


# --- Sums of products -----------------------------------------------------------------------------


def _bases(count: int) -> List[List[Powers]]:
    """The products that are tried: straight lines; products of two; squares."""
    ones = [tuple(int(at == axis) for at in range(count)) for axis in range(count)]
    line = [(0,) * count, *ones]
    pairs = [tuple(map(sum, zip(a, b))) for a, b in itertools.combinations(ones, 2)]
    squares = [tuple(2 * power for power in one) for one in ones]
    return [line, line + pairs, line + pairs + squares]


def points(first: Point, others: Sequence[Point]) -> List[Point]:
    """Where to run for sums of the first two bases, and one to check: `first`, then one size at
    another value each, then all of them."""
    second, third = others
    changed = [tuple(second[at] if at == axis else size for at, size in enumerate(first))
               for axis in range(len(first))]
    pairs = [tuple(second[at] if at in axes else size for at, size in enumerate(first))
             for axes in itertools.combinations(range(len(first)), 2)]
    return [first, *changed, *pairs, third]


def _value(powers: Powers, point: Point) -> int:
    return math.prod(size ** power for size, power in zip(point, powers))


def _solved(rows: List[List[Fraction]]) -> Optional[List[Fraction]]:
    """Of a system of as many equations as unknowns, each with its right side last; None without a
    single solution."""
    size = len(rows)
    for at in range(size):
        pivot = next((row for row in range(at, size) if rows[row][at] != 0), None)
        if pivot is None:
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        rows[at] = [value / rows[at][at] for value in rows[at]]
        for row in range(size):
            if row != at and rows[row][at] != 0:
                factor = rows[row][at]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[at])]
    return [row[size] for row in rows]


def _through(where: Sequence[Point], values: Sequence[int]) -> Dict[Powers, Fraction]:
    """The simplest sum that is each of `values` at its point, with one point at least to spare."""
    for basis in _bases(len(where[0])):
        if len(basis) >= len(where):
            break
        for chosen in itertools.islice(itertools.combinations(range(len(where)), len(basis)), 8):
            found = _solved([[*(Fraction(_value(powers, where[at])) for powers in basis),
                              Fraction(values[at])] for at in chosen])
            if found is None:
                continue
            terms = {powers: factor for powers, factor in zip(basis, found) if factor}
            if all(_at(terms, point) == value for point, value in zip(where, values)):
                return terms
            break
    raise NotFree(f"a size that is {', '.join(map(str, values))}")


def _at(terms: Dict[Powers, Fraction], point: Point) -> Fraction:
    return sum((factor * _value(powers, point) for powers, factor in terms.items()), Fraction(0))


# --- As PyTorch writes them -------------------------------------------------------------------------


def symbol(name: str) -> str:
    return f"Symbol('{name}', positive=True, integer=True)"


def _term(factor: int, powers: Powers, names: Sequence[str]) -> str:
    factors = [symbol(name) for name, power in zip(names, powers) for _ in range(power)]
    if factor != 1 or not factors:
        factors.insert(0, f"Integer({factor})")
    return factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})"


def _written(terms: Dict[Powers, Fraction], names: Sequence[str]) -> str:
    """As sympy's srepr would; of fractions, what is divided at the end."""
    below = math.lcm(*(factor.denominator for factor in terms.values()))
    parts = [_term(int(factor * below), powers, names) for powers, factor in terms.items()]
    whole = parts[0] if len(parts) == 1 else f"Add({', '.join(parts)})"
    return whole if below == 1 else f"FloorDiv({whole}, Integer({below}))"


# --- Programs -------------------------------------------------------------------------------------


class _Merger:
    def __init__(self, where: Sequence[Point], names: Sequence[str]) -> None:
        self._where = where
        self._names = names
        self._written: Dict[Tuple[int, ...], Json] = {}
        self.numbers: Dict[str, Json] = {}  # by name: those that arguments are

    def _size(self, values: Tuple[int, ...]) -> Json:
        made = self._written.get(values)
        if made is None:
            text = _written(_through(self._where, values), self._names)
            made = {"as_expr": {"expr_str": text, "hint": {"as_int": values[0]}}}
            self._written[values] = made
        return made

    def _number(self, values: Tuple[int, ...]) -> Json:
        """Of an argument: the name of such a size."""
        name = "size_" + "_".join(map(str, values)).replace("-", "minus_")
        self.numbers[name] = self._size(values)
        return {"as_name": name}

    def sizes(self, all_sizes: Tuple[Json, ...]) -> Json:
        """Of tensor_values: lists of {"as_int": 3}."""
        if all(sizes == all_sizes[0] for sizes in all_sizes[1:]):
            return all_sizes[0]
        if len({len(sizes) for sizes in all_sizes}) != 1:
            raise NotFree("tensors of several ranks")
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
        if any(type(value) is not type(first) for value in values):
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
    for node in nodes[1:]:
        same = all(node[part] == first[part] for part in ("target", "name", "outputs"))
        if not same or node["metadata"]["nn_module_stack"] != first["metadata"]["nn_module_stack"]:
            raise OtherCalls(f"{first['name']} is another call")
    return {**first, "inputs": merger.merged(tuple(node["inputs"] for node in nodes))}


def merged(graphs: Sequence[Json], where: Sequence[Point], names: Sequence[str]) -> Json:
    """The graph of the first point of `where`, with sizes that follow the free ones, `names`, as
    expressions.  Raises NotFree.  O(calls × points)."""
    first = graphs[0]
    merger = _Merger(where, names)
    if any(graph[part] != first[part] for graph in graphs for part in ("inputs", "outputs")) or any(
            len(graph["nodes"]) != len(first["nodes"]) for graph in graphs):
        raise OtherCalls("other calls")
    nodes: List[Json] = [_merged_node(merger, each)
                         for each in zip(*(graph["nodes"] for graph in graphs))]
    tensors: Dict[str, Any] = {}
    for name, value in first["tensor_values"].items():
        each = tuple(graph["tensor_values"][name] for graph in graphs)
        tensors[name] = {**value, "sizes": merger.sizes(tuple(one["sizes"] for one in each)),
                         "strides": merger.sizes(tuple(one["strides"] for one in each))}
    return {**first, "nodes": nodes, "tensor_values": tensors, "sym_int_values": merger.numbers}
