"""Recorded runs.  Code that branches on values is no program for torch.export, which traces on
tensors that have none.  Here it gets an answer each time it asks for one: small tensors are
computed along, from the example inputs and from numbers in the code, with random ones at their
mean.  What nobody knows is False, or 1, and then the other way, too (other_ways).  What was asked,
and what was answered, is kept."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from contextlib import contextmanager
from typing import (TYPE_CHECKING, Any, Callable, Counter as CounterOf, Dict, Iterable, Iterator,
                    List, Mapping, NamedTuple, Optional, Set, Tuple, Union)

from onnxfit import source_lines

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

Number = Union[bool, int, float, complex]
Line = Tuple[str, int]  # file, number

# Larger tensors are not computed in a first run.
_MOST_ELEMENTS = 1 << 16
# What a run computes where that one asked for what it did not know: elements that are kept (1 GiB of
# 32 bits), and floating-point operations (some seconds of two cores).
MOST_KEPT = 1 << 28
MOST_WORK = 200_000_000_000
# A number far from all that code compares with, and dimensions that can only come from it.
_FAR = 1 << 40
_FAR_SIZE = 1 << 28
# A line that asks more often for what nobody knows is a loop that its answer does not end.
_MOST_QUESTIONS = 500
# And one with so many calls between its questions, such as a model that generates tokens.
_MOST_CALLS = 10_000
# How many times a run that fails by its answers is run again with another.
_MOST_RUNS = 8
# How many lines that were told False for a guess are each tried with True.
_MOST_BRANCHES = 3
# Uniform and normal random numbers, at their mean.
_MEANS = {"rand": 0.5, "rand_like": 0.5, "randn": 0.0, "randn_like": 0.0}
# What torch.unique and torch.unique_consecutive run, of all elements.
_UNIQUE = ("_unique2", "unique_consecutive")
_QUESTIONS = ("item", "_local_scalar_dense", "equal")
_VALUE = "_onnxfit_value"


class Answer(NamedTuple):
    """What the code of a line was told, and by what: "inputs", "mean" (of random numbers),
    "unknown" or, where it follows from the code alone, "code"."""

    line: Line
    value: Number
    by: str
    is_open: bool = False  # guessed, and another guess may be tried

    @property
    def place(self) -> str:
        """'net.py:24: if x.sum() > 0:'."""
        file, number = self.line
        return source_lines.shown(file, number) or f"{os.path.basename(file)}:{number}"

    @property
    def shown(self) -> str:
        far: Dict[Number, str] = {_FAR: "a large number", -_FAR: "a number far below 0"}
        is_guess = self.is_open and type(self.value) in (int, float)
        return far.get(self.value, str(self.value)) if is_guess else str(self.value)


def place_that_asks() -> str:
    """The innermost line that runs now and is the user's; "" where it has no file."""
    return source_lines.shown(*_line_that_asks())


class _Known(NamedTuple):
    """The elements of a fake tensor, on the CPU."""

    tensor: torch.Tensor
    by: str


class Unending(Exception):
    """A loop that what was answered does not end, or that it makes long."""


def _worst(operands: Iterable[_Known]) -> str:
    """What a value is known by that follows from these."""
    reasons = {known.by for known in operands}
    return next((by for by in ("mean", "inputs") if by in reasons), "code")


def _line_that_asks() -> Line:
    """The innermost line that is neither PyTorch's nor ours."""
    frame = sys._getframe(1)
    while frame.f_back is not None and not source_lines.is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _is_of_vmap(tensor: torch.Tensor) -> bool:
    """One of torch.vmap's, which has no storage of its own."""
    from torch._C._functorch import is_functorch_wrapped_tensor
    return bool(is_functorch_wrapped_tensor(tensor))


