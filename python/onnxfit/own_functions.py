"""Functions with a backward of their own (torch.autograd.Function) in a watched run.

A forward runs as PyTorch runs it, without gradients; what backward does is watched right behind it,
on gradients that have shapes and no elements.  In the program a node "onnxfit.function" says what
the function was given, what it returned and what it keeps; behind it stand
"onnxfit.function_arrival", the calls of its backward and "onnxfit.function_return"
(estimator/pt2/watched_actions.cc reads them)."""

from __future__ import annotations

import threading
import traceback
import types
import weakref
from contextlib import ExitStack, contextmanager
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional,
                    Sequence, Tuple)

from onnxfit import recording, schema_json, source_lines
from onnxfit.errors import OnnxfitError, note
from onnxfit.schema_json import Json

if TYPE_CHECKING:
    import torch

    from onnxfit.watching import Recorder


def _context(args: Sequence[Any], is_in_reentrant: bool) -> Any:
    """What forward and backward are given first.  A reentrant checkpoint runs without gradients, and
    asks for them when it runs again: of all floats, as far as anybody knows."""
    import torch
    from torch.autograd.function import FunctionCtx

    class Context(FunctionCtx):
        to_save: Tuple[Any, ...] = ()
        dirty_tensors: Tuple[Any, ...] = ()
        non_differentiable: Tuple[Any, ...] = ()
        saved_tensors = property(lambda self: self.to_save)

    context: Any = Context()

    def needs(arg: Any) -> bool:
        is_likely = is_in_reentrant and not isinstance(arg, torch.nn.Parameter) and \
            isinstance(arg, torch.Tensor) and arg.is_floating_point()
        return is_likely or bool(getattr(arg, "requires_grad", False))

    context.needs_input_grad = tuple(map(needs, args))
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


def _is_there(value: Any) -> bool:
    """Whether it is a tensor on the card."""
    import torch
    return isinstance(value, torch.Tensor) and value.device.type != "cpu"


def _is_kept(value: Any) -> bool:
    """Whether somebody has to keep it until backward: parameters live on by themselves."""
    import torch
    return _is_there(value) and not isinstance(value, torch.nn.Parameter)


def _said(name: Optional[str]) -> Json:
    """What stands for a tensor of that name, or for none."""
    return {"as_none": True} if name is None else {"as_tensor": {"name": name}}


