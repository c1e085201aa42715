"""Runs files that once ended the process, hung it or took all memory: data/crashes.tar.xz, files
with mutated structure, each beside what it is there for.  Any answer, doubt or refusal will do
(exit codes 0, 1 and 2); a signal, a sanitizer's report or an internal error will not.

    crash_corpus_test.py --binary build/dev/onnxfit [-v]

The folder that a file is in says how it is run.  The limits are a safeguard: what is there for its
size is refused by a budget, whose text is expected.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests/data/crashes.tar.xz"
REFERENCE = str(ROOT / "models/linear.onnxtxt")
EVAL = ["--mode", "eval", "-p", "amp-bf16"]
COMMANDS = {  # by folder: what is typed; FILE stands for the file
    "train": ["FILE", "--format", "json"],
    "eval": ["FILE", "--format", "json", *EVAL],
    "diff": ["diff", REFERENCE, "FILE"],
    "budget": ["FILE", "--format", "json", *EVAL],
    "lock": ["check", str(ROOT / "models/onnxfit.toml"), "--only", "mlps*", "--against", "FILE"],
}
BUDGET = "were expected, found"
LIMIT_SECONDS = 120
LIMIT_MIB = 8192  # where sanitizers watch


def failure(binary, file, folder):
    """Why a run is none that users should see; "" for a good one."""
    command = [binary, *(str(file) if part == "FILE" else part for part in COMMANDS[folder])]
    options = f"detect_leaks=0:allocator_may_return_null=0:hard_rss_limit_mb={LIMIT_MIB}"
    environment = dict(os.environ, ASAN_OPTIONS=options)
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False,
                             timeout=LIMIT_SECONDS, env=environment)
    except subprocess.TimeoutExpired:
        return "no end"
    if run.returncode not in (0, 1, 2):
        return f"exit code {run.returncode}: {run.stderr[-400:]}"
    if "internal" in run.stderr:
        return run.stderr
    if folder == "budget" and BUDGET not in run.stderr:
        return f"no budget in: {run.stderr}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("-v", action="store_true", help="names every file")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder, tarfile.open(CORPUS) as corpus:
        corpus.extractall(folder)
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(lambda f: failure(options.binary, f, f.parent.name), files)
            for file, why in zip(files, results):
                failed += why != ""
                if why or options.v:
                    print(f"{file.parent.name}/{file.name}: {why or 'good'}")
    print(f"{len(files)} files, {failed} failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
