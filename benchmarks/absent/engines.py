"""The engines that `onnxfit run` and `--runtime` were tried with, in which versions: engines.csv.

    engines.py --list                 # the table of docs/run.md
    engines.py jax vllm               # installs each in build/engines/NAME, and checks its programs there
    engines.py                        # all that have a program: hours, and some 30 GB

A row's packages are those of its versions, as pip takes them (; in the place of a comma).
"""

import argparse
import csv
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = ROOT / "build/engines"


def rows():
    with (HERE / "engines.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def short(row):
    return row["engine"].lower().replace(" ", "")


def version(row):
    return row["packages"].split()[0].split("==")[1]


def print_list():
    print("| engine | version | counted | not counted |\n|---|---|---|---|")
    for row in rows():
        print(f"| {row['engine']} | {version(row)} | {row['counted']} | {row['open']} |")


def python_of(row):
    """Of a venv with the row's packages."""
    folder = FOLDER / short(row)
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True, symlinks=True)
    packages = [package.replace(";", ",") for package in row["packages"].split()]
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return python


def check(row, binary):
    """Whether its programs take what is committed."""
    python = python_of(row)
    script, *names = row["program"].split()
    print(f"{row['engine']} {version(row)}", flush=True)
    return subprocess.run([python, "-B", ROOT / script, "--check", "--python", python, "--binary", binary, *names],
                          check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="as docs have it")
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("names", nargs="*", help="such as onnxruntime; all without one")
    args = parser.parse_args()
    if args.list:
        print_list()
        return 0
    asked = [row for row in rows() if (short(row) in args.names if args.names else row["program"])]
    lacking = [row["engine"] for row in asked if not row["program"]]
    if lacking or len(asked) < len(args.names):
        raise SystemExit(f"expected engines with a program, such as {short(rows()[0])}, found {' '.join(args.names)}")
    failed = [row["engine"] for row in asked if not check(row, args.binary)]
    print("not as committed: " + ", ".join(failed) if failed else "as committed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
