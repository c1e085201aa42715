"""Estimates small files of other writers than today's PyTorch: data/writers.tar.xz, weights left
out.  data/writers.csv says what each is answered: the exact peak of the third step, in bytes, and
the codes of its warnings, or the sentence why it is refused.

    other_writers_test.py --binary build/dev/onnxfit [--update]

Made with torch 2.11 (TorchScript, opset 9, 11 and 13), ONNX Runtime 1.32 (its optimizer's levels,
its transformer optimizer, its quantization as QDQ and QOperator), onnx 1.23's version_converter
(opset 7 and 8), onnxsim 0.8, tf2onnx, skl2onnx 1.20, PaddlePaddle 3.3.1 by paddle2onnx 2.1.0 (pd_*);
zoo_* by hand, in the style of the ONNX model
zoo's files.
"""

import argparse
import csv
import json
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
COLUMNS = ["file", "mode", "flags", "answer", "warnings"]
MODES = ["train", "eval"]
FLAGS = {  # what their errors ask for
    "zoo_ssd.onnxtxt": "--dim chosen=40",
    "zoo_fasterrcnn.onnxtxt": "--dim kept=30 --dim n=20",
}
UNBATCHED = {"zoo_fasterrcnn.onnxtxt"}


def answer(binary, file, mode, flags):
    batch = [] if file.name in UNBATCHED else ["-b", "2"]
    command = [binary, file.name, *batch, "--mode", mode, "--framework", "pytorch-2.11", "--format", "json", "-n", "0",
               *flags.split()]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=file.parent)
    row = {"file": file.name, "mode": mode, "flags": flags}
    if run.returncode == 2:
        return {**row, "answer": run.stderr.strip().removeprefix(f"error: {file.name}: "),
                "warnings": ""}
    report = json.loads(run.stdout)
    codes = sorted({warning["code"] for warning in report["warnings"]})
    last = report["steps"][-1]
    return {**row, "answer": str(last["peak_exact"]), "warnings": " ".join(codes)}


def jobs(folder):
    for file in sorted(Path(folder).iterdir()):
        for mode in MODES:
            yield file, mode, ""
            if file.name in FLAGS:
                yield file, mode, FLAGS[file.name]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--update", action="store_true", help="writes data/writers.csv")
    options = parser.parse_args()
    binary = str(Path(options.binary).resolve())
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        with tarfile.open(DATA / "writers.tar.xz") as archive:
            archive.extractall(folder)
        rows = list(pool.map(lambda job: answer(binary, *job), jobs(folder)))
    if options.update:
        with open(DATA / "writers.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return 0
    with open(DATA / "writers.csv", newline="", encoding="utf-8") as file:
        expected = list(csv.DictReader(file))
    wrong = [(old, new) for old, new in zip(expected, rows) if old != new]
    for old, new in wrong:
        print(f"expected {old}\n   found {new}")
    if len(expected) != len(rows):
        print(f"expected {len(expected)} runs, found {len(rows)}")
    print(f"{len(rows)} runs of other writers' files, {len(wrong)} not as before")
    return 1 if wrong or len(expected) != len(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
