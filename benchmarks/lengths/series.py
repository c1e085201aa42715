"""Training on batches whose lengths differ: what onnxfit says is reserved behind each step, beside PyTorch.

    series.py                     # the table, asked anew: seconds
    series.py --committed         # series.csv, as README.md has it
    series.py --check             # exit 1 where it is not as series.csv has it
    series.py --update            # writes series.csv
    series.py --truths --python VENV/bin/python     # runs PyTorch, on a card that is not there: minutes

data/models.tar.xz has the files of models.py, data/truths.json.xz what PyTorch reserved (trains.py, torch
2.11.0, transformers 5.17.0, under `onnxfit run`): on a card that is never full, and on one with too little for
every other series, and with little room for the others.  Lengths are the same everywhere: random.Random's.
"""

import argparse
import csv
import json
import lzma
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODELS = {"bert": "fp32", "gpt2": "fp32", "llama": "bf16", "qwen3": "bf16", "t5": "fp32"}
CONFS = {"default": "", "expandable": "expandable_segments:True"}
STEPS, BUCKET = 500, 10
FIELDS = ["model", "precision", "order", "allocator", "steps", "pytorch_bytes", "onnxfit_bytes", "steps_right",
          "most_off_bytes", "alike_bytes", "small_card_bytes", "pytorch_death", "onnxfit_death"]
NEVER_FULL = 400 << 30


def as_they_come(seed):
    draw = random.Random(seed)
    return [draw.randrange(64, 513, 8) for _ in range(STEPS)]


def in_buckets(seed):
    """Ten of similar length in a row."""
    lengths = sorted(as_they_come(seed))
    buckets = [lengths[i:i + BUCKET] for i in range(0, STEPS, BUCKET)]
    random.Random(seed).shuffle(buckets)
    return [length for bucket in buckets for length in bucket]


ORDERS = {"as they come": as_they_come, "in buckets": in_buckets, "sorted": lambda seed: sorted(as_they_come(seed))}


def series():
    """Each with its lengths."""
    for seed, model in enumerate(MODELS):
        for order, lengths in ORDERS.items():
            for conf in CONFS:
                yield (model, order, conf), lengths(seed)


def key_of(parts):
    return " / ".join(parts)


def run_pytorch(args, folder, parts, lengths, memory):
    """What trains.py tells of it on a card of that size."""
    given, out = folder / "lengths.txt", folder / "told.json"
    given.write_text(" ".join(map(str, lengths)))
    out.unlink(missing_ok=True)
    model, _, conf = parts
    environment = {**os.environ, "PYTORCH_ALLOC_CONF": CONFS[conf]} if CONFS[conf] else os.environ
    run = subprocess.run([args.binary, "run", "-g", "a100-80gb", "--memory", str(memory), "-q", "--", args.python, "-B",
                          str(HERE / "trains.py"), model, str(given), str(out)], env=environment, capture_output=True, text=True, check=False)
    if not out.exists():
        sys.exit(f"{key_of(parts)}: {run.stdout}{run.stderr}")
    return json.loads(out.read_text())


def small_card(told, number):
    """Bytes of a card that every other series finds too small: of both allocators in turn."""
    allocated, reserved = told["allocated"], max(told["reserved"])
    is_too_small = (number // 2 + number % 2) % 2 == 1
    return told["context"] + (allocated * 97 // 100 if is_too_small else allocated + (reserved - allocated) // 3)


def write_truths(args):
    path = HERE / "data/truths.json.xz"
    truths = json.loads(lzma.open(path).read()) if path.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        for number, (parts, lengths) in enumerate(series()):
            if len(truths.get(key_of(parts), {}).get("reserved", [])) == STEPS:
                continue
            told = run_pytorch(args, Path(name), parts, lengths, NEVER_FULL)
            small = small_card(told, number)
            death = run_pytorch(args, Path(name), parts, lengths, small)["death"]
            truths[key_of(parts)] = {"reserved": told["reserved"], "small_card": small, "death": death}
            print(key_of(parts), told["reserved"][-1], small, death, flush=True)
            path.write_bytes(lzma.compress(json.dumps(truths).encode()))


def ask(binary, folder, parts, lengths, *card):
    model, _, conf = parts
    given = folder / "lengths.txt"
    given.write_text(" ".join(map(str, lengths)))
    flags = ["--alloc-conf", CONFS[conf]] if CONFS[conf] else []
    run = subprocess.run([binary, "estimate", str(folder / f"{model}.pt2"), "-p", MODELS[model], "--lengths", str(given),
                          "--steps", str(len(lengths)), "-f", "json", *flags, *card], capture_output=True, text=True,
                         check=False)
    if run.returncode > 1:
        sys.exit(f"{key_of(parts)}: {run.stderr}")
    return json.loads(run.stdout)


def rows_of(args):
    with lzma.open(HERE / "data/truths.json.xz", "rt") as file:
        truths = json.load(file)
    with tempfile.TemporaryDirectory() as name, tarfile.open(HERE / "data/models.tar.xz") as packed:
        folder = Path(name)
        packed.extractall(folder, filter="data")
        for parts, lengths in series():
            told, answer = truths[key_of(parts)], ask(args.binary, folder, parts, lengths)
            small = ask(args.binary, folder, parts, lengths, "-g", "a100-80gb", "--memory", str(told["small_card"]))
            truth, ours = told["reserved"], answer["reserved_bytes"]
            right = sum(a == b for a, b in zip(ours, truth, strict=True))
            off = max(abs(a - b) for a, b in zip(ours, truth, strict=True))
            yield [parts[0], MODELS[parts[0]], *parts[1:], len(truth), max(truth), max(ours), right, off,
                   answer["alike_bytes"], told["small_card"], told["death"] or 0,
                   small["targets"][0].get("first_death", 0)]


def committed():
    with open(HERE / "series.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [[*row[:4], *map(int, row[4:])] for row in rows]


def mib(count):
    return f"{count / 2**20:,.0f}"


def print_table(rows):
    print("| model | | lengths | allocator | PyTorch, MiB | onnxfit, MiB | steps right | all as long as the longest, MiB "
          "| a small card, MiB | PyTorch there | onnxfit |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for model, precision, order, conf, steps, truth, ours, right, _, alike, small, *deaths in rows:
        ends = " | ".join(f"dies in step {step}" if step else "runs" for step in deaths)
        print(f"| {model} | {precision} | {order} | {conf} | {mib(truth)} | {mib(ours)} | {right} of {steps} "
              f"| {mib(alike)} | {mib(small)} | {ends} |")
    whole = sum(row[7] == row[4] for row in rows)
    print(f"\n{whole} of {len(rows)} series are right to the byte behind every step; at most an answer is off by "
          f"{mib(max(row[8] for row in rows))} MiB, behind any of all.  On a small card {sum(row[11] == row[12] for row in rows)} "
          f"of {len(rows)} run or die in the same step.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--python", default=sys.executable)
    for flag in ("committed", "check", "update", "truths"):
        parser.add_argument(f"--{flag}", action="store_true")
    args = parser.parse_args()
    if args.truths:
        return write_truths(args)
    if args.committed:
        return print_table(committed())
    rows = list(rows_of(args))
    if args.update:
        with open(HERE / "series.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([FIELDS, *rows])
    print_table(rows)
    if args.check and rows != committed():
        sys.exit("series.csv says something else: series.py --update where that is right")


if __name__ == "__main__":
    main()
