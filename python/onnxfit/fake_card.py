"""A card for tensors that have no elements: what a module's code sees while it is watched.

Tensors are PyTorch's fake ones, on "cuda:0", and no CUDA is asked.  Code that looks for a card finds
one (an A100's abilities); code that asks whether it is traced by a fake tensor is told no."""

from __future__ import annotations

import logging
import random
import sys
import warnings
from collections import OrderedDict
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

from onnxfit import python_calls
from onnxfit.errors import note

if TYPE_CHECKING:
    import torch

DEVICE = "cuda:0"


def _answers() -> Dict[str, Callable[..., Any]]:
    """What torch.cuda's functions say of the card, by name."""
    return {"is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
            "is_bf16_supported": lambda *_, **__: True, "get_device_capability": lambda *_: (8, 0),
            "get_device_name": lambda *_: "NVIDIA A100-SXM4-80GB",
            "is_current_stream_capturing": lambda: False, "synchronize": lambda *_: None,
            "empty_cache": lambda: None, "set_device": lambda *_: None}


def _on_host(mode: Any, func: Any, flat_args: Any, args_spec: Any, error: BaseException) -> Any:
    """What an operator without a rule for shapes makes of zeros on the host, as fake tensors: what
    FakeTensorMode does on the card itself, where there is none."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils import _pytree as pytree
    from torch.utils._mode_utils import no_dispatch

    def real(value: Any) -> Any:
        if isinstance(value, FakeTensor):
            return torch.zeros(value.shape, dtype=value.dtype)
        return torch.device("cpu") if isinstance(value, torch.device) else value

    with no_dispatch():
        args, kwargs = pytree.tree_unflatten([*map(real, flat_args)], args_spec)
        try:
            made = func(*args, **kwargs)
        except Exception as unable:
            raise error from unable
        return pytree.tree_map_only(
            torch.Tensor, lambda out: FakeTensor(mode, out.to("meta"), torch.device(DEVICE)), made)


def _contiguous(self: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
    """Tensor.contiguous() asks no operator where the layout is right; kernels of a card may have
    made another than rules for shapes say."""
    import torch
    made: torch.Tensor = torch.ops.aten.contiguous.default(
        self, memory_format=memory_format or torch.contiguous_format)
    return made


@contextmanager
def _seen() -> Iterator[None]:
    """Within, torch.cuda has a card, and no tensor is known to be fake."""
    import torch
    import torch.cuda.amp.common
    from torch import _subclasses
    from torch._subclasses import fake_tensor
    was_fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        for name, answer in _answers().items():
            if hasattr(torch.cuda, name):
                python_calls.put(stack, torch.cuda, name, answer)
        python_calls.put(stack, torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        python_calls.put(stack, fake_tensor, "init_gpu_context", lambda _: None)
        python_calls.put(stack, fake_tensor, "run_fallback_kernel", _on_host)
        python_calls.put(stack, fake_tensor.FakeTensor, "contiguous", _contiguous)
        python_calls.put(stack, _subclasses, "FakeTensor", type("FakeTensor", (), {}))
        # The command knows what torch.nn runs in the place of these modules (writer/fast_paths.h).
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, was_fast)
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """What is said of a run that nobody has asked for helps nobody."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


_MOST_MEANS = 500  # of a run: a loop may wait for another number


def _means(told: List[str]) -> Dict[str, Callable[..., Any]]:
    """What a function of `random` and numpy.random's gives, by name: the mean of what it draws, as
    torch.rand's are where code asks (recording.py), so that layers which are dropped now and then all
    run.  `told` is added to each time."""
    def drawn(name: str, plain: Callable[..., Any], mean: Callable[..., float]) -> Callable[..., Any]:
        def draw(*args: Any, **kwargs: Any) -> Any:
            is_one = len(args) < 3 and kwargs.get("size") is None
            if not is_one or len(told) >= _MOST_MEANS:
                return plain(*args, **kwargs)
            told.append(name)
            return mean(*args, **kwargs)
        return draw

    def middle(low: float = 0.0, high: float = 1.0, size: None = None) -> float:
        return (low + high) / 2

    numpy = sys.modules.get("numpy")
    found = {"random.random": drawn("random.random", random.random, lambda: 0.5),
             "random.uniform": drawn("random.uniform", random.uniform, lambda a, b: (a + b) / 2)}
    if numpy is not None:
        found["numpy.random.uniform"] = drawn("numpy.random.uniform", numpy.random.uniform, middle)
    return found


@contextmanager
def _same_numbers() -> Iterator[None]:
    """Python's and NumPy's random numbers are the same in each run, and afterwards as before."""
    state, numpy = random.getstate(), sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy is not None else None
    random.seed(0)
    if numpy is not None:
        numpy.random.seed(0)
    told: List[str] = []
    with ExitStack() as stack:
        for place, function in _means(told).items():
            module, _, name = place.rpartition(".")
            python_calls.put(stack, sys.modules[module], name, function)
        stack.callback(random.setstate, state)
        if numpy is not None:
            stack.callback(numpy.random.set_state, of_numpy)
        yield
    for name in dict.fromkeys(told):
        note(f"the code asks {name}: random numbers at their mean")


# Questions of composite operators that PyTorch has no rule for: whether cuDNN does it.
_UNRULED = frozenset(("_use_cudnn_ctc_loss", "_use_miopen_ctc_loss"))


