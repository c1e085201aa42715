"""Programs of the kinds that people run, on the card that is not there (programs/).

    programs.py --committed          # programs.csv
    programs.py --check              # exit 1 where one is not as programs.csv has it (needs PyTorch and the libraries)
    programs.py --update             # writes programs.csv: the rows of those that ran
    programs.py sft generate         # these alone, with --check and --update, too

Each asserts what a card would give it: how many tokens a step has, how many steps a scaler let through, which
batch was the first that the card took.  PyTorch 2.11.0, transformers 5.17.0 and the libraries of LIBRARIES, or those
of ALONE, are those of --python, this one's where it is not given; what it has not is left out, and said.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
import committed  # noqa: E402
from runs import ROOT  # noqa: E402

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
TWO_CARDS = ["--devices", "2xa100-40gb"]
LIBRARIES = {"qlora": {"bitsandbytes": "0.50.2", "peft": "0.21.0"}, "lightnings": {"lightning": "2.6.6"},
             "sft": {"trl": "1.16.0", "datasets": "5.2.0"}, "offload": {"diffusers": "0.42.1"},
             "grpo": {"trl": "1.16.0", "datasets": "5.2.0"}, "parts": {"diffusers": "0.42.1", "accelerate": "1.15.0"},
             "accelerated": {"accelerate": "1.15.0"}, "nvml": {"nvidia-ml-py": "13.615.71"},
             "own_kernels": {"triton": "3.6.0", "liger-kernel": "0.8.5"}, "quantized": {"torchao": "0.18.0"}}
VLLM = {"vllm": "0.33.0", "torch": "2.14.0", "transformers": "5.20.2"}  # in a --python of its own
LIBRARIES |= dict.fromkeys(("serve_llama", "serve_qwen", "asleep"), VLLM)
LIBRARIES |= dict.fromkeys(("sglang_eager", "sglang_graphs"),
                           {"sglang": "0.5.23", "torch": "2.14.1", "transformers": "5.19.0"})
LIBRARIES["colocated"] = VLLM | {"trl": "1.16.0", "datasets": "5.2.0", "accelerate": "1.15.0"}
LIBRARIES |= dict.fromkeys(("zero1", "zero2", "zero3"), {"deepspeed": "0.19.8"})
# Without PyTorch: what they need in its place.  Their figures are what the framework's allocator handed
# out and what its pool had, at most or (CuPy) at the end.
ALONE = {"jax_mlp": {"jax": "0.10.2"}, "cupy_pool": {"cupy-cuda13x": "14.2.0"},
         "tensorflow_mlp": {"tensorflow": "2.21.0"}}
# Where it is not one process on an A100: flags of the run, what goes before the file, arguments.
HOW = {"ddp": (TWO_CARDS, TORCHRUN, "ranks", ["ddp"]), "fsdp2": (TWO_CARDS, TORCHRUN, "ranks", ["fsdp2"]),
       "full_card": (["-g", "rtx3060"], [], "full_card", []), "inference": (["-g", "l4"], [], "inference", []),
       "jax_mlp": (["-g", "t4"], [], "jax_mlp", []),  # on later cards XLA compiles for minutes
       "tensorflow_mlp": (["-g", "t4"], [], "tensorflow_mlp", []),
       "sglang_eager": (["-g", "l4"], [], "served_sglang", ["eager"]),
       "sglang_graphs": (["-g", "l4"], [], "served_sglang", ["graphs"]),
       "serve_llama": (["-g", "a100-40gb"], [], "served", ["llama"]), "serve_qwen": (["-g", "l4"], [], "served", ["qwen"])}
HOW |= {f"{file[:-1]}_{way}": (TWO_CARDS, TORCHRUN, file, [way]) for file, ways in (
    ("tensors", ("rows", "sequences", "auto")), ("pipelines", ("gpipe", "1f1b")), ("contexts", ("gather", "rotate"))) for way in ways}
HOW["experts"] = (TWO_CARDS, TORCHRUN, "experts", [])
HOW |= {f"zero{stage}": (TWO_CARDS, TORCHRUN, "zeros", [str(stage)]) for stage in (1, 2, 3)}
FIGURES = ["verdict", "allocated", "reserved", "open", "phases", "ended"]


def names():
    files = {path.stem for path in (HERE / "programs").glob("*.py")} - {file for _, _, file, _ in HOW.values()} - {"readings", "tiny_llm"}
    return sorted(files | set(HOW))


def worse(before, row):
    """Bytes that are other, or fewer open lines, are not worse, and yet not as committed."""
    names = [name for name in ("verdict", "phases", "ended") if str(row[name]) != before[name]]
    names += ["open"] if int(row["open"] or 0) > int(before["open"] or 0) else []
    return [f"{name} {row[name]}, not {before[name]}" for name in names]


TABLE = committed.Table(HERE / "programs.csv", ["program"], FIGURES, worse, lambda row: False)


def missing(python, name):
    """Of the libraries that it needs, those that are not there in this version."""
    script = ("import importlib.metadata as m, json, sys\nfor name, version in json.loads(sys.argv[1]).items():\n"
              "  try: found = m.version(name)\n  except m.PackageNotFoundError: found = 'none'\n"
              "  if found.split('+')[0] != version: print(f'{name} {version} (here: {found})')")
    wanted = ALONE.get(name) or {"torch": "2.11.0", "transformers": "5.17.0"} | LIBRARIES.get(name, {})
    text = subprocess.run([python, "-c", script, json.dumps(wanted)], capture_output=True, text=True, check=True)
    return text.stdout.splitlines()


def run(args, name):
    """The run's JSON."""
    flags, before, file, after = HOW.get(name, (["-g", "a100-40gb"], [], name, []))
    with tempfile.TemporaryDirectory() as folder:
        home, scratch = Path(folder) / "home", Path(folder) / "tmp"
        home.mkdir()
        scratch.mkdir()  # so that no compiler finds what it made before
        out = Path(folder) / "answer.json"
        command = [args.binary, "run", *flags, "-q", "-f", "json", "--output", str(out), "--", args.python, "-B", *before,
                   str(HERE / f"programs/{file}.py"), *after]
        environment = {**os.environ, "TMPDIR": str(scratch), "HF_HUB_OFFLINE": "1"}
        result = subprocess.run(command, cwd=home, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, check=False)
        if args.verbose:
            print(result.stdout[-2000:], result.stderr[-2000:])
        return (json.loads(out.read_text()), result.stdout) if out.exists() else (None, "")


