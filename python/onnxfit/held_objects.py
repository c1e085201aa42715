"""What a function's code holds: modules, optimizers, gradient scalers, and where it may write."""

from __future__ import annotations

import dis
import functools
import types
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any, Deque, Dict, Iterator, List, NamedTuple, Set, Tuple

from onnxfit import source_lines

if TYPE_CHECKING:
    import torch

_DEEPEST = 4  # attributes of attributes of what the function names
_CONTAINERS = (list, dict, set, deque, OrderedDict, defaultdict)
_NO_CONTAINERS = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType)


class Variable(NamedTuple):
    """A name of the function's own code: of a cell, or of its module."""

    holder: Any
    name: str  # of a global; "" of a cell
    value: Any

    def put(self, value: Any) -> None:
        if self.name:
            self.holder[self.name] = value
        else:
            self.holder.cell_contents = value


class Held(NamedTuple):
    modules: Dict[str, torch.nn.Module]
    parameters: Dict[str, torch.Tensor]  # of no module, and other leaves that require gradients
    tensors: Dict[str, torch.Tensor]  # plain ones, such as averages of weights
    optimizers: Dict[str, torch.optim.Optimizer]
    scalers: Dict[str, Any]
    variables: List[Variable]
    objects: List[Any]  # with attributes, or items, that the function may change
    codes: Set[types.CodeType]  # of the user's own functions


def plain(function: Any) -> Any:
    """What functools.partial and bound methods call."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__func__", function)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


_OF_MODULE = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL",
                        "LOAD_FROM_DICT_OR_GLOBALS"))


def _globals(code: types.CodeType) -> Iterator[str]:
    """Names of its module.  co_names has those of attributes, too: a function that says
    optimizer.step() has nothing to do with another that is called step."""
    for inner in _codes(code):
        for instruction in dis.get_instructions(inner):
            if instruction.opname in _OF_MODULE:
                yield instruction.argval


def _variables(function: types.FunctionType) -> Iterator[Tuple[str, Variable]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield name, Variable(cell, "", cell.cell_contents)
        except ValueError:  # an empty cell
            pass
    for name in dict.fromkeys(_globals(function.__code__)):
        if name in function.__globals__:
            yield name, Variable(function.__globals__, name, function.__globals__[name])


def _is_users_function(value: Any) -> bool:
    if not isinstance(value, types.FunctionType):
        return False
    file = value.__code__.co_filename  # of what is typed at a prompt "<stdin>"
    return source_lines.is_users(file) or file.startswith("<") and not file.startswith("<frozen")


def _methods(value: Any) -> Iterator[types.FunctionType]:
    """Of an object of a class of the user's: what its other methods may call."""
    for kind in type(value).__mro__:
        for method in vars(kind).values():
            method = getattr(method, "__func__", getattr(method, "fget", None) or method)
            if _is_users_function(method):
                yield method


def _is_trained(value: Any) -> bool:
    import torch
    return isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad


class _Finder:
    def __init__(self) -> None:
        self.held = Held({}, {}, {}, {}, {}, [], [], set())
        self._seen: Dict[int, Any] = {}

    def look(self, name: str, value: Any, depth: int) -> None:
        import torch
        if isinstance(value, _NO_CONTAINERS) or id(value) in self._seen or depth > _DEEPEST:
            return
        self._seen[id(value)] = value
        if isinstance(value, torch.nn.Module):
            self._add(self.held.modules, name, value)
        elif isinstance(value, torch.nn.Parameter) or _is_trained(value):
            self._add(self.held.parameters, name, value)
        elif isinstance(value, torch.optim.Optimizer):
            self._add(self.held.optimizers, name, value)
        elif isinstance(value, torch.amp.grad_scaler.GradScaler):
            self._add(self.held.scalers, name, value)
        elif isinstance(value, torch.Tensor):
            self._add(self.held.tensors, name, value)
        else:
            self._look_inside(name, value, depth)

    @staticmethod
    def _add(found: Dict[str, Any], name: str, value: Any) -> None:
        free, count = name, 1
        while free in found:
            count += 1
            free = f"{name}_{count}"
        found[free] = value

    def _look_inside(self, name: str, value: Any, depth: int) -> None:
        if isinstance(value, functools.partial):
            self.look(name, value.func, depth)
            value = [*value.args, *value.keywords.values()]
        if isinstance(value, types.MethodType):
            self.look("self", value.__self__, depth)
            value = value.__func__
        if _is_users_function(value):
            self._look_at_function(value, depth)
        elif isinstance(value, (tuple, list, set, deque)):
            self._note_change(value)
            for at, item in enumerate(list(value)):
                self.look(f"{name}_{at}", item, depth + 1)
        elif isinstance(value, dict):
            self._note_change(value)
            for key, item in list(value.items()):
                self.look(f"{name}_{key}", item, depth + 1)
        elif isinstance(getattr(value, "__dict__", None), dict):
            self._look_at_object(value, depth)

    def _look_at_object(self, value: Any, depth: int) -> None:
        self.held.objects.append(value)
        for key, item in list(vars(value).items()):
            self.look(key, item, depth + 1)
        for method in _methods(value):
            self.look(method.__name__, method, depth + 1)

    def _note_change(self, value: Any) -> None:
        if type(value) in _CONTAINERS:
            self.held.objects.append(value)

    def _look_at_function(self, function: types.FunctionType, depth: int) -> None:
        self.held.codes.update(_codes(function.__code__))
        for name, variable in _variables(function):
            self.held.variables.append(variable)
            self.look(name, variable.value, depth + 1)
        for at, value in enumerate(function.__defaults__ or ()):
            self.look(f"default_{at}", value, depth + 1)


def _without_parts(modules: Dict[str, torch.nn.Module]) -> Dict[str, torch.nn.Module]:
    """Without those that others of them have inside."""
    inner = {id(part) for module in modules.values() for part in module.modules()
             if part is not module}
    return {name: module for name, module in modules.items() if id(module) not in inner}


def _without_buffers(tensors: Dict[str, torch.Tensor],
                     modules: Dict[str, torch.nn.Module]) -> Dict[str, torch.Tensor]:
    buffers = {id(buffer) for module in modules.values() for buffer in module.buffers()}
    return {name: tensor for name, tensor in tensors.items() if id(tensor) not in buffers}


def held_by(function: Any) -> Held:
    """What `function` may reach by its names, closures, defaults, and attributes of those."""
    finder = _Finder()
    finder.look("step", function, 0)
    held = finder.held._replace(modules=_without_parts(finder.held.modules))
    known = {id(parameter) for module in held.modules.values() for parameter in module.parameters()}
    for name, optimizer in held.optimizers.items():
        for at, parameter in enumerate(parameter for group in optimizer.param_groups
                                       for parameter in group["params"]):
            if id(parameter) not in known:
                known.add(id(parameter))
                held.parameters.setdefault(f"{name}_{at}", parameter)
    own = {name: parameter for name, parameter in held.parameters.items()
           if not any(parameter is other for module in held.modules.values()
                      for other in module.parameters())}
    unique = {id(parameter): name for name, parameter in reversed(list(own.items()))}
    return held._replace(parameters={name: own[name] for name in own if name in unique.values()},
                         tensors=_without_buffers(held.tensors, held.modules))
