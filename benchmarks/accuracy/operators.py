"""One operator at a time: is every figure what PyTorch's allocator counted?

    operators.py            # how many runs, and which are off
    operators.py --check    # exit 1 where one is off

data/operators.json.xz holds what PyTorch 2.11.0 counted in three steps of zoo_operators.py's
networks, data/operators.tar.xz their exports in training mode; measure_operators.py makes both.
"""

import argparse
import json
import lzma
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from accuracy import HERE, ROOT, estimate


def runs():
    with lzma.open(HERE / "data/operators.json.xz", "rt") as file:
        return json.load(file)


def figures_off(binary, folder, run):
    """[(step, figure, bytes too many)] of the figures that are not PyTorch's."""
    settings = {"batch": run["batch"], "precision": run["precision"], "optimizer": "adamw",
                "mode": "train", "flags": ""}
    path = Path(folder) / f"{run['operator']}.{run['kind']}.onnx"
    report = estimate(binary, path, settings, [])
    return [(number, name, found[name] - true[name])
            for number, (true, found) in enumerate(zip(run["steps"], report["steps"]), 1)
            for name in true if found[name] != true[name]]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--every", type=int, default=1, help="of so many runs one")
    args = parser.parse_args()
    chosen = runs()[::args.every]
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(HERE / "data/operators.tar.xz") as archive:
            archive.extractall(folder)
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda run: figures_off(args.binary, folder, run), chosen))
    off = [(run, figures) for run, figures in zip(chosen, found) if figures]
    for run, figures in off:
        print(run["operator"], run["kind"], run["precision"], *figures)
    print(f"{len(found) - len(off)} of {len(found)} runs are right in every figure")
    return 1 if args.check and off else 0


if __name__ == "__main__":
    sys.exit(main())
