"""Watches what a module's forward calls, and after which call Python lets go of each tensor.

The forward runs for real, on tensors that have shapes and no elements (fake_card.py).  A mode of
PyTorch's sees each call before autograd and autocast take it apart, as torch.export's programs have
it; a weak reference to each result says when the last name, list or object has let go of it.  Calls
run below autograd: what backward would keep is not Python's, and a file says it by its operators."""

from __future__ import annotations

import linecache
import sys
import weakref
from contextlib import contextmanager, nullcontext
from typing import (TYPE_CHECKING, Any, Callable, Collection, ContextManager, Dict, Iterator, List,
                    NamedTuple, Optional, Sequence, Tuple)

from onnxfit import fake_card, inputs, python_calls, schema_json, views

from onnxfit.schema_json import Json

if TYPE_CHECKING:
    import torch

OF_RUN_BEFORE = "~"  # at the end of names


class Loop(NamedTuple):
    """What is around the forward: torch.autocast of that type, no_grad or not."""

    autocast: Optional[torch.dtype] = None
    has_grad: bool = True
    is_step: bool = False  # the code is the loop's own, with its blocks of torch.autocast

    @contextmanager
    def entered(self) -> Iterator[None]:
        import torch
        if self.is_step:
            with torch.enable_grad():
                yield
            return
        # Its casts are made below what is watched; a cache of them would hold what Python lets go of.
        with torch.autocast("cuda", self.autocast, enabled=self.autocast is not None,
                            cache_enabled=False), torch.set_grad_enabled(self.has_grad):
            yield


def step_in(model: Any) -> Any:
    """`model` where it stands for a whole training step (steps.py), else None."""
    return model if getattr(type(model), "is_onnxfit_step", False) else None


class _Ref(weakref.ref):  # type: ignore[type-arg]
    """To a tensor, with the names that it has in the program: a call that writes in place gives it
    another one."""

    __slots__ = ("key", "names")
    key: int
    names: List[str]


class _Names:
    """Which name each tensor has, until it is gone."""

    def __init__(self, on_death: Callable[[List[str]], None]) -> None:
        self._refs: Dict[int, _Ref] = {}
        self._on_death = on_death

    def add(self, tensor: torch.Tensor, name: str) -> None:
        ref = self._refs.get(id(tensor))
        if ref is not None:
            if ref.names[-1] != name:
                ref.names.append(name)
            return
        ref = _Ref(tensor, self._dead)
        ref.key, ref.names = id(tensor), [name]
        self._refs[ref.key] = ref

    def get(self, tensor: torch.Tensor) -> Optional[str]:
        ref = self._refs.get(id(tensor))
        return None if ref is None else ref.names[-1]

    def first(self, tensor: torch.Tensor) -> Optional[str]:
        """That which it had before calls in place, also in the run before."""
        ref = self._refs.get(id(tensor))
        return None if ref is None else ref.names[0].rstrip(OF_RUN_BEFORE)

    def alive(self) -> List[Tuple[torch.Tensor, str]]:
        return [(tensor, ref.names[-1]) for ref in list(self._refs.values()) for tensor in (ref(),)
                if tensor is not None]

    def earlier(self) -> List[str]:
        """Names of what is alive that a call in place has given another."""
        return [name for ref in self._refs.values() for name in ref.names[:-1]]

    def _dead(self, ref: _Ref) -> None:
        if self._refs.pop(ref.key, None) is not None:
            self._on_death(ref.names)


