"""Models as files that the command reads.  A path is one; a torch.nn.Module, or a
torch.export.ExportedProgram, becomes a .pt2 without weights in a folder of its own.  torch is
imported for those alone."""

from __future__ import annotations

import copy
import io
import json
import logging
import os
import tempfile
import warnings
from contextlib import contextmanager, redirect_stderr
from typing import (IO, TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, NamedTuple,
                    Optional, Sequence, Tuple, Union)

from onnxfit import (_command, again, archive, asked_gradients, batch_first, checkpoints, losses,
                     plain_values, recording, refusals, wrappers)
from onnxfit.errors import OnnxfitError, OnnxfitWarning, note, noted, warn
from onnxfit.inputs import BatchDim, Inputs, check, check_types, on_device_of

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

ModelLike = Union[str, "os.PathLike[str]", "torch.nn.Module", "ExportedProgram"]

# Larger constants keep their shape alone; smaller ones may be numbers that sizes come from.
_KEPT_CONSTANT_BYTES = 1024
_NOTES_MEMBER = "onnxfit/notes.json"


BatchPlace = Tuple[str, int]  # an input of a program, and which dimension of it is the batch


class ModelFile(NamedTuple):
    path: str
    folder: str = ""  # to be left out of what is shown; "" for a file of the user's
    batch: Optional[int] = None  # of the example inputs
    flags: Mapping[str, Any] = {}  # what the module says, as keywords
    sizes: Mapping[str, int] = {}  # of the example inputs: those of free dimensions, by symbol
    names: Mapping[str, str] = {}  # the symbol of each free dimension that somebody named


def _aliases(inputs: Inputs) -> Inputs:
    """The same elements as other tensors: a torch.export that fails leaves marks on what it got."""
    made: Dict[int, torch.Tensor] = {}

    def alias(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            made[id(tensor)] = tensor.detach().requires_grad_(tensor.requires_grad)
        return made[id(tensor)]

    return inputs.mapped(alias)


@contextmanager
def _in_mode(model: torch.nn.Module, mode: Optional[str]) -> Iterator[None]:
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
                "values, and torch.export writes no values of such a tensor")


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch prints the program so far, and advice to who writes its models."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def _exported(model: torch.nn.Module, inputs: Inputs, dynamic_shapes: Any) -> ExportedProgram:
    import torch
    if dynamic_shapes is None:
        inputs = _aliases(inputs)
    with _quiet(), asked_gradients.noted(), checkpoints.noted(model.training):
        return torch.export.export(model, inputs.args, inputs.kwargs,
                                   dynamic_shapes=dynamic_shapes, strict=False)


def values_of(program: ExportedProgram) -> Dict[str, Any]:
    """The tensors among its inputs that are no parameters, by name."""
    names = set(program.graph_signature.user_inputs)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes
              if node.op == "placeholder" and node.name in names}
    return {name: value for name, value in values.items() if hasattr(value, "shape")}


def place_of_batch(program: ExportedProgram, example: Inputs) -> Optional[BatchPlace]:
    """Where the first input has it."""
    axes = example.apart().once().axes
    return next(((name, of[0]) for name, of in zip(values_of(program), axes) if of), None)


def place_if_odd(program: ExportedProgram, example: Inputs) -> Optional[BatchPlace]:
    """The same; None where everybody looks for it."""
    place = place_of_batch(program, example)
    return place if place is not None and place[1] > 0 else None


def batch_of(program: ExportedProgram, example: Inputs) -> str:
    """The batch in the program: a symbol, what it was found to be, or a number."""
    place = place_of_batch(program, example)
    return "" if place is None else str(values_of(program)[place[0]].shape[place[1]])


def _sizes_of(program: ExportedProgram, example: Inputs) -> Dict[str, int]:
    """What free dimensions but the batch are in the example, by symbol."""
    batch = batch_of(program, example)
    found: Dict[str, int] = {}
    for value in values_of(program).values():
        for axis, size in enumerate(value.shape):
            is_batch = str(size) == batch or (axis == 0 and _hint(size) == example.batch)
            if str(size).isidentifier() and not is_batch:
                found[str(size)] = _hint(size)
    return found


def _hint(size: Any) -> int:
    return size if isinstance(size, int) else int(size.node.hint)


