"""What torch.backends.cudnn.benchmark keeps and tries, and how often other figures tell it.

    benchmark.py        # no card: data/benchmark_h200.json.xz beside data/card_h200.json.xz

`without` is what the same call asks for without it; `other batch` what its layer's other one says, as
a workspace is scaled by AtBatch of other_sizes.h, but where two copies fit; `at most` that
figure, or as much a sample where that is more.  Right is to CLOSE bytes, `off` the bytes that are too
many or too few and `low` those that are too few, of all.
"""

from collections import defaultdict
from math import prod

from compare import CLOSE, kind_of
from pack import key, rows_in

COPIED = 600  # as kMostBesideCopies of other_sizes.cc


# --- From another batch ------------------------------------------------------------------------

def tensor_bytes(row, batch, filled):
    size, width = (2, 8) if row["dtype"] == "bfloat16" else (4, 4)
    up = (lambda n: -(-n // width) * width) if filled else (lambda n: n)
    (_, c, *x), (out, into, *window), (_, k, *y) = row["input"], row["weight"], row["output"]
    return [size * prod(dims) for dims in ([batch, up(c), *x], [up(out), up(into), *window],
                                           [batch, up(k), *y])]


def copies(row, batch, figure):
    """Some of the tensors, where that is what the figure of `row` is."""
    for filled in (False, True):
        then = tensor_bytes(row, row["input"][0], filled)
        for which in range(8):
            chosen = [i for i in range(3) if which >> i & 1]
            beside = figure - sum(then[i] for i in chosen)
            if 0 <= beside <= COPIED:
                now = tensor_bytes(row, batch, filled)
                return sum(now[i] for i in chosen) + beside
    return None


def by_sample(row, batch, figure):
    return figure * batch // row["input"][0]


def scaled(row, batch, figure):
    copied = copies(row, batch, figure)
    return by_sample(row, batch, figure) if copied is None else copied


def at_most(row, batch, figure):
    return max(figure, by_sample(row, batch, figure))


# --- Tables ------------------------------------------------------------------------------------

def from_other_batches(rows, figure, rule):
    """Pairs: what the rule says, what it is."""
    layers = defaultdict(list)
    for row in rows:
        layers[key(row)].append(row)
    return [(rule(other, row["input"][0], other[figure]), row[figure])
            for layer in layers.values() for row in layer for other in layer
            if other["input"][0] != row["input"][0]]


def without(rows):
    asked = {(key(row), row["input"][0]): row["bytes"] for row in rows_in("card_h200.json.xz")}
    return [(asked[key(row), row["input"][0]], row["bytes"]) for row in rows]


def line(what, answer, pairs):
    total = max(sum(got for _, got in pairs), 1)
    share = [f"{100 * part / whole:.0f} %" for part, whole in (
        (sum(abs(said - got) <= CLOSE for said, got in pairs), len(pairs)),
        (sum(abs(said - got) for said, got in pairs), total),
        (sum(max(got - said, 0) for said, got in pairs), total))]
    return f"| {what} | {answer} | {len(pairs):,} | " + " | ".join(share) + " |"


def show(rows):
    print("| figure | from | calls | right | off | low |\n|---|---|---|---|---|---|")
    print(line("kept", "without", without(rows)))
    print(line("kept", "other batch", from_other_batches(rows, "bytes", scaled)))
    print(line("tried", "other batch", from_other_batches(rows, "tried", scaled)))
    print(line("tried", "at most", from_other_batches(rows, "tried", at_most)))


def show_sizes(rows):
    print("\n| order | kind | calls | kept, all | tried, all | median of tried | 90 % | most |")
    print("|---" * 8 + "|")
    groups = defaultdict(list)
    for row in rows:
        order = "NHWC" if row.get("channels_last") else "NCHW"
        groups[order, kind_of(str(row["weight"]), str(row["groups"]))].append(row)
    for (order, kind), some in sorted(groups.items()):
        tried = sorted(row["tried"] for row in some)
        sizes = [sum(row["bytes"] for row in some), sum(tried), tried[len(tried) // 2],
                 tried[len(tried) * 9 // 10], tried[-1]]
        print(f"| {order} | {kind} | {len(some):,} | "
              + " | ".join(f"{size / 1e6:,.0f} MB" for size in sizes) + " |")


if __name__ == "__main__":
    measured = rows_in("benchmark_h200.json.xz")
    show(measured)
    show_sizes(measured)
