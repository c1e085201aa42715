"""Exports of the networks here, and what PyTorch's allocator counts of them.

    measure.py exports FOLDER [NAME...] [--kind KIND...]
    measure.py truths OUT.jsonl [NAME...]
    measure.py events OUT.json.gz NAME BATCH,PRECISION,OPTIMIZER,MODE

Kinds and settings are the zoo's (../zoo/exports.py, ../zoo/truths.py).  The truths are of the runtime
that ../accuracy/README.md tells of, where calls of cuDNN's for recurrent layers go to cuDNN 9.19.0
itself, less those that launch kernels (ask_cudnn.py tells how it answers without a card).
"""

import argparse
import logging
import sys
import warnings
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "accuracy"), str(HERE.parent / "zoo")]
import recorder  # noqa: E402
import truths  # noqa: E402
from networks import families  # noqa: E402

SETTINGS = [*truths.SETTINGS, (16, "fp32", "sgdm", "train")]


def write_exports(folder, names, kinds):
    import exports
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for kind in kinds or exports.KINDS:
            path = folder / f"{name}.{exports.FILES[kind]}"
            if not exports.in_own_process(lambda: exports.write(families()[name], kind, path)):
                print("refused:", name, kind, flush=True)


def write_truths(out, names):
    truths.asking_no_device()
    for name in names:
        family = families()[name]
        target = truths.target_of(family, 2)
        for setting in SETTINGS if target else []:
            if not truths.reference.in_own_process(
                    lambda: truths.append(out, name, family, target, setting)):
                print("failed:", name, *setting, flush=True)
        if not target:
            print("failed:", name, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["exports", "truths", "events"])
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kind", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # threads do not outlive a fork
    names = args.names or list(families())
    if args.what == "exports":
        return write_exports(args.out, names, args.kind)
    truths.reference.compute_nothing()
    if args.what == "truths":
        return write_truths(args.out, names)
    truths.asking_no_device()
    batch, *others = names[1].split(",")
    truths.record(args.out, names[0], families()[names[0]], (int(batch), *others))


if __name__ == "__main__":
    main()
