#!/usr/bin/env python3
"""How long onnxfit takes for an answer, beside other estimators of training memory.

    peers.py --update [--python PYTHON]    # ten minutes: measures all, writes peers.csv
    peers.py --committed                   # what peers.csv says, as a table
    peers.py --check                       # exit 1 where a goal is missed in peers.csv

Every estimate is a process of its own, in turns, and the least of --runs counts, as others may use
the machine.  PYTHON has torch, torchvision and transformers; all else needs the standard library
alone.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "accuracy")]
from runs import truths  # noqa: E402
from speed import unpack_file  # noqa: E402

TABLE = HERE / "peers.csv"
COLUMNS = ["model", "estimator", "peak_bytes", "process_seconds", "own_seconds", "versions"]
ONNXFIT, ALLOCATOR, TRACKER, COUNT, PROFILE = ("onnxfit", "allocator", "mem_tracker",
                                               "fake_tensors", "cpu_profile")
SHOWN = {ONNXFIT: "onnxfit", ALLOCATOR: "PyTorch's allocator, counted", TRACKER: "MemTracker",
         COUNT: "a bare count of fake tensors",
         PROFILE: "a profile on the CPU, which xMem starts from"}
GOAL = 100  # times as long as onnxfit, as a whole process
# Where the goal is not reached: what the committed figures may not fall below.
NOT_YET = {("llama_7b", COUNT): 50}


class Model(NamedTuple):
    title: str
    flags: list           # of onnxfit, behind the file
    truth: tuple          # (model, batch) of benchmarks/accuracy/data; () where there is none
    fits_host: bool       # a CPU can train it in 24 GiB


MODELS = {
    "resnet50": Model("resnet50, batch 32", ["-b", "32"], ("resnet50", 32), True),
    "gpt2": Model("gpt2, batch 8, 512 tokens", ["-b", "8", "--dropout", "0.1"], ("gpt2", 8), True),
    "llama_7b": Model("Llama of 7 billion, batch 1, 512 tokens",
                      ["-b", "1", "--dim", "seq=512"], (), False),
}


# --- Measuring -----------------------------------------------------------------

def timed(command):
    """What a process writes, and its seconds from start to exit."""
    start = time.perf_counter()
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, encoding="utf-8", check=False)
    seconds = time.perf_counter() - start
    if result.returncode:
        sys.exit(f"error: {' '.join(map(str, command))}: {result.stderr[-1000:]}")
    return result.stdout, seconds


def commands(binary, python, folder):
    """{(model, estimator): the command that is timed}"""
    llama = Path(folder, "llama_7b.onnx")
    unpack_file(HERE.parent / "llama_7b.onnx.xz", llama)
    files = {"resnet50": ROOT / "models/resnet50.train.onnx",
             "gpt2": ROOT / "models/gpt2.dynamo.onnx", "llama_7b": llama}
    made = {}
    for name, model in MODELS.items():
        made[name, ONNXFIT] = [binary, files[name], *model.flags, "-o", "adamw", "-f", "json"]
        for peer in (TRACKER, COUNT, *([PROFILE] if model.fits_host else [])):
            made[name, peer] = [python, HERE / "estimators.py", peer, name]
    return made


def answer_of(estimator, output, seconds):
    """(peak bytes, seconds of the process, seconds behind its imports)"""
    said = json.loads(output)
    if estimator == ONNXFIT:
        return said["peak"]["allocated_bytes"], seconds, seconds
    return said["peak_bytes"], seconds, said["own_seconds"]


def measure(made, runs):
    """{key: answers}: `runs` behind one that is not counted; of the profile, which takes minutes and
    most of a host's memory, one."""
    answers = {key: [] for key in made}
    for turn in range(runs + 1):
        for key, command in made.items():
            if key[1] == PROFILE and turn != 1:
                continue
            answer = answer_of(key[1], *timed(command))
            print(f"{turn}: {' '.join(key)}: {answer[1]:.3f} s", file=sys.stderr)
            if turn:
                answers[key].append(answer)
    return answers


def truth_of(model):
    """Bytes that PyTorch's allocator had allocated at most, in the last of three steps."""
    found = [run for run in truths() if (run["model"], run["batch"]) == model.truth
             and (run["precision"], run["optimizer"], run["mode"]) == ("fp32", "adamw", "train")
             and not run["flags"]]
    return found[0]["steps"][-1]["peak"]["allocated"]


