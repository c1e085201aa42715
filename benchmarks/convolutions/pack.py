"""The layers that were measured on a card, as the command has them with it.

    pack.py            # writes FILES
    pack.py --check    # exit 1 where they are not so

A row is a layer, a convolution but for its batch: the key's length, the key, how many batches, each
one's size and bytes, and what its first call took where plans were tried; rows are sorted by key,
numbers are LEB128, all of it deflated by zlib.
"""

import argparse
import itertools
import json
import lzma
import sys
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOM = HERE.parent.parent / "estimator/workspaces"
# What each is packed from, the last that has a call tells, and which figures of a batch it has.
FILES = {"cudnn_h200.bin": (["card_h200.json.xz"], ["bytes"]),
         "benchmark_h200.bin": (["tried_h200.json.xz", "benchmark_h200.json.xz"],
                                ["bytes", "tried"])}
PASSES = ["forward", "data_gradient", "weight_gradient"]
DTYPES = ["float32", "bfloat16"]


def number(value):
    """LEB128: seven bits a byte, the least first."""
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes(data + bytes([value]))


def numbers(values):
    return b"".join(map(number, values))


def key(row):
    """As LayerKey of layer_rows.h."""
    head = [PASSES.index(row["pass"]), DTYPES.index(row["dtype"]),
            int(row.get("channels_last", False)), int(row.get("transposed", False)), row["groups"]]
    return numbers([*head, *row["input"][1:], *row["weight"], *row["output"][1:], *row["stride"],
                    *row["padding"], *row["dilation"]])


def rows_in(source):
    with lzma.open(HERE / "data" / source, "rt") as file:
        return json.load(file)["cards"][0]["convolutions"]


def packed(sources, figures):
    layers = {}
    for row in itertools.chain.from_iterable(map(rows_in, sources)):
        layers.setdefault(key(row), {})[row["input"][0]] = [row[name] for name in figures]
    text = b"".join(number(len(name)) + name + number(len(batches))
                    + b"".join(numbers([size, *each]) for size, each in sorted(batches.items()))
                    for name, batches in sorted(layers.items()))
    return zlib.compress(text, 9)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    for name, (sources, figures) in FILES.items():
        data, path = packed(sources, figures), ROOM / name
        if not args.check:
            path.write_bytes(data)
        # Streams of zlib's differ from version to version.
        elif zlib.decompress(path.read_bytes()) != zlib.decompress(data):
            sys.exit(f"{name}: expected what pack.py makes of {', '.join(sources)}")


if __name__ == "__main__":
    main()