class _Modules:
    """Which modules' forwards run, as texts of PyTorch's: "KEY,PATH,TYPE;…"."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._paths: Dict[int, str] = {}
        self._kinds: Dict[type, str] = {}
        self._calls: Dict[int, int] = {}
        self.stack: List[str] = [""]
        for path, module in model.named_modules():
            self._paths[id(module)] = path

    def enter(self, module: torch.nn.Module) -> bool:
        path = self._paths.get(id(module))
        if path is None:
            return False
        count = self._calls[id(module)] = self._calls.get(id(module), -1) + 1
        kind = type(module)
        if kind not in self._kinds:
            self._kinds[kind] = f"{kind.__module__}.{kind.__qualname__}"
        key = f"L__self__{path}@{count}" if count else f"L__self__{path}"
        text = f"{key},{path},{self._kinds[kind]}"
        self.stack.append(f"{self.stack[-1]};{text}" if self.stack[-1] else text)
        return True

    def leave(self) -> None:
        self.stack.pop()


@contextmanager
def _entering(modules: _Modules) -> Iterator[None]:
    """Within, `modules` follows each call of a module."""
    import torch
    plain = torch.nn.Module.__call__

    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not modules.enter(module):
            return plain(module, *args, **kwargs)
        try:
            return plain(module, *args, **kwargs)
        finally:
            modules.leave()

    setattr(torch.nn.Module, "__call__", call)
    try:
        yield
    finally:
        setattr(torch.nn.Module, "__call__", plain)


class _Lines:
    """The lines of forwards that run, and of `codes`, as Python's traceback writes them."""

    def __init__(self, codes: Collection[Any] = ()) -> None:
        self._codes = codes
        self._texts: Dict[Tuple[Any, ...], str] = {}
        self._lines: Dict[Tuple[Any, int], str] = {}

    def here(self, depth: int) -> str:
        found: List[Tuple[Any, int]] = []
        frame: Any = sys._getframe(depth)
        while frame is not None:
            code = frame.f_code
            if code.co_name == "forward" or code in self._codes:
                found.append((code, frame.f_lineno))
            frame = frame.f_back
        key = tuple(found)
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = "".join(map(self._line, reversed(found)))
        return text

    def _line(self, place: Tuple[Any, int]) -> str:
        text = self._lines.get(place)
        if text is None:
            code, number = place
            shown = linecache.getline(code.co_filename, number).strip()
            text = f'  File "{code.co_filename}", line {number}, in {code.co_name}\n    {shown}\n'
            self._lines[place] = text
        return text


