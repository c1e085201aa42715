"""Times whole processes of onnxfit and prints a markdown table.

    speed.py [--binary build/release/onnxfit] [--runs 10] [--update]

Runs take turns, so that ratios within a table hold on a busy machine too.  Memory is the
largest resident size that the kernel saw; a process starts with its parent's (a few MiB of
Python), which the first row shows.
"""

import argparse
import lzma
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parent / "accuracy"))
from onnx_writer import write_sparse
from runs import unpack_models
from transformer import write_transformer

ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- speed -->\n"
LAYERS = (12, 24, 48, 96)


class Case(NamedTuple):
    what: str
    command: list
    goal: str = ""
    nodes: int = 0


class Run(NamedTuple):
    milliseconds: float
    resident_mib: float


def run(command):
    """One process from start to end.  Stops the benchmark where it fails."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    start = time.perf_counter()
    process = os.posix_spawnp(command[0], command, os.environ, file_actions=quiet)
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"error: exit {os.waitstatus_to_exitcode(status)}: {' '.join(command)}")
    return Run(seconds * 1000, usage.ru_maxrss / 1024)


def write_checks(folder):
    """A config of 100 checks: 20 models of the repository at five batches.  Returns its path."""
    models = sorted(p for p in (ROOT / "models").iterdir() if ".onnx" in p.suffix)[:20]
    assert len(models) == 20, "models/ has become smaller"
    names = ", ".join(f'"{model}"' for model in models)
    path = Path(folder, "checks.toml")
    path.write_text(f'[[check]]\nname = "all"\nmodel = [{names}]\nbatch = "4:20:4"\n'
                    'budget = "t4"\nlevel = "warn"\n', encoding="utf-8")
    return path


def unpack(folder):
    """In a process of its own: what one starts with is its parent's memory.  The yardstick's
    exports by (model, kind), and Llama's."""
    with ProcessPoolExecutor(1) as other:
        models = other.submit(unpack_models, folder).result()
        packed = Path(__file__).parent / "llama_7b.onnx.xz"
        llama = Path(folder, "llama_7b.onnx")
        other.submit(unpack_file, packed, llama).result()
    return models, llama


def unpack_file(packed, path):
    path.write_bytes(lzma.decompress(packed.read_bytes()))


def of_models(binary, models):
    """Estimates with their range of doubts, from ONNX and from .pt2: (name, kinds, batch, goal)."""
    rows = [("resnet50", ("train", "pt2-train"), 32, 5), ("gpt2", ("dynamo", "pt2-train"), 8, 12),
            ("bert_base", ("dynamo", "pt2-train"), 8, 12),
            ("vit_b_16", ("dynamo", "pt2-train"), 8, 12),
            ("mt5_large", ("train", "pt2-train"), 2, 40)]
    for name, kinds, batch, goal in rows:
        for kind in kinds:
            what = f"{name}, from .pt2" if kind.startswith("pt2") else name
            yield Case(what, [binary, str(models[name, kind]), "-q", "-b", str(batch)],
                       f"{goal} ms")


def of_batches(binary, models, llama):
    search = [binary, "max-batch", str(ROOT / "models/resnet50.train.onnx"), "-q", "--exit-zero"]
    advised = [binary, "max-batch", "--gpu", "t4", "--exit-zero"]
    gpt2 = str(ROOT / "models/gpt2.dynamo.onnx")
    seq = ["--dim", "seq=512"]
    return [
        Case("the largest batch of resnet50 on 8 GiB", [*search, "--memory", "8GiB"], "25 ms"),
        Case("the same on an A100 of 80 GB", [*search, "--gpu", "a100-80gb"], "60 ms"),
        Case("the same on each card", [*search, "--all-gpus"], "300 ms"),
        Case("that of gpt2 on a T4, with advice", [*advised, gpt2], "300 ms"),
        Case("a page of gpt2 (`report`)", [binary, "report", gpt2, "-b", "8"], "150 ms"),
        Case("Llama of 7 billion parameters", [binary, str(llama), "-q", "-b", "1", *seq], "60 ms"),
        Case("its largest batch on an A100 of 80 GB, with advice",
             [binary, "max-batch", str(llama), "--gpu", "a100-80gb", "--exit-zero", *seq], "600 ms"),
        Case("that of mt5_large on the same, with advice",
             [binary, "max-batch", str(models["mt5_large", "train"]), "--gpu", "a100-80gb", "--exit-zero"],
             "600 ms, 150 MiB"),
    ]


def make_cases(binary, folder):
    models, llama = unpack(folder)
    cases = [
        Case("an empty process (`true`)", ["true"]),
        Case("`--version`", [binary, "--version"]),
        *of_models(binary, models),
        *of_batches(binary, models, llama),
        Case("100 checks of 20 models, on a T4",
             [binary, "check", str(write_checks(folder)), "-q"], "2000 ms"),
    ]
    for count, what, goal in [(1, "a file of 2 GB", "20 ms, 50 MiB"), (4, "a file of 8 GB", "")]:
        path = Path(folder, f"sparse{count}.onnx")
        write_sparse(path, 22500, 22500, count)
        cases.append(Case(what, [binary, str(path), "-q"], goal))
    for layers in LAYERS:
        path = Path(folder, f"transformer{layers}.onnx")
        nodes = write_transformer(path, layers)
        cases.append(Case(f"a transformer of {layers} layers, {nodes:,} nodes",
                          [binary, str(path), "-q", "-b", "8"], "30 ms" if layers == 48 else "",
                          nodes))
    return cases


def measure(cases, runs):
    """Per case, its runs; in turns, after one that is not counted."""
    taken = [[] for _ in cases]
    for turn in range(runs + 1):
        for case, times in zip(cases, taken):
            result = run(case.command)
            if turn:
                times.append(result)
    return taken


def median(runs):
    return statistics.median(r.milliseconds for r in runs)


def table(cases, taken):
    lines = ["| estimate of | median | fastest | memory | goal |", "|---|---|---|---|---|"]
    for case, runs in zip(cases, taken):
        fastest = min(r.milliseconds for r in runs)
        memory = max(r.resident_mib for r in runs)
        lines.append(f"| {case.what} | {median(runs):.1f} ms | {fastest:.1f} ms | "
                     f"{memory:.0f} MiB | {case.goal} |")
    return lines


def growth(cases, taken):
    """What each further node costs between one transformer and the next larger one."""
    points = [(case.nodes, median(runs)) for case, runs in zip(cases, taken) if case.nodes]
    steps = [1000 * (t1 - t0) / (n1 - n0) for (n0, t0), (n1, t1) in zip(points, points[1:])]
    names = [f"{step:.2f} µs from {a} to {b} layers"
             for step, a, b in zip(steps, LAYERS, LAYERS[1:])]
    return [f"Each further node costs {', '.join(names)}."]


def size(binary):
    return [f"The binary has {os.stat(binary).st_size / (1 << 20):.1f} MiB."]


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
    lines = [*table(cases, taken), "", *growth(cases, taken), *size(args.binary)]
    print("\n".join(lines))
    if args.update:
        readme = Path(__file__).parent / "README.md"
        kept = readme.read_text(encoding="utf-8").split(MARK)[0]
        readme.write_text(kept + MARK + "\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
