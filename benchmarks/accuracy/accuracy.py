"""Estimates beside what PyTorch really used: the yardstick.

    accuracy.py                          # the table: model x kind x settings
    accuracy.py --model resnet --kind train --optimizer adamw --batch 8
    accuracy.py --summary                # one line a group, as in README.md
    accuracy.py --summary --committed    # the same from expected.csv, without running
    accuracy.py --check                  # fails where a figure is not the committed one
    accuracy.py --check --every 12       # the same of one run of twelve
    accuracy.py --update                 # commits the figures of today: expected.csv
    accuracy.py --update --reason WHY    # also where some are worse: WHY is kept beside them

Truths are PyTorch's own statistics, 2.11.0's unless flags say otherwise (README.md here).  What a
run's figures are: runs.py.  What `--check` and `--update` refuse: committed.py.
"""

import argparse
import csv
import os
import re
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import committed
from runs import (HERE, LOSES_NOTHING, PEAKS, PROGRAM, PYTORCH, ROOT, estimate, figures,
                  given_flags, is_plain, is_run, true_peak, truths, unpack_models)
from sample import one_in

CALLS = HERE / "calls.csv"
RUN = ["model", "batch", "precision", "optimizer", "mode", "flags"]  # what names a truth
# Runs are named by their settings and `given`: 0 with our own guesses, 1 with the flags that say
# what the file has lost.  `off` lists the figures that are not PyTorch's, "step2.reserved+2097152".
KEY = ["model", "kind", "batch", "precision", "optimizer", "mode", "flags", "given"]


def read_off(text):
    """{figure: bytes too many}"""
    return {name: int(by) for name, by in re.findall(r"(\S+?)([+-]\d+)(?: |$)", text)}


def write_off(errors):
    return " ".join(f"{name}{by:+d}" for name, by in errors.items() if by)


def worse(before, row):
    old, new = read_off(before["off"]), read_off(row["off"])
    return [f"{name} was {old.get(name, 0):+d} off, is {by:+d}" for name, by in new.items()
            if abs(by) > abs(old.get(name, 0))]


EXPECTED = committed.Table(HERE / "expected.csv", KEY, ["off"], worse, lambda row: not row["off"])


def row_of(truth, kind, given):
    row = {name: truth[name] for name in RUN}
    return {**row, "kind": kind, "given": given, "family": truth["family"], "truth": truth}


def measure_both(binary, path, kind, truth):
    """The rows of a run: with our own guesses, and with the flags that say what was lost."""
    guessed = measure(binary, path, kind, truth, [])
    flags = given_flags(truth["model"], kind)
    given = measure(binary, path, kind, truth, flags) if flags else dict(guessed)
    given["given"] = 1
    return [guessed, given]


def measure(binary, path, kind, truth, flags):
    pairs = figures(truth, estimate(binary, path, truth, flags))
    off = write_off({name: found - true for name, (true, found) in pairs.items()})
    return with_peaks({**row_of(truth, kind, 0), "off": off, "figures": len(pairs)})


def with_peaks(row):
    """Adds by how many bytes the run's peaks are off, and what they are."""
    errors = read_off(row["off"])
    for figure, theirs in PEAKS.items():
        found = [step["peak"][theirs] + errors.get(f"step{number}.{figure}", 0)
                 for number, step in enumerate(row["truth"]["steps"], 1)]
        row[f"{figure}_true"] = true_peak(row["truth"], figure)
        row[figure] = max(found) - row[f"{figure}_true"]
    row["figures_off"] = len(errors)
    return row


def matches(args, model, kind, truth):
    return ((not args.model or re.search(args.model, model))
            and (not args.kind or args.kind == kind)
            and (not args.batch or args.batch == truth["batch"])
            and (not args.precision or args.precision == truth["precision"])
            and (not args.optimizer or args.optimizer == truth["optimizer"])
            and (not args.mode or args.mode == truth["mode"])
            and (not args.flags or re.search(args.flags, truth["flags"])))


def all_jobs(folder):
    """(export, kind, truth) of every run."""
    return [(path, kind, truth) for (model, kind), path in unpack_models(folder).items()
            for truth in truths() if is_run(model, kind, truth)]


