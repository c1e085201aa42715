"""Compiled training steps: how their memory differs from eager's, and from --compile's estimates.

    compare.py                         # what compiled.csv says of eager, by network
    compare.py --binary BIN --exports FOLDER    # and how far estimates are from it
    compare.py --take FILE.jsonl...    # writes compiled.csv of what truths.py wrote

Ratios are of compiled to eager; "kept" is what the forward pass leaves, beyond what there was
before it, "step" the peak until the optimizer steps, "peak" that of the whole step, each of the
third step.
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE / "compiled.csv"
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
    rows = [row_of(json.loads(line)) for path in paths for line in path.read_text().splitlines()]
    rows.sort(key=lambda row: [str(row[name]) for name in KEY])
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read():
    with TABLE.open(newline="") as file:
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


def estimate(args, row, compiling):
    path = args.exports / f"{row['network']}.train.pt2"
    command = [args.binary, path, "-b", str(row["batch"]), "-p", row["precision"], "--framework",
               "pytorch-2.11", "--format", "json", "-n", "0", "--compile", compiling]
    command += ["--loss", row["loss"]] if row["loss"] else []
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if answer.returncode != 0:
        raise SystemExit(answer.stderr)
    return json.loads(answer.stdout)


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


def show_estimates(args, found):
    errors, above = {"guess": [], "as-eager": [], "guess, after forward": []}, []
    for row, eager in found:
        answers = {"guess": estimate(args, row, "inductor"),
                   "as-eager": estimate(args, row, "as-eager")}
        peaks = {name: answer["peak"]["allocated_bytes"] for name, answer in answers.items()}
        truth = max(row["allocated_1"], row["allocated_3"])
        for name, peak in peaks.items():
            errors[name].append(peak / truth)
        if truth > max(peaks.values()):
            above.append(truth / max(peaks.values()) - 1)
        third = answers["guess"]["steps"][2]
        errors["guess, after forward"].append(third["after_forward"] / row["after_forward_3"])
        if args.verbose:
            print(f"{row['network']:32} {row['precision']:9} guess {peaks['guess'] / truth:.3f} "
                  f"as eager {peaks['as-eager'] / truth:.3f}  after forward "
                  f"{third['after_forward'] / row['after_forward_3']:.3f} "
                  f"eager {row['after_forward_3'] / eager['after_forward_3']:.3f}")
    for name, ratios in errors.items():
        quantiles(f"estimate to truth, {name}", ratios)
    print(f"truth is above both in {len(above)} of {len(found)} runs, by more than 1 % in "
          f"{sum(more > .01 for more in above)}, by {100 * max(above, default=0):.1f} % at most")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary")
    parser.add_argument("--exports", type=Path)
    parser.add_argument("--take", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    if args.take:
        return take(args.take)
    found = list(pairs(read()))
    if not args.binary:
        return show_eager(found)
    show_estimates(args, found)


if __name__ == "__main__":
    sys.exit(main())
