"""What an ONNX file loses of a program, as texts in its metadata: what the command reads before it
asks the nodes.

    onnxfit.metadata   "1": the version of these keys
    onnxfit.graph      the digest of the graph that they belong to (structure_digest)
    onnxfit.program    the JSON that torch.export.save writes, free dimensions named as in the
                       file: deflated by zlib, in base64
    onnxfit.ties       JSON, {"lm_head.weight": "wte.weight"}: names of one tensor; absent where
                       there are none
    onnxfit.notes      JSON, {"assumptions": ["…"], "batch": ["x", 1]}: what the export had to
                       assume, and where the batch is not dimension 0; absent where neither

estimator/pt2/embedded_program.h has the same table.  To read the program:

    json.loads(zlib.decompress(base64.b64decode(metadata["onnxfit.program"])))
"""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Dict, Iterable, Mapping

from onnxfit import programs

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_VERSION = "1"
# models/model.json of PyTorch 2.8 and later, and what it was before.
_PROGRAM_MEMBERS = ("models/model.json", "serialized_exported_program.json")
_UNREAD_METADATA = ("torch_fn",)


def shortened(trace: str) -> str:
    """A stack trace whose files are those of packages, without the folders of this machine."""
    return re.sub(r'File "[^"]*?(?:site-packages/([^"]*)|([^/"]*))"', r'File "\1\2"', trace)


def renamed(expression: str, names: Mapping[str, str]) -> str:
    """2*s77 as 2*batch."""
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), expression)


def _program_json(program: ExportedProgram) -> Any:
    archive = io.BytesIO()
    programs.save(program, archive)
    with zipfile.ZipFile(archive) as members:
        found = next(name for name in members.namelist() if name.endswith(_PROGRAM_MEMBERS))
        return json.loads(members.read(found))


def changed(value: Any, names: Mapping[str, str]) -> Any:
    """The JSON with names of dimensions, and without what the command does not read."""
    if isinstance(value, list):
        return [changed(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: changed(item, names) for key, item in value.items()
            if key not in _UNREAD_METADATA}
    for key, change in (("expr_str", lambda text: renamed(text, names)),
                        ("stack_trace", shortened)):
        if isinstance(made.get(key), str):
            made[key] = change(made[key])
    return made


def _ties(program: ExportedProgram) -> Dict[str, str]:
    """By each further name of a tensor, its first."""
    first: Dict[int, str] = {}
    names = {name: first.setdefault(id(tensor), name)
             for name, tensor in program.state_dict.items()}
    return {name: target for name, target in names.items() if name != target}


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def entries(program: ExportedProgram, names: Mapping[str, str],
            notes: str = "") -> Dict[str, str]:
    """All keys but onnxfit.graph.  `names` are those of free dimensions, by symbol; of `notes`,
    programs.notes_json."""
    written = changed(_program_json(program), names)
    written["range_constraints"] = {names.get(symbol, symbol): limits for symbol, limits
                                    in written["range_constraints"].items()}
    made = {"onnxfit.metadata": _VERSION,
            "onnxfit.program": _packed(json.dumps(written, separators=(",", ":")))}
    ties = _ties(program)
    if ties:
        made["onnxfit.ties"] = json.dumps(ties)
    if notes:
        made["onnxfit.notes"] = notes
    return made


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