def measure_all(args):
    """The rows that `args` ask for, and the keys of all that there are."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = all_jobs(folder)
        keys = [EXPECTED.key_of(row_of(truth, kind, given)) for _, kind, truth in jobs
                for given in (0, 1)]
        jobs = one_in(args.every, [(path, kind, truth) for path, kind, truth in jobs
                                   if matches(args, truth["model"], kind, truth)])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            rows = pool.map(lambda job: measure_both(args.binary, *job), jobs)
            return [row for both in rows for row in both], keys


def percent(row, name):
    return 100 * row[name] / row[f"{name}_true"]


def print_rows(rows):
    rows = [row for row in rows if row["given"]]
    print("Given what the file has lost:")
    print(f"{'model':16} {'kind':10} {'batch':>5} {'prec':5} {'optim':8} {'mode':5} "
          f"{'true exact':>14} {'exact':>18} {'allocated':>18} {'reserved':>18}  off")
    for row in rows:
        cells = [f"{row[name]:+d} {percent(row, name):+.2f}%" for name in PEAKS]
        print(f"{row['model']:16} {row['kind']:10} {row['batch']:5} {row['precision']:5} "
              f"{row['optimizer']:8} {row['mode']:5} {row['exact_true']:14d} {cells[0]:>18} "
              f"{cells[1]:>18} {cells[2]:>18}  {row['figures_off']}/{row['figures']}"
              f"  {row['flags']}")


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def group_of(row):
    if row["kind"] in PROGRAM:
        name = ".pt2" if row["kind"] in PYTORCH else "ONNX with its program"
        return f"{name}, {'inference' if row['mode'] == 'eval' else 'training'}"
    if row["mode"] == "eval":
        return row["family"] + "inference"
    if not is_plain(row):
        return row["family"] + "training, other flags"
    export = "training" if row["kind"] in LOSES_NOTHING else "training, export for inference"
    return row["family"] + export


def calls_equal(rows):
    """The share of calls that calls.py found equal to those of the .pt2, of the exports of `rows`
    that it compares; they are of training."""
    exports = {(row["model"], row["kind"]) for row in rows if row["mode"] == "train"}
    if all(kind in PYTORCH for _, kind in exports):
        return ""
    with CALLS.open(newline="") as file:
        counts = [row for row in csv.DictReader(file) if (row["model"], row["kind"]) in exports]
    calls, equal = (sum(int(row[name]) for row in counts) for name in ("calls", "equal"))
    return f"{100 * equal / calls:.1f} %" if calls else ""


def share_right(errors):
    return f"{100 * sum(error == 0 for error in errors) / len(errors):.1f} %"


def print_summary(rows):
    groups = {}
    for row in rows:
        groups.setdefault(group_of(row), []).append(row)
    print("| | runs | peak | median | 95 % | worst | too low | to the byte | given by flags "
          "| calls |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in sorted(groups):
        calls = calls_equal(groups[name])
        for figure in PEAKS:
            guessed = [percent(row, figure) for row in groups[name] if not row["given"]]
            given = [percent(row, figure) for row in groups[name] if row["given"]]
            sizes = [abs(error) for error in guessed]
            low = 100 * sum(error < 0 for error in guessed) / len(guessed)
            print(f"| {name} | {len(guessed)} | {figure} | {statistics.median(sizes):.2f} % | "
                  f"{percentile(sizes, 0.95):.2f} % | {max(sizes):.2f} % | {low:.1f} % | "
                  f"{share_right(guessed)} | {share_right(given)} | {calls} |")


def committed_rows():
    """The rows of expected.csv, with the truths beside them."""
    true = {tuple(str(truth[name]) for name in RUN): truth for truth in truths()}
    rows = []
    for row in EXPECTED.read().values():
        truth = true[tuple(row[name] for name in RUN)]
        rows.append(with_peaks({**row_of(truth, row["kind"], int(row["given"])),
                                "off": row["off"]}))
    return rows


def is_sample(args):
    """Whether only some runs are asked for."""
    return args.every != 1 or any(
        getattr(args, name) for name in
        ["model", "kind", "batch", "precision", "optimizer", "mode", "flags"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--model", help="a regular expression")
    parser.add_argument("--flags", help="the same, of the loop's")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--every", type=int, default=1, help="one run of so many")
    for name in ["kind", "precision", "optimizer", "mode"]:
        parser.add_argument(f"--{name}")
    for name in ["summary", "committed"]:
        parser.add_argument(f"--{name}", action="store_true")
    committed.add_arguments(parser)
    args = parser.parse_args()
    if args.update and is_sample(args):
        parser.error("--update is of all runs (found flags that choose some)")
    if args.committed:
        rows, keys = committed_rows(), []
    else:
        rows, keys = measure_all(args)
    status = committed.settle(args, EXPECTED, rows, keys)
    if status is not None:
        return status
    if not args.summary:
        print_rows(rows)
    print_summary(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
