"""What PyTorch's allocator counts of the zoo's models: data/truth.json.xz.

    truths.py OUT.jsonl [FAMILY...] [--part K/N]
    truths.py EVENTS.json.gz FAMILY --events BATCH,PRECISION,OPTIMIZER,MODE    # for events.py

Runs on "cuda", each run in a process of its own; the truths here are of the runtime that
../accuracy/README.md tells of.
"""

import argparse
import json
import logging
import os
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "accuracy"))
import measure_transformers as reference  # noqa: E402
import recorder  # noqa: E402

from family import LOSSES, target_like  # noqa: E402
from registry import zoo  # noqa: E402

SETTINGS = [(4, "fp32", "adamw", "train"), (8, "amp-bf16", "adamw", "train"),
            (8, "bf16", "sgdm", "train"), (8, "fp32", "adamw", "eval"),
            (8, "amp-bf16", "adamw", "eval")]


class Loop:
    """The reference loop (estimator/training/training.h) of one family."""

    def __init__(self, family):
        self.family = family

    def forward(self, model, batch):
        return model(*[tensor for name, tensor in batch.items() if name != "y"])

    def loss(self, output, target):
        return LOSSES[self.family.loss](output, target)


def asking_no_device():
    """Libraries ask whether there is a device, and a process that has asked must not fork."""
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 1


def target_of(family, batch):
    """Where one process runs the model, another's figures are not touched.

    (shape, is whole, what masks show)
    """
    reading, writing = os.pipe()

    def ask():
        shown = shown_on_host(family)
        reference.SHOWN.take(shown)
        model = family.build().to("cuda")
        with torch.no_grad():
            output = Loop(family).forward(model, family.inputs(batch, "cuda", torch.float32))
        target = target_like(output, family.loss)
        os.write(writing, json.dumps(
            [list(target.shape), target.dtype == torch.long, shown]).encode())
    done = reference.in_own_process(ask)
    os.close(writing)
    with os.fdopen(reading) as answer:
        return json.load(answer) if done else None


def with_values(batch):
    """Random ones where inputs are numbers; ids are zero, which every vocabulary has."""
    for tensor in batch.values():
        if tensor.is_floating_point():
            tensor.normal_()
    return batch


def shown_on_host(family):
    """What the family's masks show (reference.SHOWN), of a batch with values; [] of what fails."""
    def work():
        with torch.no_grad():
            Loop(family).forward(family.build(),
                                 with_values(family.inputs(2, "cpu", torch.float32)))
    try:
        return reference.SHOWN.ask_host(work)
    except Exception:  # what a host cannot run asks nothing
        return []


def figures(family, target, batch, precision, optimizer_name, mode):
    loop = Loop(family)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    (_, *shape), is_whole, shown = target
    reference.SHOWN.take(shown)
    model = family.build()
    if precision == "bf16":  # .to(torch.float32) would make real numbers of complex ones
        model = model.to(dtype)
    model = model.to("cuda").train(mode == "train")

    def autocast():
        return torch.autocast("cuda", torch.bfloat16, enabled=precision == "amp-bf16")

    def make_batch():
        return {**family.inputs(batch, "cuda", dtype),
                "y": torch.zeros(batch, *shape, device="cuda",
                                 dtype=torch.long if is_whole else dtype)}
    if mode == "eval":
        return list(reference.infer(loop, model, make_batch, autocast))
    optimizer = reference.make_optimizer(optimizer_name, model)
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    return list(reference.train(loop, model, make_batch, autocast, optimizer, scaler))


def run(name, family, target, setting):
    batch, precision, optimizer, mode = setting
    return {"model": name, "batch": batch, "precision": precision, "optimizer": optimizer,
            "mode": mode, "flags": "--loss mse" if family.loss == "mse" else "",
            "steps": figures(family, target, *setting)}


def append(path, name, family, target, setting):
    truth = run(name, family, target, setting)
    if torch.cuda.memory_stats()["num_alloc_retries"]:
        raise RuntimeError("memory was short: the card is too small for a truth")
    with open(path, "a") as file:
        file.write(json.dumps(truth) + "\n")


def record(path, name, family, setting):
    target = target_of(family, setting[0])
    recorder.start("python")
    truth = run(name, family, target, setting)
    truth.pop("steps")
    recorder.write(path, truth)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--part", default="1/1", help="of N equal parts, the K-th")
    parser.add_argument("--events", metavar="BATCH,PRECISION,OPTIMIZER,MODE")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # threads do not outlive a fork
    reference.compute_nothing()
    asking_no_device()
    part, parts = map(int, args.part.split("/"))
    chosen = list(zoo(args.families).items())[part - 1::parts]
    if args.events:
        batch, *rest = args.events.split(",")
        return record(args.out, *chosen[0], (int(batch), *rest))
    for name, family in chosen:
        target = target_of(family, 2)
        for setting in SETTINGS if target else []:
            if not reference.in_own_process(
                    lambda: append(args.out, name, family, target, setting)):
                print("failed:", name, *setting, flush=True)
        if not target:
            print("failed:", name, flush=True)


if __name__ == "__main__":
    main()
