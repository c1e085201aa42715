"""Estimates beside what PyTorch really used: the yardstick.

    accuracy.py                          # the table: model x kind x settings
    accuracy.py --model resnet --kind train --optimizer adamw --batch 8
    accuracy.py --summary                # one line a group, as in README.md
    accuracy.py --summary --committed    # the same from expected.csv, without running
    accuracy.py --check                  # fails where a figure is not the committed one
    accuracy.py --check --every 12       # the same of one run of twelve
    accuracy.py --update                 # commits the figures of today: expected.csv

Truths are PyTorch's own statistics, 2.11.0's unless flags say otherwise (README.md here).  A
run's figures are, for each of three steps, the peaks (exact, allocated, reserved) and what is
allocated after forward, backward and step, and the optimizer's state; of an inference, the
peaks alone.
"""

import argparse
import csv
import fnmatch
import functools
import json
import lzma
import os
import re
import shlex
import statistics
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXPECTED = HERE / "expected.csv"
CALLS = HERE / "calls.csv"
PEAKS = {"exact": "requested", "allocated": "allocated", "reserved": "reserved"}
AFTER = ["after_forward", "after_backward", "after_step"]
KEY = ["model", "kind", "batch", "precision", "optimizer", "mode", "flags", "given"]
COLUMNS = KEY + ["exact", "allocated", "reserved", "figures_off"]
# Kinds with PyTorch's own program, and the mode of the runs that they are exported for:
# torch.export.save, python -m onnxfit export FILE.onnx.
PYTORCH = {"pt2-train": "train", "pt2-eval": "eval"}
PROGRAM = {**PYTORCH, "onnxfit": "train"}
LOSES_NOTHING = {"train", "dynamo-raw", *PROGRAM}  # exports in training mode
FOR_INFERENCE = "for inference"  # all other kinds
# What these files have lost and only their owner knows: the flags that say it.
GIVEN = [
    ("mlp_*", "onnx", ["--in-place", "never"]),  # nn.ReLU(), which does not work in place
    ("efficientnet_b0", "onnx", ["--assume", "in-place-dropout=yes"]),
    ("mnasnet1_0", "onnx", ["--assume", "in-place-dropout=yes"]),
    ("mnasnet1_0", "script", ["--out-of-place", "*/Add"]),  # self.layers(input) + input
    ("regnet_y_400mf", "script", ["--out-of-place", "*/Add"]),
    ("mobilenet_v3_small", "onnx", ["--assume", "in-place-dropout=yes"]),
    ("unet", "script", ["--assume", "conv-bias=yes"]),
    ("vgg11_bn", "script", ["--assume", "conv-bias=yes"]),
    ("groupnorm_net", "onnx", ["--in-place", "never"]),
    ("past_gpt", FOR_INFERENCE, ["--assume", "tied-head=no"]),
    ("past_llama", FOR_INFERENCE, ["--assume", "tied-head=no"]),
    # One tensor in the loop that was run, which is the labels, too.
    *[(name, "onnx", ["--labels", "decoder_input_ids"]) for name in ["t5_small", "mt5_large"]],
    *[(name, "pt2", ["--labels", "a_1"]) for name in ["t5_small", "mt5_large"]],
    *[(name, FOR_INFERENCE, ["--assume", "tied-head=yes"]) for name in ["t5_small", "mt5_large"]],
    *[(name, FOR_INFERENCE, ["--dropout", "0.1"]) for name in [
        "gpt2", "distilgpt2", "bert_base", "t5_*", "mt5_large", "bart",
        "electra", "lesson_gpt", "mbart", "mpnet", "nanogpt", "opt", "roberta", "torch_*"]],
    ("deberta_v2", "dynamo", ["--dropout", "0.1", "--dropout", "*pooler*=0"]),
    ("deberta_v2", "script", ["--dropout", "0.1"]),
    ("albert", FOR_INFERENCE, ["--dropout", "0", "--dropout", "classifier=0.1"]),
    *[(name, FOR_INFERENCE, ["--dropout", "0"]) for name in [
        "vit_*", "clip_vision", "dense_moe", "gemma", "gpt_neox", "llama_gqa", "qwen3",
        "unet_condition"]],
]
# Runs that make groups of their own.
FAMILIES = {f"truth_{name}.json.xz": "transformers, " for name in ["attention", "transformers"]}


@functools.cache
def truths():
    """Every run that PyTorch made: settings and figures.  `flags`, such as "--accumulate 2",
    are those of onnxfit that ask for the loop that was run."""
    runs = []
    for path in sorted((HERE / "data").glob("truth*.json.xz")):
        with lzma.open(path, "rt") as file:
            family = FAMILIES.get(path.name, "")
            runs += [{"flags": "", "family": family, **run} for run in json.load(file)]
    return runs


def unpack_models(folder):
    """The exports, below `folder`.  Returns {(model, kind): path}."""
    for path in sorted((HERE / "data").glob("models*.tar.xz")):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") \
                else archive.extractall(folder)
    paths = {}
    for path in sorted([*Path(folder).rglob("*.onnx"), *Path(folder).rglob("*.pt2")]):
        model, kind = path.name.split(".")[:2]
        paths[model, f"pt2-{kind}" if path.suffix == ".pt2" else kind] = path
    return paths


