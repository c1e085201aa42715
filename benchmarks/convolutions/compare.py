"""How often estimates have the workspace that a card's cuDNN took for a convolution.

    compare.py [--card h200] [--cudnn FOLDER]
    compare.py --check      # exit 1 where estimates without --cudnn are not as workspaces.csv has them
    compare.py --update --cudnn FOLDER      # writes workspaces.csv
    compare.py --committed  # the table of workspaces.csv
    compare.py --carried    # of every card that comes with the command: one layer in EVERY, from its
                            # other batches, and from other sizes of its pictures

data/card_CARD.json.xz is what measure.py wrote.  FOLDER has a libcudnn.so.9, as --cudnn of onnxfit
takes it; right is a workspace to CLOSE bytes, `off` the bytes that are too many or too few, of all
that were asked for.  `form` is the closed form, `scaled` what the layer's other batches say, `sized`
what it says on pictures of other sizes.
"""

import argparse
import csv
import itertools
import json
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

import pack
import pack_layers

HERE = Path(__file__).resolve().parent
TABLE = HERE / "workspaces.csv"
CLOSE = 600  # cuDNN's plans ask for some bytes beside what they copy
KEY = ["order", "type", "pass", "kind"]
ANSWERS = ["form", "scaled", "sized", "cudnn"]
COLUMNS = [*KEY, "count", "bytes", *(f"{name}_{what}" for name in ANSWERS for what in ("right", "off"))]


# --- What is printed by print_workspaces -------------------------------------------------------

def lines(args):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "card.json")
        path.write_bytes(lzma.decompress((HERE / f"data/card_{args.card}.json.xz").read_bytes()))
        asked = ["--cudnn", args.cudnn] if args.cudnn else []
        done = subprocess.run([args.printer, path, "--gpu", args.card, *asked], check=True,
                              capture_output=True, text=True)
        return [line.split("\t") for line in done.stdout.splitlines()]


def kind_of(weight, groups):
    if groups != "1":
        return "groups"
    return "window" if set(weight.strip("[]").split(", ")[2:]) - {"1"} else "point"


def planned_by_cublaslt(x, weight, y, groups):
    """Such a point has no plan where cuDNN is asked without a card: estimates have the table's."""
    sizes = [text.strip("[]").split(", ")[2:] for text in (x, y)]
    return kind_of(weight, groups) == "point" and sizes[0] == sizes[1]


def rows_of(printed):
    rows = {}
    for name, dtype, order, x, weight, y, groups, *figures in printed:
        counted, *answers = map(int, figures)
        if planned_by_cublaslt(x, weight, y, groups):
            answers[3] = answers[1]
        key = order, dtype, name, kind_of(weight, groups)
        row = rows.setdefault(key, dict.fromkeys(COLUMNS, 0) | dict(zip(KEY, key)))
        row["count"] += 1
        row["bytes"] += counted
        for answer, said in zip(ANSWERS, answers):
            row[f"{answer}_right"] += abs(said - counted) <= CLOSE
            row[f"{answer}_off"] += abs(said - counted)
    return [rows[key] for key in sorted(rows)]


# --- Other cards ------------------------------------------------------------------------------

NAMES = {75: "t4", 80: "a100-40gb", 86: "rtx3060", 89: "rtx4060", 90: "h200", 120: "rtx5090"}
FRAMEWORKS = {90100: "pytorch-2.6", 91900: "pytorch-2.11"}
EVERY = 10


def convolution_of(key, batch, workspace):
    """As pack.key packs it."""
    numbers = pack_layers.Reader(key)
    kind, dtype, last, transposed, groups, rank, inputs, outputs = numbers.numbers(8)
    weight, *windows = (numbers.numbers(rank), *(numbers.numbers(rank - 2) for _ in range(5)))
    stride, padding, dilation, x, y = windows
    return {"pass": pack.PASSES[kind], "dtype": pack.DTYPES[dtype], "input": [batch, inputs, *x],
            "weight": weight, "output": [batch, outputs, *y], "stride": stride, "padding": padding,
            "dilation": dilation, "groups": groups, "transposed": bool(transposed),
            "channels_last": bool(last), "bytes": workspace}


