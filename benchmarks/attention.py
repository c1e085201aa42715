"""What cuDNN's attention takes as its workspace: writes ../tests/data/cudnn_attention.csv.

    attention.py FOLDER [--cuda /usr/local/cuda]

No GPU is needed: cuDNN plans for cards that are only described.  FOLDER takes the wheels of every
PyTorch below from PyPI (1.5 GB) and keeps them.  CUDA's toolkit 13 must be there, for its headers,
its compiler's run-time library and a driver that can only be linked with; about 5 minutes.
"""

import argparse
import csv
import itertools
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE.parent / "tests/data/cudnn_attention.csv"

# torch: cuDNN as its wheel for CUDA 13 requires it; cudnn-frontend as its source has it at the
# time of its release (pull requests 173708, 180185, 185554, 189574 and 195892 of PyTorch).
VERSIONS = {
    "2.11": ("9.19.0.56", "1.18.0"),
    "2.12": ("9.20.0.48", "1.22.1"),
    "2.13": ("9.20.0.48", "1.24.1"),
    "2.14": ("9.24.0.43", "1.26.0"),
    "2.15": ("9.26.0.51", "1.28.0"),
}
# Compute capability, times ten: multiprocessors.  H200, B200, B300.
CARDS = {90: 132, 100: 148, 103: 148}

CALL = ["backward", "bf16", "batch", "heads", "kv_heads", "rows", "keys", "head_size",
        "value_size", "causal", "mask", "dropout", "keeps"]


def both(batch, heads, kv_heads, rows, keys, head_size, value_size, causal=0, mask=0, dropout=0,
         bf16=1):
    shape = (bf16, batch, heads, kv_heads, rows, keys, head_size, value_size, causal, mask, dropout)
    return [(0, *shape, 1), (1, *shape, 1)]


def systematic():
    calls = []
    for rows in (1, 2, 7, 8, 16, 17, 50, 64, 77, 100, 127, 128, 129, 197, 256, 512, 1000, 4096):
        calls += both(2, 12, 12, rows, max(rows, 2), 64, 64)
    for rows in (16, 128, 197, 1024):
        calls += both(2, 12, 12, rows, rows, 64, 64, causal=1)
    for head_size in (*range(8, 144, 8), 160, 192, 224, 256):
        calls += both(2, 4, 4, 200, 200, head_size, head_size)
    for (heads, kv_heads), rows in itertools.product(((8, 4), (6, 1)), (100, 129, 1000)):
        calls += both(2, heads, kv_heads, rows, rows, 256, 256)
    for head_size, value_size in ((192, 128), (64, 128), (128, 64)):
        calls += both(2, 4, 4, 512, 512, head_size, value_size)
        calls += both(2, 4, 4, 96, 96, head_size, value_size)
    sides = ((17, 17), (77, 77), (197, 197), (512, 512), (77, 512), (512, 77))
    for dropout, mask, (rows, keys) in itertools.product((0, 0.1, 0.125, 0.5), (0, 1), sides):
        calls += both(3, 5, 5, rows, keys, 64, 64, mask=mask, dropout=dropout)
    for (heads, kv_heads), (rows, keys) in itertools.product(
            ((8, 1), (8, 4), (32, 8)), ((128, 128), (77, 77), (1024, 1024), (64, 200))):
        for head_size in (40, 128):
            calls += both(2, heads, kv_heads, rows, keys, head_size, head_size)
    for rows, keys in ((1, 128), (1, 512), (64, 1024), (1024, 64), (4096, 77), (2, 512)):
        calls += both(2, 8, 8, rows, keys, 40, 40)
    for batch, heads in ((1, 1), (1, 16), (128, 16), (256, 3)):
        calls += both(batch, heads, heads, 512, 512, 64, 64, causal=1, dropout=0.1, bf16=0)
    for rows, dropout in ((197, 0), (197, 0.1), (1, 0), (64, 0.25)):
        calls.append((0, 1, 2, 8, 2, rows, 512, 64, 64, 0, 0, dropout, 0))
    return calls


