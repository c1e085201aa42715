"""Published recipes for a model of 7 billion parameters on one card, judged as their authors found
them: each row of recipes.json, asked of Llama as torch.export writes it (../llama_7b.onnx.xz), and
what `max-batch` comes to where nothing fits.

    recipes.py [--binary build/release/onnxfit] [--check]

Prints a markdown table.  --check fails where a verdict is not the authors', or a recipe that
`max-batch` prints does not fit.
"""

import argparse
import json
import lzma
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GIB = 2**30
VERDICTS = {"runs": ("fits", "tight"), "out of memory": ("oom",)}
# Cards on which not even one sample of AdamW in fp32 runs, and what is to be found there.
SEARCHES = (("rtx4090", "512"), ("rtx4090", "2048"), ("a100-40gb", "1024"), ("a100-80gb", "1024"))


def read_rows():
    return json.loads((HERE / "recipes.json").read_text())


def ask(binary, arguments):
    """What it prints.  1 is an answer, too: it does not fit."""
    done = subprocess.run([binary, *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"error: {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def judge(binary, model, row):
    """The target of the answer, and the bytes that are allocated at the peak."""
    arguments = ["estimate", model, "--loss", "causal-lm", "-g", row["card"],
                 *row["flags"].split(), "-f", "json"]
    answer = json.loads(ask(binary, arguments))
    return answer["targets"][0], answer["peak"]["allocated_bytes"]


def line(row, target, allocated, right):
    said = row.get("measured_gb", row.get("estimated_gb"))
    said = "" if said is None else f"{said} GB" + ("" if "measured_gb" in row else " (estimated)")
    mark = "" if right else " **differs**"
    return (f"| [{row['recipe']}]({row['source']}) | {row['card']} | {row['found']} {said} | "
            f"{target['verdict']}{mark} | {target['used_bytes'] / GIB:.1f} GiB | "
            f"{allocated / 1e9:.1f} GB |")


def print_recipes(binary, model):
    """How many differ."""
    print("| recipe | card | its authors | verdict | used | allocated |\n|---|---|---|---|---|---|")
    wrong = 0
    for row in read_rows():
        target, allocated = judge(binary, model, row)
        right = target["verdict"] in VERDICTS[row["found"]]
        wrong += not right
        print(line(row, target, allocated, right))
    return wrong


def print_searches(binary, model):
    """How many recipes of `max-batch` do not fit."""
    print("\n| card | tokens | `max-batch` comes to | |\n|---|---|---|---|")
    wrong = 0
    for card, length in SEARCHES:
        answer = json.loads(ask(binary, ["max-batch", model, "--loss", "causal-lm", "-g", card,
                                         "--dim", f"seq={length}", "-f", "json"]))
        recipe = answer["targets"][0].get("recipe", "")
        verdict = ask(binary, shlex.split(recipe)[1:] + ["-q"]) if recipe else "none"
        verdict = re.split(" on |\n", verdict)[0]
        wrong += verdict != "FITS"
        flags = recipe.partition(f"-g {card} ")[2]
        print(f"| {card} | {length} | `{flags}` | {verdict} |")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "llama_7b.onnx"
        model.write_bytes(lzma.decompress((ROOT / "benchmarks/llama_7b.onnx.xz").read_bytes()))
        wrong = print_recipes(arguments.binary, str(model))
        wrong += print_searches(arguments.binary, str(model))
    if arguments.check and wrong:
        sys.exit(f"error: {wrong} differ")


if __name__ == "__main__":
    main()