def _names_of(program: ExportedProgram, dynamic_shapes: Any) -> Dict[str, str]:
    """The symbols of dimensions that `dynamic_shapes` has by name: Dim("seq"), "seq"."""
    values = values_of(program)
    specs = (dynamic_shapes.items() if isinstance(dynamic_shapes, Mapping)
             else zip(values, dynamic_shapes) if isinstance(dynamic_shapes, (tuple, list)) else ())
    names: Dict[str, str] = {}
    for name, spec in specs:
        if name not in values or not isinstance(spec, Mapping):
            continue
        for axis, dim in spec.items():
            told = dim if isinstance(dim, str) else getattr(dim, "__name__", "")
            if told:
                names[told] = str(values[name].shape[axis])
    return names


def _is_free(batch: str) -> bool:
    return batch != "" and not batch.isdigit()


def _with_free_batch(model: torch.nn.Module, example: Inputs,
                     batch: Optional[int]) -> ExportedProgram:
    """Where the model fixes its batch, that is `batch`, else the inputs'."""
    # A size of 1 would be taken for a constant.
    larger = _aliases(example.with_batch(2) if example.batch == 1 else example)
    program = _exported(model, larger, larger.free())
    wanted = batch or example.batch
    if wanted in (None, larger.batch) or _is_free(batch_of(program, example)):
        return program
    return _exported(model, example.with_batch(wanted or 1), None)


_BECAUSE = {"mean": "random numbers at their mean", "unknown": "a guess",
            "inputs": "by the values of inputs and weights"}
_OF_BRANCHES = "  guesses are those that take more memory of the ways that they open; "
_OF_SIZES = ("  sizes, or how often a loop runs, follow from this guess, and memory with them: {}")


class _OpenSizes(Exception):
    """A program with sizes that values would say."""


def _has_open_sizes(program: ExportedProgram) -> bool:
    if not any(node.meta.get("unbacked_bindings") for node in program.graph.nodes):
        return False
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
    return any(len(free_unbacked_symbols(node.meta.get("val"))) > 0
               for node in program.graph.nodes if hasattr(node.meta.get("val"), "shape"))


def _checked(program: ExportedProgram) -> ExportedProgram:
    if _has_open_sizes(program):
        raise _OpenSizes("sizes that follow from values")
    return program


def _what_says(model: torch.nn.Module, example: Inputs) -> str:
    """What is missing where a value is not known."""
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        return "weights and inputs with values, not on meta, say which are right"
    if any(tensor.is_meta for tensor in example.tensors()):
        return "inputs with values say which are right"
    return (f"values are computed up to {recording.MOST_WORK // 10**9} GFLOP and "
            f"{recording.MOST_KEPT >> 20} Mi elements: a smaller example may say which are right")


def _told(model: torch.nn.Module, example: Inputs, recorded: recording.Recorded,
          refusal: Exception) -> str:
    """What a recorded run has fixed, a line of code a line."""
    lines: Dict[Tuple[str, str], List[str]] = {}
    for answer in recorded.answers:
        if answer.by in _BECAUSE:
            lines.setdefault((answer.place, _BECAUSE[answer.by]), []).append(answer.shown)
    is_free = _is_free(batch_of(recorded.program, example))
    sizes = "its batch is free" if is_free else "its sizes are fixed"
    why = ("sizes follow from values" if isinstance(refusal, _OpenSizes)
           else f"torch.export refuses it ({refusals.sentence(refusal)})")
    told = [f"{type(model).__name__}: {why}; a run was recorded, {sizes}"]
    for (place, because), values in lines.items():
        shown = list(dict.fromkeys(values))
        more = ", …" if len(shown) > 4 else ""
        told.append(f"  {place} → {', '.join(shown[:4])}{more} ({because})")
    sizing = [answer.place for answer in recorded.answers if answer.line in recorded.sizing]
    told += [_OF_SIZES.format(place) for place in dict.fromkeys(sizing)]
    if any(answer.by == "unknown" for answer in recorded.answers):
        told.append(_OF_BRANCHES + _what_says(model, example))
    return "\n".join(told)


def _peak_of(program: ExportedProgram, example: Inputs, mode: str) -> int:
    """The exact peak in bytes, at the sizes of the example, of a loop without a loss of its own;
    0 where the command has none."""
    sizes = [word for name, size in _sizes_of(program, example).items()
             for word in ("--dim", f"{name}={size}")]
    if _is_free(batch_of(program, example)):
        sizes += ["-b", str(example.batch)]
    with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        path = os.path.join(folder, "program.pt2")
        try:
            save_for_command(program, path, notes_json((), place_of_batch(program, example)))
            answer = _command.ask(["estimate", path, *sizes, "--mode", mode, "--loss", "none"])
        except OnnxfitError:
            return 0
        return int(answer.data["peak"]["exact_bytes"])


