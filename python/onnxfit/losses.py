"""The loss: its name, or what a training loop calls.  Those that the command knows are flags; any
other callable is recorded behind the model, loss(model(x), labels), and is a part of its program."""

from __future__ import annotations

import copy
import functools
import inspect
import types
from contextlib import contextmanager
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple,
                    Optional, Sequence, Tuple)

from onnxfit import plain_values
from onnxfit.errors import OnnxfitError, note, warn
from onnxfit.inputs import Inputs, of_torch

if TYPE_CHECKING:
    import torch

# The command's, by name of a class or a function.
_NAMES: Dict[str, str] = {
    "CrossEntropyLoss": "cross-entropy",
    "cross_entropy": "cross-entropy",
    "MSELoss": "mse",
    "mse_loss": "mse",
    "ForCausalLMLoss": "causal-lm",  # transformers.loss.loss_utils
}

# What else a loss may be told, and what it is where it is told nothing.
_DEFAULTS: Dict[str, object] = {"weight": None, "reduction": "mean"}


class Row(NamedTuple):
    """A loss of torch.nn: how many tensors of the model's output it takes, and its labels."""

    labels: str  # "like" the output, "classes" in dimension 1, "indices", "one" a sample, "none"
    outputs: int = 1


_LIKE, _CLASSES = Row("like"), Row("classes")

# By name of a class, or of its function: what torch/nn/modules/loss.py (PyTorch 2.11) says of
# shapes.
_ROWS: Dict[str, Row] = {
    **dict.fromkeys((
        "BCELoss", "BCEWithLogitsLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
        "MSELoss", "MultiLabelSoftMarginLoss", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss",
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "hinge_embedding_loss",
        "huber_loss", "kl_div", "l1_loss", "mse_loss", "multilabel_soft_margin_loss",
        "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss"), _LIKE),
    **dict.fromkeys(("CrossEntropyLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d",
                     "AdaptiveLogSoftmaxWithLoss", "cross_entropy", "multi_margin_loss",
                     "nll_loss"), _CLASSES),
    **dict.fromkeys(("MultiLabelMarginLoss", "multilabel_margin_loss"), Row("indices")),
    **dict.fromkeys(("CosineEmbeddingLoss", "cosine_embedding_loss"), Row("one", 2)),
    **dict.fromkeys(("MarginRankingLoss", "margin_ranking_loss"), Row("like", 2)),
    **dict.fromkeys(("TripletMarginLoss", "TripletMarginWithDistanceLoss", "triplet_margin_loss",
                     "triplet_margin_with_distance_loss"), Row("none", 3)),
}

_OTHER = "loss=lambda output, labels: …, and labels= with an example of what that takes"


class Loss(NamedTuple):
    """What --loss and --label-smoothing take (None: nobody says), or what is recorded."""

    flag: Optional[str] = None
    smooths: Optional[bool] = None
    recorded: Optional[Recorded] = None


class Recorded(NamedTuple):
    """A loss behind a module, and an example of its labels, where there is one."""

    call: Callable[..., Any]
    labels: Any = None

    @property
    def name(self) -> str:
        return _name_of(self.call)

    @property
    def row(self) -> Optional[Row]:
        """None of what is not torch.nn's."""
        inner = _inner(self.call)
        module = getattr(inner, "__module__", "") or ""
        return _ROWS.get(_name_of(inner)) if module.startswith("torch.") else None


def _inner(loss: Any) -> Any:
    """Without arguments that are bound to it."""
    while isinstance(loss, functools.partial):
        loss = loss.func
    return loss


def _name_of(loss: Any) -> str:
    loss = _inner(loss)
    return str(getattr(loss, "__name__", type(loss).__name__))


def _told(loss: Any) -> Dict[str, object]:
    """What it is told that the command's losses are not."""
    bound = (loss.keywords if isinstance(loss, functools.partial)
             else getattr(loss, "__dict__", {}))
    kept = {name: bound.get(name, getattr(loss, name, usual)) for name, usual in _DEFAULTS.items()}
    return {name: value for name, value in kept.items()
            if value is not _DEFAULTS[name] and not (
                isinstance(value, str) and value == _DEFAULTS[name])}


def _smooths(loss: Any) -> Optional[bool]:
    bound = loss.keywords if isinstance(loss, functools.partial) else {}
    return True if bound.get("label_smoothing", getattr(loss, "label_smoothing", 0)) else None


