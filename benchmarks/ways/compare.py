"""The ways people train: how far estimates are from what PyTorch's allocator counted.

    compare.py                 # by way: answered, to the byte, how far off
    compare.py -v [NETWORK...] # the largest error of each network and way that is not right
    compare.py --way WAY...    # of these ways alone
    compare.py --check         # exit 1 where a run is not as ways.csv has it
    compare.py --update        # writes ways.csv
    compare.py --truths FILE.jsonl... [--exports FOLDER]    # of others than data/
    compare.py --card h200                                  # beside what a card took; card_h200.csv

data/truth.json.xz holds what truths.py wrote; exports are those of ../zoo and ../accuracy.  A way
whose flags are not known is not answered.
"""

import argparse
import json
import lzma
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "accuracy"), str(HERE.parent / "zoo")]
import committed  # noqa: E402
import compare as zoo  # noqa: E402  (../zoo's)
from table import WAYS, flags_of  # noqa: E402

def table_in(name):
    return zoo.TABLE._replace(path=HERE / name, key=["family", "way", "run"])


TABLE = table_in("ways.csv")
KIND = "pt2-train"
ENDING = zoo.FILES[KIND]


def card_truths(name):
    """Of data/card_NAME.json.xz, which card_truths.py wrote."""
    with lzma.open(HERE / f"data/card_{name}.json.xz", "rt") as file:
        return json.load(file)["runs"]


def with_flags(truth, card):
    """Of a card's runs, estimates are of that card."""
    flags = flags_of(truth) + (f" --gpu {card}" if card else "")
    return {**truth, "optimizer": WAYS[truth["way"]].optimizer_flag, "flags": flags}


def key_of(truth):
    return truth["model"], truth["way"], f"b{truth['batch']} {truth['precision']}"


def jobs_of(truths, folder, args):
    return [(with_flags(truth, args.card), path) for truth in truths
            if (not args.families or truth["model"] in args.families)
            and (not args.way or truth["way"] in args.way)
            for path in [Path(folder) / f"{truth['model']}.{ENDING}"] if path.exists()]


def estimate(binary, truth, path):
    row = zoo.estimate(binary, truth, KIND, path)
    return {**row, **dict(zip(TABLE.key, key_of(truth)))}


def measure(args):
    truths = card_truths(args.card) if args.card else \
        zoo.read_truths(args.truths or [HERE / "data/truth.json.xz"])
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = args.exports or scratch
        if not args.exports:
            zoo.unpack(scratch, {truth["model"] for truth in truths})
        jobs = jobs_of(truths, folder, args)
        return (list(pool.map(lambda job: estimate(args.binary, *job), jobs)),
                [key_of(truth) for truth in truths])


# --- What is printed -------------------------------------------------------------------------

def line(way, rows):
    answered = [row for row in rows if not row["refused"]]
    cells = [f"`{way}`", len({row["family"] for row in rows}), len(rows),
             f"{100 * len(answered) / len(rows):.0f} %"]
    for figure in ["exact", "reserved"] if answered else []:
        errors = sorted(abs(float(row[figure])) for row in answered)
        right = sum(error == 0 for error in errors)
        cells += [f"{100 * right / len(rows):.1f} %", f"{zoo.quantile(errors, .95):.1f} %",
                  f"{errors[-1]:.1f} %"]
    print("| " + " | ".join(map(str, cells + [""] * (10 - len(cells)))) + " |")


def print_heads():
    print("| way | networks | runs | answered | to the byte | 95 % | worst "
          "| reserved to the byte | 95 % | worst |\n|---|---|---|---|---|---|---|---|---|---|")


def print_short(rows):
    """Ways whose allocations cuDNN's workspaces decide stand apart."""
    print_heads()
    line("all but channels-last", [row for row in rows if row["way"] != "channels-last"])
    line("channels-last", [row for row in rows if row["way"] == "channels-last"])


def print_summary(rows):
    print_heads()
    line("all", rows)
    for way in WAYS:
        some = [row for row in rows if row["way"] == way]
        if some:
            line(way, some)


def print_wrong(rows):
    """One line for each network and way: its largest error."""
    seen = set()
    for row in sorted(rows, key=lambda row: -abs(float(row["exact"] or 1e9))):
        key = row["family"], row["way"]
        if key in seen or all(row[name] == "0" for name in zoo.FIGURES):
            continue
        seen.add(key)
        figures = " ".join(f"{name} {float(row[name]):+.3f} %" for name in zoo.FIGURES
                           if row[name])
        print(f"{row['family']:30} {row['way']:22} {row['run']:12} {row['refused'] or figures}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(zoo.ROOT / "build/release/onnxfit"))
    parser.add_argument("--committed", action="store_true", help="what ways.csv says")
    parser.add_argument("--exports", type=Path, metavar="FOLDER")
    parser.add_argument("--truths", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--card", metavar="NAME", help="beside data/card_NAME.json.xz")
    parser.add_argument("--way", nargs="+", default=[], choices=list(WAYS))
    parser.add_argument("--short", action="store_true", help="two lines for all ways")
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not right")
    parser.add_argument("families", nargs="*", metavar="network")
    committed.add_arguments(parser)
    args = parser.parse_intermixed_args()
    table = table_in(f"card_{args.card}.csv") if args.card else TABLE
    return committed.answer(args, table, lambda: measure(args), print_wrong,
                            print_short if args.short else print_summary)


if __name__ == "__main__":
    sys.exit(main())
