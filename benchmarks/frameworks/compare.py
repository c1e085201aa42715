"""Training steps by older versions of PyTorch, beside estimates for --framework.

    compare.py             # how far estimates are from data/truths.jsonl.xz; -v each run
    compare.py --check     # exit 1 where one is not as frameworks.csv has it
    compare.py --update    # writes frameworks.csv

Errors are the estimate less the truth: percent of the peaks of three steps, and how many of the
figures after forward, backward and step are off.
"""

import argparse
import json
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
import committed  # noqa: E402
from sample import one_in  # noqa: E402

KEY = ["framework", "network", "batch", "precision", "optimizer"]
ERRORS = ["allocated", "reserved"]
AFTER = ["after_forward", "after_backward", "after_step"]


def worse(before, row):
    return [f"{name} was {before[name]}, is {row[name]}" for name in [*ERRORS, "off"]
            if abs(float(row[name])) > abs(float(before[name]))]


TABLE = committed.Table(HERE / "frameworks.csv", KEY, [*ERRORS, "off"], worse,
                        lambda row: not any(float(row[name]) for name in [*ERRORS, "off"]))


def truths():
    with lzma.open(HERE / "data/truths.jsonl.xz", "rt") as file:
        return [json.loads(line) for line in file]


def ask(binary, folder, truth):
    command = [binary, Path(folder) / f"{truth['network']}.train.pt2", "-b", str(truth["batch"]),
               "-p", truth["precision"], "-o", truth["optimizer"], "--framework",
               truth["framework"], "--format", "json", "-n", "0"]
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if answer.returncode != 0:
        raise SystemExit(answer.stderr)
    return json.loads(answer.stdout)


def percent(estimate, truth):
    return f"{100 * (estimate / truth - 1):+.3f}" if estimate != truth else "0"


def estimate(binary, folder, truth):
    report = ask(binary, folder, truth)
    row = {name: truth[name] for name in KEY}
    for name in ERRORS:
        row[name] = percent(report["peak"][f"{name}_bytes"],
                            max(step[name] for step in truth["steps"]))
    pairs = zip(report["steps"], truth["steps"], strict=True)
    return {**row, "off": sum(found[name] != true[name] for found, true in pairs for name in AFTER)}


def measure(args):
    runs = truths()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        with tarfile.open(HERE / "data/models.tar.xz") as archive:
            archive.extractall(folder)
        rows = list(pool.map(lambda truth: estimate(args.binary, folder, truth),
                             one_in(args.every, runs)))
    return rows, [TABLE.key_of(run) for run in runs]


def print_each(rows):
    for row in rows:
        if not TABLE.is_right(row):
            print(*(row[name] for name in KEY), *(f"{name} {row[name]}" for name in ERRORS),
                  f"off {row['off']}")


def quantile(errors, share):
    return sorted(map(abs, errors))[min(len(errors) - 1, int(share * len(errors)))]


def print_summary(rows):
    print("| version | runs | right in all | peak allocated: right | 90 % | worst "
          "| peak reserved: right | 90 % | worst |\n|---|---|---|---|---|---|---|---|---|")
    for version in dict.fromkeys(row["framework"] for row in rows):
        of = [row for row in rows if row["framework"] == version]
        cells = [version, len(of), sum(TABLE.is_right(row) for row in of)]
        for name in ERRORS:
            errors = [float(row[name]) for row in of]
            cells += [sum(error == 0 for error in errors), f"{quantile(errors, .9):.2f} %",
                      f"{max(errors, key=abs):+.2f} %"]
        print("| " + " | ".join(map(str, cells)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(HERE.parent.parent / "build/release/onnxfit"))
    parser.add_argument("--committed", action="store_true", help="what frameworks.csv says")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth run alone")
    parser.add_argument("-v", "--verbose", action="store_true")
    committed.add_arguments(parser)
    args = parser.parse_args()
    return committed.answer(args, TABLE, lambda: measure(args), print_each, print_summary)


if __name__ == "__main__":
    sys.exit(main())
