"""Holds answers about many small models to the laws of docs/contributing/architecture.md, by what
the command prints, and their refusals to reasons.

    graph_laws_test.py --binary build/dev/onnxfit [--every N] [-v] ARCHIVE|FOLDER…

data/backend_models.tar.xz has the models of ONNX's own backend tests (onnx.backend.test of 1.23:
each operator with its attributes), data/random_graphs.tar.xz what random_graphs.py made.  Of every
Nth model: it is answered, or refused with a reason, within LIMIT_SECONDS, in training and in
inference; and of an answer

  1. kinds, rounding, cached and context add up to the device's total, places to what kinds have;
  2. exact <= allocated <= reserved, at the peak and in each step, which has no more than the peak;
  3. a larger batch never lowers the exact peak (by more than CUB takes for the scan of a row, which
     several rows do not need);
  4. another allocator does not change the exact peak.

Prints a table: how many models are answered, and why others are not.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks/accuracy"))
from sample import one_in  # noqa: E402

LIMIT_SECONDS = 1.0
SCAN_OF_ROW = 1024  # bytes: CUB takes 1023 to scan one row, several rows need none
SANITIZERS_TAKE = 20  # times as long, where they watch
MODES = {"train": [], "eval": ["--mode", "eval"]}
BATCHES = ["1", "2", "5"]
NOT_OF_KINDS = {"rounding", "cached", "context"}
EXPANDABLE = ["--alloc-conf", "expandable_segments:True"]


class Answer:
    """What one run of the command gave."""

    def __init__(self, command, limit):
        started = time.monotonic()
        try:
            run = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                 check=False, timeout=60 * limit)
            self.code, self.text, self.error = run.returncode, run.stdout, run.stderr.strip()
        except subprocess.TimeoutExpired:
            self.code, self.text, self.error = -1, "", "no end"
        self.seconds = time.monotonic() - started
        self.report = json.loads(self.text) if self.code == 0 else None

    def wrong(self, limit):
        """Why this is nothing that users should see; "" for a good answer."""
        if self.code not in (0, 2) or "internal" in self.error:
            return f"exit code {self.code}: {self.error[-300:]}"
        if self.seconds > limit:
            return f"took {self.seconds:.1f} s"
        return ""

    @property
    def exact(self):
        return self.report["peak"]["exact_bytes"]

    @property
    def parameters(self):
        return self.report["model"]["parameters"]


def broken_laws(report):
    """The laws that one report breaks by itself."""
    peak, rows = report["peak"], {row["kind"]: row["bytes"] for row in report["breakdown"]}
    kinds = sum(size for kind, size in rows.items() if kind not in NOT_OF_KINDS)
    places = sum(place["bytes"] for place in report.get("places", []))
    sizes = [peak[f"{name}_bytes"] for name in ("exact", "allocated", "reserved", "device")]
    if sum(rows.values()) != peak["device_bytes"]:
        yield f"rows add up to {sum(rows.values())}, the device has {peak['device_bytes']}"
    if places != kinds:
        yield f"places have {places}, kinds {kinds}"
    if sizes != sorted(sizes) or min(rows.values()) < 0:
        yield f"peaks {sizes}, rows {rows}"
    for step in report["steps"]:
        steps = [step[f"peak_{name}"] for name in ("exact", "allocated", "reserved")]
        if steps != sorted(steps) or any(s > p for s, p in zip(steps, sizes)):
            yield f"a step has {steps}, the peak {sizes}"


def checked(binary, path, limit):
    """(what is wrong, by mode: the answer of the file's own batch)"""
    wrong, answers = [], {}
    for mode, flags in MODES.items():
        # One version for all flags: some are of versions later than that which wrote the file.
        command = [binary, str(path), "--framework", "pytorch-2.11", "--format", "json", *flags]
        answers[mode] = first = Answer(command, limit)
        batches = [Answer([*command, "-b", b], limit) for b in BATCHES] if first.report else []
        again = [Answer([*command, *EXPANDABLE], limit)] if first.report else []
        for answer in (first, *batches, *again):
            reasons = [answer.wrong(limit), *(broken_laws(answer.report) if answer.report else [])]
            wrong += [f"{mode}: {reason}" for reason in reasons if reason]
        # A parameter of the file's batch, such as one learned for each sample, grows with it.
        peaks = [answer.exact for answer in batches
                 if answer.report and answer.report["model"]["parameters"] == first.parameters]
        if any(next_one < one - SCAN_OF_ROW for one, next_one in zip(peaks, peaks[1:])):
            wrong.append(f"{mode}: exact peaks of batches {BATCHES}: {peaks}")
        if again and again[0].report and again[0].exact != first.exact:
            wrong.append(f"{mode}: exact {first.exact}, {again[0].exact} with expandable segments")
    return wrong, answers


def reason(answer):
    """A refusal without names and numbers, or "answered"; what is not known is told, too."""
    if answer.report:
        unknown = any("no rule for" in warning["text"] for warning in answer.report["warnings"])
        return "answered, with an operator that has no rule" if unknown else "answered"
    text = re.sub(r"^error: [^:]*: |node '[^']*'( \(\w+\))?: |\(try:.*", "", answer.error)
    text = re.sub(r"'[^']*'", "…", text)
    return re.sub(r"\w*\[[^\]]*\]|\d+|, unknown$", "…", text).strip()


def print_table(results):
    rows = collections.Counter((mode, reason(answer)) for _, answers in results
                               for mode, answer in answers.items())
    for mode in MODES:
        print(f"\n{mode}")
        for (_, why), count in sorted(((row, n) for row, n in rows.items() if row[0] == mode),
                                      key=lambda row: (-row[1], row[0])):
            print(f"{count:6}  {why}")
    operators = collections.Counter(
        found.group(1) for _, answers in results for answer in answers.values() if answer.report
        for warning in answer.report["warnings"]
        if (found := re.match(r"no rule for (\S+)", warning["text"])))
    if operators:
        print("\nno rule for  " + ", ".join(f"{op} {n}" for op, n in operators.most_common()))


def models_of(paths, folder):
    """Files below folders and archives, sorted by name."""
    for i, path in enumerate(paths):
        if Path(path).is_file():
            with tarfile.open(path) as archive:
                archive.extractall(Path(folder, str(i)))
            path = Path(folder, str(i))
        yield from sorted(Path(path).rglob("*.onnx"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--sanitizers", action="store_true", help="they watch, and take their time")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("-v", action="store_true", help="names every refused model")
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args()
    limit = LIMIT_SECONDS * (SANITIZERS_TAKE if options.sanitizers else 1)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        files = one_in(options.every, list(models_of(options.paths, folder)))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda f: checked(options.binary, f, limit), files))
    for file, (wrong, answers) in zip(files, results):
        failed += bool(wrong)
        for what in wrong:
            print(f"{file.name}: {what}")
        for mode, answer in answers.items():
            if options.v and not answer.report:
                print(f"{file.name}: {mode}: {answer.error}")
    print_table(results)
    print(f"\n{len(files)} models, {failed} failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
