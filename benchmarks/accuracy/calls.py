"""The calls recovered from ONNX exports beside those of the same models' .pt2: the oracle.

    calls.py                        # by kind of export: how many are recovered whole
    calls.py --model gpt2 --kind script   # the first call that differs, with what is around it
    calls.py --committed            # the same from calls.csv, without running
    calls.py --check                # fails where a count is not the committed one
    calls.py --update               # commits the counts of today: calls.csv
    calls.py --update --reason WHY  # also where fewer are equal: WHY is kept beside them

A .pt2 has lost nothing: its calls are PyTorch's.  Two calls are equal where operator, in place or
not, operands, types of results, integers, the module around them, and what dies behind them are.
All are calls of a training step at batch 2 in fp32; torch.export's file for training is the truth.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import committed
from runs import HERE, PYTORCH, ROOT, given_flags, unpack_models

FLAGS = ["-b", "2"]
FIELDS = ["operator", "operands", "results", "integers", "module", "dies"]
# The module that the exports' inputs went through, of which some files say nothing, and the number
# of a module's call.
WRAPPER = re.compile(r"(?<=p:)model\.|(?<=\t)model(?:\.|(?=\t))|@\d+(?=\t)")
AROUND = 3  # calls shown before and behind a difference


def unequal(row):
    return int(row["calls"]) - int(row["equal"])


def worse(before, row):
    more = unequal(row) - unequal(before)
    return [f"{unequal(row)} calls are not equal, {more} more"] if more > 0 else []


COUNTS = committed.Table(HERE / "calls.csv", ["model", "kind"], ["calls", "equal", "first"], worse,
                         lambda row: not row["first"])


def calls_of(printer, model, kind, path):
    """What print_calls prints, line by line; each call's operands by how far before it they were
    made, so that one call more moves only those that reach across it."""
    command = [printer, str(path), *FLAGS, *given_flags(model, kind)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=600)
    if result.returncode != 0:
        sys.exit(f"{path.name}: exit {result.returncode}: {result.stderr}")
    return [as_seen_from(place, WRAPPER.sub("", line))
            for place, line in enumerate(result.stdout.splitlines())]


def as_seen_from(place, line):
    """In which order names die together decides nothing."""
    line = re.sub(r"\bc:(\d+)\.", lambda made: f"c:-{place - int(made[1])}.", line)
    call, dies = line.rsplit("\t", 1)
    return f"{call}\t{' '.join(sorted(dies.split()))}"


def first_difference(ours, theirs):
    """The first call that differs and the fields in which it does, "" where none is."""
    for place, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            parts = zip(FIELDS, a.split("\t"), b.split("\t"))
            fields = [name for name, x, y in parts if x != y]
            return f"{b.split(chr(9))[0]}: {' '.join(fields)}"
    return "" if len(ours) == len(theirs) else "number of calls"


def compare(printer, model, kind, path, theirs):
    ours = calls_of(printer, model, kind, path)
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    equal = sum(block.size for block in matcher.get_matching_blocks())
    return {"model": model, "kind": kind, "calls": max(len(ours), len(theirs)), "equal": equal,
            "first": first_difference(ours, theirs)}


def all_jobs(paths):
    """(model, kind, path, path of the .pt2) of all exports that have one."""
    for (model, kind), path in sorted(paths.items()):
        truth = paths.get((model, "pt2-train"))
        if truth and kind not in PYTORCH:
            yield model, kind, path, truth


def jobs_of(paths, args):
    """Those that are asked for."""
    return [job for job in all_jobs(paths) if (not args.model or re.search(args.model, job[0]))
            and (not args.kind or args.kind == job[1])]


def measure(args):
    """The counts of the exports that are asked for, and the keys of all."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = unpack_models(folder)
        keys = [job[:2] for job in all_jobs(paths)]
        jobs = jobs_of(paths, args)
        truths = {model: truth for model, _, _, truth in jobs}
        calls = dict(zip(truths, pool.map(
            lambda model: calls_of(args.printer, model, "pt2-train", truths[model]), truths)))
        rows = pool.map(lambda job: compare(args.printer, *job[:3], calls[job[0]]), jobs)
        return list(rows), keys


def share_equal(rows):
    calls, equal = (sum(int(row[name]) for row in rows) for name in ("calls", "equal"))
    return f"{100 * equal / calls:.1f} %"


def print_summary(rows):
    kinds = defaultdict(list)
    for row in rows:
        kinds[row["kind"]].append(row)
    print("| kind | exports | recovered whole | calls | equal |")
    print("|---|---|---|---|---|")
    for kind, of_kind in sorted(kinds.items()):
        whole = sum(not row["first"] for row in of_kind)
        calls = sum(int(row["calls"]) for row in of_kind)
        print(f"| `{kind}` | {len(of_kind)} | {whole} | {calls:,} | {share_equal(of_kind)} |")


def print_causes(rows):
    causes = Counter((row["kind"], row["first"]) for row in rows if row["first"])
    for (kind, first), count in causes.most_common():
        print(f"{count:4} {kind:<12} {first}")


def print_differences(args):
    with tempfile.TemporaryDirectory() as folder:
        for model, kind, path, truth in jobs_of(unpack_models(folder), args):
            ours = calls_of(args.printer, model, kind, path)
            theirs = calls_of(args.printer, model, "pt2-train", truth)
            difference = difflib.unified_diff(theirs, ours, f"{model}.train.pt2", path.name,
                                              lineterm="", n=AROUND)
            print("\n".join(list(difference)[:args.lines]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--printer", default=str(ROOT / "build/release/benchmarks/print_calls"))
    parser.add_argument("--model", help="a regular expression")
    parser.add_argument("--kind")
    parser.add_argument("--lines", type=int, default=60, help="of each difference that is shown")
    parser.add_argument("--causes", action="store_true", help="how often each call is the first")
    parser.add_argument("--committed", action="store_true")
    committed.add_arguments(parser)
    args = parser.parse_args()
    if args.update and (args.model or args.kind):
        parser.error("--update is of all exports (found flags that choose some)")
    if args.model and not (args.check or args.causes):
        print_differences(args)
        return 0
    rows, keys = (list(COUNTS.read().values()), []) if args.committed else measure(args)
    status = committed.settle(args, COUNTS, rows, keys)
    if status is not None:
        return status
    print_causes(rows) if args.causes else print_summary(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
