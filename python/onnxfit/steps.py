"""A training step that is a function, as a module: what its code holds is in it, and its forward is
the step.  Within a run the models are on a card that is not there, optimizers hold their
parameters of there, and afterwards all is as it was."""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Dict, Iterator, Optional

import torch
from torch.amp import grad_scaler

from onnxfit import fake_card, held_objects, optimizers, step_recorder, watching, wrappers
from onnxfit.errors import OnnxfitError, note, warn
from onnxfit.schema_json import Json


class Step(torch.nn.Module):
    """REQUIRES: nothing holds it beyond one question."""

    is_onnxfit_step = True
    recorder = step_recorder.StepRecorder
    loop = watching.Loop(is_step=True)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.held = held_objects.held_by(function)
        self.codes = self.held.codes
        for name, module in self.held.modules.items():
            self.add_module(name, module)
        for name, parameter in self.held.parameters.items():
            self._parameters[name] = parameter  # type: ignore[assignment]  # be it a plain leaf
        self.__dict__["forward"] = function
        self._on_card: Dict[int, torch.Tensor] = {}  # by id, of what it holds

    def there(self, tensor: torch.Tensor) -> Optional[torch.Tensor]:
        """What stands for a tensor that it holds."""
        return self._on_card.get(id(tensor))

    def name_of(self, there: torch.Tensor) -> Optional[str]:
        """Of a plain tensor that it holds, which lives from step to step."""
        return next((name for name, tensor in self.held.tensors.items()
                     if self.there(tensor) is there), None)

    def more(self, given: Dict[str, torch.Tensor]) -> Json:
        """What a program says of it beside its calls; `given` are its tensors by name."""
        names = {id(tensor): name for name, tensor in reversed(list(given.items()))}
        return {"optimizers": [optimizers.groups_of_step(optimizer, names)
                               for optimizer in self.held.optimizers.values()]}

    @contextmanager
    def holding(self, card: fake_card.Card) -> Iterator[None]:
        """Within, all that the step holds is on `card`.  REQUIRES: it is entered."""
        with ExitStack() as stack:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            for value in self.held.objects:
                stack.enter_context(_kept(value))
            for variable in self.held.variables:
                stack.callback(variable.put, variable.value)
                if _is_place(variable.value):
                    variable.put(_there(variable.value))
            for scaler in self.held.scalers.values():
                stack.enter_context(_fresh_scaler(scaler))
            own = [*self.parameters(), *self.buffers(), *self.held.tensors.values()]
            self._on_card = {id(tensor): card.of_module(tensor) for tensor in own}
            for value in self.held.objects:
                _put_there(value, self._on_card)
            for variable in self.held.variables:
                if id(variable.value) in self._on_card:
                    variable.put(self._on_card[id(variable.value)])
            for tensor in (*self.buffers(), *self.held.tensors.values()):
                card.lend_again(tensor)
            stack.enter_context(card.holding(self))
            self._begin(card, stack)
            yield

    def _begin(self, card: fake_card.Card, stack: ExitStack) -> None:
        """As before the first step: no gradients, no state of optimizers."""
        for optimizer in self.held.optimizers.values():
            stack.enter_context(_optimizer_there(optimizer, card))
        self.drop_gradients()
        for parameter in self.parameters():
            stack.callback(setattr, parameter, "grad", None)

    def drop_gradients(self) -> None:
        for parameter in self.parameters():
            parameter.grad = None


def step_of(function: Callable[..., Any]) -> Step:
    """A module of a class that is called like `function`."""
    compiled = getattr(function, "_torchdynamo_orig_callable", None)
    if compiled is not None:
        warn("the step is compiled by torch.compile, and is taken as it runs without")
        function = compiled
    plain = held_objects.plain(function)
    name = getattr(plain, "__name__", type(plain).__name__)
    kind = type(name if name.isidentifier() else "step", (Step,), {})
    made: Step = kind(function)
    _check(made)
    return made


