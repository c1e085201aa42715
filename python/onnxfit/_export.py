"""python -m onnxfit export: a model by name to a file of kilobytes, without weights."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence

from onnxfit import onnx_files, programs, targets
from onnxfit.errors import OnnxfitError, OnnxfitWarning, noted
from onnxfit.inputs import Inputs, of_torch

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


class _Sample:
    """Inputs on the meta device, and which of their dimensions are free."""

    def __init__(self, target: targets.Target, dtype: torch.dtype) -> None:
        import torch
        from torch.export import Dim, ShapesCollection
        sizes = _sizes_of(target.inputs)
        self.shapes = ShapesCollection()  # type: ignore[no-untyped-call]
        self.tensors: Dict[str, torch.Tensor] = {}
        for spec in target.inputs:
            kind = _type_of(spec.dtype)
            shape = [sizes[dim] if isinstance(dim, str) else dim for dim in spec.dims]
            tensor = torch.empty(shape, device="meta",
                                 dtype=dtype if kind.is_floating_point else kind)
            self.tensors[spec.name] = tensor
            free = {axis: Dim.AUTO for axis, dim in enumerate(spec.dims) if isinstance(dim, str)}
            if free:
                self.shapes[tensor] = free
        self.inputs: Any = (self.tensors if target.by_name else tuple(self.tensors.values()))


def _symbols(program: ExportedProgram, inputs: Sequence[targets.Input]) -> Dict[str, str]:
    """What each free dimension is in the program: a symbol, or the number that it is fixed at."""
    users = program.graph_signature.user_inputs
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.name in users}
    by_order = list(values.values())
    symbols: Dict[str, str] = {}
    for index, spec in enumerate(inputs):
        for dim, size in zip(spec.dims, values.get(spec.name, by_order[index]).shape):
            if isinstance(dim, str):
                symbols.setdefault(dim, str(size))
    return symbols


def _batch_place(program: ExportedProgram,
                 inputs: Sequence[targets.Input]) -> Optional[programs.BatchPlace]:
    """Of the first free dimension; None where everybody looks for it."""
    for name, spec in zip(programs.values_of(program), inputs):
        for axis, dim in enumerate(spec.dims):
            if isinstance(dim, str):
                return (name, axis) if axis > 0 else None
    return None


def _said(symbols: Dict[str, str], path: str) -> str:
    """How the command is told sizes: the batch by -b, others by the name that the file has."""
    flags, fixed = [], []
    for index, (name, symbol) in enumerate(symbols.items()):
        if symbol.isdigit():
            fixed.append(f"{name} is fixed at {symbol}")
        else:
            shown = symbol if path.endswith(".pt2") else name
            flags.append("-b N" if index == 0 else f"--dim {shown}=N")
    return "; ".join([f"onnxfit {path} {' '.join(flags)}".rstrip(), *fixed])


class _Program(NamedTuple):
    program: ExportedProgram
    symbols: Dict[str, str]  # of each free dimension, as _symbols()
    batch: Optional[programs.BatchPlace]


def _cast(example: Any, dtype: torch.dtype) -> Any:
    from torch.utils import _pytree as pytree
    return pytree.tree_map(lambda leaf: leaf.to(dtype) if getattr(
        getattr(leaf, "dtype", None), "is_floating_point", False) else leaf, example)


def _of_example(target: targets.Target, mode: str, dtype: Optional[torch.dtype]) -> _Program:
    """Of the inputs that a function returned, as onnxfit.estimate() exports them."""
    example = target.example if dtype is None else _cast(of_torch(target.example), dtype)
    program = programs.export(target.module, example, mode=mode)
    given = Inputs.of(example, target.module)
    batch = programs.batch_of(program, given)
    return _Program(program, {"batch": batch} if batch else {},
                    programs.place_if_odd(program, given))


def _of_inputs(target: targets.Target, mode: str, dtype: Optional[torch.dtype]) -> _Program:
    import torch
    floats = [tensor.dtype for tensor in target.module.parameters() if tensor.is_floating_point()]
    sample = _Sample(target, dtype or next(iter(floats), torch.float32))
    program = programs.export(target.module, sample.inputs, mode=mode,
                              dynamic_shapes=sample.shapes)
    return _Program(program, _symbols(program, target.inputs),
                    _batch_place(program, target.inputs))


def export(target: targets.Target, path: str, mode: str, dtype: Optional[torch.dtype],
           for_check: bool = False) -> Dict[str, str]:
    """Writes `target` to `path`.  Returns _symbols()."""
    if dtype is not None:
        target.module.to(dtype)
    with noted() as notes:
        made = (_of_example if target.example is not None else _of_inputs)(target, mode, dtype)
    told = programs.notes_json(notes, made.batch)
    names: Dict[str, str] = {}
    for name, symbol in made.symbols.items():
        if not symbol.isdigit():
            names.setdefault(symbol, name)
    if path.endswith(".onnx"):
        onnx_files.save(made.program, path, names, told)
    elif for_check:
        programs.save_for_command(made.program, path, told, names)
    else:
        programs.save(made.program, path, told)
    return made.symbols


def _dtype_of(options: argparse.Namespace, target: targets.Target) -> Optional[torch.dtype]:
    """None: the types are the function's own."""
    if options.dtype is None and target.is_own:
        return None
    return _type_of(options.dtype or "float32")


def _exported(options: argparse.Namespace, target: targets.Target, path: str) -> Dict[str, str]:
    """export(); what it warns of is written as the command writes it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", OnnxfitWarning)
        try:
            symbols = export(target, path, options.mode, _dtype_of(options, target),
                             options.for_check)
        except OnnxfitError as error:
            is_known = not options.input and target.example is None
            raise (_with_inputs(error, target, options.for_check) if is_known else error) from error
    for warning in said:
        if issubclass(warning.category, OnnxfitWarning):
            print(f"warning: {warning.message}", file=sys.stderr)
    return symbols


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
    print(_said(_exported(options, target, path), path))
