"""The card that is not there, held against a card: what PyTorch allocated of an H200 in recorded runs,
beside what the same driver of the same models allocates under `onnxfit run -g h200`.

    compare.py --committed          # runs.csv, by kind of run: to the byte, how far off
    compare.py --committed -v       # what is not right
    compare.py --check              # exit 1 where a run is not as runs.csv has it (needs PyTorch)
    compare.py --update             # writes runs.csv
    compare.py --every N            # one network, or way, in N; with --check and none of the others

PyTorch 2.11.0 and the libraries of ../zoo/README.md are those of --python, this one's where it is not
given.  The runs are in ../zoo/data and ../ways/data; zoo_runs.py and ways_runs.py make them again.
"""

import argparse
import json
import lzma
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
import committed  # noqa: E402
from runs import ROOT  # noqa: E402
from sample import one_in  # noqa: E402

CARD = "h200"
FIGURES = ("requested", "allocated", "reserved")
EVERY = {"zoo": 8, "ways": 9}  # of what runs.csv has
# Those that PyTorch, transformers and peft run in a process of their own.
WAYS = ("plain", "channels-last", "checkpoint", "checkpoint-reentrant", "optimizer-in-backward", "evaluation",
        "lora", "ddp", "fsdp2")


def worse(before, row):
    if bool(before["failed"]) != bool(row["failed"]):
        return [f"failed: {row['failed']}"] if row["failed"] else []
    return [f"{name} {row[name]} %, not {before[name]}" for name in FIGURES
            if row[name] != "" and abs(float(row[name])) > abs(float(before[name] or 0))]


TABLE = committed.Table(HERE / "runs.csv", ["of", "network", "run"], [*FIGURES, "failed"], worse,
                        lambda row: not row["failed"] and not any(float(row[name]) for name in FIGURES))


# --- What the card took ------------------------------------------------------------------------

def key_of(of, run):
    words = [run["way"]] if of == "ways" else []
    words += [f"b{run['batch']}", run["precision"]]
    words += [run["optimizer"], run["mode"]] if of == "zoo" else [run["mode"]]
    return (of, run["model"], " ".join(words))


def recorded(of):
    """{key: run} of the card."""
    with lzma.open(HERE.parent / of / f"data/card_{CARD}.json.xz", "rt") as file:
        runs = json.load(file)["runs"]
    return {key_of(of, run): run for run in runs
            if run.get("steps") and (of == "zoo" or run["way"] in WAYS)
            and not run["model"].startswith("diffusers.")}


def chosen(of, every):
    """What a sample runs: {what the driver is told: keys}.  The order is of names, so that one in so
    many is of every library."""
    jobs = defaultdict(list)
    for key, run in sorted(recorded(of).items()):
        job = run["model"] if of == "zoo" else f"{run['model']}/{run['way']}/{run['precision']}"
        jobs[job].append(key)
    names = list(jobs)[::EVERY[of]]
    return {name: jobs[name] for name in one_in(every, names)}


# --- What it takes here ------------------------------------------------------------------------

def run_driver(args, of, names, folder):
    """{key: line} of the driver's file."""
    out = Path(folder) / f"{of}.jsonl"
    command = [args.binary, "run", "-g", CARD, "--", args.python, "-B", str(HERE / f"{of}_runs.py"),
               str(out), *names]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    lines = map(json.loads, out.read_text().splitlines()) if out.exists() else []
    named = [{**line, **setting_of(line)} for line in lines]
    return {key_of(of, line): line for line in named if line.get("mode")}


def setting_of(line):
    """What a line has that tells of a failure: the zoo's has the whole setting in one."""
    if line.get("setting"):
        return dict(zip(("batch", "precision", "optimizer", "mode"), line["setting"]))
    return {"mode": "train"} if "way" in line and "precision" in line else {}


def shown(percent):
    """0 is to the byte; what rounds to it is not."""
    if percent == 0:
        return "0"
    text = f"{percent:.3f}"
    return text if float(text) else ("0.001" if percent > 0 else "-0.001")


def most(run, figure):
    return max(step["peak"][figure] for step in run["steps"])


def row_of(key, truth, line):
    row = {**dict(zip(TABLE.key, key)), **dict.fromkeys(FIGURES, ""), "failed": ""}
    if line is None or not line.get("steps"):
        return {**row, "failed": (line or {}).get("error", "no run")[-100:].strip()}
    return {**row, **{name: shown(100 * (most(line, name) / most(truth, name) - 1)) for name in FIGURES}}


def measure(args):
    rows, keys = [], []
    with tempfile.TemporaryDirectory() as folder:
        for of in EVERY:
            truths, jobs = recorded(of), chosen(of, args.every)
            found = run_driver(args, of, jobs, folder)
            wanted = [key for names in jobs.values() for key in names]
            rows += [row_of(key, truths[key], found.get(key)) for key in wanted]
            keys += [key for names in chosen(of, 1).values() for key in names]
    return rows, keys


# --- What is printed ---------------------------------------------------------------------------

def group_of(row):
    words = row["run"].split()
    precision = "fp32" if "fp32" in words else "16 bits"
    return row["of"], precision, words[-1]


def print_summary(rows):
    print("| of | precision | mode | runs | requested | allocated | reserved | within 0.5 % "
          "| worst |\n|---|---|---|---|---|---|---|---|---|")
    groups = defaultdict(list)
    for row in rows:
        if not row["failed"]:
            groups[group_of(row)].append(row)
    for group, some in sorted(groups.items()):
        right = [sum(float(row[name]) == 0 for row in some) for name in FIGURES]
        off = [max(abs(float(row[name])) for name in FIGURES) for row in some]
        print(f"| {' | '.join(group)} | {len(some)} | "
              + " | ".join(f"{100 * count / len(some):.0f} %" for count in right)
              + f" | {100 * sum(error <= .5 for error in off) / len(some):.0f} % | {max(off):.1f} % |")


def print_wrong(rows):
    for row in sorted(rows, key=lambda row: -max(abs(float(row[name] or 1e9)) for name in FIGURES)):
        figures = " ".join(f"{name} {row[name]} %" for name in FIGURES if row[name] not in ("", "0"))
        if row["failed"] or figures:
            print(f"{row['of']:5}{row['network']:36} {row['run']:28} {row['failed'] or figures}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--python", default=sys.executable, help="with PyTorch")
    parser.add_argument("--committed", action="store_true", help="what runs.csv says")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one network or way in N")
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not right")
    committed.add_arguments(parser)
    args = parser.parse_args()
    return committed.answer(args, TABLE, lambda: measure(args), print_wrong, print_summary)


if __name__ == "__main__":
    sys.exit(main())