def processor():
    name = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return f"{name[1]}, {os.cpu_count()} cores"


def versions(binary, python):
    commit = subprocess.run(["git", "log", "-1", "--format=%h", "--", "estimator", "cli"], cwd=ROOT,
                            stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout.strip()
    ours = timed([binary, "--version"])[0].splitlines()[0]
    theirs = json.loads(timed([python, HERE / "estimators.py", "versions"])[0])
    return "; ".join([*(f"{name} {version}" for name, version in theirs.items()),
                      f"{ours} ({commit})", processor()])


def rows_of(answers, measured_with):
    rows = []
    for name, model in MODELS.items():
        if model.truth:
            rows.append({"model": name, "estimator": ALLOCATOR, "peak_bytes": truth_of(model)})
        for (of, estimator), found in answers.items():
            if of == name:
                process, own = (min(times) for times in list(zip(*found))[1:])
                rows.append({"model": name, "estimator": estimator,
                             "peak_bytes": found[0][0], "process_seconds": f"{process:.4f}",
                             "own_seconds": f"{own:.4f}", "versions": measured_with})
    return rows


def update(binary, python, runs):
    with tempfile.TemporaryDirectory() as folder:
        answers = measure(commands(binary, python, folder), runs)
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows_of(answers, versions(binary, python)))


# --- What is committed ---------------------------------------------------------

def committed_rows():
    """{(model, estimator): row}"""
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {(row["model"], row["estimator"]): row for row in csv.DictReader(file)}


def ratios(rows, model, estimator):
    """How many times as long as onnxfit a peer takes: as a whole process, and behind imports."""
    ours = float(rows[model, ONNXFIT]["process_seconds"])
    row = rows[model, estimator]
    return float(row["process_seconds"]) / ours, float(row["own_seconds"]) / ours


def shown_seconds(text):
    seconds = float(text)
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def shown_row(rows, model, estimator):
    row = rows[model, estimator]
    cells = [SHOWN[estimator], f"{int(row['peak_bytes']) / 2**30:.2f} GiB" if row["peak_bytes"]
             else "none"]
    if not row["process_seconds"]:
        return [*cells, "", "", "", ""]
    cells.append(shown_seconds(row["process_seconds"]))
    if estimator == ONNXFIT:
        return [*cells, "", "", ""]
    whole, own = ratios(rows, model, estimator)
    return [*cells, shown_seconds(row["own_seconds"]), f"{whole:,.0f}", f"{own:,.0f}"]


def print_table(rows):
    print("| model | estimator | peak | process | behind imports | process, times onnxfit's "
          "| behind imports, times onnxfit's |\n|---|---|---|---|---|---|---|")
    before = ""
    for model, estimator in rows:
        cells = [MODELS[model].title if model != before else "", *shown_row(rows, model, estimator)]
        print("| " + " | ".join(cells) + " |")
        before = model
    print(f"\nMeasured with {next(row['versions'] for row in rows.values() if row['versions'])}.")


def check(rows):
    """Of the committed figures alone: no test asks a time.  Returns an exit status."""
    problems = [f"{model}: no row of {estimator}" for model in MODELS
                for estimator in (ONNXFIT, TRACKER, COUNT) if (model, estimator) not in rows]
    peers = [key for key in rows if key[1] not in (ONNXFIT, ALLOCATOR)] if not problems else []
    for key in peers:
        whole, _ = ratios(rows, *key)
        bound = NOT_YET.get(key, GOAL)
        if whole < bound:
            problems.append(f"{' '.join(key)}: {whole:.0f} times as long as onnxfit, "
                            f"expected {bound} at least")
        elif key in NOT_YET and whole >= GOAL:
            problems.append(f"{' '.join(key)}: reached now: drop it from NOT_YET")
    print(*problems, f"{len(peers)} figures of peers, {len(problems)} problems", sep="\n")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    for option in ("--update", "--committed", "--check"):
        what.add_argument(option, action="store_true")
    parser.add_argument("--binary", default=os.environ.get(
        "ONNXFIT_BINARY", str(ROOT / "build/release/onnxfit")))
    parser.add_argument("--python", default=sys.executable, help="one with torch [this one]")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    if args.update:
        update(args.binary, args.python, args.runs)
    rows = committed_rows()
    if args.check:
        return check(rows)
    print_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
