"""Holds figures that README.md, docs/ and tests/golden/ show to what PyTorch took, and to products.

    shown_figures.py --check
    shown_figures.py --self-test

Both are written by the tool itself (readme.py --update, ONNXFIT_UPDATE_GOLDEN=1), which is right
for their layout and proves no figure.  What is read here is their text, beside
benchmarks/accuracy/data/shown_runs.csv, which PyTorch's own allocator counted: of each report all
of "Step by step", the total (the most reserved, and the card's context), what is cached, parameters
and buffers; of a table its rows; of a closed form its products.

Layout alone, held to nothing here: max-batch and its advice, explain-oom, diff's nodes, what a
snapshot's run kept (snapshots_test.cc), check of GPT-2.  max_batch.py, accuracy.py and the laws
have those figures of other runs.
"""

import argparse
import csv
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIB = 2 ** 20
CONTEXT = {"a100": 503 * MIB, "rtx3060": 119 * MIB}  # as reports of their owners have it
BYTES = {"fp32": 4, "amp-bf16": 4, "bf16": 2}
SIZE = r"\d+(?:\.\d+)? (?:B|[KMGT]iB)"
BLOCK = re.compile(r"^\$ onnxfit (.*)\n((?:(?!```).*\n)*)", re.MULTILINE)


class Run:
    def __init__(self, rows):
        self.steps = rows
        self.reserved = max(row["reserved"] for row in rows)
        self.allocated = max(row["allocated"] for row in rows)
        self.exact = max(row["exact"] for row in rows)
        self.parameters = rows[0]["parameters"]
        self.buffer_bytes = rows[0]["buffer_bytes"]


def read_runs(path):
    rows = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row["model"], int(row["batch"]), row["precision"]
            rows.setdefault(key, []).append(
                {name: int(text) for name, text in row.items() if text.isdigit()})
    return {key: Run(steps) for key, steps in rows.items()}


def shown(size):
    """As reports write a number of bytes."""
    if size < 1024:
        return f"{size} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if size < 1023.95:
            break
    return f"{size:.{2 if size < 9.995 else 1}f} {unit}"


class Checker:
    def __init__(self):
        self.held, self.wrong = 0, []

    def same(self, where, found, size):
        self.held += 1
        if found != shown(size):
            self.wrong.append(f"{where}: shows {found}, PyTorch took {shown(size)} ({size})")

    def find(self, where, pattern, text):
        found = re.search(pattern, text, re.MULTILINE)
        if not found:
            self.wrong.append(f"{where}: expected a line like {pattern}")
        return found

    def total(self, where, text, run, context):
        found = self.find(where, rf": ({SIZE}) on the device$", text)
        if found:
            self.same(f"{where}, total", found[1], run.reserved + context)

    def report(self, where, text, run, precision, context):
        """A report with its breakdown and steps."""
        self.total(where, text, run, context)
        each = BYTES[precision]
        rows = {"context": context, "cached": run.reserved - run.allocated,
                "parameters": each * run.parameters, "buffers": run.buffer_bytes,
                "optimizer state": 2 * each * run.parameters}
        for kind, size in rows.items():
            if size == 0:
                continue
            found = self.find(where, rf"^  {kind} +({SIZE}) ", text)
            if found:
                self.same(f"{where}, {kind}", found[1], size)
        for number, step in enumerate(run.steps, 1):
            found = self.find(where, rf"^ +{number}" + rf" +({SIZE})" * 5 + "$", text)
            if not found:
                continue
            names = ("after_forward", "after_backward", "after_step", "allocated", "reserved")
            for name, figure in zip(names, found.groups()):
                self.same(f"{where}, step {number}, {name}", figure, step[name])

    def sweep(self, where, text, runs, model, context):
        """A table, a row for each batch and precision."""
        rows = re.findall(rf"^ +(\d+)  (\S+)  +({SIZE})  +({SIZE})  +({SIZE})$", text, re.MULTILINE)
        if not rows:
            self.wrong.append(f"{where}: expected rows of a batch, a precision and three sizes")
        for batch, precision, allocated, reserved, device in rows:
            row = f"{where}, {batch} {precision}"
            run = runs[model, int(batch), precision]
            self.same(row, allocated, run.allocated)
            self.same(row, reserved, run.reserved)
            self.same(row, device, run.reserved + context)

    def closed_form(self, where, text):
        """Each product of "How they are counted" is the figure of its row."""
        counted = text.split("How they are counted", 1)[-1].split("\n\n")[0].replace("\n          ", " ")
        for kind, product in re.findall(r"^  ([a-z ]+): (.*) bytes", counted, re.MULTILINE):
            numbers = re.sub(r"[^0-9+*/()]", "", product.replace("x", "*"))
            found = self.find(where, rf"^  {kind} +({SIZE}) ", text)
            if found:
                self.same(f"{where}, {kind}", found[1], int(eval(numbers)))  # digits and signs alone


def option(words, *names, default=None):
    for name, value in zip(words, words[1:]):
        if name in names:
            return value
    return default


