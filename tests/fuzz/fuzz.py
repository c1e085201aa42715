"""Fuzzes everything that reads what users have: the targets of targets.cc, one after the other.

    ./project fuzz [SECONDS]                     builds, runs all seeds, then SECONDS in all [60]
    python3 tests/fuzz/fuzz.py --binary build/fuzz/tests/fuzz/onnxfit_fuzz [flags]
      --seconds 60           of fuzzing, shared by the targets; 0 runs the seeds alone
      --target train         one target; repeatable [all]
      --every 4              one seed in four; benchmarks/accuracy/sample.py says which [all]
      --found FOLDER         where findings go [build/fuzz/found]
      --corpus FOLDER        keeps what was reached, to go on from there [thrown away]
      --update               writes seeds.tar.xz anew, of the corpora: the fewest that reach as much

seeds.tar.xz has valid files of every kind and those of earlier runs that reached most; what once
failed, tests/data/crashes.tar.xz, is run, too.  mutate.h says how they are changed.

A finding is a file in FOLDER with a report beside it.  To mend one: make it small (`onnxfit_fuzz
--target=T -minimize_crash=1 -runs=2000 FILE`), put it into tests/data/crashes.tar.xz, in the folder
whose command shows it (tests/crash_corpus_test.py), see that test fail, mend what is wrong, see it
pass.  Without libFuzzer (any preset but "fuzz") changes are blind, and findings as they were met.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks/accuracy"))
from sample import one_in  # noqa: E402

SEEDS = Path(__file__).resolve().parent / "seeds.tar.xz"
CRASHES = ROOT / "tests/data/crashes.tar.xz"
TARGETS = {  # by name, as in targets.cc: the folder of its seeds
    "eval": "onnx", "train": "onnx", "diff": "onnx", "text": "text", "max-batch": "text",
    "pt2": "pt2", "config": "config", "lock": "lock", "report": "report",
    "calibration": "calibration", "log": "log", "snapshot": "snapshot"}
SLOW = {"loops_behind_loops.onnxtxt"}  # crash_corpus_test.py runs it
MOST_BYTES = 1 << 16  # of a changed file
# What a small file may take where sanitizers watch.
LIMITS = ["-rss_limit_mb=3072", "-malloc_limit_mb=2048"]
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=0",
              "UBSAN_OPTIONS": "print_stacktrace=1"}


def put_seeds(folder, every):
    put_all_seeds(folder)
    for kind in Path(folder).iterdir():
        seeds = sorted(kind.iterdir())
        for file in set(seeds) - set(one_in(every, seeds)):
            file.unlink()


def put_all_seeds(folder):
    with tarfile.open(SEEDS) as archive:
        archive.extractall(folder)
    with tempfile.TemporaryDirectory() as crashes, tarfile.open(CRASHES) as archive:
        archive.extractall(crashes)
        for file in sorted(Path(crashes).rglob("*.onnx*")):
            if file.parent.name == "budget" or file.name in SLOW:
                continue  # what takes seconds, as all does that is made of it
            kind = "text" if file.suffix == ".onnxtxt" else "onnx"
            shutil.copy(file, Path(folder, kind, f"crash_{file.parent.name}_{file.name}"))


def run(command, temporary):
    environment = dict(os.environ, TMPDIR=temporary, **SANITIZERS)
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False,
                          env=environment)
    return done.returncode, done.stdout + done.stderr


def figure(name, text):
    found = re.findall(rf"{name}:? *(\d+)", text)
    return found[-1] if found else "0"


def report(target, found, text, temporary):
    """Keeps the input that a run died of, and what was said about it."""
    written = re.findall(r"Test unit written to (\S+)", text)
    for file in [] if written else Path(temporary).glob("onnxfit_fuzz.*/changed.*"):
        name = f"{target}-{hashlib.sha1(file.read_bytes()).hexdigest()[:12]}"
        written = [str(shutil.copy(file, found / name))]
    for name in written:
        Path(f"{name}.txt").write_text(text)
    print(f"{text[-3000:]}\nfound: {' '.join(written)}", flush=True)


def fuzz(options, target, seconds, seeds):
    """One target; True where nothing was found."""
    with tempfile.TemporaryDirectory() as temporary:
        return fuzz_in(temporary, options, target, seconds, seeds)


def fuzz_in(temporary, options, target, seconds, seeds):
    corpus = Path(options.corpus or temporary, target)
    corpus.mkdir(parents=True, exist_ok=True)
    found = Path(options.found)
    found.mkdir(parents=True, exist_ok=True)
    command = [options.binary, f"--target={target}", f"-artifact_prefix={found}/{target}-",
               f"-max_len={MOST_BYTES}", "-print_final_stats=1", *LIMITS,
               f"-timeout={options.timeout}"]
    command += [f"-max_total_time={seconds}", f"-seed={options.seed}"] if seconds else ["-runs=0"]
    code, text = run([*command, str(corpus), str(Path(seeds, TARGETS[target]))], temporary)
    print(f"{target:12} {figure('stat::number_of_executed_units', text):>8} runs, "
          f"{figure('cov', text):>6} places reached, "
          f"{'nothing found' if code == 0 else 'a finding'}", flush=True)
    if code:
        report(target, found, text, temporary)
    return code == 0


def update(options, seeds, temporary):
    """Seeds of a kind, and the corpora of its targets, merged into the fewest."""
    merged = Path(temporary, "merged")
    for target, kind in TARGETS.items():
        (merged / kind).mkdir(parents=True, exist_ok=True)
        sources = [Path(seeds, kind), Path(options.corpus, target)]
        code, text = run([options.binary, f"--target={target}", "-merge=1", *LIMITS,
                          str(merged / kind), *(str(s) for s in sources if s.is_dir())], temporary)
        if code:
            sys.exit(text[-3000:])
    with tarfile.open(SEEDS, "w:xz", preset=9) as archive:
        for file in sorted(f for f in merged.rglob("*") if f.is_file()):
            entry = tarfile.TarInfo(str(file.relative_to(merged)))
            entry.size = file.stat().st_size
            with file.open("rb") as contents:
                archive.addfile(entry, contents)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--every", type=int, default=1, help="one seed in so many")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS))
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer; 0 is another each time")
    parser.add_argument("--timeout", type=int, default=20, help="seconds that one input may take")
    parser.add_argument("--found", default=str(ROOT / "build/fuzz/found"))
    parser.add_argument("--corpus")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, tempfile.TemporaryDirectory() as seeds:
        put_seeds(seeds, options.every)
        if options.update:
            return update(options, seeds, temporary)
        targets = options.target or TARGETS
        good = [fuzz(options, target, options.seconds // len(targets), seeds)
                for target in targets]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
