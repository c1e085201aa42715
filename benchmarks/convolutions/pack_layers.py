"""What cuDNN plans for layers on cards of several kinds, as the command has it with it.

    pack_plans.py calls.json --batches 1 4 16 64 256   # the layers of data/card_h200.json.xz
    pack_plans.py FOLDER                               # writes estimator/workspaces/cudnn_plans.bin
    pack_plans.py                                      # says what that has

FOLDER has what print_plans answered for those calls, as NAME.json or NAME.json.xz.  Files of the same
capability and version are one table; where two have the same call, the last by name tells.
"""

import argparse
import collections
import itertools
import json
import lzma
import sys
import zlib
from pathlib import Path

import pack

HERE = Path(__file__).resolve().parent
PACKED = pack.HERE.parent.parent / "estimator/workspaces/cudnn_plans.bin"


# --- Questions -----------------------------------------------------------------------------------

def with_batch(row, batch):
    return {**row, "input": [batch, *row["input"][1:]], "output": [batch, *row["output"][1:]],
            "bytes": 0}


def write_calls(path, batches):
    with lzma.open(HERE / "data/card_h200.json.xz", "rt") as file:
        measured = json.load(file)
    card = measured["cards"][0]
    layers = {pack.key(row): row for row in card["convolutions"]}
    card["convolutions"] = [with_batch(row, batch) for row in layers.values() for batch in batches]
    path.write_text(json.dumps(measured))


# --- Answers -------------------------------------------------------------------------------------

def version_number(text):
    major, minor, patch = map(int, text.split("."))
    return major * 10000 + minor * 100 + patch


def read(path):
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt") as file:
        return json.load(file)["cards"]


def key_of(row):
    """Both types of 16 bits have the same kernels."""
    return pack.key({**row, "dtype": "float32" if row["dtype"] == "float32" else "bfloat16"})


def tables_in(folder):
    """By capability, multiprocessors and version, what each layer asks for by batch."""
    tables = collections.defaultdict(lambda: collections.defaultdict(dict))
    for path in sorted(folder.glob("*.json*")):
        for card in read(path):
            name = (card["compute_capability"], card["multiprocessors"], version_number(card["cudnn"]))
            for row in card["convolutions"]:
                tables[name][key_of(row)][row["input"][0]] = row["bytes"]
    return tables


def packed_table(layers, keys):
    rows = [sorted(layers.get(key, {}).items()) for key in keys]
    lists = sorted({tuple(batch for batch, _ in row) for row in rows})
    head = [number for batches in lists for number in (len(batches), *batches)]
    place = {batches: at for at, batches in enumerate(lists)}
    figures = [number for row in rows
               for number in (place[tuple(batch for batch, _ in row)], *(each for _, each in row))]
    return zlib.compress(pack.numbers([len(lists), *head, *figures]), 9)


def packed(tables):
    keys = sorted({key for layers in tables.values() for key in layers})
    names = zlib.compress(b"".join(pack.number(len(key)) + key for key in keys), 9)
    blocks = [packed_table(tables[name], keys) for name in sorted(tables)]
    head = [number for name, block in zip(sorted(tables), blocks) for number in (*name, len(block))]
    return pack.numbers([len(blocks), *head, len(names)]) + names + b"".join(blocks)


# --- What there is -------------------------------------------------------------------------------

def numbers_of(data):
    at = 0
    while at < len(data):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        yield value


def show(data):
    numbers = numbers_of(data)

    for _ in range(next(numbers)):
        capability, multiprocessors, version, size = itertools.islice(numbers, 4)
        print(f"{capability / 10:.1f}, {multiprocessors:3} multiprocessors, cuDNN {version}: "
              f"{size:,} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?")
    parser.add_argument("--batches", type=int, nargs="+")
    args = parser.parse_args()
    if args.batches:
        write_calls(args.path, args.batches)
    elif args.path:
        PACKED.write_bytes(packed(tables_in(args.path)))
    show(PACKED.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