def at_random(count):
    draw = random.Random(5).choice
    calls = []
    while len(calls) < count:
        kv_heads = draw((1, 2, 3, 4))
        rows = draw((1, 2, 5, 31, 64, 96, 127, 128, 129, 150, 197, 256, 333, 512, 1024, 2000))
        keys = max(2, draw((rows, rows, 2, 5, 31, 77, 128, 129, 256, 300, 512, 1500)))
        head_size = draw((8, 16, 32, 40, 64, 72, 80, 96, 128))
        causal = int(rows == keys and draw((True, False)))
        calls += [draw(both(draw((1, 2, 3, 8, 32)), kv_heads * draw((1, 1, 2, 4)), kv_heads, rows,
                            keys, head_size, draw((head_size, head_size, 16, 128)), causal,
                            0 if causal else draw((0, 1)), draw((0, 0, 0.1, 0.25)),
                            draw((0, 1))))]
    return calls


def wheel(folder, package, version):
    """The folder with that wheel's files."""
    files = folder / f"{package}-{version}"
    if not files.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--dest", folder / "wheels", f"{package}=={version}"], check=True)
        name = f"{package.replace('-', '_')}-{version}-*.whl"
        part = folder / f"{package}-{version}.part"
        zipfile.ZipFile(next((folder / "wheels").glob(name))).extractall(part)
        part.rename(files)
    return files


def open_plans(frontend):
    """Lets the list of plans be read: cudnn-frontend tells of workspaces of finished ones alone."""
    header = frontend / "include/cudnn_frontend/plans.h"
    text = header.read_text()
    start = "class Execution_plan_list {\n"
    if start + " public:\n" not in text:
        header.write_text(text.replace(start, start + " public:\n"))


def compile_program(folder, cuda, torch):
    cudnn_version, frontend_version = VERSIONS[torch]
    cudnn = wheel(folder, "nvidia-cudnn-cu13", cudnn_version) / "nvidia/cudnn"
    frontend = wheel(folder, "nvidia-cudnn-frontend", frontend_version)
    open_plans(frontend)
    program = folder / f"attention_workspaces-{torch}"
    subprocess.run(
        ["g++", "-std=c++20", "-w", "-I", frontend / "include", "-I", cudnn / "include", "-I",
         cuda / "include", HERE / "cuda/attention/attention_workspaces.cc", "-o", program,
         f"-L{cudnn}/lib", "-l:libcudnn.so.9", f"-L{cuda}/lib64", "-lcudart", "-lnvrtc",
         f"-L{cuda}/lib64/stubs", "-lcuda", f"-Wl,-rpath,{cudnn}/lib:{cuda}/lib64"], check=True)
    return program


def properties(capability, multiprocessors):
    """As cuDNN's own JSON has them; estimator/cuda/cudnn_device.cc says more."""
    return json.dumps({
        "deviceVer": capability * 10, "multiProcessorCount": multiprocessors,
        "maxThreadsPerSM": 2048, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
        "maxSharedMemoryPerBlockOptin": 227 * 1024, "maxCtasPerSM": 32, "driverVer": 13000,
        "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
        "maxThreadsPerBlock": 1024, "warpSize": 32, "regsPerBlock": 65536,
        "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
        "reservedSharedMemoryPerBlock": 1024, "supportCoopLaunch": 1, "isTccDriver": 0,
        "pciDeviceId": 0, "cudaDeviceId": 0, "deviceName": "", "totalGlobalMem": 0,
        "l2CacheSize": 0})


def linkable_driver(folder, cuda):
    """A folder with a libcuda.so.1, without which cuDNN makes no plan of attention."""
    driver = folder / "driver"
    driver.mkdir(exist_ok=True)
    link = driver / "libcuda.so.1"
    if not link.exists():
        link.symlink_to(cuda / "lib64/stubs/libcuda.so")
    return driver


def answers(program, driver, capability, calls):
    lines = "\n".join(",".join(map(str, call)) for call in calls)
    result = subprocess.run(
        [program, str(capability), properties(capability, CARDS[capability])], input=lines,
        env=os.environ | {"LD_LIBRARY_PATH": str(driver)}, check=True, capture_output=True,
        text=True)
    return result.stdout.split()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cuda", type=Path, default=Path("/usr/local/cuda"))
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    calls = list(dict.fromkeys(systematic() + at_random(250)))
    driver = linkable_driver(folder, args.cuda)
    columns = {}
    for torch in VERSIONS:
        program = compile_program(folder, args.cuda, torch)
        for capability in CARDS:
            columns[f"{torch} on {capability}"] = answers(program, driver, capability, calls)
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CALL + list(columns))
        for call, row in zip(calls, zip(*columns.values(), strict=True), strict=True):
            writer.writerow(call + row)
    print(f"{TABLE.name}: {len(calls)} calls")


if __name__ == "__main__":
    main()