def phases_as_read(answer, printed):
    """"3 of 3": phases that took, or left on the card, what the program read itself (programs/readings.py),
    of those that it read; "" where it read none."""
    phases = [phase for process in answer["processes"] for phase in process.get("phases", ())]
    told = {}
    for phase in phases:
        name = phase["name"] if phase["kind"] == "module" else phase["kind"]
        told["phases", name] = max(device["allocated_bytes"] for device in phase["devices"])
        told["left", name] = max(device["left"]["device_bytes"] for device in phase["devices"])
    read = {(what, name): value for line in printed.splitlines() for what in ("phases", "left")
            if line.startswith(what + " {") for name, value in json.loads(line.removeprefix(what)).items()}
    return f"{sum(told.get(name) == value for name, value in read.items())} of {len(read)}" if read else ""


def row_of(args, name):
    answer, printed = run(args, name)
    if answer is None:
        return {"program": name, **dict.fromkeys(FIGURES, ""), "ended": "no answer"}
    devices = [device for process in answer["processes"] for device in process["devices"]]
    devices += [{"allocated_bytes": device["used_bytes"], "reserved_bytes": device.get("pool_bytes", 0)}
                for framework in answer.get("frameworks", []) for device in framework["devices"]]
    return {"program": name, "verdict": " ".join(sorted({target.get("verdict", "failed") for target in answer["targets"]})),
            "allocated": max((device.get("allocated_bytes", 0) for device in devices), default=0),
            "reserved": max((device.get("reserved_bytes", 0) for device in devices), default=0),
            "open": sum(len(process.get("unknown_reads", [])) for process in answer["processes"]),
            "phases": phases_as_read(answer, printed),
            "ended": answer["exit_code"]}


def measure(args):
    rows = []
    for name in args.names or names():
        lacking = missing(args.python, name)
        if lacking:
            print(f"left out: {name}: needs {', '.join(lacking)}")
            continue
        rows.append(row_of(args, name))
        print(*rows[-1].values(), flush=True)
    return sorted(rows + not_run(args, rows), key=lambda row: row["program"]), [(name,) for name in names()]


def not_run(args, rows):
    """To be kept: what is committed of programs that were not asked, or whose libraries are elsewhere."""
    run = {row["program"] for row in rows}
    known = TABLE.read().values() if args.update else []
    return [row for row in known if row["program"] in names() and row["program"] not in run]


def print_rows(rows):
    print("| program | verdict | allocated | reserved | lines that read what nobody computed | phases as it reads them |\n"
          "|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['program']} | {row['verdict']} | {int(row['allocated']):,} | {int(row['reserved']):,} | {row['open']} | {row['phases']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of programs; all, where none is given")
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--python", default=sys.executable, help="with PyTorch")
    parser.add_argument("--committed", action="store_true", help="what programs.csv says")
    parser.add_argument("-v", "--verbose", action="store_true", help="what they print")
    committed.add_arguments(parser)
    args = parser.parse_args()
    return committed.answer(args, TABLE, lambda: measure(args), lambda rows: None, print_rows)


if __name__ == "__main__":
    sys.exit(main())
