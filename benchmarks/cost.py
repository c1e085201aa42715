"""What onnxfit itself costs: instructions and memory of twelve commands, the binary, lines of rooms.

    cost.py --check                  # exit 1 where a figure is 3 % or more above cost.csv
    cost.py --update [--reason WHY]  # commits the figures of today
    cost.py --update --build         # and what it takes to compile them, which no check asks

Instructions are callgrind's (valgrind), which are the same on every run; memory is the largest
resident size that the kernel saw, the least of three runs.  Neither is a time: those are speed.py's,
and no test asks them.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE / "accuracy"))
import committed
from logs import fill, training_line
from speed import ROOT, run, unpack

ALLOWED = 1.03  # of the committed figure
# KiB of memory beyond that: a process starts with its parent's, which differs from Python to Python.
OF_PARENT = 8 * 1024
BINARY = "the binary"
BUILD = "a build"  # a time, so that it is shown and not held


def worse(before, row):
    old, new = int(before["figure"]), int(row["figure"])
    is_memory = row["unit"] == "KiB" and row["what"] != BINARY
    if new <= ALLOWED * old + (OF_PARENT if is_memory else 0):
        return []
    return [f"{new}, {100 * (new / old - 1):+.1f} %"] if row["what"] != BUILD else []


TABLE = committed.Table(HERE / "cost.csv", ["what", "unit"], ["figure"], worse, lambda row: False,
                        is_exact=False)


def commands(folder):
    """{name: words behind the binary's}; models by their shortest names."""
    models, llama = unpack(folder)
    log = folder / "train.log"
    fill(log, training_line)
    resnet, gpt2 = ROOT / "models/resnet50.train.onnx", ROOT / "models/gpt2.dynamo.onnx"
    return {
        "--version": ["--version"],
        "estimate resnet50": [resnet, "-b", "32"],
        "estimate resnet50, .pt2": [models["resnet50", "pt2-train"], "-b", "32"],
        "estimate gpt2": [gpt2, "-b", "8"],
        "estimate gpt2, .pt2": [models["gpt2", "pt2-train"], "-b", "8"],
        "estimate bert": [models["bert_base", "dynamo"], "-b", "8"],
        "estimate mt5_large": [models["mt5_large", "train"], "-b", "2"],
        "estimate Llama of 7 billion": [llama, "-b", "1", "--dim", "seq=512"],
        "max-batch resnet50, one card": ["max-batch", resnet, "-g", "rtx3060", "-q"],
        "max-batch gpt2, all cards": ["max-batch", gpt2, "--all-gpus"],
        "max-batch gpt2, with advice": ["max-batch", gpt2, "-g", "t4"],
        "check": ["check", ROOT / "models/onnxfit.toml"],
        "explain-oom, 100 MB": ["explain-oom", log],
    }


def instructions(binary, words):
    counted = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", binary, *words],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        encoding="utf-8", check=False)
    found = re.search(r"Collected : (\d+)", counted.stderr)
    if counted.returncode not in (0, 1) or not found:
        sys.exit(f"error: {' '.join(words)}: {counted.stderr[-500:]}")
    return int(found[1])


def cost_of(binary, name, words):
    words = [str(word) for word in words]
    return [{"what": name, "unit": "instructions", "figure": instructions(binary, words)},
            {"what": name, "unit": "KiB",
             "figure": int(min(run([binary, *words]).resident_mib for _ in range(3)) * 1024)}]


def lines_of(folder):
    return sum(file.read_text(encoding="utf-8").count("\n")
               for end in ("*.cc", "*.h") for file in folder.glob(end))


def sizes(binary):
    rooms = [*sorted(path for path in (ROOT / "estimator").iterdir() if path.is_dir()), ROOT / "cli"]
    return [{"what": BINARY, "unit": "KiB", "figure": os.stat(binary).st_size // 1024},
            *({"what": f"{room.name}/", "unit": "lines", "figure": lines_of(room)}
              for room in rooms)]


def build_seconds():
    """Of processor time: the command compiled anew, without ccache; ONNX is not."""
    ninja = ["ninja", "-C", str(ROOT / "build/release")]
    subprocess.run([*ninja, "-t", "clean", "onnxfit"], check=True, stdout=subprocess.DEVNULL)
    before = os.times()
    subprocess.run([*ninja, "onnxfit"], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, CCACHE_DISABLE="1"))
    after = os.times()
    return round(after.children_user + after.children_system
                 - before.children_user - before.children_system)


def build_rows(anew):
    if not anew:
        return [row for key, row in TABLE.read().items() if key[0] == BUILD]
    return [{"what": BUILD, "unit": "processor seconds", "figure": build_seconds()}]


def measure(binary):
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        cases = commands(Path(folder))
        longest_first = sorted(cases, key=lambda name: "all" not in name)
        started = {name: pool.submit(cost_of, binary, name, cases[name]) for name in longest_first}
        rows = [row for name in cases for row in started[name].result()]
    return rows + sizes(binary)


def shown(figure, unit):
    if unit == "instructions":
        return f"{figure / 1e6:,.0f} million"
    return f"{figure / 1024:.0f} MiB"


def print_table(rows):
    """Commands alone."""
    by_name = {}
    for row in rows:
        if row["unit"] == "lines" or row["what"] in (BINARY, BUILD):
            continue
        by_name.setdefault(row["what"], {})[row["unit"]] = shown(int(row["figure"]), row["unit"])
    print("| command | instructions | memory |\n|---|---|---|")
    for name, figures in by_name.items():
        print(f"| {name} | {figures['instructions']} | {figures['KiB']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--committed", action="store_true", help="what cost.csv says, as a table")
    parser.add_argument("--build", action="store_true", help="compile it anew, and count that, too")
    committed.add_arguments(parser)
    args = parser.parse_args()
    rows = (list(TABLE.read().values()) if args.committed
            else measure(args.binary) + build_rows(args.build))
    if args.check:
        return committed.check(TABLE, rows, [TABLE.key_of(row) for row in rows])
    if args.update and committed.update(TABLE, rows, args.reason, args.drop):
        return 1
    print_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