def _largest(recorded: recording.Recorded, way: Callable[[], ExportedProgram], example: Inputs,
             mode: str, computes_all: bool) -> recording.Recorded:
    """Of runs that differ in what was guessed, the one that takes most."""
    others, sizing = recording.other_ways(way, recorded, computes_all)
    ways = [recorded, *others]
    if others:
        recorded = max(ways, key=lambda each: _peak_of(each.program, example, mode))
    return recorded._replace(sizing=sizing)


def _run(way: Callable[[], ExportedProgram], example: Inputs, mode: str) -> recording.Recorded:
    """A run that computes small values, then all that it can where those were not enough."""
    recorded, computes_all = recording.record(way), False
    if any(answer.by == "unknown" for answer in recorded.answers):
        try:
            recorded, computes_all = recording.record(way, computes_all=True), True
        except Exception:  # a branch that the values take, and a program cannot
            pass
    return _largest(recorded, way, example, mode, computes_all)


def _recorded(model: torch.nn.Module, example: Inputs, batch: Optional[int], shapes: Any,
              refusal: Exception) -> ExportedProgram:
    """A run in which whatever the code asks of values is answered, and said."""
    wanted = batch or example.batch
    fixed = example.with_batch(wanted) if wanted else example
    ways: List[Callable[[], ExportedProgram]] = [
        (lambda: _exported(model, example, shapes)) if shapes is not None
        else (lambda: _with_free_batch(model, example, batch)),
        lambda: _exported(model, fixed, None)]
    for way in ways:
        try:
            recorded = _run(way, example, "train" if model.training else "eval")
        except Exception:
            continue
        if refusals.has_sparse(recorded.program):
            break
        warn(_told(model, example, recorded, refusal))
        if example.are_zeros:
            note("inputs on meta have no values: they are zeros where the code asks")
        return recorded.program
    raise refusals.refused(model, example, refusal) from refusal


@contextmanager
def _taking(model: torch.nn.Module, given: Inputs, whole: Inputs) -> Iterator[None]:
    """Within, `model` takes `whole`, which is `given` apart, be it once() or not."""
    with plain_values.taken(model, given.args, given.kwargs), again.given(model, whole), \
            asked_gradients.of_inputs(model):
        yield


def _program(model: torch.nn.Module, given: Inputs, batch: Optional[int],
             dynamic_shapes: Any) -> ExportedProgram:
    """torch.export's; where it refuses the model, that of a recorded run."""
    whole = given.apart()
    example = whole.once() if dynamic_shapes is None else whole
    _check_layouts(model, example)
    with _taking(model, given, whole), refusals.watching_backward() as asked:
        try:
            if dynamic_shapes is not None:
                return _checked(_exported(model, example, dynamic_shapes))
            return _checked(_with_free_batch(model, example, batch))
        except OnnxfitError:
            raise
        except Exception as error:
            try:
                return _recorded(model, example, batch, dynamic_shapes, error)
            except OnnxfitError as refused:
                if asked:
                    raise refusals.asks_for_gradients(model, asked[0]) from refused
                raise


def _output_of(program: ExportedProgram) -> Any:
    """What the module returns, of fake tensors."""
    from torch.utils import _pytree as pytree
    made = next(node for node in reversed(list(program.graph.nodes)) if node.op == "output")
    kept = [value for value, spec in zip(made.args[0], program.graph_signature.output_specs)
            if spec.kind.name == "USER_OUTPUT"]
    values = [value.meta["val"] if hasattr(value, "meta") else value for value in kept]
    return pytree.tree_unflatten(values, program.call_spec.out_spec)


def _own_loss(model: torch.nn.Module, program: ExportedProgram) -> Dict[str, str]:
    """The flags of a model that returns its loss."""
    specs = program.graph_signature.output_specs
    names = [getattr(spec.arg, "name", "") for spec in specs if spec.kind.name == "USER_OUTPUT"]
    found = losses.own(_output_of(program), names, values_of(program))
    if found is None:
        return {}
    note("the model returns its loss, and no other is computed (loss= says another)")
    return {"loss": "none", "loss_output": found}