class Recorder:
    """Writes calls down as they are made."""

    def __init__(self, model: torch.nn.Module, loop: Loop,
                 put: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.loop = loop
        self._model = type(model).__name__
        self._put = put
        self._outside: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = {}
        self.nodes: List[Json] = []
        self.tensors: Dict[str, Json] = {}
        self.constants: List[str] = []
        self.held: Dict[str, str] = {}  # paths of buffers that no module has, by name
        self._is_fresh = False
        self._is_closed = False
        self.reads_tracked = False  # whether an argument of the last call requires gradients
        self.read_outside = False  # whether one was made outside of the run
        self.modules = _Modules(model)
        self._checkpoint: Dict[str, Any] = {}  # the innermost that runs, as nodes say it
        self._checkpoints = 0
        self._function = ""  # "function", "in_backward" of one with a backward of its own
        self._lines = _Lines(getattr(step_in(model), "codes", ()))
        self._names = _Names(self._let_go)
        self._counts: Dict[str, int] = {}
        self._given: Dict[int, Tuple[torch.Tensor, str]] = {}
        self._views = views.Views()
        self._operands: List[Tuple[torch.Tensor, str]] = []  # of the last call
        self._also_writes: Dict[str, List[str]] = {}  # by the name of a call: views of what it writes

    def begin(self) -> None:
        """All is given, and the run begins."""

    def told(self) -> ContextManager[None]:
        """Within, it hears of what no operator shows."""
        return python_calls.told(self)

    def value_of(self, func: Any, args: Sequence[Any]) -> Optional[float]:
        """What a call makes that asks for a number; None where another says it."""
        return None

    def give(self, tensor: torch.Tensor, name: str) -> None:
        """A parameter, buffer, input or constant, which lives longer than the run."""
        self._given[id(tensor)] = (tensor, name)
        self.tensors[name] = schema_json.tensor(tensor, schema_json.whole)

    def name_of(self, tensor: torch.Tensor) -> str:
        given = self._given.get(id(tensor))
        name = given[1] if given is not None else self._names.get(tensor)
        if name is None and self._is_outside(tensor) and not self._is_fresh:
            self.read_outside = True
            return self.name_of(self.on_card(tensor))
        return name or self._constant(tensor)  # made below what is recorded

    @staticmethod
    def _is_outside(tensor: torch.Tensor) -> bool:
        from torch._subclasses.fake_tensor import FakeTensor
        return not isinstance(tensor, FakeTensor)

    def _constant(self, tensor: torch.Tensor) -> str:
        name = f"c_constant_{len(self.constants)}"
        self.constants.append(name)
        self.give(tensor, name)
        return name

    def on_card(self, tensor: torch.Tensor) -> torch.Tensor:
        """What stands for a tensor from outside: of an attribute that is no buffer, of a global."""
        made = self._outside.get(id(tensor))
        if made is None:
            made = tensor, self._put(tensor)
            self._outside[id(tensor)] = made
            self._constant(made[1])
        return made[1]

    def _referred(self, value: Any) -> Optional[Json]:
        import torch
        if not isinstance(value, torch.Tensor):
            return None
        self.reads_tracked = self.reads_tracked or value.requires_grad
        name = self.name_of(value)
        if not self._is_outside(value):
            self._operands.append((value, name))
        return {"as_tensor": {"name": name}}

    def _let_go(self, names: List[str]) -> None:
        if self.nodes and names and not self._is_closed:
            self.nodes[-1]["metadata"]["onnxfit"].setdefault("dies", []).extend(names)

    def _fresh_name(self, operator: str) -> str:
        count = self._counts[operator] = self._counts.get(operator, -1) + 1
        return f"{operator}_{count}" if count else operator

    def written(self, args: Any, kwargs: Any, func: Any) -> List[Json]:
        """The arguments of a call, which may end with it."""
        import torch
        self.read_outside = self.reads_tracked = False
        self._operands = []
        # torch.tensor(…), made on the host
        self._is_fresh = func.overloadpacket.__name__.startswith("lift_fresh")
        names = schema_json.parameters(func)
        given = [{"name": name, "arg": schema_json.argument(value, self._referred)}
                 for name, value in (*zip(names, args), *kwargs.items())]
        self.reads_tracked = self.reads_tracked and torch.is_grad_enabled()
        return given

    def check(self, func: Any, args: Any) -> None:
        """Raises where no kernel takes the types of `args`."""
        import torch
        name = func.overloadpacket.__name__
        if name in inputs.TYPED:
            stack = self.modules.stack[-1]
            path = stack.rpartition(";")[2].split(",")[1] if stack else ""
            where = f"{self._model}: {name}" + (f" of {path}" if path else "")
            inputs.check_types(where, name, [arg for arg in args if isinstance(arg, torch.Tensor)])

    def add(self, func: Any, given: List[Json], out: Any, depth: int, is_same: bool) -> None:
        """`is_same`: the result is the first operand itself."""
        import torch
        operator = self._fresh_name(func.overloadpacket.__name__)
        results: List[Json] = []
        names: List[Tuple[torch.Tensor, str]] = []

        def result(value: Any, name: str) -> Json:
            if not isinstance(value, torch.Tensor):
                return {"as_none": True}
            if value.layout is not torch.strided:
                raise RuntimeError(f"a sparse tensor, {value.layout}")  # refusals.py has its words
            names.append((value, name))
            self.tensors[name] = schema_json.tensor(value, schema_json.whole)
            return {"as_tensor": {"name": name}}

        if isinstance(out, (list, tuple)):
            made = [result(value, f"{operator}_out{index}") for index, value in enumerate(out)]
            is_list = isinstance(out, list) and schema_json.result_count(func) == 1
            results = [{"as_tensors": [each["as_tensor"] for each in made]}] if is_list else made
        else:
            results = [result(out, operator)]
        operands, self._operands = self._operands, []  # which nobody is to keep
        if not names:
            return
        state = self._state()
        if is_same:
            state["same"] = True
        metadata = {"stack_trace": self._lines.here(depth + 1), "onnxfit": state,
                    "nn_module_stack": self.modules.stack[-1]}
        self.nodes.append({"target": schema_json.name_of(func), "name": operator, "inputs": given,
                           "outputs": results, "metadata": metadata})
        for tensor, name in names:
            if id(tensor) in self._given:
                self._given[id(tensor)] = (tensor, name)
            else:
                self._names.add(tensor, name)
            self._note_views(func, operands, tensor, name, operator)

    def _note_views(self, func: Any, operands: List[Tuple[torch.Tensor, str]], made: torch.Tensor,
                    name: str, call: str) -> None:
        """What is written with something that requires gradients requires them, and all its views."""
        self._views.add(func, operands, made, name)
        if not func._schema.is_mutable or not self.reads_tracked:
            return
        family = self._views.family_of(made, name)
        self._also_writes.setdefault(call, []).extend(family.names())
        self.tracked([*family.alive()])

    def act(self, kind: str, **inputs: Json) -> Json:
        """A node of no operator."""
        metadata = {"stack_trace": self._lines.here(2), "onnxfit": self._state(),
                    "nn_module_stack": self.modules.stack[-1]}
        node: Json = {"target": f"onnxfit.{kind}", "name": self._fresh_name(kind),
                      "inputs": [{"name": name, "arg": value} for name, value in inputs.items()],
                      "outputs": [], "metadata": metadata}
        self.nodes.append(node)
        return node

    def made_like(self, tensor: torch.Tensor, kind: str) -> Tuple[torch.Tensor, str]:
        """Another of its type, which has a name from now on."""
        made, name = fake_card.like(tensor), self._fresh_name(kind)
        self._names.add(made, name)
        self.tensors[name] = schema_json.tensor(made, schema_json.whole)
        return made, name

    @contextmanager
    def in_function(self, part: str) -> Iterator[None]:
        """Within, calls are of a function with a backward of its own: "function", of its forward, or
        "in_backward"."""
        outer, self._function = self._function, self._function or part
        try:
            yield
        finally:
            self._function = outer

    def is_in_reentrant(self) -> bool:
        """Whether a checkpoint runs that asks for gradients when it runs again."""
        return bool(self._checkpoint.get("reentrant"))

    def forget(self, at: int) -> None:
        """The calls from `at` on are none; what died behind them died behind the one before."""
        dead = [name for node in self.nodes[at:]
                for name in node["metadata"]["onnxfit"].get("dies", [])]
        del self.nodes[at:]
        made = {name for node in self.nodes for name in schema_json.made_by(node)}
        self._let_go([name for name in dead if name in made])

    def _state(self) -> Dict[str, Any]:
        """What is around a call, where the loop has it otherwise."""
        import torch
        state: Dict[str, Any] = dict(self._checkpoint)
        if self._function and self.loop.has_grad:
            state[self._function] = True
        is_without = self.loop.has_grad and not torch.is_grad_enabled()
        if is_without and not state.get("reentrant") and not state.get("function"):
            state["no_grad"] = True
        kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
        if kind is not self.loop.autocast:
            state["autocast"] = 0 if kind is None else schema_json.number(kind)
        return state

    @contextmanager
    def checkpointed(self, is_reentrant: bool) -> Iterator[None]:
        """Within, calls run under a checkpoint."""
        outer, self._checkpoint = self._checkpoint, {"checkpoint": self._checkpoints}
        self._checkpoints += 1
        if is_reentrant:
            self._checkpoint["reentrant"] = True
        if outer:
            self._checkpoint["nested"] = True
        try:
            yield
        finally:
            self._checkpoint = outer

    def asks(self, tensor: torch.Tensor, requires_grad: bool) -> None:
        """tensor.requires_grad_(…) changes what it was."""
        if requires_grad:
            self.ask_for_gradients(tensor)

    def _maker(self, tensor: torch.Tensor) -> Json:
        """What the node that made `tensor` says of itself; an empty one where none did."""
        name = self._names.get(tensor)
        for node in reversed(self.nodes) if name is not None else ():
            if node["name"] == name:
                return node["metadata"]["onnxfit"]
        return {}

    def replace(self, buffer: str, tensor: torch.Tensor) -> None:
        """A module has let go of a buffer, and has `tensor` in its place."""
        self._maker(tensor).setdefault("dies", []).append(buffer)

    def ask_for_gradients(self, tensor: torch.Tensor) -> None:
        """The forward makes a leaf of what a call has made."""
        self._maker(tensor)["asks_for_gradients"] = True

    def leaf(self, given: torch.Tensor) -> torch.Tensor:
        """An input that requires gradients, as what a call makes and asks gradients for."""
        if not given.requires_grad:
            return given
        made = given.view_as(given)
        self.ask_for_gradients(made)
        return made

    @staticmethod
    def tracked(made: Any) -> Any:
        """`made`, whose floats say that they require gradients."""
        import torch
        from torch.utils import _pytree as pytree
        for tensor in pytree.tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and _has_gradients(tensor):
                torch._C.TensorBase.requires_grad_(tensor, True)
        return made

    def close(self) -> None:
        """The forward has returned: what dies from now on is its caller's."""
        self._let_go(self._names.earlier())
        self._is_closed = True

    def check_same(self, again: Recorder) -> None:
        """Raises where a second run does what this one does not, and no merge can have both."""

    def finish(self) -> None:
        """No other run is compared with this one."""

    def alive(self) -> List[Tuple[torch.Tensor, str]]:
        """What its calls have made and somebody still holds."""
        return self._names.alive()

    def hold_from(self, warm: Recorder) -> None:
        """What a run that is no part of the program has left is there from the beginning."""
        for tensor, name in warm.alive():
            self.held[f"b_step_{name}"] = f"step.{name}"
            self.give(tensor, f"b_step_{name}")

    def carry_from(self, before: Recorder) -> None:
        """What a run before this one has left; its names end in OF_RUN_BEFORE here."""
        for tensor, name in before.alive():
            self._names.add(tensor, name + OF_RUN_BEFORE)
            self.tensors[name + OF_RUN_BEFORE] = schema_json.tensor(tensor, schema_json.whole)


def _has_gradients(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


# What autograd does not pass, of operators whose results are floats.
_NOT_TRACKED = frozenset(("detach", "detach_", "zeros_like", "ones_like", "empty_like", "full_like",
                          "rand_like", "randn_like", "new_zeros", "new_ones", "new_full",
                          "new_empty", "bernoulli", "sign", "floor", "ceil", "round"))


def _is_norm_of_channels(func: Any, args: Any) -> bool:
    return func.overloadpacket.__name__ == "batch_norm" and args[0].dim() > 1 and all(
        each is None or each.shape == args[0].shape[1:2] for each in args[1:5])


def _is_function(node: Json) -> bool:
    return bool(node["target"] == "onnxfit.function")


def results_of(node: Json) -> Iterator[str]:
    """Names that autograd has a node for behind it: of a function those that its forward has made."""
    return schema_json.names_in(node["inputs"][1]["arg"]) if _is_function(node) \
        else schema_json.made_by(node)


def operands_of(node: Json) -> Iterator[str]:
    """Names to which that node may pass gradients on."""
    return schema_json.names_in(node["inputs"][0]["arg"]) if _is_function(node) \
        else schema_json.read_by(node)


def is_followed(node: Json) -> bool:
    """Whether autograd may pass a call."""
    operator = node["target"].split(".")[-2]
    state = node["metadata"]["onnxfit"]
    is_without = state.get("no_grad") or state.get("function")
    return operator == "onnxfit" or (not is_without and operator not in _NOT_TRACKED)


def _shaped(func: Any, args: Any, kwargs: Any) -> Any:
    """What a call makes, by PyTorch's rules for shapes."""
    import torch
    if _is_norm_of_channels(func, args):  # which PyTorch takes apart for it, at half a network's time
        return torch.empty_like(args[0])
    if func.overloadpacket.__name__ != "_grouped_mm":
        return func(*args, **kwargs)
    # Its rule takes bfloat16 alone, its kernels all floats (torch/_meta_registrations.py, 2.11).
    casts = [arg.to(torch.bfloat16) if isinstance(arg, torch.Tensor) and arg.is_floating_point()
             else arg for arg in args]
    return func(*casts, **kwargs).to(args[0].dtype)


def _is_composite(func: Any) -> bool:
    import torch
    key = "CompositeImplicitAutograd"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))


