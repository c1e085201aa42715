"""What training steps take on the card at hand: unchanged PyTorch, one JSON object a line.

    python3 benchmarks/accuracy/on_card.py card.jsonl               # everything
    python3 benchmarks/accuracy/on_card.py card.jsonl --only 'resnet|vit' --batch 8
    python3 benchmarks/accuracy/on_card.py card.jsonl --probes none --events recordings
    python3 benchmarks/accuracy/on_card.py --list                   # what would be run

Needs a CUDA card that nothing else uses, torch, torchvision, transformers (README.md has the
versions of the data here).  What card.jsonl holds already is not run again, so that a run that
was cut short goes on.  card_table.py prints it beside the estimates.

Each run has a process of its own, forked before CUDA starts: workspaces of cuBLAS and the state
of cuDNN last as long as their process.  Lines, by "line":

    card    the card, driver, versions
    run     three steps of one network: settings; per step what is allocated after forward,
            backward and step, the peaks (requested, allocated, reserved: torch.cuda's own
            statistics, bytes), and `outside`: what the device counts as used beyond the
            segments of the allocator (cudaMemGetInfo's total - free, minus reserved)
    probe   the allocations of one call (probes.py)

`outside` at "first_tensor" is the CUDA context; it grows as kernels are loaded.  `smi` is what
nvidia-smi says at the end, in MiB.  `attention` is "default", or "no-cudnn" where cuDNN's
attention was turned off.  --events writes each run's allocations and frees for events.py.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import torch

import probes
import recorder
import zoo
from probes import outside

Run = namedtuple("Run", "model batch precision optimizer mode attention")
STEPS = 3
# (batch, precision, optimizer, mode, attention) of every network.
SETTINGS = [(batch, precision, "adamw", "train", "default")
            for batch in (8, 32) for precision in ("fp32", "amp-bf16", "bf16")] + [
    (8, "amp-fp16", "adamw", "train", "default"),
    (8, "fp32", "sgdm", "train", "default"),
    (8, "fp32", "adamw", "eval", "default"),
]
# The same without cuDNN's attention, which takes 16 bits alone, of networks that have attention.
NO_CUDNN = [(*setting[:4], "no-cudnn") for setting in SETTINGS if setting[1] != "fp32"]
ATTENTION = ["vit_b_16", *zoo.LANGUAGE]
WEIGHTS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}
OPTIMIZERS = {"sgd": (torch.optim.SGD, {}), "sgdm": (torch.optim.SGD, {"momentum": 0.9}),
              "adam": (torch.optim.Adam, {}), "adamw": (torch.optim.AdamW, {})}


def all_runs():
    return [Run(model, *setting) for model in zoo.NETWORKS
            for setting in SETTINGS + (NO_CUDNN if model in ATTENTION else [])]


# --- What is counted -------------------------------------------------------------------------

def peak():
    stats = torch.cuda.memory_stats()
    return {"allocated": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.max_memory_reserved(),
            "requested": stats["requested_bytes.all.peak"]}


def nvidia_smi(*query):
    """What nvidia-smi answers: a list of rows; empty where there is no such program."""
    try:
        result = subprocess.run(["nvidia-smi", *query, "--format=csv,noheader,nounits"],
                                capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        return []
    return [line.split(", ") for line in result.stdout.splitlines()]


def smi():
    """MiB: of the device, and of each process on it."""
    return {"device": nvidia_smi("--query-gpu=memory.used"),
            "processes": nvidia_smi("--query-compute-apps=used_memory")}


def library_versions():
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    with contextlib.suppress(RuntimeError):
        versions["cudnn"] = torch.backends.cudnn.version()
    for name in ("torchvision", "transformers"):
        with contextlib.suppress(ImportError):
            versions[name] = __import__(name).__version__
    return versions


def card():
    """The card's line.  Starts CUDA."""
    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info()
    return {"name": properties.name,
            "capability": [properties.major, properties.minor],
            "multiprocessors": properties.multi_processor_count, "total_bytes": total,
            "used_before_first_tensor": total - free,
            "smi": nvidia_smi("--query-gpu=name,driver_version,memory.total,memory.reserved"),
            "alloc_conf": os.environ.get("PYTORCH_ALLOC_CONF", ""), **library_versions()}


# --- The loop that the estimate is of --------------------------------------------------------

def training_step(network, module, batch, optimizer, scaler, autocast):
    """One step.  Yields after forward, backward and step; names live on in between, as in a
    script's loop.  Zeroing comes before forward."""
    while True:
        torch.cuda.reset_peak_memory_stats()
        x, labels = batch()
        optimizer.zero_grad()
        with autocast():
            loss = zoo.loss(network, module, x, labels)
        yield "after_forward"
        scaler.scale(loss).backward()
        yield "after_backward"
        scaler.step(optimizer)
        scaler.update()
        yield "after_step"


def train(loop):
    """What three steps take, each a dict."""
    for _ in range(STEPS):
        step = {"outside": {}}
        for _ in range(3):
            place = next(loop)
            step[place] = torch.cuda.memory_allocated()
            step["outside"][place] = outside()
        yield {**step, "peak": peak()}


def infer(network, module, batch, autocast):
    with torch.no_grad(), autocast():
        for _ in range(STEPS):
            torch.cuda.reset_peak_memory_stats()
            x, labels = batch()
            logits = network.logits(module, x, labels)  # lives until it is bound again
            yield {"peak": peak(), "outside": {"after_forward": outside()}}


def context_of(precision):
    dtype = AUTOCAST.get(precision)
    return lambda: torch.autocast("cuda", dtype=dtype, enabled=dtype is not None)


