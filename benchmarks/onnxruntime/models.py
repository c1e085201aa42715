"""Twenty models under ONNX Runtime, by setting: what `onnxfit estimate --runtime onnxruntime` says of them.

    models.py --committed          # models.csv, as docs/onnxruntime.md has it
    models.py --check              # exit 1 where an answer is not as models.csv has it
    models.py --update             # writes models.csv: some minutes
    models.py resnet50             # these models alone; with --check and none of the others

data/inference.tar.xz has the files (exports.py), without weights.  For each model and batch one answer is
asked, and then FRESH sessions more, whose weights have an order of their own: `inside` says how many of them
lie in the range that the answer has for any order.  Needs a Python with onnxruntime-gpu (--python).
"""

import sys

from asking import HERE, all_inside, answer, committed, counted, files_of, parser, run

CARD = "rtx4090"
BATCHES = (1, 16)
FRESH = 20
LENGTH = 64  # of texts
FREE_LENGTH = b"\x12\x03seq"  # TensorShapeProto.Dimension.dim_param, onnx.proto
SETTINGS = {"outside": "use_device_allocator_for_initializers", "same": "kSameAsRequested",
            "no_pattern": "enable_mem_pattern"}
FIGURES = ["weights", "most", "low", "high", *SETTINGS, "sessions", "inside"]


def changes(before, row):
    """The range is played, and the same each time; which sessions are seen is chance."""
    return [f"{name}: {row[name]}, not {before[name]}" for name in FIGURES
            if name not in ("sessions", "inside", "low", "high") and row[name] != int(before[name])]


TABLE = committed.Table(HERE / "models.csv", ["model", "batch"], FIGURES, changes,
                        all_inside, is_exact=False)


def told_of(args, path, batch):
    flags = ["--dim", f"seq={LENGTH}"] if FREE_LENGTH in path.read_bytes() else []
    return answer(args, path, batch, CARD, flags)


def most_of(session):
    return max(session["used_bytes"])


def fresh_sessions(args, path, batch):
    """By other processes."""
    found = []
    while len(found) < args.fresh:
        found += [most_of(session) for session in told_of(args, path, batch)["sessions"]]
    return found[:args.fresh]


def row_of(args, path, batch):
    told = told_of(args, path, batch)
    settings = {name: next(setting["high_bytes"] for setting in told["settings"] if text in setting["flag"])
                for name, text in SETTINGS.items()}
    fresh = fresh_sessions(args, path, batch)
    return {"model": path.stem, "batch": batch, "weights": told["weight_bytes"], "most": told["most_bytes"],
            "low": told["low_bytes"], "high": told["high_bytes"], **settings, "sessions": len(fresh),
            "inside": sum(told["low_bytes"] <= bytes_ <= told["high_bytes"] for bytes_ in fresh)}


def rows_of(args):
    with files_of("inference.tar.xz") as folder:
        for path in sorted(folder.glob("*.onnx")):
            if not args.models or path.stem in args.models:
                yield from (row_of(args, path, batch) for batch in args.batches)


def mib(text):
    return f"{int(text) / 2 ** 20:,.0f}"


def print_summary(rows):
    print("| model | batch | weights | default | initializers outside | as requested | no pattern | "
          "fresh inside |\n|---|---|---|---|---|---|---|---|")
    for row in rows:
        default = " – ".join(dict.fromkeys([mib(row["low"]), mib(row["high"])]))
        settings = " | ".join(mib(row[name]) for name in SETTINGS)
        print(f"| {row['model']} | {row['batch']} | {mib(row['weights'])} | {default} | {settings} "
              f"| {row['inside']} of {row['sessions']} |")
    print("\n{} of {} fresh sessions lie in their range ({:.1f} %).".format(*counted(rows)))


def main():
    flags = parser(__doc__, TABLE)
    flags.add_argument("--fresh", type=int, default=FRESH, help="sessions of each")
    flags.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    return run(flags.parse_intermixed_args(), TABLE, rows_of, print_summary)


if __name__ == "__main__":
    sys.exit(main())
