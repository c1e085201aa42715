"""JSON into dataclasses, by their fields' types."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Dict, Mapping, Type, TypeVar, Union, get_args, get_origin, get_type_hints

Value = TypeVar("Value")


@functools.lru_cache(maxsize=None)
def _types(kind: Any) -> Dict[str, Any]:
    return get_type_hints(kind)


def _value(kind: Any, data: Any) -> Any:
    origin = get_origin(kind)
    if origin is Union:  # Optional[X]
        return None if data is None else _value(get_args(kind)[0], data)
    if origin is tuple:  # Tuple[X, ...]
        return tuple(_value(get_args(kind)[0], item) for item in data)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return from_json(kind, data)
    return data


def from_json(kind: Type[Value], data: Mapping[str, Any], **given: Any) -> Value:
    """A `kind` of what `data` has for its fields; what it has beside them is passed over, so that
    a newer command's answers are read.  `given` are fields that are not in `data`."""
    untyped: Any = kind
    types = _types(untyped)
    known = {key: _value(types[key], value) for key, value in data.items() if key in types}
    return kind(**{**known, **given})