def steps_of(run, network, module, found):
    """The figures of each step; `found` gets what is known at the end."""
    batch = lambda: network.batch(run.batch, "cuda", WEIGHTS.get(run.precision, torch.float32))
    autocast = context_of(run.precision)
    if run.mode == "eval":
        return list(infer(network, module, batch, autocast))
    make, arguments = OPTIMIZERS[run.optimizer]
    optimizer = make([p for p in module.parameters() if p.requires_grad], lr=1e-3, **arguments)
    scaler = torch.amp.GradScaler("cuda", enabled=run.precision == "amp-fp16")
    steps = list(train(training_step(network, module, batch, optimizer, scaler, autocast)))
    found["opt_state_bytes"] = sum(
        t.numel() * t.element_size() for state in optimizer.state.values()
        for t in state.values() if torch.is_tensor(t) and t.is_cuda)
    if scaler.is_enabled():  # below 65536: so many steps were skipped, each halving it
        found["loss_scale"] = scaler.get_scale()
    return steps


def first_tensor():
    """What lies outside of the allocator once a tensor is there: the context."""
    tensor = torch.empty(1, device="cuda")
    bytes_outside = outside()
    del tensor
    torch.cuda.empty_cache()  # the run begins with no segment
    return bytes_outside


def recording_name(run):
    return (f"{run.model}.b{run.batch}.{run.precision}.{run.optimizer}.{run.mode}."
            f"{run.attention}.json.gz")


def load_and_run(run, network, module, found):
    module = module.to(WEIGHTS.get(run.precision, torch.float32)).to("cuda")
    module.train(run.mode == "train")
    found["after_model"] = torch.cuda.memory_allocated()
    found["steps"] = steps_of(run, network, module, found)


def measure(run, network, module, events):
    """The line of one run.  Starts CUDA."""
    torch.backends.cuda.enable_cudnn_sdp(run.attention == "default")
    found = {"first_tensor": first_tensor()}
    if events:
        recorder.start(stacks="python")
    try:
        load_and_run(run, network, module, found)
    except torch.OutOfMemoryError as error:
        found["oom"] = str(error)
    found.update(smi=smi(), retries=torch.cuda.memory_stats().get("num_alloc_retries", 0))
    if events:
        recorder.write(Path(events) / recording_name(run), run._asdict())
    return found


# --- Processes -------------------------------------------------------------------------------

def answer(pipe, work, *arguments):
    try:
        pipe.send(work(*arguments))
    except Exception as error:  # told in the line, the list goes on
        pipe.send({"error": f"{type(error).__name__}: {error}"})
    pipe.close()


def in_own_process(work, *arguments):
    """What work(*arguments) returns, or {"error": …}, run in a fork of its own."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=answer, args=(theirs, work, *arguments))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        process.join()
        return {"error": f"process ended with {process.exitcode}"}
    finally:
        process.join()


def key_of(line):
    """What tells a run or probe from the others."""
    if line.get("line") == "run":
        return Run(*(line[name] for name in Run._fields))
    return line.get("line"), line.get("probe")


def lines_there(path):
    if not path.exists():
        return []
    return [json.loads(text) for text in path.read_text().splitlines()]


class Output:
    """Appends lines to a file, each complete on the disk before the next is begun."""

    def __init__(self, path):
        self.path = path
        self.done = {key_of(line) for line in lines_there(path) if "error" not in line}

    def add(self, line):
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(summary(line), file=sys.stderr, flush=True)


def summary(line):
    if "error" in line or "oom" in line:
        tail = line.get("error") or line["oom"]
    elif line["line"] == "run":
        tail = f"reserved {max(s['peak']['reserved'] for s in line['steps']) / 2**20:.0f} MiB"
    else:
        tail = "done"
    return " ".join(map(str, key_of(line))) + ": " + tail[:100]


def run_all(runs, output, events):
    """Builds each network once, on the CPU, and forks a process for each of its runs."""
    module, built = None, None
    for run in runs:
        if run in output.done:
            continue
        if built != run.model:
            module, built = zoo.NETWORKS[run.model].build(), run.model
        line = in_own_process(measure, run, zoo.NETWORKS[run.model], module, events)
        output.add({"line": "run", **run._asdict(), **line})


def probe_all(pattern, output):
    for name, probe in probes.PROBES.items():
        if re.search(pattern, name) and ("probe", name) not in output.done:
            line = in_own_process(probe)
            output.add({"line": "probe", "probe": name, **line})


def require_card():
    """The card's line; ends the program where there is no card."""
    line = {"line": "card", **in_own_process(card)}
    if "error" in line:
        sys.exit(f"error: expected a CUDA card that torch can use, found {line['error']} "
                 "(try nvidia-smi)")
    return line


def chosen(args):
    return [run for run in all_runs() if re.search(args.only, run.model)
            and (not args.batch or run.batch == args.batch)
            and (not args.precision or run.precision == args.precision)
            and (not args.mode or run.mode == args.mode)]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", help="lines are appended")
    parser.add_argument("--only", default="", help="networks: a regular expression")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--precision")
    parser.add_argument("--mode", choices=["train", "eval"])
    parser.add_argument("--probes", default="", help="a regular expression, such as none")
    parser.add_argument("--events", metavar="FOLDER")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(" ".join(map(str, run)) for run in chosen(args)))
        return 0
    if not args.output:
        parser.error("expected a file to append to, such as card.jsonl")
    torch.set_num_threads(1)  # threads do not outlive a fork
    # Nor does CUDA: nothing that is imported may start it by asking whether it is there.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    output = Output(Path(args.output))
    if ("card", None) not in output.done:
        output.add(require_card())
    probe_all(args.probes, output)
    run_all(chosen(args), output, args.events)
    return 0


if __name__ == "__main__":
    sys.exit(main())
