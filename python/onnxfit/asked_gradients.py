"""Tensors that a forward asks gradients for, as transformers' enable_input_require_grads does by a
hook (`output.requires_grad_(True)`) and peft wherever checkpoints are on.  torch.export records no
call of it: what follows would keep nothing for backward."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator

if TYPE_CHECKING:
    import torch

# In node.meta["custom"], which torch.export keeps and saves (estimator/pt2/read_graph.cc).
_KEY = "onnxfit.asks_for_gradients"


def _note(tensor: torch.Tensor) -> None:
    """Marks the call that has made `tensor`, where one is being recorded."""
    from torch.fx.experimental import proxy_tensor
    mode = proxy_tensor.get_proxy_mode()
    slot: Any = mode and proxy_tensor.get_proxy_slot(tensor, mode.tracer, None)
    if slot:
        slot.proxy.node.meta.setdefault("custom", {})[_KEY] = True


@contextmanager
def of_inputs(model: torch.nn.Module) -> Iterator[None]:
    """Within, inputs that require gradients ask for them in the program, too: there they are
    leaves, whose gradients are kept, of a forward in training."""
    import torch
    from torch.utils import _pytree as pytree

    def asking(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.requires_grad or not tensor.is_leaf:
            return tensor
        return tensor.view_as(tensor).requires_grad_(True)

    def asked(_: object, args: Any, kwargs: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, asking, (args, kwargs))

    hook = model.register_forward_pre_hook(asked, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def noted() -> Iterator[None]:
    """Inside, fake tensors note requires_grad_(True) and requires_grad = True of theirs (seen with
    torch 2.11: both are below what torch.export records)."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    plain: Any = torch.Tensor.requires_grad

    def requires_grad_(self: torch.Tensor, requires_grad: bool = True) -> torch.Tensor:
        if requires_grad:
            _note(self)
        return torch.Tensor.requires_grad_(self, requires_grad)

    def set_requires_grad(self: torch.Tensor, requires_grad: bool) -> None:
        if requires_grad:
            _note(self)
        plain.__set__(self, requires_grad)

    fake: Any = FakeTensor
    fake.requires_grad_ = requires_grad_
    fake.requires_grad = property(plain.__get__, set_requires_grad)
    try:
        yield
    finally:
        del fake.requires_grad_, fake.requires_grad