def _function_of(name: Optional[str]) -> Any:
    """Of a name, that which labels are given to; cross entropy where nobody says."""
    from torch.nn import functional
    known = {"cross-entropy": functional.cross_entropy, "mse": functional.mse_loss}
    found = known.get(_NAMES.get(name, name) if name else "cross-entropy")
    if found is None:
        raise OnnxfitError(f"labels: expected a loss that takes an example of them, found '{name}'",
                           "loss=torch.nn.functional.cross_entropy")
    return found


def of(loss: object, labels: object, is_module: bool) -> Loss:
    """What `loss` is.  `labels` are an example, or None; a loss is recorded with a module alone."""
    if labels is not None and (loss is None or isinstance(loss, str)):
        loss = _function_of(loss)
    if loss is None or isinstance(loss, str):
        return Loss(_NAMES.get(loss, loss) if loss else None)
    if isinstance(loss, type):
        loss = loss()
    if not callable(loss):
        raise OnnxfitError("loss: expected a name, a function or a module of torch.nn, found "
                           f"{type(loss).__name__}", "loss='cross-entropy'")
    known = _NAMES.get(_name_of(loss))
    told = _told(loss)
    if known is not None and labels is None and not (is_module and told):
        if told:
            shown = (name if name == "weight" else f"{name}={value}" for name, value in told.items())
            warn(f"{_name_of(loss)}: {', '.join(shown)} is not in the figures")
        return Loss(known, _smooths(loss))
    if not is_module:
        raise OnnxfitError(
            f"loss: expected one of {', '.join(sorted(_NAMES))} for a file or a program, found "
            f"{_name_of(loss)}, which is recorded with a torch.nn.Module alone",
            "the module and its inputs in place of the file")
    return Loss(recorded=Recorded(loss, None if labels is None else of_torch(labels)))


# --- What it takes ------------------------------------------------------------------------------


def _is_tensor(value: object) -> bool:
    import torch
    return isinstance(value, torch.Tensor)


def _tensors_of(output: Any, count: int, name: str) -> List[Any]:
    """The tensors of a model's output that a loss of torch.nn takes: the output, its logits, or
    the only ones of floats."""
    from torch.utils import _pytree as pytree
    if _is_tensor(output) and count == 1:
        return [output]
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits",
                                                                            None)
    if count == 1 and _is_tensor(logits):
        note("the loss takes the logits of what the model returns")
        return [logits]
    found = [leaf for leaf in pytree.tree_leaves(plain_values.apart(output))
             if _is_tensor(leaf) and leaf.is_floating_point()]
    if len(found) == count:
        return found
    raise OnnxfitError(f"loss: expected {count} tensor{'s' * (count > 1)} of floats from the "
                       f"model, as {name} takes, found {len(found)}", _OTHER)


def _counts(call: Callable[..., Any]) -> Tuple[int, List[str]]:
    """How many arguments it has to be given, at least, and what they are called; 2 of C++."""
    import torch
    try:
        signature = inspect.signature(call.forward if isinstance(call, torch.nn.Module) else call)
    except (TypeError, ValueError):
        return 2, []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [value for value in signature.parameters.values() if value.kind in kinds]
    needed = [value.name for value in positional if value.default is inspect.Parameter.empty]
    takes_any = any(value.kind is inspect.Parameter.VAR_POSITIONAL
                    for value in signature.parameters.values())
    return 2 if takes_any else len(needed), needed


def needs_labels(loss: Recorded) -> bool:
    """Whether its labels follow from what the model returns."""
    if loss.labels is not None:
        return False
    if loss.row is not None:
        return loss.row.labels != "none"
    count, names = _counts(loss.call)
    if count <= 1:
        return False  # lambda output: output.loss
    told = f" ({', '.join(names[1:])})" if count > 2 else ""
    hint = ("labels=torch.zeros(32, dtype=torch.long)" if count == 2
            else f"labels=({', '.join(names[1:])})")
    raise OnnxfitError(f"loss: expected labels= with an example of what {loss.name} takes beside "
                       f"the output{told}, found none", hint)


def with_hint(error: OnnxfitError, loss: Recorded, output: Callable[[], Any]) -> OnnxfitError:
    """The same, with labels that the loss takes of what the model returns: classes, or such as the
    output; tried, where it returns one tensor."""
    import torch
    try:
        made = output()
        if not _is_tensor(made) or _counts(loss.call)[0] != 2:
            return error
        sizes = [size for size in made.shape]
        example = torch.zeros(sizes, dtype=made.dtype)
    except Exception:
        return error
    shown = ", ".join(map(str, sizes))
    kind = "" if made.dtype == torch.float32 else f", dtype={made.dtype}"
    tried = ((f"{sizes[0] if sizes else 1}, dtype=torch.long",
              torch.zeros(sizes[:1] or 1, dtype=torch.long)),
             (f"{shown}{kind}", torch.zeros_like(example)))
    for text, labels in tried:
        try:
            _number_of(loss.call(example, labels), loss.name)
        except Exception:
            continue
        return OnnxfitError(error.text, f"labels=torch.zeros({text})")
    return error