class _Backward:
    """The node of a function that was called, and its backward, which is watched now."""

    def __init__(self, recorder: Recorder, cls: Any, context: Any) -> None:
        self._recorder = recorder
        self._cls = cls
        self._context = context
        self._arrived: List[str] = []
        self._leaves: List[Callable[[], Any]] = []  # weak references: Python may let go of them
        self._node: Json = {}
        self._arrival: Json = {}

    def _names(self, values: Sequence[Any]) -> Json:
        return {"as_optional_tensors": [
            _said(self._recorder.name_of(value) if _is_there(value) else None) for value in values]}

    def _stand_in(self, value: Any) -> Any:
        """In backward, for what autograd has kept, which is another object there."""
        if not _is_kept(value):
            return value
        made, name = self._recorder.made_like(value, "kept")
        self._arrived.append(name)
        return made

    def note(self, args: Sequence[Any], results: Sequence[Any]) -> None:
        """Writes down the node, and lets go of what autograd has from now on."""
        from torch.utils import _pytree as pytree
        context, own = self._context, vars(self._context)
        # Not those of FunctionCtx itself.
        attributes = {name: value for name, value in own.items() if name not in vars(type(context))}
        leaves, spec = pytree.tree_flatten(attributes)
        if {id(each) for each in leaves} & {id(each) for each in results if _is_kept(each)}:
            note(f"{self._cls.__name__} keeps its own result in an attribute of ctx: a cycle that "
                 "Python's garbage collector frees, not counted beyond backward "
                 "(ctx.save_for_backward makes none)")
        differentiable = {id(each) for each in results} - {
            id(each) for each in context.non_differentiable}
        self._node = self._recorder.act(
            "function", arguments=self._names(args),
            results=self._names([each if id(each) in differentiable else None for each in results]),
            saved=self._names([*filter(_is_kept, context.to_save)]),
            kept=self._names([*filter(_is_kept, leaves)]))
        self._gradients = [self._recorder.made_like(each, "gradient") if _is_there(each) else None
                           for each in results]
        context.to_save = tuple(map(self._stand_in, context.to_save))
        own.update(pytree.tree_unflatten([*map(self._stand_in, leaves)], spec))
        context.dirty_tensors = context.non_differentiable = ()

    def keep(self, names: Iterable[str]) -> None:
        """What an object or a closure of the context's holds until then, by its own name."""
        kept = self._node["inputs"][3]["arg"]["as_optional_tensors"]
        for name in names:
            kept.append(_said(name))
            self._arrival["outputs"].append(_said(name))

    def keep_what_is_read(self) -> None:
        """The same of what backward reads, and neither it nor the loop has given it."""
        at = next(index for index, node in enumerate(self._recorder.nodes) if node is self._arrival)
        known = set(schema_json.made_by(self._arrival))
        outer: Dict[str, None] = {}
        for node in self._recorder.nodes[at + 1:]:
            read = schema_json.read_by(node)
            outer.update(dict.fromkeys(name for name in read if name not in known))
            known.update(schema_json.made_by(node))
        made = {name for node in self._recorder.nodes[:at] for name in schema_json.made_by(node)}
        self.keep(name for name in outer if name in made)

    def _returned(self, count: int) -> List[Any]:
        import torch
        given = [None if each is None else each[0] for each in self._gradients]
        is_own = self._cls.vjp is not torch.autograd.Function.vjp
        made = (self._cls.vjp if is_own else self._cls.backward)(self._context, *given)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        return (made + [None] * count)[:count]

    # --- Backward passes inside of it -----------------------------------------------------------

    def ask(self, tensor: torch.Tensor, requires_grad: bool) -> None:
        """tensor.requires_grad_(…)."""
        if not requires_grad:
            return
        self._leaves.append(weakref.ref(tensor))
        self._recorder.act("function_leaf", leaves=self._names([tensor]))

    def _reached(self, roots: Sequence[torch.Tensor], leaves: Iterable[Any]) -> List[torch.Tensor]:
        """Those of `leaves` to which calls lead back from `roots`."""
        from onnxfit import watching
        seen = set(map(self._recorder.name_of, roots))
        for node in reversed(self._recorder.nodes):
            if node is self._arrival:
                break
            if not seen.isdisjoint(watching.results_of(node)) and watching.is_followed(node):
                seen.update(watching.operands_of(node))
        return [leaf for leaf in leaves if self._recorder.name_of(leaf) in seen]

    def _go_backward(self, leaves: Sequence[Any], roots: Sequence[Any], gradients: Any,
                     keeps_graph: Any, returns_all: bool) -> List[torch.Tensor]:
        given = gradients if isinstance(gradients, (list, tuple)) else [gradients]
        node = self._recorder.act(
            "function_nested", leaves=self._names(leaves), roots=self._names(roots),
            gradients=self._names((*given, *[None] * len(roots))[:len(roots)]),
            keeps_graph={"as_bool": bool(keeps_graph)}, returns_all={"as_bool": returns_all})
        made = [self._recorder.made_like(leaf, "gradient") for leaf in leaves]
        node["outputs"] = [_said(name) for _, name in made]
        return [tensor for tensor, _ in made]

    def nested(self, tensors: Any, grad_tensors: Any = None, retain_graph: Any = None,
               create_graph: bool = False, grad_variables: Any = None, inputs: Any = None) -> None:
        """torch.autograd.backward, and what tensor.backward calls."""
        if create_graph:
            raise NotImplementedError("torch.autograd.backward with create_graph")
        roots = _listed(tensors)
        alive = [leaf for each in self._leaves for leaf in (each(),) if leaf is not None]
        asked = alive if inputs is None else _listed(inputs)
        leaves = [leaf for leaf in self._reached(roots, asked) if leaf.grad is None]
        made = self._go_backward(leaves, roots, grad_tensors, retain_graph,
                                 returns_all=inputs is not None)
        for leaf, gradient in zip(leaves, made):
            leaf.grad = gradient

    def grad(self, outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: Any = None,
             create_graph: bool = False, only_inputs: bool = True, allow_unused: Any = None,
             is_grads_batched: bool = False, materialize_grads: bool = False) -> Tuple[Any, ...]:
        """torch.autograd.grad."""
        if create_graph or is_grads_batched or materialize_grads:
            raise NotImplementedError("torch.autograd.grad with create_graph, batches or zeros")
        roots, asked = _listed(outputs), _listed(inputs)
        leaves = self._reached(roots, asked)
        made = self._go_backward(leaves, roots, grad_outputs, retain_graph, returns_all=True)
        by_leaf = {id(leaf): gradient for leaf, gradient in zip(leaves, made)}
        return tuple(by_leaf.get(id(each)) for each in asked)

    # --- The whole ------------------------------------------------------------------------------

    def watch(self, count: int) -> None:
        """Calls backward, which returns gradients of `count` arguments."""
        import torch
        from onnxfit import python_calls
        with ExitStack() as stack:
            python_calls.put(stack, torch.autograd, "backward", self.nested)
            python_calls.put(stack, torch.autograd, "grad", self.grad)
            python_calls.put(stack, self._recorder, "asks", self.ask)
            stack.enter_context(self._recorder.in_function("in_backward"))
            if torch.is_autocast_enabled("cuda"):
                stack.enter_context(torch.autocast("cuda", enabled=False))
            self._arrival = self._recorder.act("function_arrival")
            gradients = [None if each is None else each[1] for each in self._gradients]
            self._arrival["outputs"] = [*map(_said, (*gradients, *self._arrived))]
            returned = self._returned(count)
            self._recorder.act("function_return", gradients=self._names(returned))


