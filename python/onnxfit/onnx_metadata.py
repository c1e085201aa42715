"""What an ONNX file loses of a program, as texts in its metadata: what the command reads before it
asks the nodes.

    onnxfit.metadata   "1": the version of these keys
    onnxfit.graph      the digest of the graph that they belong to (structure_digest)
    onnxfit.program    the calls of a watched run in the JSON of torch.export.save, free dimensions
                       named as in the file: deflated by zlib, in base64
    onnxfit.ties       JSON, {"lm_head.weight": "wte.weight"}: names of one tensor; absent where
                       there are none
    onnxfit.notes      JSON, {"assumptions": ["…"], "batch": ["x", 1]}: what the export had to
                       assume, and where the batch is not dimension 0; absent where neither

estimator/pt2/embedded_program.h has the same table.  To read the program:

    json.loads(zlib.decompress(base64.b64decode(metadata["onnxfit.program"])))
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import TYPE_CHECKING, Any, Dict, Iterable, Mapping

if TYPE_CHECKING:
    from onnxfit import watched

_VERSION = "1"


def shortened(trace: str) -> str:
    """A stack trace whose files are those of packages, without the folders of this machine."""
    return re.sub(r'File "[^"]*?(?:site-packages/([^"]*)|([^/"]*))"', r'File "\1\2"', trace)


def renamed(expression: str, names: Mapping[str, str]) -> str:
    """2*s77 as 2*batch."""
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), expression)


def without_folders(value: Any) -> Any:
    """The JSON without folders of this machine."""
    if isinstance(value, list):
        return [without_folders(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: without_folders(item) for key, item in value.items()}
    if isinstance(made.get("stack_trace"), str):
        made["stack_trace"] = shortened(made["stack_trace"])
    return made


def _ties(weights: Mapping[str, str]) -> Dict[str, str]:
    """By each further name of a tensor, its first; `weights` are members by name."""
    first: Dict[str, str] = {}
    names = {name: first.setdefault(member, name) for name, member in weights.items()}
    return {name: target for name, target in names.items() if name != target}


def packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def entries(made: watched.Program, notes: str = "") -> Dict[str, str]:
    """All keys but onnxfit.graph; of `notes`, programs.notes_json."""
    text = json.dumps(without_folders(made.json), separators=(",", ":"))
    written = {"onnxfit.metadata": _VERSION, "onnxfit.program": packed(text)}
    ties = _ties(made.weights)
    if ties:
        written["onnxfit.ties"] = json.dumps(ties)
    if notes:
        written["onnxfit.notes"] = notes
    return written


def _digest(text: str) -> str:
    """64-bit FNV-1a (estimator/base/text.h)."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def _joined(words: Iterable[object]) -> str:
    return ",".join(str(word) for word in words)


def structure_digest(model: Any) -> str:
    """Of what estimator/onnx/graph.h lists."""
    lines = []
    for value in model.graph.input:
        kind = value.type.tensor_type
        dims = _joined(dim.dim_param if dim.HasField("dim_param") else dim.dim_value
                       for dim in kind.shape.dim)
        lines.append(f"input {value.name} {kind.elem_type} {dims}\n")
    for tensor in model.graph.initializer:
        lines.append(f"initializer {tensor.name} {tensor.data_type} {_joined(tensor.dims)}\n")
    for node in model.graph.node:
        lines.append(f"node {node.domain} {node.op_type} {_joined(node.input)} "
                     f"{_joined(node.output)}\n")
    lines += [f"output {value.name}\n" for value in model.graph.output]
    return _digest("".join(lines))


def add(model: Any, made: Mapping[str, str]) -> None:
    """Writes entries() and onnxfit.graph into a finished onnx.ModelProto."""
    for key, value in {**made, "onnxfit.graph": structure_digest(model)}.items():
        model.metadata_props.add(key=key, value=value)