def _mode(recorder: Recorder) -> Any:
    """A mode that PyTorch asks before autograd and autocast do."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch._subclasses.schema_check_mode import SchemaCheckMode
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode
    without_views = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
    without_autograd = without_views
    for key in ("AutogradCUDA", "AutogradOther", "AutogradCPU", "AutogradMeta"):
        without_autograd = without_autograd | torch._C.DispatchKeySet(
            getattr(torch._C.DispatchKey, key))

    has_cudnn, aten = torch.backends.cudnn.enabled, torch.ops.aten

    def of_card(tensor: torch.Tensor) -> torch.Tensor:
        return tensor if isinstance(tensor, FakeTensor) else recorder.on_card(tensor)

    class Watch(SchemaCheckMode):  # type: ignore[no-untyped-call]  # the only one, beside PyTorch's tracers, that may be asked there
        def __init__(self) -> None:
            key = torch._C.DispatchKey.PreDispatch
            TorchDispatchMode.__init__(self, _dispatch_key=key)  # type: ignore[no-untyped-call]

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func.namespace == "profiler":  # torch.profiler.record_function
                return func(*args, **kwargs)
            value = recorder.value_of(func, args)
            if value is not None:
                return value
            given = recorder.written(args, kwargs, func)
            recorder.check(func, args)
            if recorder.read_outside:
                args, kwargs = pytree.tree_map_only(torch.Tensor, of_card, (args, kwargs))
            # Composite operators ask for it, too: cuDNN's kernels have no rules for shapes.
            torch._C._set_cudnn_enabled(False)
            try:
                out, is_same = self._called(func, args, kwargs)
            finally:
                torch._C._set_cudnn_enabled(has_cudnn)
            if func is aten.set_.source_Tensor:
                if args[0] is args[1]:  # torch.nn.utils.parametrize does so: nothing changes
                    return out
                func = aten.alias.default
                given = recorder.written(args[1:], {}, func)
            recorder.add(func, given, out, 2, is_same)
            if recorder.reads_tracked and func.overloadpacket.__name__ not in _NOT_TRACKED:
                recorder.tracked(out)
            return out

        @staticmethod
        def _called(func: Any, args: Any, kwargs: Any) -> Tuple[Any, bool]:
            """Another tensor each time: `x.contiguous()` is a name of its own, be it x itself; then
            the second is true."""
            # The kernels of composite ones are autograd's: without that, autocast does not see their
            # parts, such as the power of a square.
            is_split = torch.is_autocast_enabled("cuda") and _is_composite(func)
            below = without_views if is_split else without_autograd
            with torch._C._DisablePythonDispatcher(), \
                    torch._C._ExcludeDispatchKeyGuard(below), \
                    torch.no_grad() if is_split else nullcontext():
                out = _shaped(func, args, kwargs)
                if func._schema.is_mutable or not isinstance(out, (torch.Tensor, list, tuple)):
                    return out, False
                ids = {id(leaf) for leaf in pytree.tree_leaves(args)}

                def own(value: Any) -> Any:
                    is_given = isinstance(value, torch.Tensor) and id(value) in ids
                    return torch.ops.aten.alias.default(value) if is_given else value

                if isinstance(out, torch.Tensor):
                    return own(out), id(out) in ids
                each = map(own, out)
                return ([*each] if isinstance(out, list) else tuple(each)), False

    return Watch()


def watch(model: torch.nn.Module, run: Callable[[Recorder], Any], given: Dict[str, torch.Tensor],
          loop: Loop, put: Callable[[torch.Tensor], torch.Tensor],
          before: Optional[Recorder] = None, warm: Optional[Recorder] = None
          ) -> Tuple[Recorder, Any]:
    """Calls `run`, which calls `model`, and returns what it returns.  REQUIRES: a card is entered
    (fake_card.py); `given` are parameters, buffers and inputs by name, and `put` puts another tensor
    there.  `before` is the record of the run before, of which modules and caches may hold
    something; `warm` that of one which is no part of the program."""
    from torch._dispatch.python import enable_python_dispatcher
    recorder = getattr(step_in(model), "recorder", Recorder)(model, loop, put)
    for name, tensor in given.items():
        recorder.give(tensor, name)
    if before is not None:
        recorder.carry_from(before)
    if warm is not None:
        recorder.hold_from(warm)
    recorder.begin()
    with _entering(recorder.modules), recorder.told(), loop.entered(), \
            enable_python_dispatcher(), _mode(recorder):
        out = run(recorder)
        recorder.close()
    return recorder, out
