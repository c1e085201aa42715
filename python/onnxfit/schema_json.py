"""Values of a program in the JSON of torch/_export/serde/schema.py (PyTorch 2.11)."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional, Tuple

if TYPE_CHECKING:
    import torch

Json = Any
Refer = Callable[[Any], Optional[Json]]  # what stands for a tensor or a node; None of other values

VERSION = {"major": 8, "minor": 1}
# schema.py: ScalarType, Layout and MemoryFormat, by torch's names.
_NUMBERS = {
    "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 7,
    "float64": 8, "complex32": 9, "complex64": 10, "complex128": 11, "bool": 12, "bfloat16": 13,
    "uint16": 28, "float8_e4m3fn": 29, "float8_e5m2": 30, "float8_e4m3fnuz": 31,
    "float8_e5m2fnuz": 32, "sparse_coo": 1, "sparse_csr": 2, "sparse_csc": 3, "sparse_bsr": 4,
    "sparse_bsc": 5, "_mkldnn": 6, "strided": 7, "contiguous_format": 1, "channels_last": 2,
    "channels_last_3d": 3, "preserve_format": 4}


class Unknown(Exception):
    """A program with something that this does not write."""


@functools.lru_cache(maxsize=None)
def number(value: object) -> int:
    """Of torch.float32, torch.strided, torch.channels_last."""
    name = str(value).rpartition(".")[2]
    if name not in _NUMBERS:
        raise Unknown(str(value))
    return _NUMBERS[name]


@functools.lru_cache(maxsize=None)
def parameters(target: Any) -> Tuple[str, ...]:
    """What an operator, or a function of numbers, calls its arguments."""
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return tuple(argument.name for argument in schema.arguments)
    return tuple(inspect.signature(target).parameters)


@functools.lru_cache(maxsize=None)
def result_count(target: Any) -> int:
    """Of an operator; a list is one, and -1 where that is not said."""
    schema = getattr(target, "_schema", None)
    return -1 if schema is None else len(schema.returns)


@functools.lru_cache(maxsize=None)
def name_of(target: Any) -> str:
    """"torch.ops.aten.conv2d.default", "_operator.mul"."""
    return f"{target.__module__.replace('torch._ops', 'torch.ops')}.{target.__name__}"


# --- Arguments ----------------------------------------------------------------------------------

_LISTS = {int: "as_ints", bool: "as_bools", float: "as_floats", str: "as_strings"}
_PLAIN: Dict[type, Callable[[Any], Json]] = {
    int: lambda value: {"as_int": value}, bool: lambda value: {"as_bool": value},
    float: lambda value: {"as_float": value}, str: lambda value: {"as_string": value},
    type(None): lambda _: {"as_none": True},
    complex: lambda value: {"as_complex": {"real": value.real, "imag": value.imag}}}


def argument(value: Any, refer: Refer) -> Json:
    """An argument of a call."""
    write = _PLAIN.get(type(value))
    if write is not None:
        return write(value)
    referred = refer(value)
    if referred is not None:
        return referred
    if isinstance(value, (list, tuple)):
        return _list(value, refer)
    if isinstance(value, dict):
        return {"as_string_to_argument": {str(key): argument(item, refer)
                                          for key, item in value.items()}}
    return _other(value)


def _list(items: Any, refer: Refer) -> Json:
    kinds = set(map(type, items))
    for kind, name in _LISTS.items():
        if kinds <= {kind}:  # an empty one is of whole numbers
            return {name: list(items)}
    written = [argument(item, refer) for item in items]
    names = {next(iter(item)) for item in written}
    for name, whole in (("as_sym_int", "as_int"), ("as_sym_float", "as_float"),
                        ("as_sym_bool", "as_bool")):
        if names <= {name, whole}:
            return {name + "s": [item.get(name, item) for item in written]}
    if names == {"as_tensor"}:
        return {"as_tensors": [item["as_tensor"] for item in written]}
    if names <= {"as_tensor", "as_none"}:
        return {"as_optional_tensors": written}
    nested = {"as_tensors": "as_nested_tensors", "as_ints": "as_int_lists"}
    if len(names) == 1 and names <= set(nested):
        name = names.pop()
        return {nested[name]: [item[name] for item in written]}
    raise Unknown(f"a list of {', '.join(sorted(names))}")


def _other(value: Any) -> Json:
    import torch
    if isinstance(value, torch.dtype):
        return {"as_scalar_type": number(value)}
    if isinstance(value, torch.device):
        return {"as_device": {"type": value.type, "index": value.index}}
    if isinstance(value, torch.memory_format):
        return {"as_memory_format": number(value)}
    if isinstance(value, torch.layout):
        return {"as_layout": number(value)}
    if isinstance(value, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)):
        return {"as_operator": name_of(value)}
    raise Unknown(type(value).__name__)


# --- Tensors ------------------------------------------------------------------------------------


def tensor(value: torch.Tensor, size: Callable[[Any], Json]) -> Json:
    """Type, shape and layout; `size` writes one of its sizes."""
    return {"dtype": number(value.dtype), "sizes": [*map(size, value.shape)],
            "device": {"type": value.device.type, "index": None},
            "requires_grad": value.requires_grad, "strides": [*map(size, value.stride())]}


def whole(size: int) -> Json:
    return {"as_int": size}


def names_in(argument: Json) -> Iterator[str]:
    """Of tensors, anywhere in an argument of a call."""
    if isinstance(argument, dict):
        if isinstance(argument.get("name"), str):
            yield argument["name"]
        for value in argument.values():
            yield from names_in(value)
    elif isinstance(argument, list):
        for value in argument:
            yield from names_in(value)


def made_by(node: Json) -> Iterator[str]:
    """Names of the tensors that a call makes."""
    for result in node["outputs"]:
        yield from names_in(result)


def read_by(node: Json) -> Iterator[str]:
    """The same that it is given."""
    for each in node["inputs"]:
        yield from names_in(each["arg"])
