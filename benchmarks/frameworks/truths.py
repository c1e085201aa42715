"""What older versions of PyTorch allocate: data/truths.jsonl.xz, and the exports that are estimated.

    truths.py OUT.jsonl [NETWORK...]          # by the PyTorch that is installed, every setting
    truths.py --events OUT.json NETWORK BATCH PRECISION OPTIMIZER    # for ../accuracy/events.py
    truths.py --export FOLDER [NETWORK...]    # .pt2 on the meta device, by torch 2.11

The runtime is that of ../accuracy, for the CUDA of each wheel; every setting is the version's own
default, that of optimizer.zero_grad() among them.
"""

import argparse
import copy
import gc
import json
import sys
import warnings
from pathlib import Path

import torch
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
import without_cudnn  # noqa: E402
from networks import NETWORKS  # noqa: E402

PRECISIONS, OPTIMIZERS = ["fp32", "amp-fp16"], ["sgdm", "adamw"]
STEPS = 3
VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def make_optimizer(name, parameters):
    if name == "adamw":
        return torch.optim.AdamW(parameters)
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def steps_of(network, model, batch, precision, optimizer_name):
    """The reference loop (estimator/training/training.h)."""
    model = copy.deepcopy(model).cuda().train()
    optimizer = make_optimizer(optimizer_name, model.parameters())
    scaler = torch.cuda.amp.GradScaler(enabled=precision == "amp-fp16")
    for _ in range(STEPS):
        torch.cuda.reset_peak_memory_stats()
        x = network.inputs(batch, "cuda")
        labels = torch.zeros(batch, dtype=torch.long, device="cuda")
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16, enabled=precision == "amp-fp16"):
            loss = F.cross_entropy(model(x), labels)
        step = {"after_forward": torch.cuda.memory_allocated()}
        scaler.scale(loss).backward()
        step["after_backward"] = torch.cuda.memory_allocated()
        scaler.step(optimizer)
        scaler.update()
        yield {**step, "after_step": torch.cuda.memory_allocated(),
               "allocated": torch.cuda.max_memory_allocated(),
               "reserved": torch.cuda.max_memory_reserved()}


def give_back():
    gc.collect()
    if hasattr(torch._C, "_cuda_clearCublasWorkspaces"):
        torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()


def runnable(names):
    return {name: NETWORKS[name] for name in names or NETWORKS
            if VERSION >= (2, 0) or not NETWORKS[name].needs_sdpa}


def measure(out, names):
    with open(out, "w") as file:
        for name, network in runnable(names).items():
            model = network.build()
            for batch in network.batches:
                for precision in PRECISIONS:
                    for optimizer in OPTIMIZERS:
                        steps = list(steps_of(network, model, batch, precision, optimizer))
                        give_back()
                        run = {"framework": f"pytorch-{VERSION[0]}.{VERSION[1]}", "network": name,
                               "batch": batch, "precision": precision, "optimizer": optimizer,
                               "steps": steps}
                        print(json.dumps(run), file=file, flush=True)


def start_history():
    if VERSION >= (2, 1):
        torch.cuda.memory._record_memory_history(max_entries=1000000, stacks="python")
    else:
        torch.cuda.memory._record_memory_history(
            True, record_context=True, trace_alloc_max_entries=1000000,
            trace_alloc_record_context=True)


def place(frame):
    return f"{frame['filename'].rsplit('/', 1)[-1]}:{frame['line']}:{frame['name']}"


def record(out, name, batch, precision, optimizer):
    model = NETWORKS[name].build()
    start_history()
    list(steps_of(NETWORKS[name], model, int(batch), precision, optimizer))
    events = [(entry["action"], entry["size"], entry["addr"],
               [place(frame) for frame in entry.get("frames", [])
                if frame["filename"].endswith(".py")][:5])
              for entry in torch.cuda.memory._snapshot()["device_traces"][0]
              if entry["action"] in ("alloc", "free_requested")]
    Path(out).write_text(json.dumps(events))


def export(folder, names):
    from export_transformers import save_without_folders
    for name in names or NETWORKS:
        with torch.device("meta"):
            module = NETWORKS[name].build().train()
        inputs = (NETWORKS[name].inputs(3, "meta"),)
        program = torch.export.export(module, inputs, strict=False,
                                      dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
        save_without_folders(program, folder / f"{name}.train.pt2")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--export", action="store_true")
    parser.add_argument("out", type=Path)
    parser.add_argument("what", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    if args.export:
        args.out.mkdir(parents=True, exist_ok=True)
        return export(args.out, args.what)
    without_cudnn.register()
    if args.events:
        return record(args.out, *args.what)
    return measure(args.out, args.what)


if __name__ == "__main__":
    main()
