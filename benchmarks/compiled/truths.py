"""What PyTorch's allocator counts of compiled training steps: a line for each run.

    truths.py OUT.jsonl [--networks NETWORK...] [--settings BATCH,PRECISION...]

Networks, losses and the loop are those of ../ways; the model alone is compiled, as most do it
(`torch.compile(model)`), the loss and the optimizer are not.
"""

import argparse
import hashlib
import importlib.util
import itertools
import json
import logging
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "ways"), str(HERE)]
from networks import networks  # noqa: E402
from table import WAYS, Way  # noqa: E402

import torch  # noqa: E402


def ways_truths():
    """../ways/truths.py, of the same name as this file."""
    spec = importlib.util.spec_from_file_location("ways_truths", HERE.parent / "ways/truths.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ways = ways_truths()
ways.zoo.asking_no_device()
import inductor  # noqa: E402  (asks, too)

WAYS["eager"] = Way(optimizer="inductor:adamw")
WAYS["compiled"] = Way(model="inductor:compiled", optimizer="inductor:adamw")


def by_operator(saved):
    bytes_of = {}
    for operator, size in saved:
        bytes_of[operator] = bytes_of.get(operator, 0) + size
    return bytes_of


def append(path, name, family, way, target, setting):
    begin = time.time()
    truth = ways.run(name, family, way, target, setting)
    for step, peak in zip(truth["steps"], inductor.before_step):
        step["before_step"] = peak
    if way == "compiled":
        truth.update(saved=[by_operator(graph) for graph in inductor.saved],
                     padded=len(set(inductor.padded)))
    if torch.cuda.memory_stats()["num_alloc_retries"]:
        raise RuntimeError("memory was short: the card is too small for a truth")
    with open(path, "a") as file:
        file.write(json.dumps(truth) + "\n")
    print(name, way, *setting, f"{time.time() - begin:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--networks", nargs="+", default=[])
    parser.add_argument("--settings", nargs="+", default=["32,amp-bf16", "16,fp32"])
    parser.add_argument("--part", default="0/1", help="K/N: the K-th of N shares, from 0")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # threads do not outlive a fork
    ways.reference.compute_nothing()
    inductor.compute_nothing()
    ways.leave_weights()
    families = networks(args.networks)
    part, parts = map(int, args.part.split("/"))
    for name in sorted(families, key=lambda name: hashlib.sha256(name.encode()).digest())[part::parts]:
        target = ways.zoo.target_of(families[name], 2)
        for setting, way in itertools.product(args.settings, ["eager", "compiled"]):
            batch, precision = setting.split(",")
            if not ways.reference.in_own_process(lambda: append(
                    args.out, name, families[name], way, target, (int(batch), precision))):
                print("failed:", name, way, batch, precision, flush=True)


if __name__ == "__main__":
    main()
