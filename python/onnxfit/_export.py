"""python -m onnxfit export: a model by name to a file of kilobytes, without weights."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from onnxfit import exports, onnx_files, onnx_metadata, programs, targets, watched
from onnxfit.errors import OnnxfitError, OnnxfitWarning, noted, warn
from onnxfit.inputs import Free, Inputs, check, of_torch, on_device_of

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

_DESCRIPTION = """Writes a model as a .pt2 or .onnx file without weights, for the command onnxfit.

TARGET is torchvision:NAME, timm:NAME, hf:PATH-OR-ID (a folder, a config.json or an id of the Hub:
its config is enough, weights are never downloaded) or MODULE:FUNCTION of this folder, where FUNCTION returns a
torch.nn.Module, or one and an example of its inputs: a tensor, a tuple or a dictionary by name.
Batch and sequence are free, of an example the batch."""

_EXAMPLES = """examples
  python -m onnxfit export torchvision:resnet50
  python -m onnxfit export hf:gpt2 gpt2.onnx --dtype bfloat16
  python -m onnxfit export net:build net.pt2 --input ids:int64=N,seq --eval"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m onnxfit export", description=_DESCRIPTION,
                                     epilog=_EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument("file", metavar="FILE", nargs="?", help="*.pt2 or *.onnx [NAME.pt2]")
    parser.add_argument("--dtype", help="of parameters and inputs, such as bfloat16 [float32; of "
                                        "your own as the function makes it]")
    parser.add_argument("--input", action="append", default=[], metavar="NAME[:DTYPE]=DIM,…",
                        help="in the order of forward(); letters are free dimensions, the first "
                             "of them the batch [what the library says; of your own the example, "
                             "else it has to be said]")
    parser.add_argument("--force", action="store_true", help="write even if FILE exists")
    # For `onnxfit check`: a .pt2 that names dimensions as --input does, and no other program reads.
    parser.add_argument("--for-check", action="store_true", help=argparse.SUPPRESS)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--train", dest="mode", action="store_const", const="train",
                      default="train", help="as it trains [this]")
    mode.add_argument("--eval", dest="mode", action="store_const", const="eval",
                      help="as it answers, for --mode eval")
    return parser


def _type_of(name: str) -> torch.dtype:
    import torch
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise OnnxfitError(f"'{name}': expected a type of torch, such as bfloat16")
    return found


def _sizes_of(inputs: Sequence[targets.Input]) -> Dict[str, int]:
    """What each free dimension is traced at: 2, 16, 32, …, since a 1 would be a constant."""
    names = dict.fromkeys(dim for spec in inputs for dim in spec.dims if isinstance(dim, str))
    return {name: 16 * index or 2 for index, name in enumerate(names)}


def _said(made: Sequence[Free], frees: Sequence[Free], path: str) -> str:
    """How the command is told sizes: the batch by -b, others by their names."""
    free = {one.name for one in made}
    flags = ["-b N" if at == 0 else f"--dim {one.name}=N" for at, one in enumerate(frees)
             if one.name in free]
    fixed = [f"{one.name} is fixed at {one.size}" for one in frees if one.name not in free]
    return "; ".join([f"onnxfit {path} {' '.join(flags)}".rstrip(), *fixed])


def _given(target: targets.Target, dtype: torch.dtype) -> Tuple[Inputs, List[Free]]:
    """Inputs on the meta device, and which of their dimensions are free."""
    import torch
    sizes = _sizes_of(target.inputs)
    tensors: Dict[str, torch.Tensor] = {}
    for spec in target.inputs:
        kind = _type_of(spec.dtype)
        shape = [sizes[dim] if isinstance(dim, str) else dim for dim in spec.dims]
        tensors[spec.name] = torch.empty(shape, device="meta",
                                         dtype=dtype if kind.is_floating_point else kind)
    frees = [Free(name, size, tuple(tuple(axis for axis, dim in enumerate(spec.dims) if dim == name)
                                    for spec in target.inputs)) for name, size in sizes.items()]
    inputs: Any = tensors if target.by_name else tuple(tensors.values())
    given = Inputs.of(inputs, target.module)
    if frees:
        given = given._replace(axes=frees[0].axes, batch=frees[0].size)
    check(target.module, inputs, given)
    return given, frees


def _cast(example: Any, dtype: torch.dtype) -> Any:
    from torch.utils import _pytree as pytree
    return pytree.tree_map(lambda leaf: leaf.to(dtype) if getattr(
        getattr(leaf, "dtype", None), "is_floating_point", False) else leaf, example)


def _of_example(target: targets.Target, dtype: Optional[torch.dtype]) -> Tuple[Inputs, List[Free]]:
    """The same of the inputs that a function returned, as onnxfit.estimate() takes them."""
    example = target.example if dtype is None else _cast(of_torch(target.example), dtype)
    given = Inputs.of(example, target.module)
    check(target.module, example, given.apart())
    return given, given.frees("batch")


