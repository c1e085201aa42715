"""Programs of torch.export, for the files that `python -m onnxfit export` writes."""

from __future__ import annotations

import copy
import io
import warnings
from contextlib import redirect_stderr
from typing import IO, TYPE_CHECKING, Any, Dict, Mapping, Optional, Union

from onnxfit import again, plain_values, recording, refusals
from onnxfit.errors import OnnxfitError
from onnxfit.fake_card import quiet
from onnxfit.inputs import Inputs

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

# Larger constants keep their shape alone; smaller ones may be numbers that sizes come from.
_KEPT_CONSTANT_BYTES = 1024


def _exported(model: torch.nn.Module, inputs: Inputs, shapes: Any) -> ExportedProgram:
    import torch
    # PyTorch prints the program so far, and advice to who writes its models.
    with quiet(), redirect_stderr(io.StringIO()):
        return torch.export.export(model, inputs.args, inputs.kwargs, dynamic_shapes=shapes,
                                   strict=False)


def export(model: torch.nn.Module, given: Inputs, frees: Any) -> ExportedProgram:
    """torch.export's program of `model` with the sizes `frees` left open; where it refuses the
    model, that of a run in which whatever the code asks of values is answered."""
    whole = given.apart()
    example = whole.once()
    shapes = example.shapes(frees)
    with plain_values.taken(model, given.args, given.kwargs), again.given(model, whole):
        try:
            return _exported(model, example, shapes)
        except Exception as refusal:
            try:
                recorded = recording.record(lambda _: _exported(model, example, shapes))
            except Exception:
                raise refusals.refused(model, example, refusal) from refusal
            program: ExportedProgram = recorded.program
            recording.erase_questions(program)
            return program


# --- Files ----------------------------------------------------------------------------------------


def _without_values(tensor: torch.Tensor) -> torch.Tensor:
    """Type and shape, in the storage of one element."""
    import torch
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.numel() == 0:
        return tensor
    bare = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(bare, requires_grad=tensor.requires_grad)
    return bare


def _bare(tensors: Mapping[str, Any], kept_bytes: int) -> Dict[str, Any]:
    """Those above `kept_bytes` without values; what was one tensor under two names still is."""
    import torch
    made: Dict[int, torch.Tensor] = {}

    def bare(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if not value.is_meta and value.numel() * value.element_size() <= kept_bytes:
            return value
        return made.setdefault(id(value), _without_values(value))

    return {name: bare(value) for name, value in tensors.items()}


def without_weights(program: ExportedProgram) -> ExportedProgram:
    """The same program in kilobytes: parameters and buffers keep names, types, shapes and ties.
    `program` stays as it is.  The command never reads a weight."""
    bare = copy.copy(program)
    bare._state_dict = _bare(program.state_dict, 0)
    bare._constants = _bare(program.constants, _KEPT_CONSTANT_BYTES)
    bare._example_inputs = None
    return bare


def _unwritten(program: ExportedProgram, error: Exception) -> OnnxfitError:
    """Names the operators that PyTorch has no form of in a file, where it is one of theirs."""
    import torch
    names = dict.fromkeys(str(node.target) for node in program.graph.nodes
                          if isinstance(node.target, torch._ops.HigherOrderOperator))
    of_them = f", of a program with {', '.join(names)}" if names else ""
    hint = ("torch.nn.functional.scaled_dot_product_attention in its place"
            if "flex_attention" in names else "")
    return OnnxfitError("expected a program that torch.export.save can write, found: "
                        f"{type(error).__name__}: {refusals.first_line(error)}{of_them}", hint)


def save(program: ExportedProgram, path: Union[str, IO[bytes]],
         members: Optional[Mapping[str, str]] = None) -> None:
    """Writes a .pt2 without weights, with `members`, texts by name."""
    import torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.export.save(without_weights(program), path, extra_files=dict(members or {}))
        except OSError:
            raise
        except Exception as error:
            raise _unwritten(program, error) from error
