"""Twenty models under ONNX Runtime, by setting: what `onnxfit estimate --runtime onnxruntime` says of them.

    models.py --committed          # models.csv, as docs/onnxruntime.md has it
    models.py --check              # exit 1 where an answer is not as models.csv has it
    models.py --update             # writes models.csv: some minutes
    models.py resnet50             # these models alone; with --check and none of the others

data/inference.tar.xz has the files (exports.py), without weights.  For each model and batch one answer is
asked, and then FRESH sessions more, whose weights have an order of their own: `inside` says how many of them
lie in the range that the answer has for any order.  Needs a Python with onnxruntime-gpu (--python).
"""

import argparse
import json
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

CARD = "rtx4090"
BATCHES = (1, 16)
FRESH = 20
LENGTH = 64  # of texts
FREE_LENGTH = b"\x12\x03seq"  # TensorShapeProto.Dimension.dim_param, onnx.proto
SETTINGS = {"outside": "use_device_allocator_for_initializers", "same": "kSameAsRequested",
            "no_pattern": "enable_mem_pattern"}
FIGURES = ["weights", "most", "low", "high", *SETTINGS, "sessions", "inside"]


def changes(before, row):
    """The range is played, and the same each time; which sessions are seen is chance."""
    return [f"{name}: {row[name]}, not {before[name]}" for name in FIGURES
            if name not in ("sessions", "inside", "low", "high") and row[name] != int(before[name])]


TABLE = committed.Table(HERE / "models.csv", ["model", "batch"], FIGURES, changes,
                        lambda row: int(row["inside"]) == int(row["sessions"]), is_exact=False)


def answer(args, path, batch):
    command = [args.binary, "estimate", str(path), "--runtime", "onnxruntime", "-b", str(batch), "-g", CARD,
               "-f", "json"]
    if FREE_LENGTH in path.read_bytes():
        command += ["--dim", f"seq={LENGTH}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False,
                            env={**os.environ, "ONNXFIT_PYTHON": args.python})
    if result.returncode > 1:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout)["runs"][0]


def most_of(session):
    return max(session["used_bytes"])


def fresh_sessions(args, path, batch):
    """By other processes."""
    found = []
    while len(found) < args.fresh:
        found += [most_of(session) for session in answer(args, path, batch)["sessions"]]
    return found[:args.fresh]


def row_of(args, path, batch):
    run = answer(args, path, batch)
    settings = {name: next(setting["high_bytes"] for setting in run["settings"] if text in setting["flag"])
                for name, text in SETTINGS.items()}
    fresh = fresh_sessions(args, path, batch)
    return {"model": path.stem, "batch": batch, "weights": run["weight_bytes"], "most": run["most_bytes"],
            "low": run["low_bytes"], "high": run["high_bytes"], **settings, "sessions": len(fresh),
            "inside": sum(run["low_bytes"] <= bytes_ <= run["high_bytes"] for bytes_ in fresh)}


def measured(args):
    rows = []
    with tempfile.TemporaryDirectory() as name, tarfile.open(HERE / "data/inference.tar.xz") as archive:
        archive.extractall(name, filter="data")
        for path in sorted(Path(name).glob("*.onnx")):
            if args.models and path.stem not in args.models:
                continue
            for batch in args.batches:
                rows.append(row_of(args, path, batch))
                print(rows[-1], file=sys.stderr, flush=True)
    return rows, [TABLE.key_of(row) for row in rows]


def mib(text):
    return f"{int(text) / 2 ** 20:,.0f}"


def print_summary(rows):
    print("| model | batch | weights | default | initializers outside | as requested | no pattern | "
          "fresh inside |\n|---|---|---|---|---|---|---|---|")
    for row in rows:
        default = " – ".join(dict.fromkeys([mib(row["low"]), mib(row["high"])]))
        settings = " | ".join(mib(row[name]) for name in SETTINGS)
        print(f"| {row['model']} | {row['batch']} | {mib(row['weights'])} | {default} | {settings} "
              f"| {row['inside']} of {row['sessions']} |")
    inside, count = (sum(int(row[name]) for row in rows) for name in ("inside", "sessions"))
    print(f"\n{inside} of {count} fresh sessions lie in their range ({100 * inside / count:.1f} %).")


def print_wrong(rows):
    for row in rows:
        if row["inside"] != row["sessions"]:
            print(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--python", default=sys.executable, help="one with onnxruntime-gpu")
    parser.add_argument("--fresh", type=int, default=FRESH, help="sessions of each")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not inside")
    parser.add_argument("--committed", action="store_true", help="what models.csv says")
    parser.add_argument("models", nargs="*")
    committed.add_arguments(parser)
    args = parser.parse_intermixed_args()
    return committed.answer(args, TABLE, lambda: measured(args), print_wrong, print_summary)


if __name__ == "__main__":
    sys.exit(main())
