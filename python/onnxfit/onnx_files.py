"""ONNX files of exported programs, without weights.  Needs onnx and onnxscript."""

from __future__ import annotations

import tempfile
import warnings
from typing import TYPE_CHECKING, Any, Iterable, Mapping

from onnxfit import onnx_metadata
from onnxfit.errors import OnnxfitError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from onnxfit import watched

# What stays in the file, in bytes: shapes and masks are computed from it.
_KEPT_FLOAT_BYTES = 1024
_KEPT_OTHER_BYTES = 1 << 20


def _translated(program: ExportedProgram) -> Any:
    """torch.onnx's program of `program` as it is: nothing folded, nothing merged."""
    import torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.onnx.export(program, dynamo=True, optimize=False, verbose=False)
        except ImportError as error:
            raise OnnxfitError(f"expected onnx and onnxscript, found {error}",
                               "pip install onnx onnxscript") from error
        except Exception as error:
            said = next(iter(str(error).splitlines()), type(error).__name__)
            raise OnnxfitError(f"expected a program that torch.onnx.export takes, found {said}",
                               "a .pt2 file, which loses nothing") from error


def _is_kept(value: Any, is_weight: bool) -> bool:
    if is_weight or getattr(value.raw, "is_meta", False):
        return False
    limit = _KEPT_FLOAT_BYTES if value.dtype.is_floating_point() else _KEPT_OTHER_BYTES
    return int(value.nbytes) <= limit


def _add_initializer(onnx: Any, model: Any, name: str, value: Any, is_weight: bool) -> None:
    """A tensor with its values, or one whose file does not exist."""
    if _is_kept(value, is_weight):
        import onnx_ir
        tensor = onnx_ir.serde.serialize_tensor(value)
        tensor.name = name
        model.graph.initializer.append(tensor)
        return
    tensor = model.graph.initializer.add(
        name=name, data_type=int(value.dtype), dims=[int(size) for size in value.shape],
        data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")


def _types_of(model: Any) -> Iterable[Any]:
    for values in (model.graph.input, model.graph.output, model.graph.value_info):
        yield from (value.type.tensor_type for value in values)


def _rename_dimensions(model: Any, names: Mapping[str, str]) -> None:
    """PyTorch's symbols (s77) to the names that were asked for (batch), also within 2*s77."""
    for kind in _types_of(model):
        for dim in kind.shape.dim:
            if dim.dim_param:
                dim.dim_param = onnx_metadata.renamed(dim.dim_param, names)


def _shorten_paths(model: Any) -> None:
    """Source lines stay in the metadata, the folders of this machine do not."""
    for node in model.graph.node:
        node.doc_string = ""
        for entry in node.metadata_props:
            entry.value = onnx_metadata.shortened(entry.value)


def save(program: ExportedProgram, made: watched.Program, path: str, names: Mapping[str, str],
         notes: str = "") -> None:
    """Writes `program` as ONNX, and what was watched of the same module into its metadata.  `names`
    are those of free dimensions, by symbol; of `notes`, programs.notes_json."""
    entries = onnx_metadata.entries(made, notes)
    translated = _translated(program)
    import onnx
    values = {name: value.const_value
              for name, value in translated.model.graph.initializers.items()}
    with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        translated.save(f"{folder}/bare.onnx", include_initializers=False)
        model = onnx.load(f"{folder}/bare.onnx", load_external_data=False)
    for name, value in values.items():
        _add_initializer(onnx, model, name, value, name in program.state_dict)
    _rename_dimensions(model, names)
    _shorten_paths(model)
    onnx_metadata.add(model, entries)
    onnx.save(model, path)