def _listed(tensors: Any) -> List[Any]:
    import torch
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _asks_for_values(error: BaseException) -> bool:
    from torch._subclasses import fake_tensor
    return isinstance(error, (fake_tensor.DataDependentOutputException,
                              fake_tensor.DynamicOutputShapeException))


def _held(recorder: Recorder, nodes: Sequence[Json], known: Sequence[Any]) -> List[str]:
    """Names that `nodes` have made and that somebody holds, beside `known`."""
    made = {name for node in nodes for name in schema_json.made_by(node)}
    ids = set(map(id, known))
    return [name for tensor, name in recorder.alive() if name in made and id(tensor) not in ids]


def _take_apart(recorder: Recorder, first: int, at: int, cls: Any, error: BaseException) -> None:
    """What was watched of a backward is none; calls of the forward, from `first` to before `at`, go
    backward as autograd's do."""
    recorder.forget(at)
    for node in recorder.nodes[first:]:
        node["metadata"]["onnxfit"].pop("function", None)
    frames = traceback.extract_tb(error.__traceback__)
    place = source_lines.innermost(frames)
    note(f"{cls.__name__}.backward cannot be watched ({place or type(error).__name__}): its "
         "forward's operators are taken to go backward as PyTorch's own")


def _run(recorder: Recorder, cls: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """cls.apply(*args, **kwargs).  Where backward cannot be watched, the forward's operators go
    backward as autograd's do, and a note says so."""
    import torch
    context = _context(args, recorder.is_in_reentrant())
    is_tracked = recorder.loop.has_grad and any(context.needs_input_grad) and (
        torch.is_grad_enabled() or recorder.is_in_reentrant())
    first = len(recorder.nodes)
    with recorder.in_function("function"), torch.no_grad():
        made = _forward(cls, context, args, kwargs)
    if not is_tracked:
        return made
    results = made if isinstance(made, tuple) else (made,)
    fixed = {id(each) for each in context.non_differentiable}
    recorder.tracked([each for each in results if _is_there(each) and id(each) not in fixed])
    at = len(recorder.nodes)
    backward = _Backward(recorder, cls, context)
    try:
        with torch.no_grad():
            backward.note(args, results)
            held = _held(recorder, recorder.nodes[first:at], (*args, *results))
            backward.watch(len(args))
            backward.keep(held)
            backward.keep_what_is_read()
    except (OnnxfitError, recording.Unending):
        raise
    except Exception as error:
        if _asks_for_values(error):  # which recording.py answers in a run that follows
            raise
        _take_apart(recorder, first, at, cls, error)
    return made


# --- apply -----------------------------------------------------------------------------------------

class _Told:
    """Who hears of calls, in which thread, and what all others do."""

    def __init__(self, recorder: Recorder, plain: Callable[..., Any]) -> None:
        self.recorder = recorder
        self.plain = plain
        self.thread = threading.get_ident()


_TOLD: List[_Told] = []


def applied(cls: Any, args: Sequence[Any], kwargs: Any) -> Any:
    told_now = _TOLD[-1]
    if told_now.thread != threading.get_ident():
        return told_now.plain(cls, *args, **kwargs)
    return _run(told_now.recorder, cls, args, kwargs)


def _code_of_apply(like: Any) -> Any:
    """That of a function that calls applied(), with as many free variables as `like` has: super()
    needs one, which holds the class."""
    if not like.co_freevars:
        def plain(cls: Any, *args: Any, **kwargs: Any) -> Any:
            from onnxfit import own_functions
            return own_functions.applied(cls, args, kwargs)
        return plain.__code__
    of_super = None

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        from onnxfit import own_functions
        assert of_super is not None
        return own_functions.applied(cls, args, kwargs)
    return apply.__code__


@contextmanager
def told(recorder: Recorder) -> Iterator[None]:
    """Within, cls.apply(…) of any class calls applied(): also where somebody has taken the method
    before, "swish = Swish.apply", which has the function and not the name."""
    import torch
    function = vars(torch.autograd.Function)["apply"].__func__
    code = function.__code__
    plain = _TOLD[-1].plain if _TOLD else types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    function.__code__ = _code_of_apply(code)
    _TOLD.append(_Told(recorder, plain))
    try:
        yield
    finally:
        _TOLD.pop()
        function.__code__ = code
