"""A config of one check, as the command reads them."""

from __future__ import annotations

import json
from typing import Mapping


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(str(key))} = {_written(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple, set, frozenset)):
        return "[" + ", ".join(_written(item) for item in value) + "]"
    return json.dumps(str(value), ensure_ascii=False)


def check(keys: Mapping[str, object]) -> str:
    """onnxfit.toml with one [[check]] of `keys`, whose names are keywords; None is left out."""
    lines = [f"{key.replace('_', '-')} = {_written(value)}"
             for key, value in keys.items() if value is not None]
    return "\n".join(["[[check]]", *lines, ""])
