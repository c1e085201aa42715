"""Whether what is taken for the batch is time.  Layers of torch.nn with batch_first=False, which is
their default, have time in dimension 0 and the batch in dimension 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, List, Optional

from onnxfit import free_sizes
from onnxfit.errors import warn

if TYPE_CHECKING:
    import torch

    from onnxfit.watched import Program


def _names(value: Any) -> Iterator[str]:
    """Of the tensors in an argument."""
    if isinstance(value, dict):
        if "name" in value:
            yield value["name"]
        for item in value.values():
            yield from _names(item)
    elif isinstance(value, list):
        for item in value:
            yield from _names(item)


def _entered(made: Program, path: str) -> Optional[List[Any]]:
    """The sizes of what the first call within the module takes from outside that may be a sequence:
    [time, features], or those of a batch."""
    graph = made.json["graph_module"]["graph"]
    for node in graph["nodes"]:
        paths = [frame.split(",")[1] for frame in
                 node["metadata"]["nn_module_stack"].split(";") if frame]
        if path not in paths:
            continue
        for name in (name for given in node["inputs"] for name in _names(given["arg"])):
            sizes = graph["tensor_values"][name]["sizes"]
            if not name.startswith(("p_", "b_")) and len(sizes) in (2, 3):
                return list(sizes)
    return None


def _is_batch(sizes: List[Any], made: Program, symbol: str, batch: Optional[int]) -> bool:
    """Whether the first of `sizes` is the batch; a number may be another's size, too."""
    if made.is_free(symbol):
        return bool(sizes[0].get("as_expr", {}).get("expr_str") == free_sizes.symbol(symbol))
    numbers = [size.get("as_int") for size in sizes]
    return batch is not None and numbers[0] == batch and batch not in numbers[1:]


def warn_of(model: torch.nn.Module, made: Program, symbol: str, batch: Optional[int]) -> None:
    """Where the batch, which is `symbol` in the program or that number, is dimension 0 of what such
    a layer takes."""
    for path, module in model.named_modules():
        if getattr(module, "batch_first", None) is not False:
            continue
        sizes = _entered(made, path)
        if sizes is not None and _is_batch(sizes, made, symbol, batch):
            where = f" ({path})" if path else ""
            warn(f"dimension 0 of the inputs is taken as the batch, which is time for "
                 f"{type(module).__name__}{where}, whose batch_first is False (try: batch_dim=1)")
            return
