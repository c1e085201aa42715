"""Does a batch train on a card of given size, and which is the largest?  Beside PyTorch.

    max_batch.py                # every run, and the table of README.md here
    max_batch.py --model vgg    # of these
    max_batch.py --guess        # without flags that say what a file has lost
    max_batch.py --check        # fails where a figure is not that of max_batch.csv
    max_batch.py --check --every 8   # the same of one file of eight
    max_batch.py --update       # commits the figures of today
    max_batch.py --update --reason WHY  # also where some are worse: WHY is kept beside them

PyTorch's side is in tests/data: ten steps each, on cards of given size without context.  Ours is
`onnxfit --memory SIZE --overhead 0` for every kind of export of the model, with the flags that
say what the file has lost (accuracy.py).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Optional

import committed
from runs import HERE, ROOT, by_version, given_flags, unpack_models
from sample import one_in

DATA = ROOT / "tests/data"
# `runs` is how many PyTorch made, `verdicts`, `same` and `reserved` how many of them are judged as
# they ran, retry and fail as they did, reserve what they did; `bisected` what halving found.
COUNTED = ["verdicts", "same", "reserved"]
FIGURES = ["runs", *COUNTED, "max_batch", "bisected"]
LINE = "{:13} {:10} {:>7} {:8} {:9} {:5} {:>14}  {:9} {:9} {}"


def away(row):
    """By how much the largest batch is not what halving finds."""
    return abs(int(row["max_batch"] or 0) - int(row["bisected"] or 0))


def worse(before, row):
    fewer = [f"{name} was {before[name]}, is {row[name]}" for name in COUNTED
             if int(row[name]) < int(before[name])]
    if away(row) > away(before):
        fewer.append(f"max_batch was {before['max_batch']}, is {row['max_batch']} "
                     f"(by halving: {row['bisected']})")
    return fewer


def is_right(row):
    return row["same"] == row["runs"] and not away(row)


EXPECTED = committed.Table(HERE / "max_batch.csv", ["model", "kind"], FIGURES, worse, is_right)


class Run(NamedTuple):
    """Ten steps on a card.  `outcome` is "RETRIES" or "oom STEP"; `reserved`, the peak of the
    tenth step, may be unknown."""
    model: str
    batch: int
    precision: str
    optimizer: str
    mode: str
    memory: int
    outcome: str
    reserved: Optional[int] = None

    def setting(self):
        return self._replace(batch=0, outcome="", reserved=None)


def rows_of(name):
    lines = (DATA / name).read_text().splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


def outcome_of(words):
    """The outcome, and the bytes that were reserved."""
    if words[0] == "oom":
        return " ".join(words), None
    return words[0], int(words[1]) if len(words) > 1 else None


def runs():
    """What PyTorch did, in the order of the files."""
    found = []
    for model, batch, *rest in rows_of("card_of_8_gib.txt"):
        found.append(Run(model.split(".")[0], int(batch), "fp32", "adamw", "train", 8 << 30,
                         *outcome_of(rest)))
    for model, batch, precision, optimizer, mode, memory, *rest in rows_of("card_runs.txt"):
        found.append(Run(model, int(batch), precision, optimizer, mode, int(memory),
                         *outcome_of(rest)))
    return found


def write_deep_net(folder, hidden):
    """A fully connected net of `hidden` layers of 5000, as ONNX text."""
    widths = [784] + [5000] * hidden + [10]
    weights, nodes, at = [], [], "x"
    for i, (rows, columns) in enumerate(zip(widths[1:], widths), 1):
        weights += [f'float[{rows}, {columns}] w{i} = ["location": "none"]',
                    f'float[{rows}] b{i} = ["location": "none"]']
        last = i == hidden + 1
        nodes.append(f"{'y' if last else f'h{i}'} = Gemm <transB = 1> ({at}, w{i}, b{i})")
        if not last:
            nodes.append(f"a{i} = Relu (h{i})")
        at = f"a{i}"
    path = Path(folder) / f"mlp_{hidden}x5000.onnxtxt"
    path.write_text('<ir_version: 8, opset_import: ["" : 17]>\n'
                    "net (float[N, 784] x) => (float[N, 10] y)\n<"
                    + ",\n".join(weights) + ">\n{\n" + "\n".join(nodes) + "\n}\n")
    return path


def files(folder):
    """(model, kind, path) of the models that PyTorch was run with."""
    ran = {run.model for run in runs()}
    found = [(model, kind, path) for (model, kind), path in unpack_models(folder).items()
             if model in ran and "-new" not in kind and kind != "pt2-eval"]  # all runs train
    found += [(f"mlp_{hidden}x5000", "text", write_deep_net(folder, hidden)) for hidden in (34, 35)]
    return sorted(found)


class File(NamedTuple):
    """An export beside PyTorch's runs of its model."""
    model: str
    kind: str
    judged: list            # (run, our outcome, the bytes we say are reserved)
    max_batch: Optional[int] = None  # on the card that halving was done on
    bisected: Optional[int] = None
    searched: Optional[Run] = None   # what was halved, at no batch

    def figures(self):
        """What is committed: how many runs are as PyTorch's, in four ways."""
        return {"model": self.model, "kind": self.kind, "runs": len(self.judged),
                "verdicts": sum(is_oom(run.outcome) == is_oom(ours)
                                for run, ours, _ in self.judged),
                "same": sum(run.outcome == ours for run, ours, _ in self.judged),
                "reserved": sum(is_reserved(run, reserved) for run, _, reserved in self.judged),
                "max_batch": "" if self.max_batch is None else self.max_batch,
                "bisected": self.bisected or ""}

    def there(self):
        """What PyTorch did at our largest batch."""
        known = {run.batch: run.outcome for run, _, _ in self.judged
                 if run.setting() == self.searched}
        outcome = known.get(self.max_batch, "not run")
        return f"trains, {outcome} retries" if outcome.isdigit() else outcome


