"""PyTorch's own operator database: is every figure of a step what PyTorch's allocator counted?

    op_db.py                 # how many operators are right, by kind of export and precision
    op_db.py -v [NAME...]    # which are not, and the first figure that is off
    op_db.py --check         # exit 1 where a run is not as op_db.csv has it
    op_db.py --update        # writes op_db.csv
    op_db.py --layouts …     # the same of inputs that are not contiguous: op_layouts.csv

data/op_db.json.xz holds what PyTorch 2.11.0 counted in two steps of zoo_op_db.py's networks,
data/op_db.tar.xz their exports in training mode, data/op_layouts.* those of the operators that
networks use in zoo_op_db.py's layouts; measure_op_db.py makes all.  A run is right in every figure,
off (by at most so many bytes, and whether the answer warns that it may be) or refused.  In layouts
every allocation and free counts, too: they show what 512 bytes and a peak elsewhere hide.
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
from typing import NamedTuple

import committed
import events
from runs import HERE, ROOT, by_version

ENDINGS = {"pt2": "train.pt2", "dynamo-raw": "dynamo-raw.onnx", "train": "train.onnx"}
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


class Database(NamedTuple):
    name: str    # of its files
    kinds: list

    def table(self):
        return committed.Table(HERE / f"{self.name}.csv", ["operator", "kind", "precision"],
                               ["answer", "most", "warned", "first"], worse,
                               lambda row: row["answer"] == "right")

    def truths(self):
        with lzma.open(HERE / f"data/{self.name}.json.xz", "rt") as file:
            return [run for run in json.load(file) if "steps" in run]

    def jobs_of(self, folder, names):
        """(run, kind, path) of all that have an export."""
        return [(run, kind, path) for run in self.truths()
                if not names or run["operator"] in names or operator_of(run) in names
                for kind in self.kinds
                for path in [Path(folder) / f"{run['operator']}.{ENDINGS[kind]}"] if path.exists()]


SAMPLES = Database("op_db", ["pt2", "dynamo-raw", "train"])
LAYOUTS = Database("op_layouts", ["pt2", "dynamo-raw"])


def operator_of(row):
    return row["operator"].partition("@")[0]


def layout_of(row):
    return row["operator"].partition("@")[2]


# --- Runs ------------------------------------------------------------------------------------

def figures_off(true_steps, found_steps):
    """[("step1.peak_exact", bytes too many)]"""
    return [(f"step{number}.{name}", found[name] - true[name])
            for number, (true, found) in enumerate(zip(true_steps, found_steps), 1)
            for name in true if found[name] != true[name]]


def events_off(recorded, predicted):
    """[("event 17", 0)], the first that is another one, until PyTorch's last allocation."""
    true = until_allocation(list(events.read_text(recorded.split())))
    count = sum(event.sign == "+" for event in true)
    difference = events.first_difference(events.in_any_order(true),
                                         events.in_any_order(until_allocation(predicted, count)))
    return [] if difference is None else [(f"event {difference}", 0)]


def until_allocation(found, count=None):
    """Those until the allocation number `count`, the last one for None."""
    places = [i for i, event in enumerate(found) if event.sign == "+"][:count]
    return found[:places[-1] + 1] if places else []


def answer(binary, printer, run, kind, path):
    row = {"operator": run["operator"], "kind": kind, "precision": run["precision"],
           "answer": "refused", "most": "", "warned": "", "first": ""}
    flags = ["-p", run["precision"], "-o", "adamw", "--loss", "mse", *by_version([])]
    command = [binary, str(path), *flags, "--format", "json", "-n", "0"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=120)
    if result.returncode == 2 and result.stderr.startswith("error: "):
        return row
    if result.returncode != 0:
        sys.exit(f"{path.name}: exit {result.returncode}: {result.stderr}")
    report = json.loads(result.stdout)
    off = figures_off(run["steps"], report["steps"])
    warned = "yes" if report["warnings"] else ""
    if not off and "events" in run:
        off = events_off(run["events"], events.predict(printer, path, flags))
    if not off:
        return {**row, "answer": "right", "warned": warned}
    name, bytes_off = off[0]
    return {**row, "answer": "off", "most": max(abs(each) for _, each in off), "warned": warned,
            "first": f"{name} {bytes_off:+d}" if bytes_off else name}


def measure(args, database):
    """The rows of the operators that are asked for, and the keys of all."""
    printer = Path(args.binary).parent / "benchmarks/print_trace"
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        with tarfile.open(HERE / f"data/{database.name}.tar.xz") as archive:
            archive.extractall(folder)
        keys = [(run["operator"], kind, run["precision"]) for run, kind, _ in database.jobs_of(folder, [])]
        jobs = database.jobs_of(folder, args.operators)
        return list(pool.map(lambda job: answer(args.binary, printer, *job), jobs)), keys


# --- What is printed -------------------------------------------------------------------------

def used_by_networks():
    with (HERE / "data/op_db_used.csv").open(newline="") as file:
        return {row["operator"] for row in csv.DictReader(line for line in file if line[0] != "#")}


def share(rows):
    return f"{100 * sum(row['answer'] == 'right' for row in rows) / max(len(rows), 1):.1f} %"


def print_summary(rows):
    used = used_by_networks()
    groups = collections.defaultdict(list)
    for row in sorted(rows, key=layout_of, reverse=True):
        groups[layout_of(row), row["kind"], row["precision"]].append(row)
    has_layouts = any(layout for layout, _, _ in groups)  # of operators that networks use
    columns = [*(["inputs"] if has_layouts else []), "export", "precision", "operators", "right",
               "off", "of these said to be", "refused",
               *([] if has_layouts else ["used by networks", "right"])]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for (layout, kind, precision), group in groups.items():
        count = collections.Counter(row["answer"] for row in group)
        said = sum(row["answer"] == "off" and bool(row["warned"]) for row in group)
        of_networks = [row for row in group if operator_of(row) in used]
        cells = [*([f"`{layout}`"] if has_layouts else []), f"`{kind}`", precision, len(group),
                 share(group), count["off"], said, count["refused"],
                 *([] if has_layouts else [len(of_networks), share(of_networks)])]
        print(f"| {' | '.join(map(str, cells))} |")


def print_wrong(rows):
    used = used_by_networks()
    for row in rows:
        if row["answer"] != "right":
            warned = "warned" if row["warned"] else ""
            print(row["operator"], row["kind"], row["precision"], row["answer"], row["first"],
                  warned, "used by networks" if operator_of(row) in used else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--committed", action="store_true", help="what the table says")
    parser.add_argument("--layouts", action="store_true", help="of inputs in other layouts")
    parser.add_argument("-v", "--verbose", action="store_true", help="which are not right")
    parser.add_argument("operators", nargs="*")
    committed.add_arguments(parser)
    args = parser.parse_intermixed_args()
    if args.update and args.operators:
        parser.error("--update is of all operators (found names of some)")
    database = LAYOUTS if args.layouts else SAMPLES
    return committed.answer(args, database.table(), lambda: measure(args, database), print_wrong,
                            print_summary)


if __name__ == "__main__":
    sys.exit(main())
