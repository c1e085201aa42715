"""Times `onnxfit explain-oom` on logs of 100 MB, next to wc, and prints a markdown table.

    logs.py [--binary build/release/onnxfit] [--runs 10] [--update]

Runs take turns, so that the ratios hold on a busy machine too.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from speed import ROOT, Case, measure, median

MARK, END = "<!-- logs -->\n", "\n## Speed"
SIZE = 100_000_000
MESSAGE = ("RuntimeError: CUDA out of memory. Tried to allocate 8.74 GiB (GPU 0; 15.90 GiB total "
           "capacity; 8.84 GiB already allocated; 6.32 GiB free; 8.86 GiB reserved in total by "
           "PyTorch)\n")


def training_line(step):
    return (f"2026-03-02 09:{step // 60 % 60:02d}:{step % 60:02d},512 - INFO - step {step} loss "
            f"{1 / (step + 1):.5f} lr 1.0e-4 memory 12.34 GiB grad_norm {step % 97 / 97:.3f}\n")


def fill(path, line):
    """Writes line(0), line(1) … until the file has SIZE bytes, then the message."""
    with open(path, "w", encoding="utf-8") as file:
        size = number = 0
        while size < SIZE:
            text = "".join(line(number + i) for i in range(1000))
            file.write(text)
            size += len(text)
            number += 1000
        file.write(MESSAGE)


LOGS = [
    ("lines of training, then the message", training_line),
    ("the same message all over", lambda step: MESSAGE),
    ("messages of 8 ranks", lambda step: f"[rank{step % 8}]: {MESSAGE}"),
    ("one line without end", lambda step: training_line(step).replace("\n", " ")),
]


def make_cases(binary, folder):
    cases = []
    for number, (what, line) in enumerate(LOGS):
        path = Path(folder, f"{number}.log")
        fill(path, line)
        goal = "< 1000 ms" if number == 0 else ""
        cases.append(Case(what, [binary, "explain-oom", "-q", str(path)], goal))
        cases.append(Case("wc", ["wc", "-l", str(path)]))
    return cases


def table(cases, taken):
    lines = ["| a log of 100 MB | explain-oom | wc -l | ratio | memory | goal |",
             "|---|---|---|---|---|---|"]
    for i in range(0, len(cases), 2):
        ours, wc = median(taken[i]), median(taken[i + 1])
        memory = max(run.resident_mib for run in taken[i])
        lines.append(f"| {cases[i].what} | {ours:.0f} ms | {wc:.0f} ms | {ours / wc:.1f} | "
                     f"{memory:.0f} MiB | {cases[i].goal} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--update", action="store_true", help="write the table into README.md here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = make_cases(args.binary, folder)
        taken = measure(cases, args.runs)
    lines = table(cases, taken)
    print("\n".join(lines))
    if args.update:
        readme = Path(__file__).parent / "README.md"
        before, rest = readme.read_text(encoding="utf-8").split(MARK)
        text = before + MARK + "\n" + "\n".join(lines) + "\n" + END + rest.split(END, 1)[1]
        readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
