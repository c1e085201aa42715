"""Whole networks with torch.backends.cudnn.benchmark on an H200, beside estimates of the same runs.

    networks.py [--binary build/release/onnxfit]

data/networks_h200.jsonl.xz has what ../zoo/card_truths.py wrote of 21 of the zoo's networks with
that switch on, eight processes at a time.
"""

import argparse
import json
import lzma
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
from runs import by_version  # noqa: E402

PEAKS = {"requested": "exact_bytes", "reserved": "reserved_bytes"}


def read_runs():
    with lzma.open(HERE / "data/networks_h200.jsonl.xz", "rt") as file:
        return [run for run in map(json.loads, file) if "steps" in run]


def measured(run):
    """The most of all steps."""
    return {name: max(step["peak"][name] for step in run["steps"]) for name in PEAKS}


def estimate(binary, folder, run, flags):
    command = [binary, "estimate", f"{folder}/{run['model']}.train.pt2", "-b", str(run["batch"]),
               "-p", run["precision"], "-o", run["optimizer"], "--gpu", "h200", "--calibration",
               "none", "--format", "json", *run["flags"].split(), *flags,
               *by_version(run["flags"].split())]
    found = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return json.loads(found.stdout)["peak"]


def unpack(folder):
    for path in (HERE.parent / "zoo/data").glob("models*.tar.xz"):
        with tarfile.open(path) as file:
            file.extractall(folder)


def row(name, offs):
    """How many are right to the byte, within 5 %, and more than 5 % too low."""
    return (f"| {name} | {len(offs)} | {sum(off == 0 for off in offs)} | "
            f"{sum(abs(off) <= .05 for off in offs)} | {sum(off < -.05 for off in offs)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(HERE.parent.parent / "build/release/onnxfit"))
    args = parser.parse_args()
    runs = [run for run in read_runs() if run["mode"] == "train"]
    found = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        unpack(folder)
        for flags in ([], ["--cudnn-benchmark"]):
            said = pool.map(lambda run: estimate(args.binary, folder, run, flags), runs)
            for run, peak in zip(runs, said):
                for name, field in PEAKS.items():
                    key = (run["precision"], run["batch"], name, " ".join(flags) or "without")
                    found[key].append(peak[field] / measured(run)[name] - 1)
    print("| precision | runs | to the byte | within 5 % | too low by more |\n|---|---|---|---|---|")
    for (precision, batch, name, flags), offs in sorted(found.items()):
        print(row(f"{precision}, batch {batch}, {name}, {flags}", offs))


if __name__ == "__main__":
    main()