def _check(step: Step) -> None:
    """Raises where something is done that nobody sees."""
    name = type(step).__name__
    if not any(True for _ in step.parameters()):
        raise OnnxfitError(f"{name}: expected a function whose code holds a torch.nn.Module, or "
                           "tensors that require gradients, found none among its variables",
                           "a function that names its models")
    for path, parameter in step.named_parameters():
        hooks = parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
        if hooks:
            raise step_recorder.refusal(f"a hook on the gradient of {path}")
    for path, module in step.named_modules():
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            raise step_recorder.refusal(f"DistributedDataParallel around {path}")
        if wrappers.is_compiled(module):
            warn(f"{path} is compiled by torch.compile, and is taken as it runs without")
        if module._backward_hooks or module._backward_pre_hooks:
            raise step_recorder.refusal(f"a backward hook of {path}")


# --- What is put in place of what is there ----------------------------------------------------------


@contextmanager
def _kept(value: Any) -> Iterator[None]:
    """Afterwards the attributes of `value`, or its items, are what they were."""
    holder = vars(value) if hasattr(value, "__dict__") else value
    kept = holder.copy()
    inner = {key: fake_card.copied(item) for key, item in vars(value).items()} \
        if hasattr(value, "__dict__") else {}
    try:
        yield
    finally:
        if isinstance(holder, list):
            holder[:] = kept
        elif hasattr(holder, "update"):
            holder.clear()
            holder.update({key: fake_card.restored(item, inner[key]) for key, item in kept.items()}
                          if inner else kept)
        else:
            holder.clear()
            holder.extend(kept)


def _put_there(value: Any, there: Dict[int, torch.Tensor]) -> None:
    """What stands for them, in place of tensors that a container or an object has."""
    holder = vars(value) if hasattr(value, "__dict__") else value
    if isinstance(holder, (set, deque)):
        return
    for key, item in list(enumerate(holder) if isinstance(holder, list) else holder.items()):
        if id(item) in there:
            holder[key] = there[id(item)]


def _is_place(value: Any) -> bool:
    """Whether a variable says where tensors go, and that is not the card."""
    return (isinstance(value, torch.device) and value.type in ("cpu", "meta", "cuda")
            or isinstance(value, str) and value in ("cpu", "meta"))


def _there(value: Any) -> Any:
    return torch.device(fake_card.DEVICE) if isinstance(value, torch.device) else fake_card.DEVICE


@contextmanager
def _optimizer_there(optimizer: Any, card: fake_card.Card) -> Iterator[None]:
    attributes = dict(vars(optimizer))
    groups = [(group, dict(group)) for group in optimizer.param_groups]
    optimizer.state = defaultdict(dict)
    for group, _ in groups:
        group["params"] = [card.of_module(parameter) for parameter in group["params"]]
    try:
        yield
    finally:
        vars(optimizer).clear()
        vars(optimizer).update(attributes)
        for group, kept in groups:
            group.clear()
            group.update(kept)


@contextmanager
def _fresh_scaler(scaler: Any) -> Iterator[None]:
    """As it was made.  One that was disabled since no card was there (or since somebody said so) is
    enabled where it scales what float16 has computed under torch.autocast."""
    attributes = dict(vars(scaler))
    fresh = vars(type(scaler)()) if not scaler._enabled else {}
    if scaler._enabled:
        scaler._scale = scaler._growth_tracker = None
        scaler._per_optimizer_states = defaultdict(grad_scaler._refresh_per_optimizer_state)

    def scale(outputs: Any) -> Any:
        recorder = step_recorder.running()
        if fresh and recorder is not None and recorder.saw_half and not scaler._enabled:
            vars(scaler).update(fresh)
            note("the GradScaler, disabled where there is no card, is taken as enabled")
        return type(scaler).scale(scaler, outputs)

    scaler.scale = scale
    try:
        yield
    finally:
        vars(scaler).clear()
        vars(scaler).update(attributes)


def flags_of(step: Step) -> Dict[str, Any]:
    """The flags of the command that go with it; several optimizers are named in a note."""
    flags: Dict[str, Any] = {"mode": "train", "loss": "none", "optimizer": "none"}
    told = [(name, optimizers.groups_of_step(optimizer, {})[0])
            for name, optimizer in step.held.optimizers.items()]
    for optimizer in step.held.optimizers.values():
        optimizers.say_uncounted_of(optimizer)
    if told:
        flags["optimizer"] = told[0][1]["optimizer"]
        if told[0][1]["impl"]:
            flags["optimizer_impl"] = told[0][1]["impl"]
    if len(told) > 1:
        named = ", ".join(f"{group['optimizer']} ({name})" for name, group in told)
        note(f"the step has {len(told)} optimizers: {named}")
    return flags
