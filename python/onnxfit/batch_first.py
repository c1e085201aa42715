"""Whether what is taken for the batch is time.  Layers of torch.nn with batch_first=False, which is
their default, have time in dimension 0 and the batch in dimension 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Tuple

from onnxfit.errors import warn

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


def _entered(program: ExportedProgram, path: str) -> Optional[Any]:
    """What the first call within the module takes from outside that may be a sequence: [time,
    features], or those of a batch."""
    weights = {*program.graph_signature.inputs_to_parameters,
               *program.graph_signature.inputs_to_buffers}
    for node in program.graph.nodes:
        paths = [at.partition("@")[0] for at, _ in node.meta.get("nn_module_stack", {}).values()]
        if node.op != "call_function" or path not in paths:
            continue
        for operand in node.all_input_nodes:
            value = operand.meta.get("val")
            if operand.name not in weights and len(getattr(value, "shape", ())) in (2, 3):
                return value
    return None


def _layer(model: torch.nn.Module, program: ExportedProgram,
           batch: str) -> Optional[Tuple[str, torch.nn.Module]]:
    for path, module in model.named_modules():
        if getattr(module, "batch_first", None) is not False:
            continue
        value = _entered(program, path)
        if value is None:
            continue
        first, *others = map(str, value.shape)
        # A number may be another's size, too.
        if first == batch and not (batch.isdigit() and batch in others):
            return path, module
    return None


def warn_of(model: torch.nn.Module, program: ExportedProgram, batch: str) -> None:
    """Where the batch, as the program has it, is dimension 0 of what such a layer takes."""
    found = _layer(model, program, batch)
    if found is not None:
        path, module = found
        where = f" ({path})" if path else ""
        warn(f"dimension 0 of the inputs is taken as the batch, which is time for "
             f"{type(module).__name__}{where}, whose batch_first is False (try: batch_dim=1)")