def write_card(path, card, layers):
    calls = [convolution_of(key, batch, workspace)
             for key in itertools.islice(sorted(layers), 0, None, EVERY)
             for batch, workspace in layers[key].items()]
    path.write_text(json.dumps({"calibration": 1, "cards": [{
        "card": NAMES[card.capability], "compute_capability": card.capability,
        "multiprocessors": card.multiprocessors, "driver": "", "cuda": "", "cudnn": "",
        "loaded": [], "convolutions": calls}]}))


def carried_rows(printer, card, layers):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "card.json")
        write_card(path, card, layers)
        done = subprocess.run([printer, path, "--gpu", NAMES[card.capability], "--framework",
                               FRAMEWORKS[card.version]], check=True, capture_output=True, text=True)
    return rows_of(line.split("\t") for line in done.stdout.splitlines())


def show_carried(printer):
    print("| compute capability, cuDNN | kind | calls | other batch | off | other size "
          "| off |\n|---|---|---|---|---|---|---|---|")
    for card, layers in sorted(pack_layers.unpacked(pack_layers.PACKED.read_bytes()).items()):
        rows = carried_rows(printer, card, layers)
        for kind in ["window", "point", "groups"]:
            some = [row for row in rows if row["kind"] == kind]
            name = f"{card.capability / 10:.1f}, {card.version // 10000}.{card.version // 100 % 100}"
            print(f"| {name} | {kind} | {sum(row['count'] for row in some):,} | "
                  + " | ".join([*cells(some, "scaled"), *cells(some, "sized")]) + " |")


# --- Tables -----------------------------------------------------------------------------------

def committed():
    with TABLE.open(newline="") as file:
        return [{name: text if name in KEY else int(text) for name, text in row.items()}
                for row in csv.DictReader(file)]


def write(rows):
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def cells(rows, answer):
    total = {name: sum(row[name] for row in rows) for name in COLUMNS if name not in KEY}
    return [f"{100 * total[f'{answer}_right'] / total['count']:.0f} %",
            f"{100 * total[f'{answer}_off'] / max(total['bytes'], 1):.0f} %"]


def show(rows, answers):
    print("| order | pass | kind | calls |" + "".join(f" {name} | off |" for name in answers))
    print("|---" * (4 + 2 * len(answers)) + "|")
    for order in sorted({row["order"] for row in rows}):
        for name in [*sorted({row["pass"] for row in rows}), ""]:
            for kind in ["window", "point", "groups", ""]:
                some = [row for row in rows if row["order"] == order
                        and name in (row["pass"], "") and kind in (row["kind"], "")]
                if bool(name) != bool(kind):
                    continue
                print("| " + " | ".join([order, name or "all", kind or "all",
                                         f"{sum(row['count'] for row in some):,}",
                                         *(cell for answer in answers
                                           for cell in cells(some, answer))]) + " |")


def differences(rows):
    names = [name for name in COLUMNS if not name.startswith("cudnn_")]
    before = {tuple(row[name] for name in KEY): row for row in committed()}
    return [(key, name, before.get(key, {}).get(name), row[name])
            for row in rows for key in [tuple(row[name] for name in KEY)]
            for name in names if before.get(key, {}).get(name) != row[name]]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--printer", default=str(
        HERE.parent.parent / "build/release/benchmarks/print_workspaces"))
    parser.add_argument("--card", default="h200")
    parser.add_argument("--cudnn", default="")
    parser.add_argument("--committed", action="store_true")
    parser.add_argument("--carried", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    if args.update and not args.cudnn:
        sys.exit("--update: expected --cudnn FOLDER beside it, whose answers the table has, too")
    if args.carried:
        return show_carried(args.printer)
    rows = committed() if args.committed else rows_of(lines(args))
    if args.update:
        write(rows)
    if args.check:
        wrong = differences(rows)
        for key, name, before, now in wrong:
            print(f"{' '.join(key)}: {name} was {before}, is {now}")
        sys.exit(bool(wrong))
    show(rows, ANSWERS if args.cudnn or args.committed else ANSWERS[:-1])


if __name__ == "__main__":
    sys.exit(main())