class _Values:
    """The values of fake tensors, as far as they are known: below autograd, call by call."""

    def __init__(self, computes_all: bool) -> None:
        self._computes_all = computes_all
        self._kept = 0  # elements of large tensors
        self._work = 0
        self._borrowed: Set[int] = set()  # storages of the user's, which nothing may write to
        # By storage: what was written over with something that nobody knows.
        self._spoilt: Dict[int, torch.Tensor] = {}

    def of(self, tensor: object) -> Optional[_Known]:
        import torch
        from torch._subclasses.fake_tensor import FakeTensor
        if not isinstance(tensor, FakeTensor):  # torch.tensor(…) in the code
            if not isinstance(tensor, torch.Tensor) or tensor.numel() > _MOST_ELEMENTS:
                return None
            return _Known(_for_real(torch.ops.aten.clone.default, (tensor,), {}), "code")
        known: Optional[_Known] = getattr(tensor, _VALUE, None)
        if known is None or known.tensor.untyped_storage().data_ptr() in self._spoilt:
            return None
        return known

    def give(self, fake: object, tensor: torch.Tensor, by: str) -> None:
        if tensor.is_meta or str(tensor.layout) != "torch.strided" or _is_of_vmap(tensor):
            return
        if not self._is_affordable(tensor.numel()):
            return
        if tensor.numel() > _MOST_ELEMENTS:
            self._kept += tensor.numel()
        setattr(fake, _VALUE, _Known(tensor, by))

    def keep_answers(self) -> None:
        """What is asked from now on is asked of other sizes."""
        self._are_all = True

    def lend(self, fake: object, tensor: torch.Tensor) -> None:
        """The elements of an input or a parameter; of a large one, without a copy."""
        if tensor.is_meta or (tensor.numel() > _MOST_ELEMENTS and not self._computes_all):
            return
        if tensor.numel() <= _MOST_ELEMENTS or tensor.device.type != "cpu":
            copied = _for_real(lambda: tensor.detach().cpu().clone(), (), {})
            self.give(fake, copied, "inputs")
        else:
            plain = _for_real(tensor.detach, (), {})
            self._borrowed.add(plain.untyped_storage().data_ptr())
            setattr(fake, _VALUE, _Known(plain, "inputs"))

    def _is_affordable(self, elements: int) -> bool:
        return elements <= _MOST_ELEMENTS or (
            self._computes_all and self._kept + elements <= MOST_KEPT)

    def _writes_to_borrowed(self, func: Any, args: Tuple[Any, ...]) -> bool:
        operands = [self.of(value) for argument, value in zip(func._schema.arguments, args)
                    if argument.alias_info is not None and argument.alias_info.is_write]
        return any(known.tensor.untyped_storage().data_ptr() in self._borrowed
                   for known in operands if known is not None)

    def _can_pay(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], out: Any) -> bool:
        """Whether the work of a call is within what is left; counts it."""
        from torch.utils.flop_counter import flop_registry
        count = flop_registry.get(func.overloadpacket)
        if count is not None:
            self._work += int(count(*args, **kwargs, out_val=out))
        return self._work <= MOST_WORK

    def _spoil(self, func: Any, args: Tuple[Any, ...]) -> None:
        for argument, value in zip(func._schema.arguments, args):
            known = self.of(value)
            if argument.alias_info is not None and argument.alias_info.is_write and known:
                storage = known.tensor.untyped_storage()
                self._spoilt[storage.data_ptr()] = known.tensor  # kept, so that its place is

    def follow(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], out: object) -> None:
        """Computes what `func` has made `out` of, where that is known."""
        import torch
        from torch.utils import _pytree as pytree
        made = [leaf for leaf in pytree.tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        known = None
        sizes = [_example_sizes(tensor) for tensor in made]
        if made and all(of is not None and self._is_affordable(math.prod(of)) for of in sizes):
            if torch.Tag.nondeterministic_seeded in func.tags:
                known = _mean(func, args, made[0])
            else:
                known = self.computed(func, args, kwargs)
        if known is None:
            self._spoil(func, args)
            return
        for fake, real in zip(pytree.tree_leaves(out), pytree.tree_leaves(known[0])):
            if isinstance(fake, torch.Tensor) and isinstance(real, torch.Tensor):
                self.give(fake, real, known[1])

    def follow_integers(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any],
                        out: object) -> None:
        """The same within an operator that PyTorch makes of others, such as repeat_interleave: the
        sizes in there follow from integers.  What it makes itself is computed as a whole."""
        import torch
        of_integers = isinstance(out, torch.Tensor) and str(out.dtype).startswith("torch.int")
        if of_integers and not func._schema.is_mutable:
            self.follow(func, args, kwargs, out)

    def computed(self, func: Any, args: Tuple[Any, ...],
                 kwargs: Dict[str, Any]) -> Optional[Tuple[Any, str]]:
        """What `func` makes of values, and by what they are known; None where they are not."""
        import torch
        from torch.utils import _pytree as pytree
        leaves, spec = pytree.tree_flatten((args, kwargs))
        operands: List[_Known] = []
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                known = self.of(leaf)
                if known is None:
                    return None
                leaves[index] = known.tensor
                operands.append(known)
            elif isinstance(leaf, torch.device):
                leaves[index] = torch.device("cpu")
            elif isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                leaves[index] = _of_example(leaf)
                if leaves[index] is None:
                    return None
        real_args, real_kwargs = pytree.tree_unflatten(leaves, spec)
        if self._writes_to_borrowed(func, args):
            return None
        try:
            if not self._can_pay(func, real_args, real_kwargs, None):
                return None
            return _for_real(func, real_args, real_kwargs), _worst(operands)
        except Exception:  # a kernel that the CPU has not
            return None


