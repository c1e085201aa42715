"""Estimates beside what on_card.py measured, and one card beside another.

    card_table.py data/cards/NAME.jsonl.xz            # a row a run, and a summary
    card_table.py card.jsonl --summary --only resnet
    card_table.py card.jsonl --beside other.jsonl     # the same runs of another card
    card_table.py card.jsonl --probes                 # what the probes found
    card_table.py card.jsonl --flags "--gpu h200 --cudnn auto"
    card_table.py card.jsonl --verify                 # on that card: carried out, too

exact, allocated and reserved are peaks of torch.cuda's statistics, device the most that
cudaMemGetInfo counted as used in any step.  With --verify each estimate is carried out on the card
at hand (onnxfit verify); replayed is what that took there, beside the reserved of PyTorch's run.
Errors are estimate minus truth, in percent of the truth.  Estimates are of the exports in data/models.tar.xz, or in --models FOLDER, that lose
nothing.
"""

import argparse
import functools
import json
import lzma
import re
import shlex
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runs import PEAKS, ROOT, estimate, given_flags, unpack_models

KINDS = ["dynamo-raw", "train"]  # exports that lose nothing, the first one there is taken
KEY = ["model", "batch", "precision", "optimizer", "mode", "attention"]
FIGURES = [*PEAKS, "device", "replayed"]


# --- What was measured -----------------------------------------------------------------------

def read_lines(path):
    opened = lzma.open(path, "rt") if str(path).endswith(".xz") else open(path)
    with opened as file:
        return [json.loads(line) for line in file]


def key_of(run):
    return tuple(run[name] for name in KEY)


def runs_of(lines, only):
    """{settings: run} of the runs that ended well."""
    return {key_of(line): line for line in lines
            if line["line"] == "run" and "steps" in line and re.search(only, line["model"])}


def device_bytes(run):
    """The most that was in use on the device after a part of a step, None where it was not
    measured.  Segments are not given back, so a step's end has all of them."""
    most = [step["peak"]["reserved"] + max(step["outside"].values()) for step in run["steps"]]
    return max(most) if run["first_tensor"] > 0 else None


def truths(run):
    """Peak bytes of the three steps, by figure."""
    found = {ours: max(step["peak"][theirs] for step in run["steps"])
             for ours, theirs in PEAKS.items()}
    found["replayed"] = found["reserved"]
    if device_bytes(run) is not None:
        found["device"] = device_bytes(run)
    return found


# --- Beside the estimate ---------------------------------------------------------------------

def find_models(folder):
    """{model: (kind, path)}, of the kinds that lose nothing."""
    paths = {tuple(path.name.split(".")[:2]): path for path in Path(folder).rglob("*.onnx")}
    models = {model for model, _ in paths}
    return {model: next(((kind, paths[model, kind]) for kind in KINDS if (model, kind) in paths),
                        None) for model in models}


def figures_of(report):
    """Bytes by figure, of what estimate or verify printed."""
    estimated = report.get("estimate", report)["peak"]
    found = {figure: estimated[f"{figure}_bytes"] for figure in FIGURES if figure != "replayed"}
    peaks = [row["measured_bytes"] for row in report.get("terms", [])
             if row["what"].startswith("peak of")]
    return found | ({"replayed": max(peaks)} if peaks else {})


def estimated(args, models, run):
    """Estimated bytes by figure, None where there is no export of the model."""
    if models.get(run["model"]) is None:
        return None
    kind, path = models[run["model"]]
    flags = [*given_flags(run["model"], kind), *shlex.split(args.flags)]
    commands = ["verify", "--exit-zero"] if args.verify else []
    return figures_of(estimate([args.binary, *commands], path, {**run, "flags": ""}, flags))


def compare(truth, other):
    """{figure: (true bytes, bytes off)}."""
    return {figure: (true, other[figure] - true) for figure, true in truth.items()
            if figure in other}


def estimate_rows(args, runs):
    """[(settings, comparison)], of the models that are exported."""
    with tempfile.TemporaryDirectory() as folder:
        if not args.models:
            unpack_models(folder)
        models = find_models(args.models or folder)
        with ThreadPoolExecutor(1 if args.verify else 2) as pool:  # a card to itself
            found = pool.map(functools.partial(estimated, args, models), runs.values())
            return [(key, compare(truths(run), other))
                    for (key, run), other in zip(runs.items(), found) if other]


