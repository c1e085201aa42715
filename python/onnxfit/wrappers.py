"""What programs put around modules: torch.compile, nn.DataParallel, DistributedDataParallel.  A
wrapper is taken off before a module is exported, and what it means for the answer is said."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional

from onnxfit.errors import warn

if TYPE_CHECKING:
    import torch


class Plain(NamedTuple):
    """A module without its wrappers."""

    module: torch.nn.Module
    flags: Dict[str, Any]  # what they say, as keywords


def _records_graphs(compiled: Any) -> bool:
    """Whether Inductor records CUDA graphs of what torch.compile(mode=…) returned."""
    config = getattr(getattr(compiled, "dynamo_ctx", None), "compiler_config", None) or {}
    return bool(config.get("triton.cudagraphs"))


def is_compiled(module: Any) -> bool:
    """By torch.compile(module) or, in place, by module.compile()."""
    return "_orig_mod" in module._modules or \
        getattr(module, "_compiled_call_impl", None) is not None


def _inner(module: Any) -> Any:
    """What a wrapper runs, else the module itself."""
    import torch
    if isinstance(module, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        return module.module
    return module._modules.get("_orig_mod", module)


def _layers(module: Any) -> List[Any]:
    """The wrappers, the outermost first, and then what they are around."""
    layers = [module]
    while _inner(layers[-1]) is not layers[-1]:
        layers.append(_inner(layers[-1]))
    return layers


def _say_data_parallel(wrapper: Any, name: str) -> None:
    cards = len(wrapper.device_ids)
    among = f"its {cards} cards" if cards > 1 else "the cards"
    warn(f"{name} splits each batch among {among}: the answer is of one card that runs all of the "
         "batch; ask with one card's share as batch, of which the first card needs a bit more: it "
         "holds all inputs and outputs")


def _ranks(wrapper: Any) -> Dict[str, Any]:
    """How DistributedDataParallel was made, as keywords; a single process has no one to send to."""
    world = wrapper.process_group.size()
    flags = {"strategy": "ddp", "world": world, "ddp_views": wrapper.gradient_as_bucket_view,
             "ddp_static_graph": wrapper.static_graph}
    return {name: value for name, value in flags.items() if value}


def _flags_of(layers: List[Any], is_training: bool) -> Dict[str, Any]:
    import torch
    flags: Dict[str, Any] = {}
    for layer in layers:
        if isinstance(layer, torch.nn.DataParallel):
            _say_data_parallel(layer, "nn.DataParallel")
        elif isinstance(layer, torch.nn.parallel.DistributedDataParallel) and is_training:
            flags.update(_ranks(layer))
    compiled = [layer for layer in layers if is_compiled(layer)] if is_training else []
    if compiled and flags:
        warn("torch.compile beside DistributedDataParallel is not known here: taken as without")
    elif compiled:
        flags["compile"] = "inductor"
        if any(_records_graphs(layer) for layer in compiled):
            flags["cuda_graphs"] = True
    return flags


def _say_inside(child: Any, name: str) -> None:
    import torch
    for layer in _layers(child):
        if isinstance(layer, torch.nn.DataParallel):
            _say_data_parallel(layer, f"nn.DataParallel around {name}")
        elif is_compiled(layer):
            warn(f"{name} is compiled by torch.compile, and is taken as it runs without")


def _put(stack: ExitStack, holder: Dict[str, Any], name: str, value: Any) -> None:
    """`value` under that name until the stack is left."""
    stack.callback(holder.__setitem__, name, holder[name])
    holder[name] = value


def _take_off_inside(module: Any, stack: ExitStack, path: str = "") -> None:
    """The wrappers of what `module` holds, at any depth; `path` is where it is itself."""
    for name, child in list(module._modules.items()):
        if child is None:
            continue
        if _inner(child) is not child or is_compiled(child):
            _say_inside(child, path + name)
            _put(stack, module._modules, name, _layers(child)[-1])
        _take_off_inside(_layers(child)[-1], stack, f"{path}{name}.")
    if "_compiled_call_impl" in module.__dict__:
        _put(stack, module.__dict__, "_compiled_call_impl", None)


@contextmanager
def taken_off(model: torch.nn.Module, mode: Optional[str]) -> Iterator[Plain]:
    """`model` without wrappers, also inside of it, as long as the block runs; in `mode` ("train",
    "eval", else as what runs is)."""
    layers = _layers(model)
    is_training = layers[-1].training if mode is None else mode == "train"
    flags = _flags_of(layers, is_training)
    with ExitStack() as stack:
        _take_off_inside(layers[-1], stack)
        yield Plain(layers[-1], flags)
