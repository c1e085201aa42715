"""Calls that run under torch.utils.checkpoint(…, use_reentrant=False).  torch.export writes down no
end of one: what follows in the same line of code would seem to be under it, too, as the last part of
checkpoint_sequential is not."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

from onnxfit.errors import OnnxfitError

# In node.meta["custom"], which torch.export keeps and saves (estimator/pt2/read_graph.cc).
_KEY = "onnxfit.is_checkpointed"


def _refuse_contexts(context_fn: Any) -> None:
    from torch.utils import checkpoint
    if context_fn is not checkpoint.noop_context_fn:
        raise OnnxfitError(
            "torch.utils.checkpoint: expected no context_fn, found one: which results a selective "
            "checkpoint keeps is its policy's to say, and is not in the program that torch.export "
            "writes", "without context_fn, which keeps less, or without the checkpoint, which keeps "
            "more")


def _graph() -> Any:
    """That which is being recorded; None where none is."""
    from torch.fx.experimental import proxy_tensor
    mode = proxy_tensor.get_proxy_mode()
    return None if mode is None else mode.tracer.graph


@contextmanager
def noted(is_training: bool) -> Iterator[None]:
    """Inside, calls under such a checkpoint are marked (seen with torch 2.11: checkpoint() runs a
    generator up to its yield, then the function, then the generator to its end)."""
    from torch.utils import checkpoint
    name = "_checkpoint_without_reentrant_generator"
    plain: Any = getattr(checkpoint, name, None)
    if plain is None:
        yield
        return

    def marked(function: Any, preserve: Any, context_fn: Any, *args: Any, **kwargs: Any) -> Any:
        if is_training:
            _refuse_contexts(context_fn)
        graph = _graph()
        before = 0 if graph is None else len(graph.nodes)
        yield from plain(function, preserve, context_fn, *args, **kwargs)
        for node in () if graph is None else list(graph.nodes)[before:]:
            if node.op == "call_function":
                node.meta.setdefault("custom", {})[_KEY] = True

    setattr(checkpoint, name, marked)
    try:
        yield
    finally:
        setattr(checkpoint, name, plain)