def _mode() -> Any:
    """The mode that makes tensors fake."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    class FakeCard(FakeTensorMode):  # type: ignore[no-untyped-call]
        avoid_device_init = True  # also where torch.cuda says that there is a card

        def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.overloadpacket.__name__ in _UNRULED:
                return False
            return super().dispatch(func, types, args, kwargs)

        def may_turn_const(self, t: torch.Tensor) -> bool:
            """No tensor keeps its elements: they would be moved to the card."""
            return False

    return FakeCard(allow_non_fake_inputs=True)


_IN_CACHES = (tuple, list, dict, set)


def _holds_fakes(cached: Any) -> bool:
    """Whether a function of functools.lru_cache's has made something of fake tensors."""
    import gc
    from torch._subclasses.fake_tensor import FakeTensor
    held: List[Any] = [cached]
    for _ in range(4):  # the cache, its entries, what those hold, what that holds
        held = gc.get_referents(*held)
        if any(type(each) is FakeTensor for each in held):
            return True
        held = [each for each in held if isinstance(each, _IN_CACHES)
                or type(each).__name__ == "_lru_list_elem"]
    return False


def forget_results() -> None:
    """Takes fake tensors out of functools' caches, such as those of methods of transformers, where the
    next run, or the code's own, would find them."""
    import gc
    from functools import _lru_cache_wrapper
    for cached in [found for found in gc.get_objects() if type(found) is _lru_cache_wrapper]:
        if cached.cache_info().currsize and _holds_fakes(cached):
            cached.cache_clear()


# --- A module there -----------------------------------------------------------------------------


_COPIED = (list, dict, set, OrderedDict)


def copied(value: Any) -> Any:
    """A copy of what an attribute may hold, one level deep: what forwards put into lists and
    dictionaries is no part of the module afterwards."""
    return value.copy() if type(value) in _COPIED else value


def restored(value: Any, kept: Any) -> Any:
    """`value` again as it was."""
    if type(value) is list:
        value[:] = kept
    elif type(value) in _COPIED:
        value.clear()
        value.update(kept)
    return value


Lend = Callable[["torch.Tensor", "torch.Tensor"], None]  # a fake tensor, and what it stands for


class Card:
    """Where fake tensors are; floats of a module and its inputs become `floats`, if that is given,
    as by module.to(device, floats)."""

    def __init__(self, floats: Optional[torch.dtype] = None, lend: Optional[Lend] = None,
                 is_default: bool = False) -> None:
        """Where `is_default`, tensors that code makes on no device are on the card, too."""
        import torch
        self._default = torch.device(DEVICE) if is_default else nullcontext()
        self._mode = _mode()
        # What values decide is another thing each time.
        self._mode.cache_enabled = self._mode.cache_enabled and lend is None
        self._floats = floats
        self._lend = lend
        self._made: Dict[int, torch.Tensor] = {}  # by the id of a tensor of the module's

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Within, code runs on the card, and new tensors are fake."""
        with quiet(), _same_numbers(), self._mode, _seen(), self._default:
            yield

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """A fake tensor like `tensor`; of a parameter a parameter.  REQUIRES: entered."""
        import torch
        is_cast = self._floats is not None and tensor.is_floating_point()
        made = _fake(tensor, self._floats if is_cast else tensor.dtype, self._mode,
                     torch.device(DEVICE))
        if isinstance(tensor, torch.nn.Parameter):
            made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
        elif tensor.requires_grad:
            made.requires_grad_(True)
        if self._lend is not None:
            self._lend(made, tensor)
        return made

    def of_module(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same one each time, of a parameter or a buffer."""
        if id(tensor) not in self._made:
            self._made[id(tensor)] = self.put(tensor)
        return self._made[id(tensor)]

    def lend_again(self, tensor: torch.Tensor) -> None:
        """The values of a tensor of the module's, which code may have written over."""
        if self._lend is not None:
            self._lend(self.of_module(tensor), tensor)

    @contextmanager
    def holding(self, model: torch.nn.Module) -> Iterator[None]:
        """Within, `model` has fake tensors in the place of its parameters and buffers; afterwards,
        it has what it had.  REQUIRES: entered."""
        before: List[Tuple[Dict[str, Any], Dict[str, Any], Dict[str, Any]]] = []
        for module in model.modules():
            attributes = vars(module)
            before.append((attributes, dict(attributes),
                           {name: copied(value) for name, value in attributes.items()}))
            holders: Tuple[Dict[str, Any], ...] = (module._parameters, module._buffers)
            for tensors in holders:
                for name, tensor in tensors.items():
                    if tensor is not None:
                        tensors[name] = self.of_module(tensor)
        try:
            yield
        finally:
            for attributes, whole, kept in before:
                attributes.clear()
                attributes.update({name: restored(value, kept[name])
                                   for name, value in whole.items()})


def _fake(tensor: torch.Tensor, dtype: Optional[torch.dtype], mode: Any,
          device: torch.device) -> torch.Tensor:
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._mode_utils import no_dispatch
    with no_dispatch():  # a tenth of the time that the mode takes
        shape = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="meta")
    return FakeTensor(mode, shape, device)


def like(tensor: torch.Tensor) -> torch.Tensor:
    """A fake tensor of the same type, where `tensor` is: no parameter, and without values."""
    from torch._subclasses.fake_tensor import FakeTensor
    assert isinstance(tensor, FakeTensor)
    return _fake(tensor, tensor.dtype, tensor.fake_mode, tensor.device)
