"""The layers that were measured on a card, as the command has them with it.

    pack.py            # writes estimator/eager/cudnn_h200.bin from data/card_h200.json.xz
    pack.py --check    # exit 1 where it is not so

A row is a layer, a convolution but for its batch: the key's length, the key, how many batches, each
one's size and bytes; rows are sorted by key, numbers are LEB128, all of it deflated by zlib.
"""

import argparse
import json
import lzma
import sys
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKED = HERE.parent.parent / "estimator/eager/cudnn_h200.bin"
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
    """As KeyOf of measured_layers.cc."""
    head = [PASSES.index(row["pass"]), DTYPES.index(row["dtype"]),
            int(row.get("channels_last", False)), int(row.get("transposed", False)), row["groups"]]
    return numbers([*head, *row["input"][1:], *row["weight"], *row["output"][1:], *row["stride"],
                    *row["padding"], *row["dilation"]])


def packed(rows):
    layers = {}
    for row in rows:
        layers.setdefault(key(row), {})[row["input"][0]] = row["bytes"]
    text = b"".join(number(len(name)) + name + number(len(batches))
                    + b"".join(numbers(each) for each in sorted(batches.items()))
                    for name, batches in sorted(layers.items()))
    return zlib.compress(text, 9)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    with lzma.open(HERE / "data/card_h200.json.xz", "rt") as file:
        data = packed(json.load(file)["cards"][0]["convolutions"])
    if args.check:
        # Streams of zlib's differ from version to version.
        sys.exit(zlib.decompress(PACKED.read_bytes()) != zlib.decompress(data))
    PACKED.write_bytes(data)


if __name__ == "__main__":
    main()
