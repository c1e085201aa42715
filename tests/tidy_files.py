"""Prints the sources that clang-tidy is asked of, each ended by a zero byte.

    tidy_files.py build/dev             all that are built; whole rooms first, which take longest
    tidy_files.py build/dev --every 8   those of which a file has changed in the last 40 commits, and
                                        of the rest one in 8, as benchmarks/accuracy/sample.py says

Without the CUDA toolkit, what needs it is not built.  Without git's history all are printed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks/accuracy"))
from sample import one_in  # noqa: E402

COMMITS = 40  # more than are merged at once


def built(build):
    """Paths from ROOT, of our own sources and of the files that join those of a room."""
    ours = ("estimator/", "cli/", "tests/", "benchmarks/", f"{build}/")
    entries = json.loads((ROOT / build / "compile_commands.json").read_text())
    files = {os.path.relpath(entry["file"], ROOT) for entry in entries}
    files = [file for file in files if file.startswith(ours) and file.endswith((".cc", "_cxx.cxx"))]
    return sorted(files, key=lambda file: (not file.endswith(".cxx"), file))


def stem(path):
    return path.rpartition(".")[0]


def stems_of(file):
    """Of a source, or of all sources that it joins."""
    joined = re.findall(r'#include "(.*\.cc)"', (ROOT / file).read_text())
    return {stem(os.path.relpath(path, ROOT)) for path in joined or [ROOT / file]}


def changed():
    """Stems of what changed lately; None where git does not know."""
    git = subprocess.run(["git", "diff", "--name-only", f"HEAD~{COMMITS}"], cwd=ROOT, text=True,
                         capture_output=True, check=False)
    return {stem(line) for line in git.stdout.splitlines()} if git.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--every", type=int, default=1)
    args = parser.parse_args()
    files = built(args.build)
    lately = changed() if args.every > 1 else None
    if lately is not None:
        first = [file for file in files if stems_of(file) & lately]
        files = first + one_in(args.every, [file for file in files if file not in first])
    print("\0".join(files), end="\0")


if __name__ == "__main__":
    main()
