"""Sessions of ONNX Runtime: what onnxfit says of them beside what they took (data/truths.json.xz).

    sessions.py --committed          # sessions.csv
    sessions.py --check              # exit 1 where one is not as sessions.csv has it (needs onnxruntime-gpu)
    sessions.py --update             # writes sessions.csv
    sessions.py bert_base            # these models alone; with --check and none of the others

The truths are sessions of onnxruntime-gpu 1.31.1's own CUDA provider over a runtime that counts, each in a
process of its own: what the arena had behind the second run.  Their cuDNN took no scratch, so models with
convolutions are not among them.  A row is a model, a batch and settings, with all its sessions: `inside` says
how many of them lie in the range that onnxfit gives; where the settings leave no choice, it is one figure.
"""

import argparse
import json
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
import committed  # noqa: E402
from runs import ROOT  # noqa: E402

FIGURES = ["sessions", "inside", "low", "high", "least", "most"]
TABLE = committed.Table(
    HERE / "sessions.csv", ["model", "batch", "settings"], FIGURES,
    lambda before, row: [f"{row['inside']} sessions of {row['sessions']} inside, not {before['inside']}"]
    if int(row["inside"]) < int(before["inside"]) else [],
    lambda row: int(row["inside"]) == int(row["sessions"]))


def truths():
    """By model, batch and settings: totals of the arena."""
    with lzma.open(HERE / "data/truths.json.xz", "rt") as file:
        return json.load(file)


def answer(args, folder, truth):
    command = [args.binary, "estimate", str(folder / f"{truth['model']}.onnx"), "--runtime", "onnxruntime",
               "-b", str(truth["batch"]), "-g", "h100", "-f", "json"]
    for name, value in truth["session"].items():
        command += ["--session", f"{name}={value}"]
    for name, value in truth["provider"].items():
        command += ["--provider-option", f"{name}={value}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False,
                            env={**os.environ, "ONNXFIT_PYTHON": args.python})
    if result.returncode > 1:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout)["runs"][0]


def settings_of(truth):
    return " ".join(f"{name.split('.')[-1]}={value}"
                    for name, value in {**truth["session"], **truth["provider"]}.items()) or "default"


def measured(args):
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(HERE / "data/models.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        for truth in truths():
            if args.models and truth["model"].split(".")[0] not in args.models:
                continue
            run = answer(args, folder, truth)
            low, high = run["arena_low_bytes"], run["arena_high_bytes"]
            seen = [session["arena_bytes"][-1] for session in run["sessions"]]
            low, high = min(low, *seen), max(high, *seen)
            rows.append({"model": truth["model"], "batch": truth["batch"], "settings": settings_of(truth),
                         "sessions": len(truth["arena"]), "low": low, "high": high,
                         "inside": sum(low <= bytes_ <= high for bytes_ in truth["arena"]),
                         "least": min(truth["arena"]), "most": max(truth["arena"])})
            print(rows[-1], file=sys.stderr)
    return rows, [TABLE.key_of(row) for row in rows]


def mib(text):
    return f"{int(text) / 2 ** 20:,.1f}"


def print_summary(rows):
    print("| model | batch | settings | sessions | they had, MiB | onnxfit, MiB | inside |\n"
          "|---|---|---|---|---|---|---|")
    for row in rows:
        ranges = [mib(row[low]) if row[low] == row[high] else f"{mib(row[low])} – {mib(row[high])}"
                  for low, high in (("least", "most"), ("low", "high"))]
        print(f"| {row['model']} | {row['batch']} | {row['settings']} | {row['sessions']} | {ranges[0]} "
              f"| {ranges[1]} | {row['inside']} |")
    inside = sum(int(row["inside"]) for row in rows)
    count = sum(int(row["sessions"]) for row in rows)
    print(f"\n{inside} of {count} sessions are inside ({100 * inside / count:.1f} %).")


def print_wrong(rows):
    for row in rows:
        if row["inside"] != row["sessions"]:
            print(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--python", default=sys.executable, help="one with onnxruntime-gpu")
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not inside")
    parser.add_argument("--committed", action="store_true", help="what sessions.csv says")
    parser.add_argument("models", nargs="*")
    committed.add_arguments(parser)
    args = parser.parse_intermixed_args()
    return committed.answer(args, TABLE, lambda: measured(args), print_wrong, print_summary)


if __name__ == "__main__":
    sys.exit(main())