def beside_rows(args, runs):
    others = runs_of(read_lines(args.beside), args.only)
    return [(key, compare(truths(run), truths(others[key])))
            for key, run in runs.items() if key in others]


# --- Tables ----------------------------------------------------------------------------------

def cell(comparison, figure):
    if figure not in comparison:
        return "-"
    true, off = comparison[figure]
    return f"{true:d} {off:+d} {100 * off / true:+.2f}%"


def print_rows(rows):
    print(f"{'run':48}" + "".join(f"{figure:>32}" for figure in FIGURES))
    for key, comparison in rows:
        print(f"{' '.join(map(str, key)):48}"
              + "".join(f"{cell(comparison, figure):>32}" for figure in FIGURES))


def print_summary(rows):
    print("| peak | runs | to the byte | median | worst | too low |")
    print("|---|---|---|---|---|---|")
    for figure in FIGURES:
        pairs = [comparison[figure] for _, comparison in rows if figure in comparison]
        if not pairs:
            continue
        errors = [100 * off / true for true, off in pairs]
        sizes = [abs(error) for error in errors]
        print(f"| {figure} | {len(pairs)} | {sum(off == 0 for _, off in pairs)} | "
              f"{statistics.median(sizes):.2f} % | {max(sizes):.2f} % | "
              f"{sum(off < 0 for _, off in pairs)} |")


def print_probes(lines, only):
    for line in lines:
        if line["line"] != "probe" or not re.search(only, line["probe"]):
            continue
        print(f"{line['probe']}: {line.get('error', '')}")
        for row in line.get("rows", []):
            print("   ", json.dumps(row))


def print_card(lines):
    for line in lines:
        if line["line"] == "card":
            print(", ".join(f"{name} {value}" for name, value in line.items()
                            if name != "line" and value != ""))


# --- A test of itself ------------------------------------------------------------------------

def sample_run(reserved, outside):
    peaks = {"requested": 100, "allocated": 512, "reserved": reserved}
    return {"line": "run", **dict.fromkeys(KEY, "x"), "first_tensor": outside[0],
            "steps": [{"peak": peaks, "outside": dict(enumerate(outside))}]}


def check():
    """The arithmetic, on runs made up for it."""
    card, counted = sample_run(2048, [7, 9, 8]), sample_run(1024, [0, 0, 0])
    assert truths(card) == {"exact": 100, "allocated": 512, "reserved": 2048, "device": 2057,
                            "replayed": 2048}
    assert truths(counted) == {"exact": 100, "allocated": 512, "reserved": 1024, "replayed": 1024}
    peak = {"exact_bytes": 1, "allocated_bytes": 2, "reserved_bytes": 3, "device_bytes": 4}
    plain = {"exact": 1, "allocated": 2, "reserved": 3, "device": 4}
    assert figures_of({"peak": peak}) == plain
    terms = [{"what": what, "measured_bytes": size} for what, size in
             [("after setup", 9), ("peak of step 1", 5), ("peak of steps 2-10", 7)]]
    assert figures_of({"estimate": {"peak": peak}, "terms": terms}) == plain | {"replayed": 7}
    assert compare(truths(card), {"exact": 100, "replayed": 1024}) == {
        "exact": (100, 0), "replayed": (2048, -1024)}
    assert cell({"exact": (200, -50)}, "exact") == "200 -50 -25.00%"
    failed = {"line": "run", **dict.fromkeys(KEY, "y"), "oom": "out of memory"}
    assert list(runs_of([card, failed], "")) == [key_of(card)]
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", nargs="?", help="what on_card.py wrote, .xz or not")
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--models", help="a folder of NAME.KIND.onnx")
    parser.add_argument("--beside", help="what on_card.py wrote on another card")
    parser.add_argument("--only", default="", help="a regular expression")
    parser.add_argument("--flags", default="", help="further flags of every estimate")
    for name in ["summary", "probes", "verify", "check"]:
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    if args.check:
        return check()
    if not args.lines:
        parser.error("expected a file that on_card.py wrote")
    lines = read_lines(args.lines)
    print_card(lines)
    if args.probes:
        print_probes(lines, args.only)
        return 0
    runs = runs_of(lines, args.only)
    rows = beside_rows(args, runs) if args.beside else estimate_rows(args, runs)
    if not args.summary:
        print_rows(rows)
    print_summary(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
