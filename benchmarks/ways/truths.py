"""What PyTorch's allocator counts in each way: data/truth.json.xz.

    truths.py OUT.jsonl [--ways WAY...] [--networks NETWORK...]
    truths.py EVENTS.json.gz --events NETWORK WAY BATCH,PRECISION    # for events.py

Runs on "cuda", each run in a process of its own; the truths here are of the runtime that
../accuracy/README.md tells of, which is asked to keep small copies from the host (DDP reads them
back).  What is not made is said, with why: the library refuses, or the network has no part for it.
"""

import argparse
import functools
import importlib
import json
import logging
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import adapters
from networks import NotForThis, inner, networks
from table import MICRO_BATCHES, WAYS, eval_batch_of

import torch

import measure_transformers as reference  # networks.py says where these are
import recorder


def zoo_truths():
    """../zoo/truths.py, of the same name as this file."""
    path = Path(__file__).resolve().parent.parent / "zoo" / "truths.py"
    spec = importlib.util.spec_from_file_location("zoo_truths", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


zoo = zoo_truths()


def named(text):
    """What FILE:FUNCTION[:ARGUMENT] names."""
    file, function, *arguments = text.split(":")
    found = getattr(importlib.import_module(file), function)
    return found(*arguments) if arguments else found


def leave_weights():
    """As they come: their values are of no matter here, and drawing them takes most of the time."""
    from transformers import initialization

    def leave(tensor, *_, **__):
        return tensor
    for name in initialization.TORCH_INIT_FUNCTIONS:
        initialization.TORCH_INIT_FUNCTIONS[name] = leave
        setattr(torch.nn.init, name, leave)


def import_once():
    """Libraries, for all processes.  bitsandbytes asks for the card to choose its kernels."""
    ask = torch.cuda.get_device_capability
    torch.cuda.get_device_capability = lambda device=None: (8, 0)
    for library in ["accelerate", "bitsandbytes", "peft", "schedulefree"]:
        importlib.import_module(library)
    torch.cuda.get_device_capability = ask


def on_device(model):
    return model.to("cuda").train()


def with_inputs(family, way):
    """The family, whose inputs are made as the way has them."""
    made = family.inputs
    return replace(family, inputs=lambda *what: named(way.inputs)(made(*what))) if way.inputs \
        else family


def accumulate(within, loop, model, make_batch, autocast, optimizer, _):
    """reference.train of MICRO_BATCHES; `within` says a rank what it is told for each."""
    for _ in range(reference.STEPS):
        torch.cuda.reset_peak_memory_stats()
        for i in range(MICRO_BATCHES):
            batch = make_batch()
            if i == 0:
                optimizer.zero_grad()
            with within(model, i == MICRO_BATCHES - 1):
                with autocast():
                    loss = loop.loss(loop.forward(model, batch), batch["y"]) / MICRO_BATCHES
                step = {"after_forward": torch.cuda.memory_allocated()}
                loss.backward()
        step["after_backward"] = torch.cuda.memory_allocated()
        optimizer.step()
        yield {**step, "after_step": torch.cuda.memory_allocated(), "peak": reference.peak()}


def figures(family, way, target, batch, precision):
    family = with_inputs(family, way)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = family.build().to(dtype).train()
    if way.loop and not isinstance(named(way.loop), type):
        return named(way.loop)(family, model, target, batch, precision)
    model = named(way.model)(model) if way.model else on_device(model)
    optimizer = named(way.optimizer)(model)
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    (_, *shape), is_whole, shown = target
    reference.SHOWN.take(shown)
    autocasts = precision == "amp-bf16"
    if way.loop:
        scaler = named(way.loop)(model, optimizer, precision)
        model, optimizer, autocasts = scaler.model, scaler.optimizer, False

    def autocast():
        return torch.autocast("cuda", torch.bfloat16, enabled=autocasts)

    def make_batch(size=batch):
        return {**family.inputs(size, "cuda", dtype),
                "y": torch.zeros(size, *shape, device="cuda",
                                 dtype=torch.long if is_whole else dtype)}
    loop = zoo.Loop(family)
    if way.loss:
        if family.loss != "ce":
            raise NotForThis("its loss is not of classes")
        loop.loss = named(way.loss)
    evaluate = named(way.evaluates)(loop, model, lambda: make_batch(eval_batch_of(way, batch)),
                                    autocast) if way.evaluates else None
    steps = []
    train = functools.partial(accumulate, named(way.micro_batches)) if way.micro_batches \
        else reference.train
    for step in train(loop, model, make_batch, autocast, optimizer, scaler):
        if evaluate:
            evaluate()
            step["peak"] = reference.peak()
        steps.append(step)
    return steps


def facts(family, way):
    """What flags depend on: whether peft has layers for the type, which loss the model takes."""
    is_trainers = "--loop trainer" in way.flags
    if "{layers}" not in way.flags and not is_trainers:
        return {}
    with torch.device("meta"):
        model = family.build()
    if is_trainers:
        return {"loss": "causal-lm" if "CausalLM" in type(inner(model)).__name__ else ""}
    return {"layers_by_name": not adapters.is_known(model)}


def run(name, family, way_name, target, setting):
    way = WAYS[way_name]
    steps = figures(family, way, target, *setting)
    batch, precision = setting
    loss = "mse" if family.loss == "mse" else ""
    return {"model": name, "way": way_name, "batch": batch, "precision": precision,
            "mode": "train", "loss": loss, **facts(family, way), "steps": steps}


def append(path, *what):
    try:
        truth = run(*what)
    except NotForThis as reason:
        print("left out:", what[0], what[2], reason, flush=True)
        return
    if torch.cuda.memory_stats()["num_alloc_retries"]:
        raise RuntimeError("memory was short: the card is too small for a truth")
    with open(path, "a") as file:
        file.write(json.dumps(truth) + "\n")


def record(path, name, family, way_name, setting):
    target = zoo.target_of(family, setting[0])
    recorder.start("python")
    truth = run(name, family, way_name, target, setting)
    truth.pop("steps")
    recorder.write(path, truth)


def measure(path, ways, names):
    for name, family in networks(names).items():
        target = zoo.target_of(family, 2)
        for way_name in ways or WAYS:
            way = WAYS[way_name]
            if way.networks and name not in way.networks:
                continue
            for setting in way.settings:
                if not reference.in_own_process(
                        lambda: append(path, name, family, way_name, target, setting)):
                    print("failed:", name, way_name, *setting, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS))
    parser.add_argument("--networks", nargs="+", default=[])
    parser.add_argument("--events", nargs=3, metavar=("NETWORK", "WAY", "BATCH,PRECISION"))
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # threads do not outlive a fork
    reference.compute_nothing()
    zoo.asking_no_device()
    leave_weights()
    import_once()
    if args.events:
        name, way, setting = args.events
        batch, precision = setting.split(",")
        return record(args.out, name, networks([name])[name], way, (int(batch), precision))
    measure(args.out, args.ways, args.networks)


if __name__ == "__main__":
    main()
