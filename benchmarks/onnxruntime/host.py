"""Twenty models on the CPU: `onnxfit estimate --runtime onnxruntime --provider cpu` beside a program of its own.

    host.py --committed          # host.csv, as docs/onnxruntime.md has it
    host.py --check              # exit 1 where a program had more than the answer says, by more than a twentieth
    host.py --update             # writes host.csv: some minutes
    host.py resnet50             # these models alone

data/inference.tar.xz has the files (exports.py), without weights: the answer is about them as they are, and
the program (host_script.py) has random numbers for weights.  `had` is the most of FRESH programs, `seen` what
onnxfit's sessions had at most, `told` that and the weights that are mapped and were not read yet.  Needs a Python
with onnxruntime and onnx (--python).
"""

import json
import os
import subprocess
import sys

from asking import HERE, committed, files_of, parser, run
from models import FREE_LENGTH, LENGTH

BATCHES = (1, 4)
FRESH = 3
FIGURES = ["had", "seen", "told"]


def parts_off(row):
    """How much more the answer is than what the programs had, of that."""
    return int(row["told"]) / int(row["had"]) - 1, int(row["seen"]) / int(row["had"]) - 1


def is_right(row):
    return parts_off(row)[0] >= -0.05


def changes(before, row):
    return [] if is_right(row) else [f"told: {row['told']}, the programs had {row['had']}"]


TABLE = committed.Table(HERE / "host.csv", ["model", "batch"], FIGURES, changes, is_right, is_exact=False)


def told_of(args, path, batch):
    flags = ["--dim", f"seq={LENGTH}"] if FREE_LENGTH in path.read_bytes() else []
    command = [args.binary, "estimate", str(path), "--runtime", "onnxruntime", "--provider", "cpu", "-b",
               str(batch), "-f", "json", *flags]
    result = subprocess.run(command, capture_output=True, text=True, check=False,
                            env={**os.environ, "ONNXFIT_PYTHON": args.python})
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout)


def program(args, *words):
    command = [args.python, "-B", str(HERE / "host_script.py"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def rows_of(args):
    with files_of("inference.tar.xz") as folder:
        for path in sorted(folder.glob("*.onnx")):
            if args.models and path.stem not in args.models:
                continue
            told = {batch: told_of(args, path, batch) for batch in args.batches}
            program(args, "--fill", path)
            for batch, answer in told.items():
                had = max(int(program(args, path, batch, LENGTH)) for _ in range(args.fresh))
                seen = max(phase["peak_bytes"] for session in answer["sessions"]
                           for phase in session["phases"])
                yield {"model": path.stem, "batch": batch, "had": had, "seen": seen,
                       "told": answer["host"]["bytes"]}
            path.with_suffix(".weights").unlink(missing_ok=True)


def mib(text):
    return f"{int(text) / 2 ** 20:,.0f}"


def print_summary(rows):
    print("| model | batch | programs had | onnxfit's sessions | with weights not read yet |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['model']} | {row['batch']} | {mib(row['had'])} | {mib(row['seen'])} | {mib(row['told'])} |")
    off = sorted(abs(parts_off(row)[1]) for row in rows)
    print(f"\nSessions are off by {100 * off[len(off) // 2]:.1f} % (median), {100 * off[-1]:.1f} % (worst), and "
          f"{sum(is_right(row) for row in rows)} of {len(rows)} answers are no more than 5 % too low.")


def main():
    flags = parser(__doc__, TABLE)
    flags.add_argument("--fresh", type=int, default=FRESH, help="programs of each")
    flags.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    return run(flags.parse_intermixed_args(), TABLE, rows_of, print_summary)


if __name__ == "__main__":
    sys.exit(main())
