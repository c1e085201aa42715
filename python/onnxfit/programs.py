"""Models as files that the command reads.  A path is one; a torch.nn.Module becomes a program that
was watched (watched.py), a torch.export.ExportedProgram a .pt2 without weights, in a folder of its
own.  torch is imported for those alone."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from contextlib import contextmanager
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional,
                    Sequence, Tuple, Union)

from onnxfit import (_command, batch_first, guesses, losses, recording, refusals, watched, watching, wrappers)
from onnxfit.errors import OnnxfitError, OnnxfitWarning, note, noted, warn
from onnxfit.inputs import BatchDim, Free, Inputs, check, on_device_of, positional

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

ModelLike = Union[str, "os.PathLike[str]", "torch.nn.Module", "ExportedProgram",
                  Callable[..., Any]]  # the last: a whole training step
BatchPlace = Tuple[str, int]  # an input of a program, and which dimension of it is the batch

# Members of a .pt2 that are ours (estimator/pt2/schema.h): torch.export.save puts them in extra/.
NOTES_MEMBER = "onnxfit/notes.json"
WATCHED_MEMBER = "onnxfit/watched.zlib.base64"
_BATCH = "s0"  # the symbol


class ModelFile(NamedTuple):
    path: str
    folder: str = ""  # to be left out of what is shown; "" for a file of the user's
    batch: Optional[int] = None  # of the example inputs
    flags: Mapping[str, Any] = {}  # what the module says, as keywords
    sizes: Mapping[str, int] = {}  # of the example inputs: those of free dimensions, by symbol


def kind_of(model: object) -> str:
    """"path", "module", "program" or "step", a function.  Without torch, nothing is one of its
    objects."""
    if isinstance(model, (str, os.PathLike)):
        return "path"
    try:
        import torch
        if isinstance(model, torch.nn.Module):
            return "module"
        if isinstance(model, torch.export.ExportedProgram):
            return "program"
        if callable(model) and not isinstance(model, type):
            return "step"
    except ImportError:
        pass
    raise OnnxfitError("model: expected a path, a torch.nn.Module, a training step or a "
                       f"torch.export.ExportedProgram, found {type(model).__name__}")


def notes_json(notes: Sequence[str], batch: Optional[BatchPlace] = None) -> str:
    """What a file says of its export (estimator/pt2/schema.h); "" where there is nothing."""
    said: Dict[str, object] = {"assumptions": list(notes)} if notes else {}
    if batch is not None:
        said["batch"] = list(batch)
    return json.dumps(said, ensure_ascii=False) if said else ""


def place_of_batch(made: watched.Program, given: Inputs) -> Optional[BatchPlace]:
    """Where the first input has it; None where everybody looks for it."""
    axes = given.apart().once().axes
    place = next(((name, of[0]) for name, of in zip(made.inputs, axes) if of), None)
    return place if place is not None and place[1] > 0 else None


# --- A module -------------------------------------------------------------------------------------


@contextmanager
def in_mode(model: torch.nn.Module, mode: Optional[str]) -> Iterator[None]:
    """`model` in the mode, and afterwards each of its modules as it was."""
    before = {module: module.training for module in model.modules()}
    if mode is not None and model.training != (mode == "train"):
        model.train(mode == "train")
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training


def _check_layouts(model: torch.nn.Module, inputs: Inputs) -> None:
    """Raises where a tensor is sparse: what its products take is cuSPARSE's to say."""
    import torch
    named = [(f"buffer '{name}'", tensor) for name, tensor in model.named_buffers()]
    named += [(f"parameter '{name}'", tensor) for name, tensor in model.named_parameters()]
    named += [("an input", tensor) for tensor in inputs.tensors()]
    for name, tensor in named:
        if tensor.layout != torch.strided:
            raise OnnxfitError(
                f"{type(model).__name__}: {name}: expected a dense tensor, found one of layout "
                f"{tensor.layout}: its products run in cuSPARSE, whose workspaces follow from its "
                "values")


def _peak_of(made: watched.Program, sizes: Mapping[str, int], mode: str) -> int:
    """The exact peak in bytes of a loop without a loss of its own; 0 where the command has none."""
    words = [word for free in made.frees for word in ("--dim", f"{free.name}={sizes[free.name]}")]
    with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        path = os.path.join(folder, "program.pt2")
        try:
            watched.save(made, path, {})
            answer = _command.ask(["estimate", path, *words, "--mode", mode, "--loss", "none",
                                   *(["-p", made.precision] if made.precision != "own" else [])])
        except OnnxfitError:
            return 0
        return int(answer.data["peak"]["exact_bytes"])


class Asked(NamedTuple):
    """How a module is watched."""

    precision: watched.Precision
    frees: List[Free]
    sizes: List[int]  # at which it is asked for, of each free size


