"""The layers that PyTorch tried plans for on a card, as the command has them with it.

    pack.py            # writes estimator/workspaces/benchmark_h200.bin
    pack.py --check    # exit 1 where that is not so

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
PACKED = ROOM / "benchmark_h200.bin"
SOURCES = ["tried_h200.json.xz", "benchmark_h200.json.xz"]  # the last that has a call tells
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
            int(row.get("channels_last", False)), int(row.get("transposed", False)), row["groups"],
            len(row["weight"]), row["input"][1], row["output"][1]]
    return numbers([*head, *row["weight"], *row["stride"], *row["padding"], *row["dilation"],
                    *row["input"][2:], *row["output"][2:]])


def rows_in(source):
    with lzma.open(HERE / "data" / source, "rt") as file:
        return json.load(file)["cards"][0]["convolutions"]


def packed():
    layers = {}
    for row in itertools.chain.from_iterable(map(rows_in, SOURCES)):
        layers.setdefault(key(row), {})[row["input"][0]] = [row["bytes"], row["tried"]]
    text = b"".join(number(len(name)) + name + number(len(batches))
                    + b"".join(numbers([size, *each]) for size, each in sorted(batches.items()))
                    for name, batches in sorted(layers.items()))
    return zlib.compress(text, 9)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    data = packed()
    if not args.check:
        PACKED.write_bytes(data)
    # Streams of zlib's differ from version to version.
    elif zlib.decompress(PACKED.read_bytes()) != zlib.decompress(data):
        sys.exit(f"{PACKED.name}: expected what pack.py makes of {', '.join(SOURCES)}")


if __name__ == "__main__":
    main()
