"""Sessions of ONNX Runtime: what onnxfit says of them beside what they took (data/truths.json.xz).

    sessions.py --committed          # sessions.csv
    sessions.py --check              # exit 1 where one is not as sessions.csv has it (needs onnxruntime-gpu)
    sessions.py --update             # writes sessions.csv
    sessions.py bert_base            # these models alone; with --check and none of the others

The truths are sessions of onnxruntime-gpu 1.31.1's own CUDA provider over a runtime that counts, each in a
process of its own: what the arena had behind the second run.  Their cuDNN took no scratch, so models with
convolutions are not among them.  A row is a model, a batch and settings, with all its sessions: `inside` says
how many of them lie in the range that onnxfit gives; where the settings leave no choice, it is one figure.
"""

import json
import lzma
import sys

from asking import HERE, all_inside, answer, committed, counted, files_of, parser, run

FIGURES = ["sessions", "inside", "low", "high", "least", "most"]
TABLE = committed.Table(
    HERE / "sessions.csv", ["model", "batch", "settings"], FIGURES,
    lambda before, row: [f"{row['inside']} sessions of {row['sessions']} inside, not {before['inside']}"]
    if int(row["inside"]) < int(before["inside"]) else [],
    all_inside)


def truths():
    """By model, batch and settings: totals of the arena."""
    with lzma.open(HERE / "data/truths.json.xz", "rt") as file:
        return json.load(file)


def flags_of(truth):
    flags = [("--session", f"{name}={value}") for name, value in truth["session"].items()]
    flags += [("--provider-option", f"{name}={value}") for name, value in truth["provider"].items()]
    return [word for flag in flags for word in flag]


def settings_of(truth):
    return " ".join(f"{name.split('.')[-1]}={value}"
                    for name, value in {**truth["session"], **truth["provider"]}.items()) or "default"


def rows_of(args):
    with files_of("models.tar.xz") as folder:
        for truth in truths():
            if args.models and truth["model"].split(".")[0] not in args.models:
                continue
            told = answer(args, folder / f"{truth['model']}.onnx", truth["batch"], "h100", flags_of(truth))
            seen = [session["arena_bytes"][-1] for session in told["sessions"]]
            low, high = min(told["arena_low_bytes"], *seen), max(told["arena_high_bytes"], *seen)
            yield {"model": truth["model"], "batch": truth["batch"], "settings": settings_of(truth),
                   "sessions": len(truth["arena"]), "low": low, "high": high,
                   "inside": sum(low <= bytes_ <= high for bytes_ in truth["arena"]),
                   "least": min(truth["arena"]), "most": max(truth["arena"])}


def mib(text):
    return f"{int(text) / 2 ** 20:,.1f}"


def print_summary(rows):
    print("| model | batch | settings | sessions | they had, MiB | onnxfit, MiB | inside |\n"
          "|---|---|---|---|---|---|---|")
    for row in rows:
        ranges = [mib(row[low]) if row[low] == row[high] else f"{mib(row[low])} – {mib(row[high])}"
                  for low, high in (("least", "most"), ("low", "high"))]
        print(f"| {row['model']} | {row['batch']} | {row['settings']} | {row['sessions']} | {ranges[0]} "
              f"| {ranges[1]} | {row['inside']} |")
    print("\n{} of {} sessions are inside ({:.1f} %).".format(*counted(rows)))


if __name__ == "__main__":
    sys.exit(run(parser(__doc__, TABLE).parse_intermixed_args(), TABLE, rows_of, print_summary))