def _recorded(model: torch.nn.Module, given: Inputs, asked: Asked, is_default: bool,
              refusal: Exception) -> watched.Program:
    """A run in which whatever the code asks of values is answered, and said."""
    def way(told: recording.Recording) -> watched.Program:
        return watched.program(model, given, asked.frees, asked.sizes, asked.precision, told,
                               is_default)

    mode = "train" if model.training else "eval"
    sizes = {free.name: size for free, size in zip(asked.frees, asked.sizes)}
    try:
        recorded = guesses.largest(way, lambda made: _peak_of(made, sizes, mode),
                                   watched.Program.has_size)
    except OnnxfitError:
        raise
    except Exception as error:
        raise refusals.refused(model, given, error) from refusal
    made: watched.Program = recorded.program
    is_free = bool(asked.frees) and made.is_free(asked.frees[0].name)
    guesses.tell(model, given, recorded, "its code asks for values", is_free)
    return made


def _watched(model: torch.nn.Module, given: Inputs, asked: Asked,
             is_default: bool = False) -> watched.Program:
    try:
        return watched.program(model, given, asked.frees, asked.sizes, asked.precision,
                               is_default=is_default)
    except OnnxfitError:
        raise
    except Exception as error:
        if refusals.is_of_two_devices(error) and not is_default:
            made = _watched(model, given, asked, is_default=True)
            note("tensors that the code makes on no device are taken to be on the card "
                 "(torch.set_default_device), where they have to be")
            return made
        return _recorded(model, given, asked, is_default, error)


def _program(model: torch.nn.Module, given: Inputs, asked: Asked) -> watched.Program:
    _check_layouts(model, given)
    refusals.check_devices(model, given)
    if watching.step_in(model) is not None:
        return _watched(model, given, asked)
    with refusals.watching_backward() as asks:
        try:
            return _watched(model, given, asked)
        except OnnxfitError as refused:
            if asks:
                raise refusals.asks_for_gradients(model, asks[0]) from refused
            raise


# --- Its loss -------------------------------------------------------------------------------------


def _own_loss(made: watched.Program) -> Dict[str, str]:
    """The flags of a model that returns its loss."""
    found = losses.own(made.output, made.output_names, made.inputs)
    if found is None:
        return {}
    note("the model returns its loss, and no other is computed (loss= says another)")
    return {"loss": "none", "loss_output": found}


def _without_loss(model: torch.nn.Module, given: Inputs, asked: Asked) -> watched.Program:
    with noted(), warnings.catch_warnings():  # it is said of the run with the loss
        warnings.simplefilter("ignore", OnnxfitWarning)
        return _program(model, given, asked)


def _with_loss(model: torch.nn.Module, given: Inputs, asked: Asked,
               loss: losses.Recorded) -> watched.Program:
    """A program that ends with the loss, of labels that are its last input."""
    loss = losses.on_device_of(loss, model)
    labels, axes, name = loss.labels, given.multiples(loss.labels), None
    try:
        is_derived = losses.needs_labels(loss)
    except OnnxfitError as error:
        raise losses.with_hint(error, loss, lambda: _without_loss(
            model, given, asked).output) from error
    if is_derived:
        made = _without_loss(model, given, asked)
        labels, free = losses.labels_of(loss, made.output, made.free_axes)
        labels = asked.precision.outside_autocast(labels)
        given, axes = given.resized(asked.frees, asked.sizes), (free,)
        asked = asked._replace(frees=[one._replace(size=size) for one, size
                                      in zip(asked.frees, asked.sizes)])
    if labels is not None:
        name = losses.label_name(model, given.kwargs)
        given = on_device_of(model, given.with_labels(name, labels, axes), keeps_integers=True)
    losses.say(loss, labels)
    with losses.behind(model, loss, name):
        return _program(model, given, asked._replace(frees=[
            free._replace(axes=(*free.axes, *(axes if at == 0 else ((),) * len(axes))))
            for at, free in enumerate(asked.frees)]))


def program(model: torch.nn.Module, inputs: object, *, precision: str = "",
            mode: Optional[str] = None, batch: Optional[int] = None, batch_dim: BatchDim = 0,
            shapes: Any = None, loss: Optional[losses.Recorded] = None) -> watched.Program:
    """`model` as it runs on a card in `mode` ("train", "eval", else as the module is), with its
    batch free, or what `shapes` leave open as torch.export's dynamic_shapes do, with a `loss` behind
    it."""
    given = Inputs.of(inputs, model, batch_dim)
    check(model, inputs, given.apart())
    given = on_device_of(model, given, keeps_integers=True)
    frees = given.frees(_BATCH) if shapes is None else given.named(shapes, model)
    return watch(model, given, frees, precision=precision, mode=mode, batch=batch, loss=loss)