def _are_tokens(loss: Recorded, sizes: Sequence[Any]) -> bool:
    """[batch, tokens, words], whose classes are the last dimension, as the command takes them;
    weights tell those in dimension 1."""
    bound = loss.call.keywords if isinstance(loss.call, functools.partial) else {}
    weight: Any = bound.get("weight", getattr(loss.call, "weight", None))
    return len(sizes) == 3 and not (_is_tensor(weight) and weight.shape[0] == sizes[1])


def labels_of(loss: Recorded, output: Any, free_axes: Callable[[Any], Tuple[int, ...]]
              ) -> Tuple[torch.Tensor, Tuple[int, ...]]:
    """An example of the labels for what the model returns, and which of their dimensions follow
    the batch, as `free_axes` of a tensor of the output do."""
    import torch
    row = loss.row
    assert row is not None
    tensor = _tensors_of(output, row.outputs, loss.name)[0]
    axes, kind = list(range(tensor.dim())), tensor.dtype
    if row.labels == "classes":
        kind, are_tokens = torch.long, _are_tokens(loss, tensor.shape)
        axes = axes[:2] if are_tokens else axes[:1] + axes[2:] if axes[1:] else []
    elif row.labels == "indices":
        kind = torch.long
    elif row.labels == "one":
        axes = axes[:1] if len(axes) > 1 else []
    free = free_axes(tensor)
    return (torch.zeros([tensor.shape[axis] for axis in axes], dtype=kind),
            tuple(place for place, axis in enumerate(axes) if axis in free))


# --- Of the model itself ------------------------------------------------------------------------

_LABELS = frozenset(("labels", "label", "targets", "target", "y"))


def own(output: Any, names: Sequence[str], arguments: Iterable[str]) -> Optional[str]:
    """Which of a model's outputs, by `names`, is its loss: that which is called so, or one number
    that comes first, or of a model that takes labels.  None where there is none, or several."""
    from torch.utils import _pytree as pytree
    leaves = pytree.tree_flatten_with_path(output)[0]
    numbers = [(path, name) for (path, leaf), name in zip(leaves, names)
               if _is_tensor(leaf) and leaf.is_floating_point() and leaf.dim() == 0]
    called = [name for path, name in numbers
              if path and getattr(path[-1], "key", getattr(path[-1], "name", None)) == "loss"]
    if called or len(numbers) != 1:
        return called[0] if len(called) == 1 else None
    floats = [name for (_, leaf), name in zip(leaves, names)
              if _is_tensor(leaf) and leaf.is_floating_point()]
    found = numbers[0][1]
    return found if floats[0] == found or not _LABELS.isdisjoint(arguments) else None


# --- Behind a module ----------------------------------------------------------------------------


def _number_of(result: Any, name: str) -> Any:
    """The one number of what a loss returns."""
    held: Any = (result.get("loss") if isinstance(result, Mapping)
                 else getattr(result, "loss", result))
    if _is_tensor(held) and all(type(size) is int and size == 1 for size in held.shape):
        return held
    found = (f"a tensor of {list(held.shape)}" if _is_tensor(held)
             else type(result).__name__)
    raise OnnxfitError(f"loss: expected one number from {name}, from which backward() starts, "
                       f"found {found}", "its .mean(), or loss=lambda output, labels: …")


def _taken(loss: Recorded, output: Any, labels: Tuple[Any, ...]) -> Sequence[Any]:
    """What the loss is given: of torch.nn's, tensors, and tokens one after the other."""
    if loss.row is None:
        return [output, *labels]
    tensors = _tensors_of(output, loss.row.outputs, loss.name)
    is_classes = loss.labels is None and loss.row.labels == "classes"
    if is_classes and _are_tokens(loss, tensors[0].shape):
        return [tensors[0].flatten(0, 1), labels[0].flatten()]
    return [*tensors, *labels]


def _free_name(taken: Any, names: Sequence[str]) -> str:
    return next(name for name in names if name not in taken)


def label_name(model: torch.nn.Module, kwargs: Mapping[str, Any]) -> str:
    """What the labels are called among the arguments of forward()."""
    try:
        taken = {*inspect.signature(model.forward).parameters, *kwargs}
    except (TypeError, ValueError):
        taken = set(kwargs)
    return _free_name(taken, ("labels", "target", "loss_labels", "loss_labels_"))