def _output_without_loss(model: torch.nn.Module, given: Inputs, batch: Optional[int],
                         dynamic_shapes: Any) -> Any:
    with noted(), warnings.catch_warnings():
        warnings.simplefilter("ignore", OnnxfitWarning)
        return _output_of(_program(model, given, batch, dynamic_shapes))


def _with_derived(loss: losses.Recorded, model: torch.nn.Module, given: Inputs,
                  batch: Optional[int], dynamic_shapes: Any) -> Tuple[Inputs, Any, Any]:
    """The inputs at a size of which the labels are, those labels, and their free dimensions."""
    if given.batch == 1 and dynamic_shapes is None:
        given = given.with_batch(2)
    with noted(), warnings.catch_warnings():  # it is said of the run with the loss
        warnings.simplefilter("ignore", OnnxfitWarning)
        program = _program(model, given, batch, dynamic_shapes)
    if batch is not None and dynamic_shapes is None and not _is_free(batch_of(program, given)):
        given = given.with_batch(batch)
    labels, free = losses.labels_of(loss, _output_of(program))
    return given, labels, (free,)


def _with_loss(model: torch.nn.Module, given: Inputs, batch: Optional[int], dynamic_shapes: Any,
               loss: losses.Recorded) -> ExportedProgram:
    """A program that ends with the loss, of labels that are its last input."""
    loss = losses.on_device_of(loss, model)
    labels, axes, name = loss.labels, given.multiples(loss.labels), None
    try:
        is_derived = losses.needs_labels(loss)
    except OnnxfitError as error:
        raise losses.with_hint(error, loss, lambda: _output_without_loss(
            model, given, batch, dynamic_shapes)) from error
    if is_derived:
        given, labels, axes = _with_derived(loss, model, given, batch, dynamic_shapes)
    if labels is not None:
        name = losses.label_name(model, given.kwargs)
        given = on_device_of(model, given.with_labels(name, labels, axes))
        dynamic_shapes = losses.shapes_with(dynamic_shapes, given, name)
    losses.say(loss, labels)
    with losses.behind(model, loss, name):
        return _program(model, given, batch, dynamic_shapes)


def export(model: torch.nn.Module, inputs: object, *, mode: Optional[str] = None,
           batch: Optional[int] = None, dynamic_shapes: Any = None, batch_dim: BatchDim = 0,
           loss: Optional[losses.Recorded] = None) -> ExportedProgram:
    """torch.export's program of `model` with its batch free, in `mode` ("train", "eval", else as
    the module is), with a `loss` behind it; where it refuses the model, that of a recorded run."""
    given = Inputs.of(inputs, model, batch_dim)
    check(model, inputs, given.apart())
    given = on_device_of(model, given)
    with _in_mode(model, mode):
        program = (_program(model, given, batch, dynamic_shapes) if loss is None
                   else _with_loss(model, given, batch, dynamic_shapes, loss))
    batch_first.warn_of(model, program, batch_of(program, given))
    return program


def _without_values(tensor: torch.Tensor) -> torch.Tensor:
    """Type and shape, in the storage of one element."""
    import torch
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.numel() == 0:
        return tensor
    bare = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(bare, requires_grad=tensor.requires_grad)
    return bare


