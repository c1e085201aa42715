"""Functions with a backward of their own (torch.autograd.Function) in a watched run.

A forward runs as PyTorch runs it, without gradients; what backward does is watched right behind it,
on gradients that have shapes and no elements.  In the program a node "onnxfit.function" says what
the function was given, what it returned and what it keeps; behind it stand
"onnxfit.function_arrival", the calls of its backward and "onnxfit.function_return"
(estimator/pt2/watched_actions.cc reads them)."""

from __future__ import annotations

import weakref
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Sequence, Tuple

from onnxfit import recording
from onnxfit.errors import OnnxfitError, note
from onnxfit.schema_json import Json

if TYPE_CHECKING:
    import torch

    from onnxfit.watching import Recorder


def _context(args: Sequence[Any]) -> Any:
    """What forward and backward are given first."""
    from torch.autograd.function import FunctionCtx

    class Context(FunctionCtx):
        to_save: Tuple[Any, ...] = ()
        dirty_tensors: Tuple[Any, ...] = ()
        non_differentiable: Tuple[Any, ...] = ()
        saved_tensors = property(lambda self: self.to_save)

    context: Any = Context()
    context.needs_input_grad = tuple(bool(getattr(arg, "requires_grad", False)) for arg in args)
    return context


def _forward(cls: Any, context: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """What cls.apply returns: a view of what it was given where forward returns that itself."""
    import torch
    if cls.setup_context is torch.autograd.Function.setup_context:
        made = cls.forward(context, *args, **kwargs)
    else:
        made = cls.forward(*args, **kwargs)
        cls.setup_context(context, args, made)
    given = {id(arg) for arg in args} - {id(each) for each in context.dirty_tensors}

    def own(value: Any) -> Any:
        is_given = isinstance(value, torch.Tensor) and id(value) in given
        return value.view_as(value) if is_given else value

    return tuple(map(own, made)) if isinstance(made, tuple) else own(made)


def _is_kept(value: Any) -> bool:
    """Whether it is a tensor on the card."""
    import torch
    return isinstance(value, torch.Tensor) and value.device.type != "cpu"


def _put(stack: ExitStack, holder: Any, name: str, value: Any) -> None:
    from onnxfit import python_calls
    python_calls.put(stack, holder, name, value)


class _Backward:
    """Of one function that was called."""

    def __init__(self, recorder: Recorder, cls: Any, context: Any) -> None:
        self._recorder = recorder
        self._cls = cls
        self._context = context
        self._arrived: List[Tuple[torch.Tensor, str]] = []
        self._leaves: List[Callable[[], Any]] = []  # weak references: Python may let go of them
        self._first = len(recorder.nodes)

    def _names(self, values: Sequence[Any]) -> Json:
        names = [{"as_tensor": {"name": self._recorder.name_of(value)}} if _is_kept(value)
                 else {"as_none": True} for value in values]
        return {"as_optional_tensors": names}

    def _stand_in(self, value: Any) -> Any:
        """In backward, for what autograd has kept, which is another object there."""
        if not _is_kept(value):
            return value
        self._arrived.append(self._recorder.made_like(value, "kept"))
        return self._arrived[-1][0]

    def note(self, args: Sequence[Any], results: Sequence[Any]) -> None:
        """Writes down the node, and lets go of what autograd has from now on."""
        from torch.utils import _pytree as pytree
        context, own = self._context, vars(self._context)
        # Not those of FunctionCtx itself.
        attributes = {name: value for name, value in own.items() if name not in vars(type(context))}
        leaves, spec = pytree.tree_flatten(attributes)
        saved = list(filter(_is_kept, context.to_save))
        differentiable = {id(each) for each in results} - {
            id(each) for each in context.non_differentiable}
        self._recorder.act(
            "function", arguments=self._names(args),
            results=self._names([each if id(each) in differentiable else None for each in results]),
            saved=self._names(saved), kept=self._names([*filter(_is_kept, leaves)]))
        self._gradients = [self._recorder.made_like(each, "gradient") if _is_kept(each) else None
                           for each in results]
        context.to_save = tuple(map(self._stand_in, context.to_save))
        own.update(pytree.tree_unflatten([*map(self._stand_in, leaves)], spec))
        context.dirty_tensors = context.non_differentiable = ()

    def _returned(self, count: int) -> List[Any]:
        import torch
        given = [None if each is None else each[0] for each in self._gradients]
        is_own = self._cls.vjp is not torch.autograd.Function.vjp
        made = (self._cls.vjp if is_own else self._cls.backward)(self._context, *given)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        return (made + [None] * count)[:count]

    # --- Backward passes inside of it -----------------------------------------------------------

    def ask(self, tensor: torch.Tensor) -> None:
        """tensor.requires_grad_()."""
        self._leaves.append(weakref.ref(tensor))
        self._recorder.act("function_leaf", leaves=self._names([tensor]))

    def _reached(self, roots: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """Leaves to which calls lead back from `roots`."""
        from onnxfit import watching
        seen = set(map(self._recorder.name_of, roots))
        for node in reversed(self._recorder.nodes[self._first:]):
            if not seen.isdisjoint(watching.results_of(node)) and watching.is_followed(node):
                seen.update(watching.operands_of(node))
        leaves = [leaf for each in self._leaves for leaf in (each(),) if leaf is not None]
        return [leaf for leaf in leaves if self._recorder.name_of(leaf) in seen]

    def nested(self, tensors: Any, grad_tensors: Any = None, retain_graph: Any = None,
               create_graph: bool = False, grad_variables: Any = None, inputs: Any = None) -> None:
        """torch.autograd.backward, and what tensor.backward calls."""
        import torch
        if create_graph or inputs is not None:
            raise NotImplementedError("torch.autograd.backward with create_graph or inputs")
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        given = grad_tensors if isinstance(grad_tensors, (list, tuple)) else [grad_tensors]
        leaves = [leaf for leaf in self._reached(roots) if leaf.grad is None]
        node = self._recorder.act(
            "function_nested", leaves=self._names(leaves), roots=self._names(roots),
            gradients=self._names((*given, *[None] * len(roots))[:len(roots)]),
            keeps_graph={"as_bool": bool(retain_graph)})
        for leaf in leaves:
            leaf.grad, name = self._recorder.made_like(leaf, "gradient")
            node["outputs"].append({"as_tensor": {"name": name}})

    def _refuse_grad(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("torch.autograd.grad")

    # --- The whole ------------------------------------------------------------------------------

    def watch(self, count: int) -> None:
        """Of as many arguments."""
        import torch
        with ExitStack() as stack:
            _put(stack, torch.autograd, "backward", self.nested)
            _put(stack, torch.autograd, "grad", self._refuse_grad)
            _put(stack, self._recorder, "asks", lambda tensor, asks: asks and self.ask(tensor))
            stack.enter_context(self._recorder.in_function("in_backward"))
            self._watch(count)

    def _watch(self, count: int) -> None:
        import torch
        recorder = self._recorder
        node = recorder.act("function_arrival")
        node["outputs"] = [
            {"as_none": True} if each is None else {"as_tensor": {"name": each[1]}}
            for each in (*self._gradients, *self._arrived)]
        with torch.autocast("cuda", enabled=False) if torch.is_autocast_enabled("cuda") \
                else torch.no_grad():
            returned = self._returned(count)
        recorder.act("function_return", gradients=self._names(returned))


def _asks_for_values(error: BaseException) -> bool:
    from torch._subclasses import fake_tensor
    return isinstance(error, (fake_tensor.DataDependentOutputException,
                              fake_tensor.DynamicOutputShapeException))


def _plain(nodes: Sequence[Json]) -> None:
    """Calls of a forward go backward as autograd's do."""
    for node in nodes:
        node["metadata"]["onnxfit"].pop("function", None)


def _floats(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if _is_kept(value) and (value.is_floating_point() or value.is_complex()):
            yield value


def _run(recorder: Recorder, cls: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """cls.apply(*args, **kwargs).  Where backward cannot be watched, the forward's operators go
    backward as autograd's do, and a note says so."""
    import torch
    context = _context(args)
    is_tracked = torch.is_grad_enabled() and recorder.loop.has_grad and any(context.needs_input_grad)
    first = len(recorder.nodes)
    with recorder.in_function("function"), torch.no_grad():
        made = _forward(cls, context, args, kwargs)
    if not is_tracked:
        return made
    results = made if isinstance(made, tuple) else (made,)
    fixed = {id(each) for each in context.non_differentiable}
    recorder.tracked([each for each in _floats(results) if id(each) not in fixed])
    at = len(recorder.nodes)
    backward = _Backward(recorder, cls, context)
    try:
        with torch.no_grad():
            backward.note(args, results)
            backward.watch(len(args))
    except (OnnxfitError, recording.Unending):
        raise
    except Exception as error:
        if _asks_for_values(error):  # which recording.py answers in a run that follows
            raise
        recorder.forget(at)
        _plain(recorder.nodes[first:])
        reason = str(error).partition("\n")[0]
        note(f"{cls.__name__}.backward cannot be watched ({reason}): its forward's operators are "
             "taken to go backward as PyTorch's own")
    return made


# --- apply -----------------------------------------------------------------------------------------

_RECORDERS: List[Recorder] = []


def applied(cls: Any, args: Sequence[Any], kwargs: Any) -> Any:
    return _run(_RECORDERS[-1], cls, args, kwargs)


def _code_of_apply(like: Any) -> Any:
    """That of a function that calls applied(), with the free variable that super() needs in `like`."""
    if not like.co_freevars:
        def plain(cls: Any, *args: Any, **kwargs: Any) -> Any:
            from onnxfit import own_functions
            return own_functions.applied(cls, args, kwargs)
        return plain.__code__
    of_super = None

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        from onnxfit import own_functions
        return own_functions.applied(cls, args, kwargs) if of_super is not None else None
    return apply.__code__


@contextmanager
def told(recorder: Recorder) -> Iterator[None]:
    """Within, cls.apply(…) of any class calls applied(): also where somebody has taken the method
    before, "swish = Swish.apply", which has the function and not the name."""
    import torch
    function = vars(torch.autograd.Function)["apply"].__func__
    code = function.__code__
    function.__code__ = _code_of_apply(code)
    _RECORDERS.append(recorder)
    try:
        yield
    finally:
        _RECORDERS.pop()
        function.__code__ = code