def _signature_with(forward: Callable[..., Any], name: str) -> Optional[inspect.Signature]:
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):
        return None
    parameters = list(signature.parameters.values())
    at = len(parameters) - bool(parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD)
    parameters.insert(at, inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY))
    return signature.replace(parameters=parameters)


def _named_forward(function: Any) -> Any:
    """A copy whose frame is called forward: of others PyTorch writes no lines, and lines say what
    holds which tensor."""
    made = types.FunctionType(function.__code__.replace(co_name="forward"), function.__globals__,
                              "forward", function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _seen(call: Any) -> Any:
    """What is called in its place: a function as a module's forward, which has its frame."""
    import torch
    if isinstance(call, torch.nn.Module):
        return call
    inner = _inner(call)
    if not isinstance(inner, (types.FunctionType, types.MethodType)):
        inner = getattr(type(inner), "__call__").__get__(inner)
    function = getattr(inner, "__func__", inner)
    module = getattr(function, "__module__", None) or ""
    if not isinstance(function, types.FunctionType) or module.startswith("torch."):
        return call
    made = _named_forward(function)
    if isinstance(inner, types.MethodType):
        made = types.MethodType(made, inner.__self__)
    if isinstance(call, functools.partial):
        made = functools.partial(made, *call.args, **call.keywords)
    module = torch.nn.Module()
    object.__setattr__(module, "forward", made)
    return module


def on_device_of(loss: Recorded, model: torch.nn.Module) -> Recorded:
    """With a copy of a module whose tensors are where the model's are."""
    import torch
    device = next((parameter.device for parameter in model.parameters()), None)
    if not isinstance(loss.call, torch.nn.Module) or device is None:
        return loss
    tensors = [*loss.call.parameters(), *loss.call.buffers()]
    if all(tensor.device == device for tensor in tensors):
        return loss
    return loss._replace(call=copy.deepcopy(loss.call).to(device))


_MARK = "_onnxfit_loss"


def is_behind(model: torch.nn.Module) -> bool:
    """Whether forward() of `model` returns a loss now."""
    return hasattr(vars(model).get("forward"), _MARK)


@contextmanager
def behind(model: torch.nn.Module, loss: Recorded, name: Optional[str]) -> Iterator[None]:
    """Within, forward() of `model` returns the loss, of labels that it takes as `name`; a loss
    that is a module is one of the model's."""
    import torch
    inner, held, call = model.forward, dict(vars(model)), _seen(loss.call)
    child = None
    if isinstance(call, torch.nn.Module) and call not in set(model.modules()):
        child = _free_name({*vars(model), *model._modules, *dir(type(model))},
                           ("loss", "criterion", "loss_function", "onnxfit_loss"))

    def alone(*args: Any, **kwargs: Any) -> Any:
        """The model's own forward, which may run all of its children."""
        if child is None:
            return inner(*args, **kwargs)
        del model._modules[child]
        try:
            return inner(*args, **kwargs)
        finally:
            model._modules[child] = call

    def forward(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.pop(name) if name is not None else ()
        labels = given if isinstance(given, tuple) else (given,)
        return _number_of(call(*_taken(loss, alone(*args, **kwargs), labels)), loss.name)

    setattr(forward, _MARK, True)
    signature = _signature_with(inner, name) if name is not None else inspect.signature(inner)
    if signature is not None:
        setattr(forward, "__signature__", signature)
    if child is not None:
        model._modules[child] = call
    object.__setattr__(model, "forward", forward)
    try:
        yield
    finally:
        if child is not None:
            del model._modules[child]
        if "forward" in held:
            object.__setattr__(model, "forward", held["forward"])
        else:
            object.__delattr__(model, "forward")


def _shape_text(value: Any) -> str:
    from torch.utils import _pytree as pytree
    return ", ".join(f"{str(leaf.dtype).rpartition('.')[2]}{list(leaf.shape)}"
                     for leaf in pytree.tree_leaves(value) if _is_tensor(leaf))


def say(loss: Recorded, labels: Any) -> None:
    """What the answer has to say of a loss that was recorded."""
    import torch
    told = f" of labels {_shape_text(labels)}" if labels is not None else ""
    note(f"the loss is {loss.name}{told}, recorded behind the model")
    own = ([*loss.call.named_parameters()] if isinstance(loss.call, torch.nn.Module) else [])
    if own:
        note(f"parameters of the loss ({', '.join(name for name, _ in own[:3])}) are the model's: "
             "the optimizer steps them, too")