def _of_example(symbol: Any) -> Optional[Number]:
    """What a number that depends on a free size is for the example inputs; None for one that
    follows from values."""
    node = symbol.node
    return node.hint if node.has_hint() else None


def _shown(value: Any) -> Number:
    """A size that depends on a free one as it is in the example."""
    import torch
    hint = _of_example(value) if isinstance(value, torch.SymInt) else None
    return value if hint is None else hint


def _example_sizes(tensor: torch.Tensor) -> Optional[List[int]]:
    """Its shape for the example inputs."""
    import torch
    sizes = [_of_example(size) if isinstance(size, torch.SymInt) else size
             for size in tensor.shape]
    return None if None in sizes else sizes


def _mean(func: Any, args: Tuple[Any, ...], made: torch.Tensor) -> Optional[Tuple[Any, str]]:
    import torch
    name = func.overloadpacket.__name__
    mean = _MEANS.get(name)
    if name == "bernoulli_" and len(args) > 1 and isinstance(args[1], float):  # dropout's mask
        mean = args[1]
    if mean is None:
        return None
    return _for_real(torch.ops.aten.full.default, (_example_sizes(made), mean),
                     {"dtype": made.dtype}), "mean"


def _for_real(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """Calls `func` with values, unseen by tracers."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes
    with _disable_current_modes(), torch.no_grad():
        return func(*args, **kwargs)


class Recording:
    """One run, and the answers in it.  `other` says what lines get where nobody knows."""

    def __init__(self, other: Mapping[Line, Number], computes_all: bool, most_calls: float) -> None:
        self.answers: List[Answer] = []
        self._are_all = False
        self._other = other
        self._asked: CounterOf[Line] = Counter()  # without knowing
        self._first_asked: Dict[Line, int] = {}  # after how many calls
        self._most_calls = most_calls
        self.calls = 0
        self._values = _Values(computes_all)
        self._depth = 0  # of calls within calls

    def last_guess(self) -> Optional[Line]:
        """The line that was last told False without knowing, and could be told True."""
        lines = (answer.line for answer in reversed(self.answers)
                 if answer.value is False and answer.by == "unknown")
        return next((line for line in lines if line not in self._other), None)

    def _kept(self, value: Number, by: str, is_open: bool = False) -> Number:
        answer = Answer(_line_that_asks(), _shown(value), by, is_open)
        if not self._are_all:
            self.answers.append(answer)
        if by == "unknown":
            self._asked[answer.line] += 1
            calls = self.calls - self._first_asked.setdefault(answer.line, self.calls)
            if self._asked[answer.line] > _MOST_QUESTIONS or calls > _MOST_CALLS:
                raise Unending(f"{answer.place}: a loop without end")
        return value

    def _number(self, tensor: torch.Tensor) -> Number:
        known = self._values.of(tensor)
        if known is not None:
            import torch
            number = _for_real(torch.ops.aten._local_scalar_dense.default, (known.tensor,), {})
            return self._kept(number, known.by)
        told = self._other.get(_line_that_asks())
        if str(tensor.dtype) == "torch.bool":
            return self._kept(told is True, "unknown", True)
        if told is None or isinstance(told, (bool, complex)):
            told = 1
        number = float(told) if tensor.is_floating_point() else int(told)
        return self._kept(number, "unknown", True)

    def _equality(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Number:
        """torch.equal, also within torch.quantile."""
        known = self._values.computed(func, args, kwargs)
        if known is not None:
            return self._kept(known[0], known[1])
        return self._kept(self._other.get(_line_that_asks()) is True, "unknown", True)

    def _of_open_size(self, mode: Any, func: Any, args: Tuple[Any, ...],
                      kwargs: Dict[str, Any]) -> Any:
        """What an operator makes whose sizes follow from values, such as nonzero; None for one
        that is left to PyTorch.  Where nobody knows, masks select all."""
        import torch
        from torch.utils import _pytree as pytree
        tensors = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
        name, device = func.overloadpacket.__name__, tensors[0].device
        if name == "index" and all(tensor.dtype != torch.bool for tensor in tensors[1:]):
            return None  # x[2, :]: as many as there are indices

        def fake(shape: Any, dtype: torch.dtype) -> Any:
            with mode:
                return torch.empty(shape, dtype=dtype, device=device)

        def standing_for(tensor: torch.Tensor) -> Any:
            made = fake(tensor.shape, tensor.dtype)
            self._values.give(made, tensor, by)
            return made

        known = self._values.computed(func, args, kwargs)
        if known is not None:
            real, by = known
            self._kept(len(next(iter(pytree.tree_leaves(real)))), by)
            return pytree.tree_map_only(torch.Tensor, standing_for, real)
        if name == "_ctc_loss":
            return self._ctc_loss(fake, args)
        if name not in ("nonzero", "masked_select", *_UNIQUE, "bincount"):
            return None
        if name == "bincount":
            bins = [args[2]] if len(args) > 2 else [kwargs.get("minlength", 0)]
            return fake([self._kept(max(bins[0], 1), "unknown")],
                        torch.int64 if len(tensors) < 2 else tensors[1].dtype)
        if name in _UNIQUE and (len(args) > 3 or "dim" in kwargs) and name == "unique_consecutive":
            return None
        count = self._kept(args[0].numel(), "unknown")
        if name in _UNIQUE:
            return self._all_different(fake, func, args, kwargs, count)
        if name == "nonzero":
            return fake([count, args[0].dim()], torch.int64)
        return fake([count], args[0].dtype)

    def _ctc_loss(self, fake: Callable[..., Any], args: Tuple[Any, ...]) -> Any:
        """The losses, and log_alpha, as long as the longest labels (LossCTC.cu): all that there are
        where nobody knows."""
        logits, targets, known = args[0], args[1], self._values.of(args[3])
        if known is None:
            longest = self._kept(targets.shape[-1], "unknown")
        else:
            longest = self._kept(int(_for_real(known.tensor.max, (), {})), known.by)
        steps, batch = logits.shape[0], logits.shape[1]
        return (fake([batch], logits.dtype), fake([batch, steps, 2 * longest + 1], logits.dtype))

    @staticmethod
    def _all_different(fake: Callable[..., Any], func: Any, args: Tuple[Any, ...],
                       kwargs: Dict[str, Any], count: Number) -> Any:
        """torch.unique's values, inverse and counts; what is not asked for is empty."""
        import torch
        given = {argument.name: value for argument, value in zip(func._schema.arguments, args)}
        given.update(kwargs)
        inverse = list(args[0].shape) if given.get("return_inverse") else [0]
        return (fake([count], args[0].dtype), fake(inverse, torch.int64),
                fake([count if given.get("return_counts") else 0], torch.int64))

    def called(self, run: Callable[..., Any], mode: Any, func: Any, types: Any,
               args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        """A call of PyTorch's on fake tensors; `run` is what PyTorch does with it."""
        import torch
        name = func.overloadpacket.__name__
        if name == "equal":
            return self._equality(func, args, kwargs)
        if name in _QUESTIONS:
            return self._number(args[0])
        if torch.Tag.dynamic_output_shape in func.tags:
            made = self._of_open_size(mode, func, args, kwargs)
            if made is not None:
                return made
        if self.calls > self._most_calls and name != "detach":  # from where C++ lets none through
            raise Unending("more calls than another run's answers make")
        self._depth += 1
        try:
            out = run(mode, func, types, args, kwargs)
        finally:
            self._depth -= 1
        if self._depth == 0:
            self.calls += 1
            self._values.follow(func, args, kwargs, out)
        else:
            self._values.follow_integers(func, args, kwargs, out)
        return out

    def keep_answers(self) -> None:
        """What is asked from now on is asked of other sizes."""
        self._are_all = True

    def lend(self, fake: torch.Tensor, tensor: torch.Tensor) -> None:
        """`fake` stands for `tensor`, an input or a parameter."""
        self._values.lend(fake, tensor)

    def faked(self, fake: Any, tensor: torch.Tensor) -> Any:
        """The same, of what FakeTensorMode makes itself."""
        if fake is not tensor:
            self.lend(fake, tensor)
        return fake


@contextmanager
def _recorded(recording: Recording) -> Iterator[None]:
    """Within, FakeTensorMode asks `recording`.  Both methods are its protocol."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    dispatch, from_tensor = FakeTensorMode.__torch_dispatch__, FakeTensorMode.from_tensor

    def called(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return recording.called(dispatch, mode, func, types, args, kwargs or {})

    def faked(mode: Any, tensor: torch.Tensor, **more: Any) -> Any:
        return recording.faked(from_tensor(mode, tensor, **more), tensor)

    setattr(FakeTensorMode, "__torch_dispatch__", called)
    setattr(FakeTensorMode, "from_tensor", faked)
    try:
        yield
    finally:
        setattr(FakeTensorMode, "__torch_dispatch__", dispatch)
        setattr(FakeTensorMode, "from_tensor", from_tensor)


def _is_of_host(node: torch.fx.Node) -> bool:
    """Whether nothing of it is the model's: torch.rand([]) < 0.1, which no card computes."""
    device = getattr(node.meta.get("val"), "device", None)
    return (node.op == "call_function" and getattr(device, "type", "") == "cpu"
            and all(map(_is_of_host, node.all_input_nodes)))


def _erase(node: torch.fx.Node) -> None:
    operands = node.all_input_nodes
    node.graph.erase_node(node)
    for operand in operands:
        if not operand.users and _is_of_host(operand):
            _erase(operand)


def erase_questions(program: ExportedProgram) -> None:
    """What was asked is a number in the program now; the call that asked has no result."""
    for node in reversed(list(program.graph.nodes)):
        name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
        if name in _QUESTIONS and not node.users:
            _erase(node)


class Recorded(NamedTuple):
    """A program, what was answered for it, and lines whose numbers sizes or loops follow from."""

    program: Any
    answers: List[Answer]
    calls: int
    sizing: Tuple[Line, ...] = ()


def record(export: Callable[[Recording], Any], told: Optional[Mapping[Line, Number]] = None,
           computes_all: bool = False, most_calls: float = math.inf) -> Recorded:
    """What `export` makes, while values that it asks for are answered; lines get what they are
    `told` where nobody knows.  Where it fails, the last guess was perhaps wrong: it runs again with
    the other one.  Raises what the last run raises."""
    other: Dict[Line, Number] = dict(told or {})
    for _ in range(_MOST_RUNS + 1):
        recording = Recording(other, computes_all, most_calls)
        try:
            with _recorded(recording):
                program = export(recording)
            return Recorded(program, recording.answers, recording.calls)
        except Exception:
            guess = recording.last_guess()
            if guess is None or len(other) >= _MOST_RUNS:
                raise
            other[guess] = True
    raise AssertionError("each run tells one line more")


def _others_of(value: Number) -> List[Number]:
    """What else a guess might be: for whatever it is compared with, one is on the other side."""
    if isinstance(value, bool):
        return [] if value else [True]
    return [-_FAR, _FAR] if isinstance(value, float) else [0, _FAR]


def _choices(answers: List[Answer]) -> List[Dict[Line, Number]]:
    """Each of the first few guessed lines with another answer alone, then all of them."""
    guessed: Dict[Line, List[Number]] = {}
    for answer in answers:
        if answer.is_open and _others_of(answer.value):
            guessed.setdefault(answer.line, _others_of(answer.value))
    first = list(guessed.items())
    choices = [{line: value} for line, values in first[:_MOST_BRANCHES] for value in values]
    if len(first) > 1:
        for at in range(max(len(values) for _, values in first)):
            choices.append({line: values[min(at, len(values) - 1)]
                            for line, values in first[:_MOST_RUNS]})
    return choices


def other_ways(export: Callable[[Recording], Any], first: Recorded, computes_all: bool,
               has_size: Callable[[Any, int], bool]) -> Tuple[List[Recorded], Tuple[Line, ...]]:
    """The runs in which guesses are others, and lines whose numbers say sizes or how often a loop
    runs: what the code cannot do, and what follows from a number that is far off, is left out."""
    ways, sizing = [], []
    for told in _choices(first.answers):
        try:
            way = record(export, told, computes_all, 4 * first.calls + 1000)
        except Exception:
            sizing += [line for line, value in told.items() if value == _FAR and len(told) == 1]
            continue
        if has_size(way.program, _FAR_SIZE):
            sizing += [line for line, value in told.items() if value == _FAR]
        else:
            ways.append(way)
    return ways, tuple(dict.fromkeys(sizing))
