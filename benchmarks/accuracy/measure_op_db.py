"""What op_db.py compares with: figures of zoo_op_db.py's networks, their exports.

    measure_op_db.py FOLDER [OPERATOR...]            # exports, without weights
    measure_op_db.py OUT.jsonl --figures [OPERATOR...]
    measure_op_db.py EVENTS.gz --events PRECISION OPERATOR   # for events.py, with --loss mse
    measure_op_db.py … --layouts [OPERATOR...]    # those that networks use, in other layouts

Figures and events are those of the runtime that README.md tells of.  What does not run there, or an
exporter refuses, is said.
"""

import argparse
import gc
import json
import logging
import tempfile
import warnings
from pathlib import Path

import torch
from torch.nn import functional as F

import op_db
import recorder
import zoo_op_db as zoo
from measure_operators import counted, give_back

STEPS = 2
PRECISIONS = ["fp32", "amp-bf16", "bf16"]
PRECISIONS_OF_LAYOUT = ["fp32", "amp-bf16"]
KINDS = ["pt2", "dynamo-raw", "train"]
KINDS_OF_LAYOUT = ["pt2", "dynamo-raw"]


# --- Figures ---------------------------------------------------------------------------------

class Run:
    """The reference loop (estimator/training/training.h) with mse_loss."""

    def __init__(self, name, precision):
        self.name, self.precision = name, precision
        self.like, self.result = self.sizes()
        give_back()  # the network has references to itself

    def sizes(self):
        """Inputs, and a tensor like the result, on the host."""
        network = self.typed(zoo.build(self.name).cuda())
        inputs = [self.typed(tensor) for tensor in network.inputs]
        with torch.no_grad():
            result = network(*(tensor.cuda() for tensor in inputs))
        return inputs, torch.empty_like(result, device="cpu")

    def typed(self, it):
        """A network, or a tensor, in the parameters' type: integers stay as they are."""
        is_float = isinstance(it, torch.nn.Module) or it.dtype == torch.float32
        return it.to(torch.bfloat16) if self.precision == "bf16" and is_float else it

    def steps(self):
        network = self.typed(zoo.build(self.name).cuda()).train()
        optimizer = torch.optim.AdamW(network.parameters())
        autocast = torch.autocast("cuda", torch.bfloat16, enabled=self.precision == "amp-bf16")
        for _ in range(STEPS):
            torch.cuda.reset_peak_memory_stats()
            batch = {"x": [torch.empty_like(tensor, device="cuda") for tensor in self.like],
                     "y": torch.empty_like(self.result, device="cuda")}
            optimizer.zero_grad()
            with autocast:
                loss = F.mse_loss(network(*batch["x"]), batch["y"])
            step = {"after_forward": torch.cuda.memory_allocated()}
            loss.backward()
            step["after_backward"] = torch.cuda.memory_allocated()
            optimizer.step()
            step["after_step"] = torch.cuda.memory_allocated()
            yield {**step, **counted()}


def measured(name, precision):
    run = {"operator": name, "precision": precision}
    try:
        call = Run(name, precision)
        steps, events = recorder.Recorder().of(lambda: list(call.steps()))
        return {**run, "steps": steps, **({"events": events} if "@" in name else {})}
    except Exception as error:  # kernels that do nothing leave no values behind
        return {**run, "refused": first_line(error)}


def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def measure(names, out):
    gc.collect()
    gc.freeze()
    with open(out, "w") as file:
        for name in names:
            for precision in PRECISIONS_OF_LAYOUT if "@" in name else PRECISIONS:
                print(json.dumps(measured(name, precision)), file=file, flush=True)
                give_back()


def record(name, precision, out):
    run = Run(name, precision)
    recorder.start("python")
    list(run.steps())
    recorder.write(out, {"precision": precision, "optimizer": "adamw", "mode": "train"})


# --- Exports ---------------------------------------------------------------------------------

def export(network, kind, path):
    if kind == "pt2":
        from export_transformers import save_without_folders
        program = torch.export.export(network, network.inputs, strict=False)
        save_without_folders(program, path, zeroed="/data/")
    elif kind == "dynamo-raw":
        torch.onnx.export(network, network.inputs, path, dynamo=True, optimize=False,
                          verbose=False, external_data=False)
    else:
        torch.onnx.export(network, network.inputs, path, dynamo=False,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          opset_version=17)


def write(name, kind, folder):
    from export_transformers import leave_folders_out, leave_weights_out
    import onnx
    network = zoo.build(name).train()
    path = folder / f"{name}.{'train.pt2' if kind == 'pt2' else kind + '.onnx'}"
    if kind == "pt2":
        return export(network, kind, path)
    with tempfile.TemporaryDirectory() as scratch:
        export(network, kind, f"{scratch}/model.onnx")
        model = onnx.load(f"{scratch}/model.onnx")
    leave_weights_out(model)
    leave_folders_out(model)
    onnx.save(model, path)


def write_all(names, folder):
    logging.disable(logging.CRITICAL)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for kind in KINDS_OF_LAYOUT if "@" in name else KINDS:
            try:
                write(name, kind, folder)
            except Exception as error:  # exporters have many
                print("refused:", name, kind, first_line(error), flush=True)


def names_of(args):
    if not args.layouts:
        return args.operators or list(zoo.operators())
    used = op_db.used_by_networks()
    return zoo.in_layouts(args.operators or [name for name in zoo.operators() if name in used])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("operators", nargs="*", help="NAME, or NAME@LAYOUT")
    parser.add_argument("--layouts", action="store_true")
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--events", choices=PRECISIONS, metavar="PRECISION")
    args = parser.parse_intermixed_args()
    warnings.filterwarnings("ignore")
    names = names_of(args)
    if not args.figures and not args.events:
        return write_all(names, args.out)
    from measure_transformers import compute_nothing
    compute_nothing()
    if args.events:
        return record(names[0], args.events, args.out)
    return measure(names, args.out)


if __name__ == "__main__":
    main()