def is_oom(outcome):
    return outcome.startswith("oom")


def is_reserved(run, reserved):
    """Retries give memory back: then the tenth step may hold less than the most of all."""
    if run.reserved is None:
        return False
    return reserved == run.reserved or (run.outcome != "0" and reserved > run.reserved)


def call(args, command, path, kind, run, more):
    flags = [] if args.guess else given_flags(run.model, kind)
    result = subprocess.run(
        [args.binary, command, path, "-p", run.precision, "-o", run.optimizer, "--mode", run.mode,
         "--memory", str(run.memory), "--overhead", "0", "--exit-zero", "--format", "json", "-q", "-n",
         "0", *flags, *more, *by_version(more)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    if result.returncode != 0:
        sys.exit(f"{path.name}: exit {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def our_outcome(target):
    """A card that is full before the first step: PyTorch's steps are counted from 1."""
    if target["verdict"] == "oom":
        return f"oom {max(1, target['fails_at']['step'])}"
    return str(target["retries"])


def judge(args, path, kind, group):
    """Of runs that differ in the batch alone."""
    reports = call(args, "estimate", path, kind, group[0],
                   ["-b", ",".join(str(run.batch) for run in group)])
    reports = reports if isinstance(reports, list) else [reports]
    targets = [report["targets"][0] for report in reports]
    return [(run, our_outcome(target), target["used_bytes"]) for run, target in zip(group, targets)]


def measure(args, model, kind, path):
    groups = {}
    for run in runs():
        if run.model == model:
            groups.setdefault(run.setting(), []).append(run)
    judged = [row for group in groups.values() for row in judge(args, path, kind, group)]
    for known, memory, bisected in rows_of("bisected_batches.txt"):
        if known == model:
            searched = Run(model, 0, "fp32", "adamw", "train", int(memory), "")
            answer = call(args, "max-batch", path, kind, searched, [])["targets"][0]
            return File(model, kind, judged, answer["max_batch"], int(bisected), searched)
    return File(model, kind, judged)


def measure_all(args):
    """The files that are asked for, and the keys of all."""
    with tempfile.TemporaryDirectory() as folder:
        there = files(folder)
        chosen = [file for file in there if re.search(args.model, file[0])]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            measured = list(pool.map(lambda file: measure(args, *file), one_in(args.every, chosen)))
            return measured, [file[:2] for file in there]


def print_runs(measured):
    print(LINE.format("model", "kind", "batch", "prec", "optimizer", "mode", "card", "PyTorch",
                      "onnxfit", "reserved"))
    for file in measured:
        for run, ours, reserved in file.judged:
            off = "" if run.reserved is None else f"{reserved - run.reserved:+d}"
            print(LINE.format(run.model, file.kind, run.batch, run.precision, run.optimizer,
                              run.mode, run.memory, run.outcome, ours, off))


def share(count, total):
    return f"{count} of {total}, {100 * count / total:.1f} %"


def print_table(measured):
    """A line for each model and answer; the kinds of export that give it."""
    groups = {}
    for file in measured:
        groups.setdefault((file.model, file.max_batch), []).append(file)
    print("| model | exports | judged as PyTorch ran | same step, same retries | max-batch | "
          "by running | share | PyTorch there |")
    print("|---|---|---|---|---|---|---|---|")
    for same in [*groups.values(), measured]:
        figures = [file.figures() for file in same]
        runs, right, exact = (sum(row[name] for row in figures)
                              for name in ["runs", "verdicts", "same"])
        first = same[0]
        is_total = same is measured
        cells = ["all" if is_total else first.model, str(len(same)), share(right, runs),
                 share(exact, runs), "", "", "", ""]
        if first.bisected and not is_total:
            cells[4:] = [str(first.max_batch), str(first.bisected),
                         f"{100 * first.max_batch / first.bisected:.1f} %", first.there()]
        print(f"| {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--model", default="", help="a regular expression")
    parser.add_argument("--every", type=int, default=1, help="one file of so many")
    parser.add_argument("--guess", action="store_true")
    committed.add_arguments(parser)
    args = parser.parse_args()
    if args.update and (args.model or args.guess or args.every != 1):
        parser.error("--update is of all files (found flags that choose some)")
    measured, keys = measure_all(args)
    rows = [file.figures() for file in measured]
    status = committed.settle(args, EXPECTED, rows, keys)
    if status is not None:
        return status
    print_runs(measured)
    print_table(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
