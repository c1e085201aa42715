"""Models as files that the command reads.  A path is one; a torch.nn.Module, or a
torch.export.ExportedProgram, becomes a .pt2 without weights in a folder of its own.  torch is
imported for those alone."""

from __future__ import annotations

import copy
import inspect
import io
import logging
import os
import tempfile
import warnings
from contextlib import contextmanager, redirect_stderr
from typing import (IO, TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, NamedTuple,
                    Optional, Tuple, Union)

from onnxfit import archive, plain_values, recording
from onnxfit.errors import OnnxfitError, warn

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

ModelLike = Union[str, "os.PathLike[str]", "torch.nn.Module", "ExportedProgram"]

# Larger constants keep their shape alone; smaller ones may be numbers that sizes come from.
_KEPT_CONSTANT_BYTES = 1024
# Those that --framework knows (estimator/base/framework.cc).
_OLDEST_FRAMEWORK, _NEWEST_FRAMEWORK = (2, 0), (2, 15)


class ModelFile(NamedTuple):
    path: str
    folder: str = ""  # to be left out of what is shown; "" for a file of the user's
    batch: Optional[int] = None  # of the example inputs
    flags: Mapping[str, str] = {}  # what the module says, as keywords


class Inputs(NamedTuple):
    """What forward() is called with."""

    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]

    @staticmethod
    def of(inputs: object) -> Inputs:
        """A tensor, a tuple or list of positional arguments, or a dictionary of named ones."""
        if isinstance(inputs, Mapping):
            return Inputs((), dict(inputs))
        return Inputs(tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), {})

    def apart(self) -> Inputs:
        """With dictionaries in the place of objects."""
        return Inputs(*plain_values.apart(tuple(self)))

    def tensors(self) -> List[torch.Tensor]:
        import torch
        from torch.utils import _pytree as pytree
        return [leaf for leaf in pytree.tree_leaves((self.args, self.kwargs))
                if isinstance(leaf, torch.Tensor)]

    def batch(self) -> Optional[int]:
        """Dimension 0 of the first tensor that has one."""
        return next((tensor.shape[0] for tensor in self.tensors() if tensor.dim() > 0), None)

    def mapped(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
        import torch
        from torch.utils import _pytree as pytree
        args, kwargs = pytree.tree_map_only(torch.Tensor, change, (self.args, self.kwargs))
        return Inputs(args, kwargs)


def _aliases(inputs: Inputs) -> Inputs:
    """The same elements as other tensors: a torch.export that fails leaves marks on what it got."""
    made: Dict[int, torch.Tensor] = {}

    def alias(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            made[id(tensor)] = tensor.detach().requires_grad_(tensor.requires_grad)
        return made[id(tensor)]

    return inputs.mapped(alias)


def _with_batch(inputs: Inputs, batch: int) -> Inputs:
    """The tensors whose dimension 0 is the batch, at another one."""
    old = inputs.batch()

    def resized(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0 or tensor.shape[0] != old or old in (0, batch):
            return tensor
        return tensor[:1].expand(batch, *tensor.shape[1:]).contiguous()

    return inputs.mapped(resized)


def _free_batch(inputs: Inputs) -> Any:
    from torch.export import Dim, ShapesCollection
    shapes = ShapesCollection()  # type: ignore[no-untyped-call]
    batch = inputs.batch()
    for tensor in inputs.tensors():
        if tensor.dim() > 0 and tensor.shape[0] == batch:
            shapes[tensor] = {0: Dim.AUTO}
    return shapes


def _on_device_of(model: torch.nn.Module, inputs: Inputs) -> Inputs:
    """A model on the meta device takes inputs there."""
    devices = {parameter.device for parameter in model.parameters()}
    if {device.type for device in devices} != {"meta"}:
        return inputs
    return inputs.mapped(lambda tensor: tensor.to("meta"))


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


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def _watching_backward() -> Iterator[List[str]]:
    """By name: the functions by which code asks for gradients, as far as it calls them within."""
    import torch
    asked: List[str] = []
    grad, backward = torch.autograd.grad, torch.autograd.backward

    def noted(name: str, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            asked.append(name)
            return function(*args, **kwargs)
        return call

    setattr(torch.autograd, "grad", noted("torch.autograd.grad", grad))
    setattr(torch.autograd, "backward", noted("backward", backward))
    try:
        yield asked
    finally:
        setattr(torch.autograd, "grad", grad)
        setattr(torch.autograd, "backward", backward)


def _asks_for_gradients(model: torch.nn.Module, name: str) -> OnnxfitError:
    return OnnxfitError(f"{type(model).__name__}: expected a forward without a backward pass of "
                        f"its own, found {name}: torch.export records the calls of a forward, and "
                        "what autograd keeps for a second derivative is not among them")


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


def _refused(model: torch.nn.Module, error: Exception) -> OnnxfitError:
    return OnnxfitError(f"{type(model).__name__}: expected a forward that torch.export can run "
                        f"with these inputs, found: {_first_line(error)}",
                        "model(…) with them; where that runs, an ONNX file by torch.onnx.export")


def _check_inputs(model: torch.nn.Module, inputs: object, example: Inputs) -> None:
    """Raises where forward() does not take them."""
    name = type(model).__name__
    if not example.tensors():
        kind = type(inputs).__name__
        is_empty = isinstance(inputs, (tuple, list, dict)) and not inputs
        found = f"an empty {kind}" if is_empty else kind
        raise OnnxfitError(f"{name}: inputs: expected a tensor, or some in a tuple or a "
                           f"dictionary, found {found}")
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):  # of C++
        return
    try:
        signature.bind(*example.args, **example.kwargs)
    except TypeError as error:
        bare = [value.replace(annotation=value.empty) for value in signature.parameters.values()]
        expected = signature.replace(parameters=bare, return_annotation=signature.empty)
        found = ", ".join(example.kwargs) or f"{len(example.args)} by position"
        raise OnnxfitError(f"{name}: inputs: expected those of forward{expected}, found {found}: "
                           f"{error}") from error


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
    with _quiet():
        return torch.export.export(model, inputs.args, inputs.kwargs,
                                   dynamic_shapes=dynamic_shapes, strict=False)


def _has_free_batch(program: ExportedProgram) -> bool:
    names = set(program.graph_signature.user_inputs)
    values = (node.meta.get("val") for node in program.graph.nodes if node.name in names)
    sizes = (value.shape[0] for value in values if len(getattr(value, "shape", ())) > 0)
    return any(not str(size).isdigit() for size in sizes)  # a symbol, or what it was found to be


def _with_free_batch(model: torch.nn.Module, example: Inputs,
                     batch: Optional[int]) -> ExportedProgram:
    """Where the model fixes its batch, that is `batch`, else the inputs'."""
    # A size of 1 would be taken for a constant.
    larger = _aliases(_with_batch(example, 2) if example.batch() == 1 else example)
    program = _exported(model, larger, _free_batch(larger))
    wanted = batch or example.batch()
    if wanted in (None, larger.batch()) or _has_free_batch(program):
        return program
    return _exported(model, _with_batch(example, wanted), None)


_BECAUSE = {"mean": "random numbers at their mean", "unknown": "a guess",
            "inputs": "by the values of inputs and weights"}


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


def _told(model: torch.nn.Module, program: ExportedProgram, answers: List[recording.Answer],
          refusal: Exception) -> str:
    """What a recorded run has fixed, a line of code a line."""
    lines: Dict[Tuple[str, str], List[str]] = {}
    for answer in answers:
        if answer.by in _BECAUSE:
            lines.setdefault((answer.place, _BECAUSE[answer.by]), []).append(str(answer.value))
    sizes = "its batch is free" if _has_free_batch(program) else "its sizes are fixed"
    why = ("sizes follow from values" if isinstance(refusal, _OpenSizes)
           else "torch.export refuses it")
    told = [f"{type(model).__name__}: {why}; a run was recorded, {sizes}"]
    for (place, because), values in lines.items():
        shown = list(dict.fromkeys(values))
        more = ", …" if len(shown) > 4 else ""
        told.append(f"  {place} → {', '.join(shown[:4])}{more} ({because})")
    return "\n".join(told)


def _recorded(model: torch.nn.Module, example: Inputs, batch: Optional[int], shapes: Any,
              refusal: Exception) -> ExportedProgram:
    """A run in which whatever the code asks of values is answered, and said."""
    wanted = batch or example.batch()
    fixed = _with_batch(example, wanted) if wanted else example
    ways: List[Callable[[], ExportedProgram]] = [
        (lambda: _exported(model, example, shapes)) if shapes is not None
        else (lambda: _with_free_batch(model, example, batch)),
        lambda: _exported(model, fixed, None)]
    for way in ways:
        try:
            program, answers = recording.record(way)
        except Exception:
            continue
        warn(_told(model, program, answers, refusal))
        return program
    raise _refused(model, refusal) from refusal


def export(model: torch.nn.Module, inputs: object, *, mode: Optional[str] = None,
           batch: Optional[int] = None, dynamic_shapes: Any = None) -> ExportedProgram:
    """torch.export's program of `model` with its batch free, in `mode` ("train", "eval", else as
    the module is); where it refuses the model, that of a recorded run."""
    given = _on_device_of(model, Inputs.of(inputs))
    example = given.apart()
    _check_inputs(model, inputs, example)
    _check_layouts(model, example)
    with _in_mode(model, mode), plain_values.taken(model, *given), _watching_backward() as asked:
        try:
            if dynamic_shapes is not None:
                return _checked(_exported(model, example, dynamic_shapes))
            return _checked(_with_free_batch(model, example, batch))
        except Exception as error:
            try:
                return _recorded(model, example, batch, dynamic_shapes, error)
            except OnnxfitError as refused:
                if asked:
                    raise _asks_for_gradients(model, asked[0]) from refused
                raise


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


def save(program: ExportedProgram, path: Union[str, IO[bytes]]) -> None:
    """Writes a .pt2 without weights."""
    import torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(without_weights(program), path)


def _save_for_command(program: ExportedProgram, path: str) -> None:
    """A .pt2 for the command alone, quickly; what that cannot write is torch.export.save's."""
    try:
        archive.save(program, path)
    except Exception:
        save(program, path)


def _precision_of(model: torch.nn.Module) -> Optional[str]:
    """What model.to(dtype) has made of it; None for fp32, which autocast takes, too."""
    types = {str(parameter.dtype) for parameter in model.parameters()
             if parameter.is_floating_point()}
    names = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float64": "fp64"}
    return names.get(types.pop()) if len(types) == 1 else None


def _framework() -> Optional[str]:
    """The PyTorch that is installed, where the command knows it."""
    import torch
    numbers = torch.__version__.split(".")[:2]
    version = tuple(int(number) for number in numbers if number.isdigit())
    if not _OLDEST_FRAMEWORK <= version <= _NEWEST_FRAMEWORK:
        return None
    return "pytorch-" + ".".join(numbers)


def _records_graphs(compiled: object) -> bool:
    """Whether Inductor records CUDA graphs of what torch.compile(mode=…) returned."""
    config = getattr(getattr(compiled, "dynamo_ctx", None), "compiler_config", None) or {}
    return bool(config.get("triton.cudagraphs"))


def _flags_of(model: torch.nn.Module, mode: Optional[str]) -> Dict[str, str]:
    flags = {"mode": mode or ("train" if model.training else "eval"),
             "precision": _precision_of(model), "framework": _framework()}
    return {name: value for name, value in flags.items() if value is not None}


def _kind_of(model: object) -> str:
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
               batch: Optional[int] = None, dynamic_shapes: Any = None) -> Iterator[ModelFile]:
    """A file of `model` that is there as long as the block runs."""
    kind = _kind_of(model)
    if kind == "path":
        yield ModelFile(os.fspath(model))  # type: ignore[arg-type]
        return
    with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        if kind == "program":
            path = os.path.join(folder, "program.pt2")
            _save_for_command(model, path)  # type: ignore[arg-type]
            framework = _framework()
            yield ModelFile(path, folder, flags={"framework": framework} if framework else {})
            return
        module: Any = getattr(model, "_orig_mod", model)  # within torch.compile's
        if inputs is None:
            raise OnnxfitError(f"{type(module).__name__}: expected example inputs for its forward, "
                               "found none", "onnxfit.estimate(model, torch.empty(2, 3, 224, 224))")
        path = os.path.join(folder, type(module).__name__ + ".pt2")
        program = export(module, inputs, mode=mode, batch=batch, dynamic_shapes=dynamic_shapes)
        _save_for_command(program, path)
        flags = _flags_of(module, mode)
        if module is not model and flags["mode"] == "train":
            flags["compile"] = "inductor"
            if _records_graphs(model):
                flags["cuda_graphs"] = True  # type: ignore[assignment]
        yield ModelFile(path, folder, Inputs.of(inputs).apart().batch(), flags)
