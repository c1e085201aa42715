"""What code calls that no operator shows, told to a watched run (watching.py): checkpoints, gradients
that are asked for, functions with a backward of their own, branches and loops that are operators of
torch.export."""

from __future__ import annotations

import importlib
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Iterator, List

from onnxfit import own_functions
from onnxfit.errors import OnnxfitError

if TYPE_CHECKING:
    import torch

    from onnxfit.watching import Recorder


def put(stack: ExitStack, holder: Any, name: str, value: Any) -> None:
    """`value` as that attribute until the stack is left."""
    is_own = name in vars(holder)
    old = vars(holder).get(name)
    setattr(holder, name, value)
    if is_own:
        stack.callback(setattr, holder, name, old)
    else:
        stack.callback(delattr, holder, name)


# --- torch.utils.checkpoint -----------------------------------------------------------------------


def _refuse_contexts(context_fn: Any) -> None:
    from torch.utils import checkpoint
    if context_fn is not checkpoint.noop_context_fn:
        raise OnnxfitError(
            "torch.utils.checkpoint: expected no context_fn, found one: which results a selective "
            "checkpoint keeps is its policy's to say, call by call",
            "without context_fn, which keeps less, or without the checkpoint, which keeps more")


def _mark_checkpoints(stack: ExitStack, recorder: Recorder) -> None:
    """Seen with torch 2.6 to 2.11: checkpoint() runs a generator up to its yield, then the function,
    then the generator to its end; with use_reentrant=True a function of autograd's."""
    import torch
    from torch.utils import checkpoint
    is_training = recorder.loop.has_grad

    def marked(function: Any, preserve: Any, context_fn: Any, *_: Any, **__: Any) -> Iterator[None]:
        if is_training:
            _refuse_contexts(context_fn)
        with recorder.checkpointed(is_reentrant=False):
            yield

    def applied(function: Any, preserve: Any, *args: Any) -> Any:
        with recorder.checkpointed(is_reentrant=True), torch.no_grad():
            made = function(*args)
        return recorder.tracked(made) if torch.is_grad_enabled() else made

    put(stack, checkpoint, "_checkpoint_without_reentrant_generator", marked)
    put(stack, checkpoint.CheckpointFunction, "apply", staticmethod(applied))


# --- Autograd -------------------------------------------------------------------------------------


def _note_asked_gradients(stack: ExitStack, recorder: Recorder) -> None:
    """x.requires_grad_() and x.requires_grad = True of what needs none by then, as transformers'
    enable_input_require_grads does in a hook, and peft wherever checkpoints are on."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    plain: Any = torch.Tensor.requires_grad

    def requires_grad_(self: torch.Tensor, requires_grad: bool = True) -> torch.Tensor:
        if requires_grad != self.requires_grad:
            recorder.asks(self, requires_grad)
        return torch.Tensor.requires_grad_(self, requires_grad)

    def set_requires_grad(self: torch.Tensor, requires_grad: bool) -> None:
        requires_grad_(self, requires_grad)

    put(stack, FakeTensor, "requires_grad_", requires_grad_)
    put(stack, FakeTensor, "requires_grad", property(plain.__get__, set_requires_grad))


def _detach_data(stack: ExitStack) -> None:
    """x.data asks no operator, and is what x.detach() makes."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    plain: Any = torch.Tensor.data
    put(stack, FakeTensor, "data", property(lambda self: self.detach(), plain.__set__))


def _run_scripts(stack: ExitStack) -> None:
    """Functions of torch.jit.script's as the Python that they were: the interpreter asks no mode."""
    import torch
    plain = torch._C.ScriptFunction.__call__

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(self, "_torchdynamo_inline", None)
        return plain(self, *args, **kwargs) if function is None else function(*args, **kwargs)

    put(stack, torch._C.ScriptFunction, "__call__", called)


# --- Branches and loops -----------------------------------------------------------------------------


def _cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def _while_loop(cond_fn: Any, body_fn: Any, carried_inputs: Any) -> Any:
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        carried = tuple(body_fn(*carried))
    return carried


def _map(f: Any, xs: Any, *args: Any) -> Any:
    import torch
    from torch.utils import _pytree as pytree
    leaves, spec = pytree.tree_flatten(xs)
    rows: List[Any] = [f(pytree.tree_unflatten([leaf[at] for leaf in leaves], spec), *args)
                       for at in range(leaves[0].shape[0])]
    return pytree.tree_map(lambda *each: torch.stack(each), *rows)


def _run_control_flow(stack: ExitStack) -> None:
    """As Python's own, in the way that values take."""
    import torch
    from torch import _higher_order_ops
    for name, function in (("cond", _cond), ("while_loop", _while_loop), ("map", _map)):
        own = importlib.import_module(f"torch._higher_order_ops.{name}")
        for holder in (torch, _higher_order_ops, own):
            if name in vars(holder):
                put(stack, holder, name, function)


@contextmanager
def told(recorder: Recorder) -> Iterator[None]:
    """Within, `recorder` hears of all that."""
    with ExitStack() as stack:
        _mark_checkpoints(stack, recorder)
        _note_asked_gradients(stack, recorder)
        _detach_data(stack)
        stack.enter_context(own_functions.told(recorder))
        _run_scripts(stack)
        _run_control_flow(stack)
        yield