def _is_batch(free: Free, given: Inputs) -> bool:
    return free.axes[:len(given.axes)] == given.axes


def watch(model: torch.nn.Module, given: Inputs, frees: List[Free], *, precision: str = "",
          mode: Optional[str] = None, batch: Optional[int] = None,
          loss: Optional[losses.Recorded] = None) -> watched.Program:
    """The same of inputs that are checked, with `frees` left open."""
    sizes = [batch if batch and _is_batch(free, given) else free.size for free in frees]
    asked = Asked(watched.Precision.of(precision), frees, sizes)
    with in_mode(model, mode):
        made = (_program(model, given, asked) if loss is None
                else _with_loss(model, given, asked, loss))
    fixed = [free.name for free in frees if not made.is_free(free.name)]
    if fixed:
        warn(f"{type(model).__name__}: what it calls does not follow {', '.join(fixed)} "
             f"({made.why_fixed}): its sizes are fixed")
    if frees and _is_batch(frees[0], given):
        batch_first.warn_of(model, made, frees[0].name, sizes[0])
    return made


# --- Files ----------------------------------------------------------------------------------------


def _precision_of(asked: object) -> str:
    """That which is asked for, the first of several; "" of none."""
    if asked is None or isinstance(asked, str):
        return str(asked or "")
    return str(next(iter(asked)))  # type: ignore[call-overload]


def _write_program(model: Any, folder: str) -> ModelFile:
    from onnxfit import exports
    path = os.path.join(folder, "program.pt2")
    exports.save(model, path)
    return ModelFile(path, folder)


def _write_step(function: Callable[..., Any], inputs: object, folder: str, batch: Optional[int],
                batch_dim: BatchDim) -> ModelFile:
    from onnxfit import steps
    step = steps.step_of(function)
    name = type(step).__name__
    if inputs is None and not positional(step):
        raise OnnxfitError(f"{name}: expected a step that is given a batch, found one without "
                           "arguments, whose batch nobody can size",
                           f"def {name}(images): with what it makes, or holds, as its argument")
    if inputs is None:
        raise OnnxfitError(f"{name}: expected an example of what the step is given, found none",
                           f"onnxfit.estimate({name}, (images, labels))")
    made = program(step, inputs, batch=batch, batch_dim=batch_dim)
    given = Inputs.of(inputs, step, batch_dim)
    path = os.path.join(folder, name + ".pt2")
    notes = notes_json((), place_of_batch(made, given))
    watched.save(made, path, {f"extra/{NOTES_MEMBER}": notes} if notes else {})
    return ModelFile(path, folder, given.batch, steps.flags_of(step))


@contextmanager
def model_file(model: ModelLike, inputs: object = None, *, mode: Optional[str] = None,
               precision: object = None, batch: Optional[int] = None, dynamic_shapes: Any = None,
               batch_dim: BatchDim = 0, loss: Optional[losses.Recorded] = None,
               takes_own_loss: bool = False) -> Iterator[ModelFile]:
    """A file of `model` that is there as long as the block runs."""
    kind = kind_of(model)
    if kind == "path":
        yield ModelFile(os.fspath(model))  # type: ignore[arg-type]
        return
    with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        if kind == "program":
            yield _write_program(model, folder)
            return
        if kind == "step":
            yield _write_step(model, inputs, folder, batch, batch_dim)  # type: ignore[arg-type]
            return
        with wrappers.taken_off(model, mode) as plain:  # type: ignore[arg-type]
            module = plain.module
            if inputs is None:
                raise OnnxfitError(
                    f"{type(module).__name__}: expected example inputs for its forward, found none",
                    "onnxfit.estimate(model, torch.empty(2, 3, 224, 224))")
            flags: Dict[str, Any] = {
                "mode": mode or ("train" if module.training else "eval"), **plain.flags}
            if loss is not None and flags["mode"] == "eval":
                note(f"in eval no loss is computed: {loss.name} changes nothing")
                loss = None
            made = program(module, inputs, precision=_precision_of(precision), mode=mode,
                           batch=batch, batch_dim=batch_dim, shapes=dynamic_shapes, loss=loss)
        if loss is not None:
            flags["loss"] = "none"
            if "compile" in flags:
                note("the loss is compiled with the model")
        elif takes_own_loss and flags["mode"] == "train":
            flags.update(_own_loss(made))
        given = Inputs.of(inputs, module, batch_dim)
        path = os.path.join(folder, type(module).__name__ + ".pt2")
        notes = notes_json((), place_of_batch(made, given))
        watched.save(made, path, {f"extra/{NOTES_MEMBER}": notes} if notes else {})
        sizes = {free.name: free.size for free in made.frees if not _is_batch(free, given)}
        yield ModelFile(path, folder, given.batch, flags, sizes)
