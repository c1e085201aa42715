"""What cuDNN asks for in layers on cards of several kinds, as the command has it with it.

    pack_layers.py calls.json --batches 1 4 16 64 256   # the layers of data/card_h200.json.xz
    pack_layers.py FOLDER                  # puts answers into estimator/workspaces/cudnn_layers.bin
    pack_layers.py                         # says what that has
    pack_layers.py --check                 # exit 1 where it lacks what was measured

FOLDER has what print_plans answered for those calls, as NAME.json or NAME.json.xz.  Files of the same
capability and version are one table; where two have the same call, the last by name tells.  What was
measured is data/card_h200.json.xz.
"""

import argparse
import collections
import json
import lzma
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

import pack

PACKED = pack.ROOM / "cudnn_layers.bin"
MEASURED = pack.HERE / "data/card_h200.json.xz"


class Card(NamedTuple):
    """As KnownCard of known_layers.h."""
    capability: int
    multiprocessors: int
    version: int
    is_measured: int


# --- Questions -----------------------------------------------------------------------------------

def read(path):
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt") as file:
        return json.load(file)


def with_batch(row, batch):
    return {**row, "input": [batch, *row["input"][1:]], "output": [batch, *row["output"][1:]],
            "bytes": 0}


def write_calls(path, batches):
    measured = read(MEASURED)
    card = measured["cards"][0]
    layers = {pack.key(row): row for row in card["convolutions"]}
    card["convolutions"] = [with_batch(row, batch) for row in layers.values() for batch in batches]
    path.write_text(json.dumps(measured))


# --- Answers -------------------------------------------------------------------------------------

def version_number(text):
    major, minor, patch = map(int, text.split("."))
    return major * 10000 + minor * 100 + patch


def key_of(row):
    """Both types of 16 bits have the same kernels."""
    return pack.key({**row, "dtype": "float32" if row["dtype"] == "float32" else "bfloat16"})


def put(tables, path, is_measured):
    """By card, what each layer asks for by batch."""
    for card in read(path)["cards"]:
        table = tables[Card(card["compute_capability"], card["multiprocessors"],
                            version_number(card["cudnn"]), int(is_measured))]
        for row in card["convolutions"]:
            table[key_of(row)][row["input"][0]] = row["bytes"]


# --- The file ------------------------------------------------------------------------------------

def new_tables():
    return collections.defaultdict(lambda: collections.defaultdict(dict))


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
    blocks = [packed_table(tables[card], keys) for card in sorted(tables)]
    head = [number for card, block in zip(sorted(tables), blocks) for number in (*card, len(block))]
    return pack.numbers([len(blocks), *head, len(names)]) + names + b"".join(blocks)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def take(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def numbers(self, count):
        return [self.number() for _ in range(count)]


def heads_of(reader):
    """[(card, how many bytes its table has)]"""
    return [(Card(*reader.numbers(4)), reader.number()) for _ in range(reader.number())]


def table_of(data, keys):
    reader, layers = Reader(zlib.decompress(data)), collections.defaultdict(dict)
    lists = [reader.numbers(reader.number()) for _ in range(reader.number())]
    for key in keys:
        batches = lists[reader.number()]
        if batches:
            layers[key] = dict(zip(batches, reader.numbers(len(batches))))
    return layers


def unpacked(data):
    reader, tables = Reader(data), new_tables()
    heads = heads_of(reader)
    names = Reader(zlib.decompress(reader.take(reader.number())))
    keys = []
    while names.at < len(names.data):
        keys.append(names.take(names.number()))
    for card, size in heads:
        tables[card] = table_of(reader.take(size), keys)
    return tables


# --- What there is -------------------------------------------------------------------------------

def show(data):
    for card, size in heads_of(Reader(data)):
        print(f"{card.capability / 10:.1f}, {card.multiprocessors:3} multiprocessors, "
              f"cuDNN {card.version}, {'measured' if card.is_measured else 'planned'}: "
              f"{size:,} bytes")


def check(data):
    measured = new_tables()
    put(measured, MEASURED, True)
    has = unpacked(data)
    if any(has[card] != layers for card, layers in measured.items()):
        sys.exit(f"{PACKED.name}: expected what {MEASURED.name} has; pack_layers.py FOLDER writes it")


def put_all(folder):
    tables = unpacked(PACKED.read_bytes()) if PACKED.exists() else new_tables()
    put(tables, MEASURED, True)
    for path in sorted(folder.glob("*.json*")):
        put(tables, path, False)
    PACKED.write_bytes(packed(tables))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?")
    parser.add_argument("--batches", type=int, nargs="+")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.batches:
        write_calls(args.path, args.batches)
    elif args.path:
        put_all(args.path)
    elif args.check:
        return check(PACKED.read_bytes())
    show(PACKED.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
