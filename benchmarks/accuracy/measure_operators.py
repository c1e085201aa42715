"""What operators.py compares with: figures of zoo_operators.py's networks, their exports.

    measure_operators.py FOLDER [OPERATOR...]            # exports, of ONNX without weights
    measure_operators.py --figures OUT.jsonl [OPERATOR...]

The figures are those of one process, whose caches and workspaces are given back between runs, on
the runtime that README.md tells of.  What an exporter refuses is said and left out.
"""

import argparse
import gc
import json
import warnings
from pathlib import Path

import torch
from torch.nn import functional as F

import zoo_operators as zoo

BATCH = 8
PRECISIONS = ["fp32", "amp-bf16"]
STEPS = 3


def counted():
    statistics = torch.cuda.memory_stats()
    return {"peak_exact": statistics["requested_bytes.all.peak"],
            "peak_allocated": torch.cuda.max_memory_allocated(),
            "peak_reserved": torch.cuda.max_memory_reserved()}


def steps_of(name, precision):
    """The reference loop (estimator/training/training.h) on a new network."""
    network = zoo.build(name).cuda().train()
    optimizer = torch.optim.AdamW(network.parameters())
    autocast = torch.autocast("cuda", torch.bfloat16, enabled=precision == "amp-bf16")
    steps = []
    for _ in range(STEPS):
        torch.cuda.reset_peak_memory_stats()
        batch = {"x": zoo.inputs(name, BATCH, "cuda"),
                 "y": torch.zeros(BATCH, dtype=torch.long, device="cuda")}
        optimizer.zero_grad()
        with autocast:
            loss = F.cross_entropy(network(batch["x"]), batch["y"])
        step = {"after_forward": torch.cuda.memory_allocated()}
        loss.backward()
        step["after_backward"] = torch.cuda.memory_allocated()
        optimizer.step()
        step["after_step"] = torch.cuda.memory_allocated()
        steps.append({**step, **counted()})
    return steps


def give_back():
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()


def measure(names, out):
    from measure_transformers import compute_nothing
    compute_nothing()
    with open(out, "w") as file:
        for name in names:
            for precision in PRECISIONS:
                run = {"operator": name, "batch": BATCH, "precision": precision,
                       "steps": steps_of(name, precision)}
                give_back()
                print(json.dumps(run), file=file, flush=True)


def export(name, kind, path):
    network = zoo.build(name).train()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.uniform_(0.01, 0.02)
    inputs = (torch.ones_like(zoo.inputs(name, 3, "cpu")),)
    if kind == "dynamo-raw":
        torch.onnx.export(network, inputs, path, input_names=["x"], dynamo=True, optimize=False,
                          dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), verbose=False,
                          external_data=False)
        return
    torch.onnx.export(network, inputs, path, input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "N"}, "y": {0: "N"}}, dynamo=False,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      opset_version=17)


def write_pt2(name, folder):
    from export_transformers import save_without_folders
    inputs = (torch.ones_like(zoo.inputs(name, 3, "cpu")),)
    program = torch.export.export(zoo.build(name).train(), inputs, strict=False,
                                  dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    save_without_folders(program, folder / f"{name}.train.pt2")


def write(names, folder):
    import onnx
    from export_transformers import leave_folders_out, leave_weights_out
    for name in names:
        write_pt2(name, folder)
        for kind in ["dynamo-raw", "train"]:
            path = folder / f"{name}.{kind}.onnx"
            try:
                export(name, kind, str(path))
            except Exception as error:  # exporters have many
                print("refused:", name, kind, str(error).splitlines()[0])
                continue
            model = onnx.load(path)
            leave_weights_out(model)
            leave_folders_out(model)
            onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("operators", nargs="*", default=zoo.names())
    parser.add_argument("--figures", action="store_true")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    if args.figures:
        return measure(args.operators, args.out)
    args.out.mkdir(parents=True, exist_ok=True)
    return write(args.operators, args.out)


if __name__ == "__main__":
    main()
