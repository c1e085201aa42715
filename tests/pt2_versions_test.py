"""Reads what torch.export.save of several versions of PyTorch wrote: data/pt2_versions.tar.xz, the
same modules from the meta device in training mode, a folder for each version.

    pt2_versions_test.py --binary build/release/onnxfit

Layouts of the archive and schemas differ (estimator/pt2/schema.h); what a step
takes does not.
"""

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHIVES = ROOT / "tests/data/pt2_versions.tar.xz"
FLAGS = ["-b", "8", "--format", "json", "--framework", "pytorch-2.11"]
# Allocated bytes at the peak of the third step, by PyTorch 2.11's own operators and allocator.
# The others are answered as the file of 2.11: lstm as cuDNN runs it, cast with torch.autocast
# off, as the exports saw no GPU.
PEAKS = {"cnn": 20707840, "cnn_decomposed": 20707840, "tokens": 22004736, "dicts": 18146816}


def peak_of(binary, file):
    run = subprocess.run([binary, str(file), *FLAGS], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return run.stderr
    return json.loads(run.stdout)["peak"]["allocated_bytes"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder, tarfile.open(ARCHIVES) as archives:
        archives.extractall(folder)
        files = sorted(Path(folder).rglob("*.pt2"))
        peaks = {file: peak_of(options.binary, file) for file in files}
        for file, found in peaks.items():
            expected = PEAKS.get(file.stem, peaks[Path(folder) / "2.11" / file.name])
            if found != expected or not isinstance(found, int):
                print(f"{file.parent.name}/{file.name}: expected {expected}, found {found}")
                failed += 1
    print(f"{len(files)} files, {failed} failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