def given_flags(model, kind):
    def is_of(only):
        if only == FOR_INFERENCE:
            return kind not in LOSES_NOTHING
        if only in ("pt2", "onnx"):
            return (kind in PROGRAM) == (only == "pt2")
        return not only or kind in (only, f"{only}-new")
    return [flag for name, only, flags in GIVEN
            if fnmatch.fnmatchcase(model, name) and is_of(only) for flag in flags]


def estimate(binary, path, truth, flags):
    """What `binary`, a path or a list with a command, prints of a run, as JSON."""
    program = binary if isinstance(binary, list) else [binary]
    command = [*program, str(path), "-b", str(truth["batch"]), "-p", truth["precision"],
               "-o", truth["optimizer"], "--mode", truth["mode"], "--format", "json", "-n", "0",
               *shlex.split(truth["flags"]), *flags]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=120)
    if result.returncode != 0:
        sys.exit(f"{path.name}: exit {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def figures(truth, report):
    """Pairs (true, estimated) of all figures of a run."""
    for true, found in zip(truth["steps"], report["steps"]):
        for ours, theirs in PEAKS.items():
            yield true["peak"][theirs], found[f"peak_{ours}"]
        for name in AFTER:
            if name in true:
                yield true[name], found[name]
    if truth.get("opt_state_bytes") is not None:
        yield truth["opt_state_bytes"], report["optimizer_state_bytes"]


def measure_both(binary, path, kind, truth):
    """The rows of a run: with our own guesses, and with the flags that say what was lost."""
    guessed = measure(binary, path, kind, truth, [])
    flags = given_flags(truth["model"], kind)
    given = measure(binary, path, kind, truth, flags) if flags else dict(guessed)
    given["given"] = 1
    return [guessed, given]


def measure(binary, path, kind, truth, flags):
    """One row: bytes by which the run's peaks are off, and how many figures are."""
    report = estimate(binary, path, truth, flags)
    row = {key: truth.get(key) for key in KEY}
    row.update(kind=kind, given=0, family=truth["family"])
    for ours, theirs in PEAKS.items():
        true = max(step["peak"][theirs] for step in truth["steps"])
        row[ours] = report["peak"][f"{ours}_bytes"] - true
        row[f"{ours}_true"] = true
    row["figures_off"] = sum(a != b for a, b in figures(truth, report))
    row["figures"] = sum(1 for _ in figures(truth, report))
    return row


def is_plain(run):
    """The loop of README.md: no flags, or those that say which loss."""
    return not run["flags"] or run["flags"].startswith("--loss")


def is_run(model, kind, truth):
    """Exports for inference have lost names that --freeze asks for; programs are of a mode."""
    if PROGRAM.get(kind, truth["mode"]) != truth["mode"]:
        return False
    return truth["model"] == model and (is_plain(truth) or kind in LOSES_NOTHING)


def matches(args, model, kind, truth):
    return ((not args.model or re.search(args.model, model))
            and (not args.kind or args.kind == kind)
            and (not args.batch or args.batch == truth["batch"])
            and (not args.precision or args.precision == truth["precision"])
            and (not args.optimizer or args.optimizer == truth["optimizer"])
            and (not args.mode or args.mode == truth["mode"])
            and (not args.flags or re.search(args.flags, truth["flags"])))


def measure_all(args):
    with tempfile.TemporaryDirectory() as folder:
        paths = unpack_models(folder)
        all_truths = truths()
        jobs = [(path, kind, truth) for (model, kind), path in paths.items()
                for truth in all_truths
                if is_run(model, kind, truth) and matches(args, model, kind, truth)][::args.every]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            rows = pool.map(lambda job: measure_both(args.binary, *job), jobs)
            return [row for both in rows for row in both]


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


def read_expected():
    with EXPECTED.open(newline="") as file:
        return {tuple(row[key] for key in KEY): row for row in csv.DictReader(file)}


def write_expected(rows):
    with EXPECTED.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def committed_rows():
    """The rows of expected.csv, with the true figures beside them."""
    true = {tuple(str(truth[key]) for key in KEY if key in truth): truth for truth in truths()}
    rows = []
    for row in read_expected().values():
        truth = true[tuple(row[key] for key in KEY if key not in ("kind", "given"))]
        row.update(given=int(row["given"]), family=truth["family"])
        for ours, theirs in PEAKS.items():
            row[ours] = int(row[ours])
            row[f"{ours}_true"] = max(step["peak"][theirs] for step in truth["steps"])
        rows.append(row)
    return rows


def changes(row, before):
    """What of `row` is not as committed, in words."""
    for name in ["exact", "allocated", "reserved", "figures_off"]:
        old, new = int(before[name]), row[name]
        if old != new:
            yield f"{name} was {old} off, is {new}: {'worse' if abs(new) > abs(old) else 'better'}"


def check(rows):
    expected = read_expected()
    problems = []
    for row in rows:
        key = tuple(str(row[name]) for name in KEY)
        known = key in expected
        for change in changes(row, expected[key]) if known else ["not in expected.csv"]:
            problems.append(f"{' '.join(key)}: {change}")
    for problem in problems[:20]:
        print(problem)
    print(f"{len(rows)} runs, {len(problems)} figures not as committed"
          + (" (if they should change: --update)" if problems else ""))
    return 1 if problems else 0


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
    for name in ["summary", "committed", "check", "update"]:
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    rows = committed_rows() if args.committed else measure_all(args)
    if args.check:
        return check(rows)
    if args.update:
        write_expected(rows)
    if not args.summary:
        print_rows(rows)
    print_summary(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
