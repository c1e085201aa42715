"""Recurrent networks: what onnxfit says of the exports here, beside what PyTorch's allocator counted.

    compare.py [--binary BIN] [-v] [--check | --update]
    compare.py --exports FOLDER --truths FILE.jsonl         of measure.py's, in place of data/

A run is off where the peak of requested, allocated or reserved bytes of three steps is another.
--check fails where runs are off that runs.csv does not list, or no longer are.
"""

import argparse
import csv
import json
import lzma
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
from runs import by_version  # noqa: E402

KINDS = ["train.pt2", "eval.pt2", "dynamo.onnx", "dynamo-raw.onnx", "train.onnx"]
OF_MODE = {"train.pt2": "train", "eval.pt2": "eval"}  # the others are asked for both
COUNTED = {"exact": "requested", "allocated": "allocated", "reserved": "reserved"}
FIELDS = ["model", "kind", "batch", "precision", "optimizer", "mode", *COUNTED]


def estimate(binary, file, truth):
    command = [binary, str(file), "-b", str(truth["batch"]), "-p", truth["precision"],
               "-o", truth["optimizer"], "--mode", truth["mode"], "--format", "json", "-n", "0",
               *truth["flags"].split(), *by_version(truth["flags"].split())]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode not in (0, 1):  # 1: it does not fit, which is an answer
        sys.exit(f"{file.name}: {run.stderr}")
    return json.loads(run.stdout)["peak"]


def off(peak, truth):
    """Predicted less counted bytes."""
    return [peak[f"{ours}_bytes"] - max(step["peak"][theirs] for step in truth["steps"])
            for ours, theirs in COUNTED.items()]


def compare(binary, folder, truths):
    """Rows of FIELDS, of runs whose export is there."""
    for truth in truths:
        for kind in KINDS:
            file = folder / f"{truth['model']}.{kind}"
            if file.exists() and OF_MODE.get(kind, truth["mode"]) == truth["mode"]:
                setting = [str(truth[name]) for name in FIELDS[2:6]]
                yield [truth["model"], kind, *setting, *off(estimate(binary, file, truth), truth)]


def committed():
    with open(HERE / "runs.csv") as file:
        return [[*row[:6], *map(int, row[6:])] for row in list(csv.reader(file))[1:]]


def report(rows, verbose):
    counts = Counter(row[1] for row in rows)
    right = Counter(row[1] for row in rows if not any(row[6:]))
    for kind, count in counts.items():
        print(f"{kind:16} {count} runs, {right[kind]} to the byte")
    for row in rows if verbose else []:
        if any(row[6:]):
            print(*row[:6], *(f"{number:+d}" for number in row[6:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(HERE.parent.parent / "build/release/onnxfit"))
    parser.add_argument("--exports", type=Path)
    parser.add_argument("--truths", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.exports is None:
            with tarfile.open(HERE / "data/models.tar.xz") as archive:
                archive.extractall(folder)
        lines = lzma.open(HERE / "data/truth.jsonl.xz", "rt") if args.truths is None \
            else open(args.truths)
        with lines:
            truths = [json.loads(line) for line in lines]
        rows = list(compare(args.binary, args.exports or Path(folder), truths))
    report(rows, args.verbose)
    wrong = sorted(row for row in rows if any(row[6:]))
    if args.update:
        with open(HERE / "runs.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([FIELDS, *wrong])
    if args.check and wrong != committed():
        for row in sorted([*(row for row in wrong if row not in committed()),
                           *(row for row in committed() if row not in wrong)]):
            print("other than runs.csv has it:", *row)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
