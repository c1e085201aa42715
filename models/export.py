"""Exports a PyTorch model to ONNX so that onnxfit can see what training it takes.

    export.py resnet18 resnet18.onnx
    export.py net:build net.onnx --input x=N,3,32,32
    export.py net:build net.onnx --input ids:int64=N,seq --input mask:bool=N,seq --no-weights

TARGET is MODULE:FUNCTION, where FUNCTION returns a torch.nn.Module, or the name of a
torchvision model.  Letters in a shape are free dimensions; the first of them is the batch.

Needs torch >= 2.9, onnx and onnxscript.  Run with torch 2.11.0, torchvision 0.26.0,
onnx 1.23.2, onnxscript 0.7.2.
"""

import argparse
import importlib
import re
import sys
import tempfile
from math import prod
from pathlib import Path
from typing import NamedTuple

import onnx
import torch
from onnx.external_data_helper import load_external_data_for_tensor


class Kind(NamedTuple):
    dynamo: bool  # torch.export, or the older TorchScript exporter
    train: bool  # the module's mode while it is exported
    optimize: bool  # what the exporter folds and merges by default


# README.md here says what each of them loses.
KINDS = {
    "dynamo-raw": Kind(dynamo=True, train=True, optimize=False),
    "dynamo": Kind(dynamo=True, train=False, optimize=True),
    "train": Kind(dynamo=False, train=True, optimize=False),
    "script": Kind(dynamo=False, train=False, optimize=True),
}

FLOATS = {torch.float64, torch.float32, torch.float16, torch.bfloat16}
ONNX_FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16,
               onnx.TensorProto.BFLOAT16}

# What --no-weights leaves in the file, in bytes: shapes and masks are computed from it.
KEEP_FLOAT_BYTES = 1024
KEEP_INTEGER_BYTES = 1 << 20


class Input(NamedTuple):
    name: str
    dtype: torch.dtype
    dims: list  # a number, or the name of a free dimension


def parse_input(text):
    """'ids:int64=N,128' as an Input."""
    found = re.fullmatch(r"(\w+)(?::(\w+))?=([\w,]+)", text)
    dtype = getattr(torch, found[2] or "float32", None) if found else None
    if not isinstance(dtype, torch.dtype):
        raise argparse.ArgumentTypeError(f"expected NAME[:DTYPE]=DIM,DIM,…, found '{text}'")
    return Input(found[1], dtype, [int(d) if d.isdigit() else d for d in found[3].split(",")])


def build_module(target):
    module, _, function = target.partition(":")
    if not function:
        import torchvision
        return torchvision.models.get_model(target, weights=None)
    sys.path.insert(0, ".")
    return getattr(importlib.import_module(module), function)()


def make_distinct(module):
    """No two tensors equal and none zero, as after training: exporters merge equal
    tensors and drop zero biases."""
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.dtype in FLOATS:
                tensor.uniform_(0.01, 0.02)


def sizes_of(inputs):
    """The size at which each free dimension is traced: 2, 16, 32, …, since a 1 would be
    taken for a constant."""
    names = list(dict.fromkeys(d for i in inputs for d in i.dims if isinstance(d, str)))
    return {name: 16 * index or 2 for index, name in enumerate(names)}


def example(spec, sizes):
    shape = [sizes.get(dim, dim) for dim in spec.dims]
    return torch.ones(shape, dtype=spec.dtype)


def free_axes(spec):
    return {axis: dim for axis, dim in enumerate(spec.dims) if isinstance(dim, str)}


def export(module, inputs, kind, path):
    sizes = sizes_of(inputs)
    module.train(kind.train)
    args = tuple(example(spec, sizes) for spec in inputs)
    names = [spec.name for spec in inputs]
    if kind.dynamo:
        torch.onnx.export(module, args, path, input_names=names, dynamo=True,
                          optimize=kind.optimize,
                          dynamic_shapes=tuple(free_axes(spec) for spec in inputs))
        return
    mode = torch.onnx.TrainingMode.TRAINING if kind.train else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(module, args, path, input_names=names, dynamo=False, training=mode,
                      do_constant_folding=kind.optimize, opset_version=17,
                      dynamic_axes={spec.name: free_axes(spec) for spec in inputs})


def bytes_of(tensor):
    return prod(tensor.dims) * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def strip_weights(model, folder):
    """Leaves of each large tensor its name, type and shape: an external tensor whose file
    does not exist.  Small ones move into the model."""
    for tensor in model.graph.initializer:
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        limit = KEEP_FLOAT_BYTES if tensor.data_type in ONNX_FLOATS else KEEP_INTEGER_BYTES
        if bytes_of(tensor) > limit:
            for field in ("raw_data", "float_data", "int64_data", "int32_data", "external_data"):
                tensor.ClearField(field)
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="weights.bin")
        elif external:
            load_external_data_for_tensor(tensor, folder)
            tensor.data_location = onnx.TensorProto.DEFAULT
            tensor.ClearField("external_data")


def shorten_paths(model):
    """Source lines stay in the metadata, the folders of this machine do not."""
    for node in model.graph.node:
        node.doc_string = ""
        for entry in node.metadata_props:
            entry.value = re.sub(r'File "[^"]*?(?:site-packages/([^"]*)|([^/"]*))"',
                                 r'File "\1\2"', entry.value)


def export_without_weights(module, inputs, kind, path):
    make_distinct(module)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.onnx")
        export(module, inputs, kind, str(file))
        model = onnx.load(file, load_external_data=False)
        strip_weights(model, folder)
        shorten_paths(model)
        onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument("path", metavar="FILE.onnx")
    parser.add_argument("--input", action="append", type=parse_input, metavar="NAME[:DTYPE]=DIMS",
                        help="in the order of forward(); [x=N,3,224,224]")
    parser.add_argument("--kind", choices=KINDS, default="dynamo-raw", help="[dynamo-raw]")
    parser.add_argument("--no-weights", action="store_true",
                        help="a file of kilobytes: large tensors keep their shape alone")
    args = parser.parse_args()
    inputs = args.input or [parse_input("x=N,3,224,224")]
    write = export_without_weights if args.no_weights else export
    write(build_module(args.target), inputs, KINDS[args.kind], args.path)


if __name__ == "__main__":
    main()
