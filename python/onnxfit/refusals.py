"""Why a module cannot be watched, in words for who asked.  PyTorch's own sentences
speak of its insides ("aten.linalg_lstsq.default"), so what is known to be behind one is said, and
the line of the user's code at which it happened."""

from __future__ import annotations

import os
import traceback
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Optional, Tuple

from onnxfit import losses, recording, source_lines, watching
from onnxfit.errors import OnnxfitError
from onnxfit.inputs import Inputs

if TYPE_CHECKING:
    import torch


class _Known(NamedTuple):
    """What never has a program."""

    found: str
    hint: str = ""


# By a part of the path of a file below torch/ (PyTorch 2.11) that was running.
_KNOWN: Tuple[Tuple[str, _Known], ...] = (
    ("_functorch/eager_transforms.py", _Known(
        "a derivative by torch.func, which PyTorch takes outside of what is recorded")),
    ("nested/", _Known("a nested tensor, whose sizes follow from values that a program does not "
                       "have", "a padded tensor with a mask in its place")),
    ("nn/attention/flex_attention.py", _Known(
        "flex_attention, whose kernels are compiled for each use",
        "torch.nn.functional.scaled_dot_product_attention in its place")),
    ("nn/utils/rnn.py", _Known("a packed sequence, whose sizes follow from values",
                               "a padded batch in its place")),
)
_SPARSE = _Known("a sparse tensor, whose products run in cuSPARSE with workspaces that follow from "
                 "its values", "a dense tensor in its place")


def first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _operator_of(error: BaseException) -> str:
    """'linalg_lstsq', where the results' sizes follow from values; of others ""."""
    is_of_values = type(error).__name__ in ("DynamicOutputShapeException",
                                            "DataDependentOutputException")
    return str(error).split(".")[1].lstrip("_") if is_of_values and "." in str(error) else ""


def sentence(error: BaseException) -> str:
    """The first sentence of a reason, on one line, as a part of a sentence of ours."""
    operator = _operator_of(error)
    if operator in ("local_scalar_dense", "item", "equal"):
        return "it asks for a value of a tensor"
    if operator:
        return f"it has no rule for the sizes of {operator}"
    text = " ".join(first_line(error).split()).split(". ")[0].rstrip(".")
    text = text.split(" (unhinted:")[0]  # how PyTorch calls the same expression elsewhere
    return source_lines.shortened(text)


def _place(error: BaseException) -> str:
    """'net.py:24: return x @ y', the innermost line of the module's; "" where none was reached."""
    frames = traceback.extract_tb(error.__traceback__)
    entered = next((at for at, frame in enumerate(frames) if frame.name == "_call_impl"),
                   len(frames))
    return source_lines.innermost(traceback.StackSummary(frames[entered:]))


def _errors(error: Optional[BaseException]) -> Iterator[BaseException]:
    """It, and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _running(error: BaseException) -> Iterator[FrameType]:
    """Where it was raised, and what it came from was."""
    for each in _errors(error):
        trace = each.__traceback__
        while trace is not None:
            yield trace.tb_frame
            trace = trace.tb_next


def is_of_experts(error: BaseException) -> bool:
    """Whether it failed in a mixture's experts, of whom each takes the tokens routed to it."""
    modules = (frame.f_locals.get("self") for frame in _running(error))
    return any("expert" in type(module).__name__.lower() for module in modules
               if hasattr(module, "named_parameters"))


def _has_eager_experts(model: torch.nn.Module) -> bool:
    """Of a step: whether a module of its has."""
    configs = (getattr(module, "config", None) for module in model.modules())
    return any(getattr(config, "_experts_implementation", "") == "eager" for config in configs)


def _known(error: BaseException) -> Optional[_Known]:
    """What was running, of a few things that are never taken."""
    import torch
    root = os.path.dirname(torch.__file__) + os.sep
    files = {frame.f_code.co_filename[len(root):] for frame in _running(error)
             if frame.f_code.co_filename.startswith(root)}
    for part, known in _KNOWN:
        if any(part in file for file in files):
            return known
    first_lines = (str(each).partition("\n")[0].lower() for each in _errors(error))
    return _SPARSE if any("sparse" in line for line in first_lines) else None


