"""Writes down what a whole training step does, as it is watched: beside its calls, what it does with
gradients.  Nothing goes backward here: a parameter that a backward pass reaches gets a tensor for
its gradient, and as soon as Python lets go of that (zero_grad), the gradient is gone."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from onnxfit import fake_card, python_calls, recording, schema_json, watching
from onnxfit.errors import OnnxfitError, note
from onnxfit.schema_json import Json

if TYPE_CHECKING:
    import torch

_RUN = "onnxfit run -- python train.py, which runs PyTorch's own engine"


_RUNNING: List[StepRecorder] = []


def running() -> Optional[StepRecorder]:
    """That which writes down the step that runs."""
    return _RUNNING[-1] if _RUNNING else None


def refusal(what: str) -> OnnxfitError:
    place = recording.place_that_asks()
    return OnnxfitError(f"the step: expected what can be played without PyTorch's engine, found "
                        f"{what}" + (f" ({place})" if place else ""), _RUN)


def _tensors(values: Any) -> List[torch.Tensor]:
    import torch
    return [values] if isinstance(values, torch.Tensor) else list(values)


class StepRecorder(watching.Recorder):
    def __init__(self, model: Any, loop: watching.Loop,
                 put: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__(model, loop, put)
        self._parameters: Dict[str, torch.Tensor] = {}  # by name
        self._parameter_of: Dict[str, str] = {}  # by the name of a gradient
        # By the name of a tensor: calls that make it or write into it, and the places of those.
        self._makers: Dict[str, List[Tuple[int, Json]]] = {}
        self._is_closing = False
        self._indexed = 0  # so many nodes are in _makers
        self.saw_half = False  # whether anything ran under torch.autocast of float16
        self._step = model
        self.optimizers = [*model.held.optimizers.values()]

    # --- Nodes ----------------------------------------------------------------------------------

    def begin(self) -> None:
        own = {id(parameter) for parameter in self._step.parameters()}
        self._parameters = {name: tensor for tensor, name in self._given.values()
                            if id(tensor) in own}
        self.act("begin")

    def _state(self) -> Dict[str, Any]:
        state = super()._state()
        self.saw_half = self.saw_half or state.get("autocast") == _half()
        return state

    def _let_go(self, names: List[str]) -> None:
        super()._let_go(names)
        plain = [name.rstrip(watching.OF_RUN_BEFORE) for name in names]
        drops = [self._parameter_of[name] for name in plain if name in self._parameter_of]
        if drops and self.nodes and not self._is_closing:
            self.nodes[-1]["metadata"]["onnxfit"].setdefault("drops", []).extend(drops)

    def close(self) -> None:
        self._is_closing = True  # what is let go of are names alone
        super().close()

    def carry_from(self, before: watching.Recorder) -> None:
        assert isinstance(before, StepRecorder)
        self._parameter_of = dict(before._parameter_of)
        for tensor, _ in before.alive():  # a gradient that was written over is one all the same
            first = before._names.first(tensor)
            if first in self._parameter_of:
                self._names.add(tensor, first + watching.OF_RUN_BEFORE)
        super().carry_from(before)

    def on_card(self, tensor: torch.Tensor) -> torch.Tensor:
        import torch
        there: Optional[torch.Tensor] = self._step.there(tensor)
        if there is not None:
            return there
        if isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad:
            raise refusal(f"a parameter of {list(tensor.shape)} of a module that no variable of "
                          "the step's code holds")
        return super().on_card(tensor)

    def _constant(self, tensor: torch.Tensor) -> str:
        held = self._step.name_of(tensor)
        if held is None:
            return super()._constant(tensor)
        name = "b_step_" + "".join(char if char.isalnum() else "_" for char in held)
        self.held[name] = f"step.{held}"
        self.give(tensor, name)
        return name

    def value_of(self, func: Any, args: Sequence[Any]) -> Optional[float]:
        """What item() and float() are of a number that follows from weights: 1, whatever runs.  What
        a model's own code asks, and what follows from inputs alone, recording.py answers."""
        if func.overloadpacket.__name__ not in ("item", "_local_scalar_dense"):
            return None
        import torch
        if args[0].dtype is torch.bool or ";" in self.modules.stack[-1]:
            return None
        name = self._names.get(args[0])
        if name is None or not self._follows_from_weights(name):
            return None
        place = recording.place_that_asks()
        if place:
            note(f"{place} → 1, a value that the step asks for")
        return 1.0 if args[0].is_floating_point() else 1

    # --- Backward -------------------------------------------------------------------------------

    def _index(self) -> None:
        for place, node in enumerate(self.nodes[self._indexed:], self._indexed):
            for name in dict.fromkeys([*watching.results_of(node),
                                       *self._also_writes.get(node["name"], ())]):
                self._makers.setdefault(name, []).append((place, node))
        self._indexed = len(self.nodes)

    def _leads_from(self, roots: List[str], follows: Callable[[Json], bool]) -> Dict[str, int]:
        """Names from which calls lead to `roots`, of those that `follows` is true of, each with the
        place of the call before which it is read."""
        self._index()
        seen: Dict[str, int] = {}
        open_names = [(name, len(self.nodes)) for name in roots]
        while open_names:
            name, before = open_names.pop()
            if seen.get(name, -1) >= before:
                continue
            seen[name] = before
            for place, node in self._makers.get(name, ()):
                if place < before and follows(node):
                    open_names.extend((operand, place) for operand in watching.operands_of(node))
        return seen

    def _follows_from_weights(self, name: str) -> bool:
        found = self._leads_from([name], lambda _: True)
        of_actions = (node["target"].startswith("onnxfit.") for each in found
                      for _, node in self._makers.get(each, ()))
        return any(each in self._parameters for each in found) or any(of_actions)

    def _reached(self, roots: List[str]) -> List[str]:
        """Parameters to which calls lead back that autograd follows."""
        seen = self._leads_from(roots, watching.is_followed)
        return [name for name, tensor in self._parameters.items()
                if name in seen and tensor.requires_grad]

    def backward(self, tensors: Any, grad_tensors: Any = None, retain_graph: Optional[bool] = None,
                 create_graph: bool = False, grad_variables: Any = None,
                 inputs: Any = None) -> None:
        if create_graph:
            raise refusal("backward(create_graph=True), a second derivative")
        if inputs is not None:
            raise refusal("backward(inputs=…)")
        roots = _tensors(tensors)
        if not any(root.requires_grad for root in roots):
            raise refusal("backward() of a tensor that no parameter leads to")
        given: List[Optional[torch.Tensor]] = (
            [None] * len(roots) if grad_tensors is None else
            [grad_tensors] if len(roots) == 1 and not isinstance(grad_tensors, (list, tuple))
            else list(grad_tensors))
        names = [self.name_of(root) for root in roots]
        reached = self._reached(names)
        node = self.act(
            "backward", roots={"as_tensors": [{"name": name} for name in names]},
            gradients={"as_optional_tensors": [
                {"as_none": True} if each is None else {"as_tensor": {"name": self.name_of(each)}}
                for each in given]},
            keeps_graph={"as_bool": bool(retain_graph)})
        made = [name for name in reached if self._give_gradient(name, node)]
        node["inputs"].append({"name": "parameters", "arg": {"as_strings": made}})

    def _give_gradient(self, parameter: str, node: Json) -> bool:
        """Whether it is a new one."""
        tensor = self._parameters[parameter]
        if tensor.grad is not None:
            if self._names.first(tensor.grad) not in self._parameter_of:
                raise refusal(f"a gradient that the step sets itself, of {parameter[2:]}")
            return False
        name = self._fresh_name(f"{parameter}.grad")
        gradient = fake_card.like(tensor)
        self._parameter_of[name] = parameter
        self._names.add(gradient, name)
        self.tensors[name] = schema_json.tensor(gradient, schema_json.whole)
        node["outputs"].append({"as_tensor": {"name": name}})
        tensor.grad = gradient
        return True

    def _done(self) -> List[str]:
        """What it does beside calls, in order."""
        kinds = (node["target"].rpartition(".")[2] for node in self.nodes
                 if node["target"].startswith("onnxfit."))
        return [kind for kind in kinds if kind in ("backward", "step", "norm")]

    def check_same(self, again: watching.Recorder) -> None:
        assert isinstance(again, StepRecorder)
        if self._done() != again._done():
            raise OnnxfitError(
                f"{self._model}: expected a step that does the same each time, found another thing "
                f"the second time: {', '.join(self._done()) or 'none'}, then "
                f"{', '.join(again._done()) or 'none'}",
                "a function that runs all micro-batches up to the optimizer's step")

    def finish(self) -> None:
        """Names gradients alone that calls read: a backward pass makes them all the same."""
        read = {name for node in self.nodes for name in schema_json.read_by(node)}
        for node in self.nodes:
            if node["target"] != "onnxfit.backward":
                continue
            kept = [result for result in node["outputs"] if result["as_tensor"]["name"] in read]
            node["outputs"] = kept
            node["inputs"][-1]["arg"]["as_strings"] = [
                self._parameter_of[result["as_tensor"]["name"]] for result in kept]
        for name in self._parameter_of.keys() - read:
            self.tensors.pop(name, None)
            self.tensors.pop(name + watching.OF_RUN_BEFORE, None)

    # --- Optimizers, norms ----------------------------------------------------------------------

    def step(self, number: int, closure: Any = None) -> Any:
        import torch
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        self.act("step", optimizer={"as_int": number})
        return result

    def norm(self, grads: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False,
             foreach: Optional[bool] = None) -> torch.Tensor:
        import torch
        if foreach is False or error_if_nonfinite:
            raise refusal("clip_grad_norm_ with foreach=False or error_if_nonfinite=True")
        firsts = [self._names.first(grad) for grad in _tensors(grads)]
        parameters = [self._parameter_of.get(name or "") for name in firsts]
        if None in parameters or not parameters:
            raise refusal("the norm of tensors that are no gradients of parameters")
        node = self.act("norm", parameters={"as_strings": parameters})
        made = self._put(torch.empty((), dtype=_tensors(grads)[0].dtype))
        name = node["name"]
        self.tensors[name] = schema_json.tensor(made, schema_json.whole)
        node["outputs"].append({"as_tensor": {"name": name}})
        self._names.add(made, name)
        return made

    def clip(self, parameters: Any, max_norm: float, total_norm: torch.Tensor,
             foreach: Optional[bool] = None) -> None:
        self.act("clip", roots={"as_tensors": [{"name": self.name_of(total_norm)}]})

    def asks(self, tensor: torch.Tensor, requires_grad: bool) -> None:
        given = self._given.get(id(tensor))
        if given is None or given[1] not in self._parameters:
            super().asks(tensor, requires_grad)
            return
        self.tensors[given[1]]["requires_grad"] = True  # for a while, at least
        kind = "ask_gradients" if requires_grad else "ask_none"
        last = self.nodes[-1]
        if last["target"] != f"onnxfit.{kind}":
            last = self.act(kind, parameters={"as_strings": []})
        last["inputs"][0]["arg"]["as_strings"].append(given[1])

    def end_autocast(self) -> None:
        self.act("autocast_end")["metadata"]["onnxfit"].pop("autocast", None)

    # --- What is told of all that ---------------------------------------------------------------

    @contextmanager
    def told(self) -> Iterator[None]:
        import torch
        from torch._subclasses.fake_tensor import FakeTensor
        from torch.nn.utils import clip_grad
        clear = torch.clear_autocast_cache

        def end_autocast() -> None:
            self.end_autocast()
            clear()

        def refuse(what: str) -> Callable[..., Any]:
            def call(*_: Any, **__: Any) -> Any:
                raise refusal(what)
            return call

        def set_data(tensor: torch.Tensor, value: torch.Tensor) -> None:
            if tensor.shape != value.shape or tensor.dtype != value.dtype:
                raise refusal("data of another shape or type, x.data = y")
            self.act("set_data", roots={"as_tensors": [{"name": self.name_of(tensor)},
                                                        {"name": self.name_of(value)}]})

        with super().told(), ExitStack() as stack:
            put = python_calls.put
            put(stack, FakeTensor, "data", property(torch.Tensor.detach, set_data))
            put(stack, torch.autograd, "backward", self.backward)
            put(stack, torch.autograd, "grad", refuse("torch.autograd.grad"))
            put(stack, torch.Tensor, "register_hook", refuse("a hook on a gradient"))
            put(stack, torch.Tensor, "retain_grad", refuse("the gradient of what is no parameter"))
            put(stack, torch, "clear_autocast_cache", end_autocast)
            put(stack, clip_grad, "_get_total_norm", self.norm)
            put(stack, clip_grad, "_clip_grads_with_norm_", self.clip)
            for name in ("_amp_update_scale_", "_amp_foreach_non_finite_check_and_unscale_"):
                put(stack, torch, name, lambda *_: None)
            put(stack, torch.amp.grad_scaler.GradScaler, "_maybe_opt_step",  # whose gradients are finite
                lambda _, optimizer, __, *args, **kwargs: optimizer.step(*args, **kwargs))
            for number, optimizer in enumerate(self.optimizers):
                put(stack, optimizer, "step",
                    lambda closure=None, number=number, **_: self.step(number, closure))
            _RUNNING.append(self)
            stack.callback(_RUNNING.pop)
            yield


def _half() -> int:
    import torch
    return schema_json.number(torch.float16)
