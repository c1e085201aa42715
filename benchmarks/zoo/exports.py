"""The zoo's exports, newly made, as users do; weights left out.

    exports.py FOLDER [FAMILY...] [--kind KIND...] [--part K/N]

pt2-train, pt2-eval: torch.export.save of the model on the meta device, in that mode.  dynamo:
torch.onnx.export(dynamo=True) in eval mode; dynamo-raw: the same in training mode, optimize=False.
train: the TorchScript exporter in training mode.  The batch is free.  What an exporter refuses, or
takes too long for, is said and left out.
"""

import argparse
import logging
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
import onnx  # noqa: E402

from export_transformers import (leave_folders_out, leave_weights_out,  # noqa: E402
                                 save_without_folders)
from measure_transformers import in_own_process  # noqa: E402
from family import without_weights  # noqa: E402
from registry import FILES, zoo  # noqa: E402

KINDS = list(FILES)
SECONDS = 300  # for one export


def exported(module, family, mode, device):
    inputs = tuple(family.inputs(2, device, torch.float32).values())
    free = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
    return torch.export.export(module.train(mode == "train"), inputs, dynamic_shapes=free,
                               strict=False)


def program_of(family, mode):
    """On no device, but for models that make tensors on the host."""
    try:
        return exported(without_weights(family), family, mode, "meta")
    except Exception:
        return exported(family.build(), family, mode, "cpu")


def export_onnx(family, kind, path):
    module = family.build().train(kind != "dynamo")
    inputs = family.inputs(2, "cpu", torch.float32)
    names, tensors = list(inputs), tuple(inputs.values())
    if kind == "train":
        free = {name: {0: "N"} for name in [*names, "output"]}
        torch.onnx.export(module, tensors, path, input_names=names, output_names=["output"],
                          dynamic_axes=free, dynamo=False, opset_version=17,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
        return
    free = tuple({0: torch.export.Dim.DYNAMIC} for _ in tensors)
    torch.onnx.export(module, tensors, path, input_names=names, dynamic_shapes=free, dynamo=True,
                      optimize=kind == "dynamo", verbose=False)


def write_onnx(family, kind, path):
    with tempfile.TemporaryDirectory() as scratch:
        export_onnx(family, kind, f"{scratch}/model.onnx")
        model = onnx.load(f"{scratch}/model.onnx")
    for given in model.graph.input:
        if not given.type.tensor_type.shape.dim[0].dim_param:
            raise ValueError(f"the batch of {given.name} is not free")
    leave_weights_out(model)
    leave_folders_out(model)
    onnx.save(model, path)


def write(family, kind, path):
    signal.alarm(SECONDS)
    if kind.startswith("pt2"):
        save_without_folders(program_of(family, kind.removeprefix("pt2-")), path)
    else:
        write_onnx(family, kind, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--kind", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--part", default="1/1", help="of N equal parts, the K-th")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # threads do not outlive a fork
    args.folder.mkdir(parents=True, exist_ok=True)
    part, parts = map(int, args.part.split("/"))
    for name, family in list(zoo(args.families).items())[part - 1::parts]:
        for kind in args.kind:
            path = args.folder / f"{name}.{FILES[kind]}"
            if not path.exists() and not in_own_process(lambda: write(family, kind, path)):
                print("refused:", name, kind, flush=True)


if __name__ == "__main__":
    main()