def _tensors(model: torch.nn.Module) -> List[Tuple[str, torch.Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]


def is_of_two_devices(error: BaseException) -> bool:
    """Whether a call was given tensors of the card and of the host (FakeTensor's words in 2.6 to
    2.11)."""
    return "two different devices" in str(error)


def check_devices(model: torch.nn.Module, inputs: Inputs) -> None:
    """Raises where some tensors are on meta and others are not, and names those that are fewer."""
    named = _tensors(model)
    places = [tensor.is_meta for _, tensor in named]
    given = [tensor.is_meta for tensor in inputs.tensors()]
    if len({*places, *given}) < 2:
        return
    is_mostly_meta = 2 * sum(places) >= len(places) if places else given[0]
    odd = [f"{name} on {tensor.device}" for name, tensor in named
           if tensor.is_meta != is_mostly_meta]
    if not odd:
        return
    others = next((str(tensor.device) for _, tensor in named if tensor.is_meta == is_mostly_meta),
                  "meta")
    shown = ", ".join(odd[:3]) + (f" and {len(odd) - 3} more" if len(odd) > 3 else "")
    raise OnnxfitError(f"{type(model).__name__}: expected parameters, buffers and inputs on one "
                       f"device, found {shown}, others on {others}", "model.to('meta')")


# Functions by which code takes derivatives, torch.func's included, and what they are called here.
_DERIVATIVES = (("autograd", "grad", "torch.autograd.grad"),
                ("autograd", "backward", "backward"),
                ("autograd.forward_ad", "make_dual", "a forward-mode derivative"))


@contextmanager
def watching_backward() -> Iterator[List[str]]:
    """By name, and with the line that does it: what code within takes derivatives by."""
    import torch
    from torch.autograd import forward_ad
    asked: List[str] = []

    def watched(name: str, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            place = recording.place_that_asks()
            asked.append(f"{name} ({place})" if place else name)
            return function(*args, **kwargs)
        return call

    modules = {"autograd": torch.autograd, "autograd.forward_ad": forward_ad}
    with ExitStack() as stack:
        for module, attribute, name in _DERIVATIVES:
            holder = modules[module]
            function = getattr(holder, attribute)
            stack.callback(setattr, holder, attribute, function)
            setattr(holder, attribute, watched(name, function))
        yield asked


def asks_for_gradients(model: torch.nn.Module, what: str) -> OnnxfitError:
    return OnnxfitError(f"{type(model).__name__}: expected a forward without a backward pass of "
                        f"its own, found {what}: the calls of a forward are recorded, and "
                        "what autograd keeps for a second derivative is not among them")


def refused(model: torch.nn.Module, inputs: Inputs, error: Exception) -> OnnxfitError:
    """What is said where there is no program."""
    name = type(model).__name__
    place = _place(error)
    where = f" ({place})" if place else ""
    is_step = watching.step_in(model) is not None
    kind = "step" if is_step else "forward"
    expected = f"{name}: expected a {kind} that runs with these inputs, found"
    known = _known(error)
    if known is not None:
        return OnnxfitError(f"{expected} {known.found}{where}", known.hint)
    if losses.is_behind(model):
        return OnnxfitError(f"{name}: expected a forward and a loss that run with these "
                            f"inputs and labels, found: {first_line(error)}{where}",
                            "loss(model(…), labels) with them")
    if _has_eager_experts(model) and is_of_experts(error):
        return OnnxfitError(f"{name}: expected experts whose sizes no value decides, found those of "
                            f"'eager', which run on the tokens that are routed to each: "
                            f"{first_line(error)}",
                            "model.set_experts_implementation('grouped_mm'), which takes more: all "
                            "experts run at once")
    if _operator_of(error):
        return OnnxfitError(f"{expected} {_operator_of(error)}, for whose sizes it has no rule{where}")
    if is_step:
        return OnnxfitError(f"{expected}: {first_line(error)}{where}",
                            f"{name}(…) with them; where that runs, onnxfit run -- python train.py")
    return OnnxfitError(f"{expected}: {first_line(error)}{where}",
                        "model(…) with them; where that runs, an ONNX file by torch.onnx.export")
