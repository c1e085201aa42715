"""Compiled training steps: how their memory differs from eager's, and from --compile's estimates.

    compare.py                  # how far estimates are from compiled.csv; -v each run
    compare.py --check          # exit 1 where an estimate is not as estimates.csv has it
    compare.py --update         # writes estimates.csv
    compare.py --eager          # what compiled.csv says of eager, by network
    compare.py --take FILE.jsonl...    # takes what truths.py wrote into compiled.csv

Errors are percent of the larger peak of the first and the third step, in allocated bytes; "kept" is
what the forward pass of the third leaves, "step" its peak until the optimizer steps.  Exports are
those of ../zoo and ../accuracy.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "accuracy"), str(HERE.parent / "zoo")]
import committed  # noqa: E402
import compare as zoo  # noqa: E402  (../zoo's)
from sample import one_in  # noqa: E402

TRUTHS = HERE / "compiled.csv"
KEY = ["network", "batch", "precision", "way"]
FIGURES = ["after_forward", "after_backward", "after_step", "before_step", "allocated", "reserved"]
COLUMNS = [*KEY, "loss", *(f"{figure}_{step}" for step in (1, 3) for figure in FIGURES),
           "graphs", "products"]


def figures_of(steps, number):
    step = steps[number - 1]
    flat = {**step, **step["peak"]}
    return {f"{figure}_{number}": flat[figure] for figure in FIGURES}


def row_of(truth):
    return {"network": truth["model"], "batch": truth["batch"], "precision": truth["precision"],
            "way": truth["way"], "loss": truth["loss"], **figures_of(truth["steps"], 1),
            **figures_of(truth["steps"], 3), "graphs": len(truth.get("saved", [])),
            "products": truth.get("padded", 0)}


def take(paths):
    """In the place of the same runs, beside the others."""
    rows = read()
    for path in paths:
        for line in path.read_text().splitlines():
            row = row_of(json.loads(line))
            rows[tuple(row[name] for name in KEY)] = row
    with TRUTHS.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows.values(), key=lambda row: [str(row[name]) for name in KEY]))


def read():
    with TRUTHS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row.update({name: int(row[name]) for name in row
                    if name not in ("network", "precision", "way", "loss")})
    return {tuple(row[name] for name in KEY): row for row in rows}


def pairs(table):
    for key, row in table.items():
        eager = table.get((*key[:3], "eager"))
        if key[3] == "compiled" and eager:
            yield row, eager


def kept(row):
    """What a forward pass leaves, where there are neither moments nor gradients before it."""
    return row["after_forward_3"] - row["after_step_3"]


# --- Estimates -------------------------------------------------------------------------------

ERRORS = ["inductor", "kept", "as-eager"]


def worse(before, row):
    return [f"{name} was {before[name]} %, is {row[name]} %" for name in ERRORS
            if abs(float(row[name])) > abs(float(before[name]))]


TABLE = committed.Table(HERE / "estimates.csv", KEY[:3], ERRORS, worse,
                        lambda row: not any(float(row[name]) for name in ERRORS))


def ask(args, row, folder, compiling, flags=()):
    path = Path(folder) / f"{row['network']}.train.pt2"
    command = [args.binary, path, "-b", str(row["batch"]), "-p", row["precision"], "--framework",
               "pytorch-2.11", "--format", "json", "-n", "0", "--compile", compiling]
    command += [*flags, *(["--loss", row["loss"]] if row["loss"] else [])]
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if answer.returncode != 0:
        raise SystemExit(answer.stderr)
    return json.loads(answer.stdout)


def percent(estimate, truth):
    return f"{100 * (estimate / truth - 1):+.2f}"


def estimate(args, row, folder):
    guess, eager = (ask(args, row, folder, way) for way in ("inductor", "as-eager"))
    truth = max(row["allocated_1"], row["allocated_3"])
    return {**{name: row[name] for name in TABLE.key},
            "inductor": percent(guess["peak"]["allocated_bytes"], truth),
            "kept": percent(guess["steps"][2]["after_forward"], row["after_forward_3"]),
            "as-eager": percent(eager["peak"]["allocated_bytes"], truth)}


def measure(args):
    rows = [row for row, _ in pairs(read())]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        if not args.exports:
            zoo.unpack(scratch, {row["network"] for row in rows})
        folder = args.exports or scratch
        made = list(pool.map(lambda row: estimate(args, row, folder), one_in(args.every, rows)))
    return made, [TABLE.key_of(row) for row in rows]


# --- What is printed -------------------------------------------------------------------------

def quantiles(name, values):
    values = sorted(values)
    at = [values[min(len(values) - 1, int(share * len(values)))] for share in (.05, .5, .95)]
    close = [sum(abs(value - 1) <= off for value in values) / len(values) for off in (.01, .05)]
    print(f"{name}: {len(values)} runs, {100 * close[0]:.0f} % within 1 %, "
          f"{100 * close[1]:.0f} % within 5 %, least {values[0]:.3f}, 5 % {at[0]:.3f}, half {at[1]:.3f}, "
          f"95 % {at[2]:.3f}, most {values[-1]:.3f}")


def show_eager(found):
    print("| network | batch | precision | kept | step | peak | reserved |\n"
          "|---|---|---|---|---|---|---|")
    for row, eager in found:
        ratios = [kept(row) / kept(eager), *(row[f"{name}_3"] / eager[f"{name}_3"] for name in
                                             ("before_step", "allocated", "reserved"))]
        print(f"| {row['network']} | {row['batch']} | {row['precision']} | "
              + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |")
    for precision in sorted({row["precision"] for row, _ in found}):
        for name in ("allocated_3", "reserved_3"):
            quantiles(f"compiled to eager, {precision} {name}", [row[name] / eager[name] for row, eager in found
                                              if row["precision"] == precision])


WHAT = {"inductor": "peak, `--compile inductor`", "kept": "after forward, the same",
        "as-eager": "peak, `--compile as-eager`"}


def quantile_line(what, errors):
    errors = sorted(errors)
    close = [f"{100 * sum(abs(error) <= off for error in errors) / len(errors):.0f} %"
             for off in (1, 5)]
    at = [errors[min(len(errors) - 1, int(share * len(errors)))] for share in (0, .05, .5, .95, 1)]
    print(f"| {what} | {len(errors)} | " + " | ".join(close) + " | "
          + " | ".join(f"{error:+.1f} %" for error in at) + " |")


def print_summary(rows):
    print("| | runs | within 1 % | within 5 % | least | 5 % | half | 95 % | most |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for name, what in WHAT.items():
        quantile_line(what, [float(row[name]) for row in rows])
    ends = [max(float(row["inductor"]), float(row["as-eager"])) for row in rows]
    print(f"\nCompiled steps take more than both in {sum(end < 0 for end in ends)} of {len(ends)} "
          f"runs, by more than 1 % in {sum(end < -1 for end in ends)}, {-min(ends):.1f} % at most.")


def print_each(rows):
    for row in sorted(rows, key=lambda row: -abs(float(row["inductor"]))):
        print(f"{row['network']:32} {row['precision']:9} "
              + " ".join(f"{name} {row[name]} %" for name in ERRORS))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(HERE.parent.parent / "build/release/onnxfit"))
    parser.add_argument("--committed", action="store_true", help="what estimates.csv says")
    parser.add_argument("--exports", type=Path, metavar="FOLDER")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth run alone")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--take", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("-v", "--verbose", action="store_true")
    committed.add_arguments(parser)
    args = parser.parse_args()
    if args.take:
        return take(args.take)
    if args.eager:
        return show_eager(list(pairs(read())))
    return committed.answer(args, TABLE, lambda: measure(args), print_each, print_summary)


if __name__ == "__main__":
    sys.exit(main())
