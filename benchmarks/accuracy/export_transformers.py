"""Exports zoo_transformers.py's models as users do, weights left out.

    export_transformers.py FOLDER [MODEL...] [--kind dynamo ...]

What data/models_transformers.tar.xz holds; the kinds are those of README.md.  "-new" exports the
model itself (a wrapper where it takes two inputs), newly made; the others have weights as after
training, no two equal, as exporters merge equal ones and drop zeros.  "pt2-train" and "pt2-eval"
are torch.export.save's MODEL.train.pt2 and MODEL.eval.pt2, from the meta device, "onnxfit" what
python -m onnxfit export writes of the first's program.  The batch is free.  A kind that the exporter refuses is said and left out.
"""

import argparse
import io
import re
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from measure_transformers import in_own_process
from zoo_transformers import MODELS, Logits

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from onnxfit import onnx_files

KINDS = ["dynamo-raw", "train", "dynamo", "script", "dynamo-new", "script-new"]
PT2_KINDS = ["pt2-train", "pt2-eval"]
PROGRAM_KINDS = [*PT2_KINDS, "onnxfit"]
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16}
KEPT_VALUES = 64  # weights of more are left out, but where they are constants


def make_module(spec, kind):
    module = spec.build()
    if kind.endswith("-new"):
        if type(module) is Logits:
            module = module.model
    else:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.uniform_(0.01, 0.02)
    return module.train(kind in ("train", "dynamo-raw") and not spec.only_infers)


def export(spec, kind, path):
    module = make_module(spec, kind)
    batch = spec.inputs(2, "cpu", torch.float32)
    names = [name for name in batch if name != "y"]
    inputs = tuple(batch[name] for name in names)
    if kind.startswith("dynamo"):
        free = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
        torch.onnx.export(module, inputs, path, input_names=names, dynamic_shapes=free,
                          dynamo=True, optimize=kind != "dynamo-raw", verbose=False)
        return
    mode = torch.onnx.TrainingMode.TRAINING if kind == "train" else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(module, inputs, path, input_names=names, output_names=["output"],
                      dynamic_axes={name: {0: "N"} for name in [*names, "output"]}, dynamo=False,
                      training=mode, do_constant_folding=kind != "train", opset_version=17)


def is_weight(tensor):
    """Floats that differ from each other: masks and newly made norms stay."""
    if tensor.data_type not in FLOATS:
        return False
    values = numpy_helper.to_array(tensor)
    return values.size > KEPT_VALUES and len(set(values.ravel()[:4096].tolist())) > 16


def leave_weights_out(model):
    offset = 0
    for tensor in model.graph.initializer:
        if not is_weight(tensor):
            continue
        count = 1
        for dim in tensor.dims:
            count *= dim
        length = count * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        for field in ("raw_data", "float_data", "external_data"):
            tensor.ClearField(field)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        offset += length


def leave_folders_out(model):
    """Source lines name files below site-packages, or files alone."""
    for node in model.graph.node:
        node.doc_string = ""
        for entry in node.metadata_props:
            if entry.key.endswith("stack_trace"):
                entry.value = re.sub(r'File "[^"]*?site-packages/', 'File "', entry.value)
                entry.value = re.sub(r'File "/[^"]*/', 'File "', entry.value)
    for value in [*model.graph.value_info, *model.graph.input, *model.graph.output]:
        del value.metadata_props[:]


def save_without_folders(program, path, zeroed="/data/weights/"):
    """A .pt2 whose source lines name files below site-packages, or files alone; what lies below
    `zeroed` is zero."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(path, "w") as target:
        for member in source.infolist():
            data = source.read(member)
            if member.filename.endswith(".json"):
                text = re.sub(r'File \\"[^"\\]*?site-packages/', r'File \\"', data.decode())
                data = re.sub(r'File \\"/[^"\\]*/', r'File \\"', text).encode()
            elif zeroed in member.filename:
                data = bytes(len(data))
            target.writestr(zipfile.ZipInfo(member.filename), data)


def write_program(name, kind, folder):
    spec, mode = MODELS[name], "eval" if kind == "pt2-eval" else "train"
    if spec.only_infers and mode == "train":
        return
    with torch.device("meta"):
        module = spec.build().train(mode == "train")
    batch = spec.inputs(2, "meta", torch.float32)
    inputs = tuple(tensor for key, tensor in batch.items() if key != "y")
    free = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
    program = torch.export.export(module, inputs, dynamic_shapes=free, strict=False)
    if kind == "onnxfit":
        onnx_files.save(program, str(folder / f"{name}.onnxfit.onnx"), {})
    else:
        save_without_folders(program, folder / f"{name}.{mode}.pt2")


def write(name, kind, folder):
    if kind in PROGRAM_KINDS:
        return write_program(name, kind, folder)
    with tempfile.TemporaryDirectory() as scratch:
        path = str(Path(scratch) / "model.onnx")
        export(MODELS[name], kind, path)
        model = onnx.load(path)
    for given in model.graph.input:
        if not given.type.tensor_type.shape.dim[0].dim_param:
            raise ValueError(f"the batch of {given.name} is not free")
    leave_weights_out(model)
    leave_folders_out(model)
    onnx.save(model, folder / f"{name}.{kind}.onnx")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--kind", nargs="+", default=KINDS + PROGRAM_KINDS,
                        choices=KINDS + PROGRAM_KINDS)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)  # threads do not outlive a fork
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.models or MODELS:
        for kind in args.kind:
            if not in_own_process(lambda: write(name, kind, args.folder)):
                print("refused:", name, kind, flush=True)
        print(name, flush=True)


if __name__ == "__main__":
    main()