def _symbols(program: ExportedProgram, frees: Sequence[Free]) -> Dict[str, str]:
    """The name of each free size by the symbol that it is in `program`."""
    users = program.graph_signature.user_inputs
    values = [node.meta["val"] for node in program.graph.nodes
              if node.op == "placeholder" and node.name in users
              and hasattr(node.meta.get("val"), "shape")]
    names: Dict[str, str] = {}
    for free in frees:
        for value, axes in zip(values, free.axes):
            for axis in axes:
                if not str(value.shape[axis]).isdigit():
                    names.setdefault(str(value.shape[axis]), free.name)
    return names


def _write(target: targets.Target, given: Inputs, made: watched.Program, path: str, mode: str,
           told: str, frees: List[Free]) -> None:
    """A .pt2 that torch.export.load takes, or an .onnx, and in it what was watched; of a module that
    torch.export refuses a .pt2 for the command alone."""
    with programs.in_mode(target.module, mode):
        try:
            program = exports.export(target.module, given, frees)
        except OnnxfitError as refused:
            if path.endswith(".onnx"):
                raise
            warn(f"{refused.text}: torch.export has no program of it, and the file is for onnxfit "
                 "alone")
            watched.save(made, path, {f"extra/{programs.NOTES_MEMBER}": told} if told else {})
            return
    if path.endswith(".onnx"):
        onnx_files.save(program, made, path, _symbols(program, frees), told)
        return
    members = {programs.NOTES_MEMBER: told} if told else {}
    calls = json.dumps(onnx_metadata.without_folders(made.json), separators=(",", ":"))
    exports.save(program, path, {**members, programs.WATCHED_MEMBER: onnx_metadata.packed(calls)})


def export(target: targets.Target, path: str, mode: str, dtype: Optional[torch.dtype],
           for_check: bool = False) -> Tuple[List[Free], List[Free]]:
    """Writes `target` to `path`.  Returns the sizes that are free there, and all that were to be."""
    import torch
    if dtype is not None:
        target.module.to(dtype)
    floats = [tensor.dtype for tensor in target.module.parameters() if tensor.is_floating_point()]
    given, frees = (_of_example(target, dtype) if target.example is not None
                    else _given(target, dtype or next(iter(floats), torch.float32)))
    given = on_device_of(target.module, given)
    with noted() as notes:
        made = programs.watch(target.module, given, frees, mode=mode)
    told = programs.notes_json(notes, programs.place_of_batch(made, given))
    if for_check:
        watched.save(made, path, {f"extra/{programs.NOTES_MEMBER}": told} if told else {})
    else:
        _write(target, given, made, path, mode, told, frees)
    return made.frees, frees


def _dtype_of(options: argparse.Namespace, target: targets.Target) -> Optional[torch.dtype]:
    """None: the types are the function's own."""
    if options.dtype is None and target.is_own:
        return None
    return _type_of(options.dtype or "float32")


def _exported(options: argparse.Namespace, target: targets.Target,
              path: str) -> Tuple[List[Free], List[Free]]:
    """export(); what it warns of is written as the command writes it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", OnnxfitWarning)
        try:
            free = export(target, path, options.mode, _dtype_of(options, target),
                             options.for_check)
        except OnnxfitError as error:
            is_known = not options.input and target.example is None
            raise (_with_inputs(error, target, options.for_check) if is_known else error) from error
    for warning in said:
        if issubclass(warning.category, OnnxfitWarning):
            print(f"warning: {warning.message}", file=sys.stderr)
    return free


def _refuse_existing(path: str, force: bool) -> None:
    if not force and os.path.lexists(path):
        raise OnnxfitError(f"{path}: it exists already", "--force")


def _with_inputs(error: OnnxfitError, target: targets.Target, in_config: bool) -> OnnxfitError:
    """The same, of inputs that a library is known by and that this model may not take."""
    taken = "; ".join(f"{spec.name}:{spec.dtype}={','.join(map(str, spec.dims))}"
                      for spec in target.inputs)
    names = targets.written([f"{spec.name}=…" for spec in target.inputs], in_config)
    return OnnxfitError(f"{error.text}; the inputs were {taken}", f"{names}, as its forward takes")


def main(words: List[str]) -> None:
    options = _parser().parse_intermixed_args(words)
    suffix = os.path.splitext(options.file or ".pt2")[1] or options.file or ".pt2"
    if suffix not in (".pt2", ".onnx"):
        raise OnnxfitError(f"{options.file}: expected a file named *.pt2 or *.onnx")
    targets.library("torch")
    _type_of(options.dtype or "float32")
    if options.file:
        _refuse_existing(options.file, options.force)
    in_config = options.for_check
    asked = [targets.parse_input(text, in_config) for text in options.input]
    target = targets.find(options.target, asked, in_config)
    path = options.file or f"{target.name}.pt2"
    _refuse_existing(path, options.force)
    made, frees = _exported(options, target, path)
    print(_said(made, frees, path))
