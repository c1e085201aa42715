"""PyTorch's own operator database: is every figure of a step what PyTorch's allocator counted?

    op_db.py                 # how many operators are right, by kind of export and precision
    op_db.py -v [NAME...]    # which are not, and the first figure that is off
    op_db.py --check         # exit 1 where a run is not as op_db.csv has it
    op_db.py --update        # writes op_db.csv

data/op_db.json.xz holds what PyTorch 2.11.0 counted in two steps of zoo_op_db.py's networks,
data/op_db.tar.xz their exports in training mode; measure_op_db.py makes both.  A run is right in
every figure, off (by at most so many bytes, and whether the answer warns that it may be) or refused.
data/op_db_used.csv names the operators that networks use, and by whom; used_by_networks.py makes it.
"""

import argparse
import collections
import csv
import json
import lzma
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import committed
from runs import HERE, ROOT

KINDS = {"pt2": "train.pt2", "dynamo-raw": "dynamo-raw.onnx", "train": "train.onnx"}
RANKS = ["right", "off", "refused"]


def worse(before, row):
    """A figure of bytes matters only where it is off before and behind."""
    old, new = (RANKS.index(one["answer"]) for one in (before, row))
    if new != old:
        return [f"was {before['answer']}, is {row['answer']}"] if new > old else []
    found = []
    if old == RANKS.index("off") and int(row["most"]) > int(before["most"]):
        found.append(f"off by {row['most']} bytes, not {before['most']}")
    if before["warned"] and not row["warned"] and row["answer"] == "off":
        found.append("off without a warning")
    return found


TABLE = committed.Table(HERE / "op_db.csv", ["operator", "kind", "precision"],
                        ["answer", "most", "warned", "first"], worse,
                        lambda row: row["answer"] == "right")


# --- Runs ------------------------------------------------------------------------------------

def truths():
    with lzma.open(HERE / "data/op_db.json.xz", "rt") as file:
        return [run for run in json.load(file) if "steps" in run]


def jobs_of(folder, names):
    """(run, kind, path) of all that have an export."""
    return [(run, kind, path) for run in truths() if not names or run["operator"] in names
            for kind in KINDS
            for path in [Path(folder) / f"{run['operator']}.{KINDS[kind]}"] if path.exists()]


def figures_off(true_steps, found_steps):
    """[("step1.peak_exact", bytes too many)]"""
    return [(f"step{number}.{name}", found[name] - true[name])
            for number, (true, found) in enumerate(zip(true_steps, found_steps), 1)
            for name in true if found[name] != true[name]]


def answer(binary, run, kind, path):
    row = {"operator": run["operator"], "kind": kind, "precision": run["precision"],
           "answer": "refused", "most": "", "warned": "", "first": ""}
    command = [binary, str(path), "-p", run["precision"], "-o", "adamw", "--loss", "mse",
               "--format", "json", "-n", "0"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=120)
    if result.returncode == 2 and result.stderr.startswith("error: "):
        return row
    if result.returncode != 0:
        sys.exit(f"{path.name}: exit {result.returncode}: {result.stderr}")
    report = json.loads(result.stdout)
    off = figures_off(run["steps"], report["steps"])
    warned = "yes" if report["warnings"] else ""
    if not off:
        return {**row, "answer": "right", "warned": warned}
    return {**row, "answer": "off", "most": max(abs(bytes_off) for _, bytes_off in off),
            "warned": warned, "first": f"{off[0][0]} {off[0][1]:+d}"}


def measure(args):
    """The rows of the operators that are asked for, and the keys of all."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        with tarfile.open(HERE / "data/op_db.tar.xz") as archive:
            archive.extractall(folder)
        keys = [(run["operator"], kind, run["precision"]) for run, kind, _ in jobs_of(folder, [])]
        jobs = jobs_of(folder, args.operators)
        return list(pool.map(lambda job: answer(args.binary, *job), jobs)), keys


# --- What is printed -------------------------------------------------------------------------

def used_by_networks():
    with (HERE / "data/op_db_used.csv").open(newline="") as file:
        return {row["operator"] for row in csv.DictReader(line for line in file if line[0] != "#")}


def share(rows):
    return f"{100 * sum(row['answer'] == 'right' for row in rows) / max(len(rows), 1):.1f} %"


def print_summary(rows):
    used = used_by_networks()
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["kind"], row["precision"]].append(row)
    print("| export | precision | operators | right | off | of these said to be | refused "
          "| used by networks | right |\n|---|---|---|---|---|---|---|---|---|")
    for (kind, precision), group in groups.items():
        count = collections.Counter(row["answer"] for row in group)
        said = sum(row["answer"] == "off" and bool(row["warned"]) for row in group)
        of_networks = [row for row in group if row["operator"] in used]
        print(f"| `{kind}` | {precision} | {len(group)} | {share(group)} | {count['off']} | {said} "
              f"| {count['refused']} | {len(of_networks)} | {share(of_networks)} |")


def print_wrong(rows):
    used = used_by_networks()
    for row in rows:
        if row["answer"] != "right":
            warned = "warned" if row["warned"] else ""
            print(*[row[name] for name in TABLE.key], row["answer"], row["first"], warned,
                  "used by networks" if row["operator"] in used else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--committed", action="store_true", help="what op_db.csv says")
    parser.add_argument("-v", "--verbose", action="store_true", help="which are not right")
    parser.add_argument("operators", nargs="*")
    committed.add_arguments(parser)
    args = parser.parse_intermixed_args()
    if args.update and args.operators:
        parser.error("--update is of all operators (found names of some)")
    rows, keys = (list(TABLE.read().values()), []) if args.committed else measure(args)
    if args.check:
        return committed.check(TABLE, rows, keys)
    if args.update and committed.update(TABLE, rows, args.reason, args.drop):
        return 1
    if args.verbose:
        print_wrong(rows)
    print_summary(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
