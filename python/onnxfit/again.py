"""A tensor that forward() is given twice, as `model(input_ids=x, labels=x)` does: one allocation, so
one input of the program.  The module itself sees it at both places."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator, List

from onnxfit.inputs import Inputs

if TYPE_CHECKING:
    import torch


def _is_tensor(value: object) -> bool:
    import torch
    return isinstance(value, torch.Tensor)


@contextmanager
def given(model: torch.nn.Module, inputs: Inputs) -> Iterator[None]:
    """Within, `model` called with inputs.once() gets what `inputs` are.  By a hook, which leaves no
    trace in the program."""
    from torch.utils import _pytree as pytree
    firsts = inputs.first_places()
    is_repeated = any(first != place for place, first in enumerate(firsts))
    if not is_repeated:
        yield
        return
    whole, spec = pytree.tree_flatten((inputs.args, inputs.kwargs))
    slots = [at for at, leaf in enumerate(whole) if _is_tensor(leaf)]

    def repeated(_: object, args: Any, kwargs: Any) -> Any:
        leaves: List[Any] = spec.flatten_up_to((args, {name: kwargs[name]
                                                       for name in inputs.kwargs}))
        for place, first in enumerate(firsts):
            leaves[slots[place]] = leaves[slots[first]]
        return pytree.tree_unflatten(leaves, spec)

    hook = model.register_forward_pre_hook(repeated, with_kwargs=True, prepend=True)
    try:
        yield
    finally:
        hook.remove()
