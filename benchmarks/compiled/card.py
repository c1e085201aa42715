"""Compiled training steps on a card, with and without CUDA graphs, and how far estimates are from them.

    card.py h200                # how far; -v each run
    card.py h200 --check        # exit 1 where an estimate is not as card_h200_estimates.csv has it
    card.py h200 --update       # writes card_h200_estimates.csv
    card.py h200 --take FILE.jsonl...    # adds what ../ways/card_truths.py wrote to card_h200.csv

Errors are percent of the most bytes of any step: allocated and reserved by Inductor's plan, and
reserved by eager's.  `graph_pool` is what CUDA graphs have for themselves.
"""

import argparse
import csv
import importlib.util
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent


def of_compiled():
    """compare.py beside this file: ../zoo has one of that name, too."""
    spec = importlib.util.spec_from_file_location("compiled_compare", HERE / "compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


compare = of_compiled()
committed, zoo, KEY = compare.committed, compare.zoo, compare.KEY

COLUMNS = [*KEY, "loss", "first_allocated", "allocated", "reserved", "graph_pool"]
WAYS = {"compiled": [], "cuda-graphs": ["--cuda-graphs"]}
ERRORS = ["allocated", "reserved", "eager_reserved"]
WHAT = {"allocated": "allocated", "reserved": "reserved", "eager_reserved": "reserved, eager's plan"}


def most(steps, figure):
    return max(step["peak"][figure] for step in steps)


def row_of(truth):
    of_graphs = sum(size for pool, (size, _) in truth["pools"].items() if pool != "0.0")
    return {"network": truth["model"], "batch": truth["batch"], "precision": truth["precision"],
            "way": truth["way"], "loss": truth["loss"],
            "first_allocated": truth["steps"][0]["peak"]["allocated"],
            "allocated": most(truth["steps"], "allocated"),
            "reserved": most(truth["steps"], "reserved"), "graph_pool": of_graphs}


def take(path, files):
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    rows = [row_of(line) for line in lines if line.get("way") in WAYS and "steps" in line]
    before = read(path) if path.exists() else []
    rows = {tuple(str(row[name]) for name in KEY): row for row in [*before, *rows]}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def worse(before, row):
    return [f"{name} was {before[name]} %, is {row[name]} %" for name in ERRORS
            if abs(float(row[name])) > abs(float(before[name]))]


def estimate(args, row, folder):
    flags = ["--gpu", args.card, *WAYS[row["way"]]]
    guess, eager = (compare.ask(args, row, folder, plan, flags)["peak"]
                    for plan in ("inductor", "as-eager"))
    allocated, reserved = int(row["allocated"]), int(row["reserved"])
    return {**{name: row[name] for name in KEY},
            "allocated": compare.percent(guess["allocated_bytes"], allocated),
            "reserved": compare.percent(guess["reserved_bytes"], reserved),
            "eager_reserved": compare.percent(eager["reserved_bytes"], reserved)}


def measure(args, table):
    rows = read(HERE / f"card_{args.card}.csv")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        zoo.unpack(folder, {row["network"] for row in rows})
        made = list(pool.map(lambda row: estimate(args, row, folder), rows))
    return made, [table.key_of(row) for row in rows]


def print_summary(rows):
    print("| | runs | within 1 % | within 5 % | least | 5 % | half | 95 % | most |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for way in WAYS:
        some = [row for row in rows if row["way"] == way]
        for name, what in WHAT.items():
            compare.quantile_line(f"`{way}`, {what}", [float(row[name]) for row in some])
        ends = [max(float(row["reserved"]), float(row["eager_reserved"])) for row in some]
        over = [end for end in ends if end < 0]
        print(f"| `{way}`, more reserved than both say | {len(over)} of {len(ends)} | | | "
              f"{min(ends):+.1f} % | | | | |")


def print_each(rows):
    for row in sorted(rows, key=lambda row: -abs(float(row["reserved"]))):
        print(f"{row['network']:32} {row['way']:12} "
              + " ".join(f"{name} {row[name]} %" for name in ERRORS))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("card")
    parser.add_argument("--binary", default=str(HERE.parent.parent / "build/release/onnxfit"))
    parser.add_argument("--committed", action="store_true", help="what the table says")
    parser.add_argument("--take", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("-v", "--verbose", action="store_true")
    committed.add_arguments(parser)
    args = parser.parse_args()
    if args.take:
        return take(HERE / f"card_{args.card}.csv", args.take)
    table = committed.Table(HERE / f"card_{args.card}_estimates.csv", KEY, ERRORS, worse,
                            lambda row: not any(float(row[name]) for name in ERRORS))
    return committed.answer(args, table, lambda: measure(args, table), print_each, print_summary)


if __name__ == "__main__":
    sys.exit(main())