def _bare(tensors: Mapping[str, Any], kept_bytes: int) -> Dict[str, Any]:
    """Those above `kept_bytes` without values; what was one tensor under two names still is."""
    import torch
    made: Dict[int, torch.Tensor] = {}

    def bare(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if not value.is_meta and value.numel() * value.element_size() <= kept_bytes:
            return value
        return made.setdefault(id(value), _without_values(value))

    return {name: bare(value) for name, value in tensors.items()}


def without_weights(program: ExportedProgram) -> ExportedProgram:
    """The same program in kilobytes: parameters and buffers keep names, types, shapes and ties.
    `program` stays as it is.  The command never reads a weight."""
    bare = copy.copy(program)
    bare._state_dict = _bare(program.state_dict, 0)
    bare._constants = _bare(program.constants, _KEPT_CONSTANT_BYTES)
    bare._example_inputs = None
    return bare


def notes_json(notes: Sequence[str], batch: Optional[BatchPlace] = None) -> str:
    """What a file says of its export (estimator/pt2/schema.h); "" where there is nothing."""
    said: Dict[str, object] = {"assumptions": list(notes)} if notes else {}
    if batch is not None:
        said["batch"] = list(batch)
    return json.dumps(said, ensure_ascii=False) if said else ""


def _unwritten(program: ExportedProgram, error: Exception) -> OnnxfitError:
    """Names the operators that PyTorch has no form of in a file, where it is one of theirs."""
    import torch
    names = dict.fromkeys(str(node.target) for node in program.graph.nodes
                          if isinstance(node.target, torch._ops.HigherOrderOperator))
    of_them = f", of a program with {', '.join(names)}" if names else ""
    hint = ("torch.nn.functional.scaled_dot_product_attention in its place"
            if "flex_attention" in names else "")
    return OnnxfitError("expected a program that torch.export.save can write, found: "
                        f"{type(error).__name__}: {refusals.first_line(error)}{of_them}", hint)


def save(program: ExportedProgram, path: Union[str, IO[bytes]], notes: str = "") -> None:
    """Writes a .pt2 without weights, with notes_json()."""
    import torch
    files = {_NOTES_MEMBER: notes} if notes else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.export.save(without_weights(program), path, extra_files=files)
        except OSError:
            raise
        except Exception as error:
            raise _unwritten(program, error) from error


def save_for_command(program: ExportedProgram, path: str, notes: str = "",
                     names: Mapping[str, str] = {}) -> None:
    """A .pt2 for the command alone, quickly, with notes_json() and `names` of free dimensions, by
    symbol; what that cannot write is torch.export.save's."""
    try:
        archive.save(program, path, {f"extra/{_NOTES_MEMBER}": notes} if notes else {}, names)
    except Exception:
        save(program, path, notes)


def _flags_of(model: torch.nn.Module, mode: Optional[str]) -> Dict[str, str]:
    return {"mode": mode or ("train" if model.training else "eval")}


def kind_of(model: object) -> str:
    """"path", "module" or "program".  Without torch, nothing is one of its objects."""
    if isinstance(model, (str, os.PathLike)):
        return "path"
    try:
        import torch
        if isinstance(model, torch.nn.Module):
            return "module"
        if isinstance(model, torch.export.ExportedProgram):
            return "program"
    except ImportError:
        pass
    raise OnnxfitError("model: expected a path, a torch.nn.Module or a "
                       f"torch.export.ExportedProgram, found {type(model).__name__}")


@contextmanager
def model_file(model: ModelLike, inputs: object = None, *, mode: Optional[str] = None,
               batch: Optional[int] = None, dynamic_shapes: Any = None, batch_dim: BatchDim = 0,
               loss: Optional[losses.Recorded] = None,
               is_autocast: bool = False, takes_own_loss: bool = False) -> Iterator[ModelFile]:
    """A file of `model` that is there as long as the block runs."""
    kind = kind_of(model)
    if kind == "path":
        yield ModelFile(os.fspath(model))  # type: ignore[arg-type]
        return
    with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        if kind == "program":
            path = os.path.join(folder, "program.pt2")
            save_for_command(model, path)  # type: ignore[arg-type]
            yield ModelFile(path, folder)
            return
        with wrappers.taken_off(model, mode) as plain:  # type: ignore[arg-type]
            module = plain.module
            if inputs is None:
                raise OnnxfitError(
                    f"{type(module).__name__}: expected example inputs for its forward, found none",
                    "onnxfit.estimate(model, torch.empty(2, 3, 224, 224))")
            path = os.path.join(folder, type(module).__name__ + ".pt2")
            flags: Dict[str, Any] = {**_flags_of(module, mode), **plain.flags}
            if loss is not None and flags["mode"] == "eval":
                note(f"in eval no loss is computed: {loss.name} changes nothing")
                loss = None
            program = export(module, inputs, mode=mode, batch=batch, dynamic_shapes=dynamic_shapes,
                             batch_dim=batch_dim, loss=loss)
        if loss is not None:
            flags["loss"] = "none"
            if "compile" in flags:
                note("the loss is compiled with the model")
        elif takes_own_loss and flags["mode"] == "train":
            flags.update(_own_loss(module, program))
        example = Inputs.of(inputs, module, batch_dim)
        save_for_command(program, path, notes_json((), place_if_odd(program, example)))
        check_types(module, program, is_autocast)
        yield ModelFile(path, folder, example.batch, flags, _sizes_of(program, example),
                        _names_of(program, dynamic_shapes))