def check_page(checker, page, text, runs):
    for found in BLOCK.finditer(text):
        words, output = found[1].split(), found[2]
        where = f"{page}: onnxfit {found[1]}"
        model = Path(words[0]).name.split(".")[0]
        batch = option(words, "-b", default="1")
        context = CONTEXT.get(option(words, "--gpu", default="a100"))
        run = runs.get((model, int(batch), "fp32")) if batch.isdigit() else None
        if "cuDNN's workspaces, of " in output:
            continue  # the runtime that counted has no cuDNN; benchmarks/convolutions holds these
        elif words[0] == "--params":
            checker.closed_form(where, output)
        elif words[0].startswith("models/") and "," in batch:
            checker.sweep(where, output, runs, model, context)
        elif "Step by step" in output:
            checker.report(where, output, run, "fp32", context)
        elif "--why" in words:
            checker.total(where, output, run, context)
            at_peak = checker.find(where, r"of its (\d+) bytes", output)
            if at_peak:
                checker.same(f"{where}, at peak", shown(int(at_peak[1])), run.allocated)
        elif words[0] == "diff" and words[1].endswith(".pickle"):
            continue  # snapshots_test.cc
        elif words[0] == "diff":
            sides = checker.find(where, rf"^device +({SIZE}) +({SIZE}) ", output)
            for side, path in zip(sides.groups() if sides else (), words[1:3]):
                of = runs[Path(path).name.split(".")[0], int(batch), "fp32"]
                checker.same(f"{where}, {path}", side, of.reserved + CONTEXT["a100"])
        elif words == ["check", "models/onnxfit.toml"]:
            rows = {r"mlps\[mlp_2000.onnxtxt\]": ("mlp_2000", 64, "a100"),
                    r"mlps\[mlp_5x5000.onnxtxt\]": ("mlp_5x5000", 64, "a100")}
            for name, (of, size, card) in rows.items():
                row = checker.find(where, rf"^PASS  {name}: ({SIZE}),", output)
                if row:
                    checker.same(f"{where}, {name}", row[1],
                                 runs[of, size, "fp32"].reserved + CONTEXT[card])


def check_goldens(checker, runs):
    models = sorted((ROOT / "models").glob("*.onnxtxt"))
    if len(models) < 14:
        checker.wrong.append(f"models/: expected 14 text models or more, found {len(models)}")
    for model in models:
        golden = ROOT / "tests/golden" / f"{model.stem}.txt"
        checker.report(str(golden.relative_to(ROOT)), golden.read_text(encoding="utf-8"),
                       runs[model.stem, 16, "fp32"], "fp32", CONTEXT["a100"])


def check():
    runs = read_runs(ROOT / "benchmarks/accuracy/data/shown_runs.csv")
    checker = Checker()
    for page in ("README.md", "docs/answers.md", "docs/ci.md"):
        check_page(checker, page, (ROOT / page).read_text(encoding="utf-8"), runs)
    of_readme = checker.held
    check_goldens(checker, runs)
    print("\n".join([*checker.wrong, f"shown figures: {of_readme} of README.md and docs/, "
                     f"{checker.held - of_readme} of tests/golden/ compared, "
                     f"{len(checker.wrong)} wrong"]))
    enough = of_readme >= 29 and checker.held - of_readme >= 14 * 19
    if not enough:
        print("expected at least 29 and 266 (try: is a block or a file gone?)")
    return 1 if checker.wrong or not enough else 0


def self_test():
    assert [shown(size) for size in (7, 1023, 1024, 10234, 10235, 2 ** 30 - 1)] == [
        "7 B", "1023 B", "1.00 KiB", "9.99 KiB", "10.0 KiB", "1.00 GiB"]
    run = Run([{"reserved": 2 * MIB, "allocated": MIB, "exact": 9, "after_forward": 1,
                "after_backward": 2, "after_step": 3, "parameters": 5, "buffer_bytes": 0}])
    report = ("m, batch 1, fp32, adamw: 505.0 MiB on the device\n  context  503.0 MiB  \n"
              "  cached  1.00 MiB  \n  parameters  20 B  \n  optimizer state  40 B  \n"
              "  1  1 B  2 B  3 B  1.00 MiB  2.00 MiB\n")
    good, bad, lost = Checker(), Checker(), Checker()
    good.report("a", report, run, "fp32", 503 * MIB)
    assert (good.held, good.wrong) == (10, [])
    bad.report("a", report.replace("20 B", "21 B"), run, "fp32", 503 * MIB)
    assert bad.wrong == ["a, parameters: shows 21 B, PyTorch took 20 B (20)"]
    lost.report("a", report.replace("cached", "other"), run, "fp32", 503 * MIB)
    assert len(lost.wrong) == 1 and "expected a line" in lost.wrong[0]
    form = Checker()
    form.closed_form("f", "  a  8 B x\n  b  5 B x\nHow they are counted\n  a: 2 x (3 + 1) bytes (t)\n"
                     "  b: 2 layers x 3 bytes, as\n          said\n")
    assert form.wrong == ["f, b: shows 5 B, PyTorch took 6 B (6)"]
    print("shown figures self-test passed")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--self-test", action="store_true")
    return self_test() if parser.parse_args().self_test else check()


if __name__ == "__main__":
    sys.exit(main())
