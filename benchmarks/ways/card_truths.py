"""What training in each way takes on the card at hand: unchanged PyTorch and libraries, real values.

    card_truths.py OUT.jsonl [--ways WAY...] [--networks NETWORK...] [--precision P]
                   [--jobs N] [--seconds S]

Lines are those of truths.py; the first one has the card and the versions.  Each run is a process of
its own; networks go side by side, N at a time, which the allocator's figures allow.  What S seconds
do not see begin is left out.  `compiled` and `cuda-graphs` are torch.compile's (../compiled), with the
bytes of each of the allocator's pools at the end; --networks takes those of the zoo, too.
"""

import argparse
import importlib.util
import json
import logging
import multiprocessing
import random
import sys
import time
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

import networks as of_ways  # says where the modules of ../zoo and ../accuracy are
from table import WAYS, Way

import torch

import measure_transformers as reference
import on_card
from family import target_like
from registry import zoo

HERE = Path(__file__).resolve().parent


def ways_truths():
    """truths.py beside this file: ../zoo has one of that name, too."""
    spec = importlib.util.spec_from_file_location("ways_truths", HERE / "truths.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


truths = ways_truths()
COMPILED = [(16, "fp32"), (32, "amp-bf16")]
OF_CARDS = {"compiled": Way(model="compiled_here:plainly", settings=COMPILED),
            "cuda-graphs": Way(model="compiled_here:with_graphs", settings=COMPILED)}


def families(names):
    """{name: Family}: the networks of the ways, or those of the zoo that are named."""
    found = of_ways.networks(names)
    others = [name for name in names if name not in found]
    return {**found, **(zoo(others) if others else {})}


# --- One run ---------------------------------------------------------------------------------

def built_once(family):
    """Whose model is built before any process, and whose inputs have values."""
    module, made = family.build(), family.inputs
    return replace(family, build=lambda: module,
                   inputs=lambda *what: truths.zoo.with_values(made(*what)))


def find_target(family):
    """As truths.py has it, of a run on the card."""
    model = family.build().to("cuda").train()
    with torch.no_grad():
        output = truths.zoo.Loop(family).forward(model, family.inputs(2, "cuda", torch.float32))
    target = target_like(output, family.loss)
    return [list(target.shape), target.dtype == torch.long, []]


def pools():
    """{the pool of a CUDA graph, or 0.0: bytes of its segments, and of their blocks in use}."""
    found = {}
    for segment in torch.cuda.memory_snapshot():
        name = ".".join(map(str, segment["segment_pool_id"]))
        size, used = found.get(name, (0, 0))
        found[name] = (size + segment["total_size"], used + segment["allocated_size"])
    return found


def run(name, family, way_name, target, setting):
    line = {"model": name, "way": way_name, "batch": setting[0], "precision": setting[1]}
    begin = time.time()
    try:
        line |= truths.run(name, family, way_name, target, setting)
        line["pools"] = pools()
        if torch.cuda.memory_stats()["num_alloc_retries"]:
            line["error"] = "memory was short"
    except of_ways.NotForThis as reason:
        line["left_out"] = str(reason)
    except Exception as error:  # told in the line, the list goes on
        line["error"] = "".join(traceback.format_exception_only(error))[-400:]
    return {**line, "seconds": round(time.time() - begin, 1)}


def append(path, line):
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")


# --- All of them -----------------------------------------------------------------------------

def settings_of(way, precision):
    """Those of the precision, where the way has any."""
    return [setting for setting in way.settings if setting[1] == precision] or way.settings


def measure(path, name, family, ways, precision, end):
    """All runs of a network."""
    family = built_once(family)
    target = on_card.in_own_process(lambda: find_target(family))
    if isinstance(target, dict):
        return append(path, {"model": name, **target})
    for way_name in ways:
        way = WAYS[way_name]
        if way.networks and name not in way.networks:
            continue
        for setting in settings_of(way, precision):
            if time.time() > end:
                return
            if not reference.in_own_process(lambda: append(
                    path, run(name, family, way_name, target, setting))):
                append(path, {"model": name, "way": way_name, "batch": setting[0],
                              "precision": setting[1], "error": "the process ended"})


def work_through(queue, path, found, precision, end):
    """A worker: networks with their ways, until none is left."""
    while time.time() < end:
        job = queue.get()
        if job is None:
            return
        name, ways = job
        begin = time.time()
        try:
            measure(path, name, found[name], ways, precision, end)
        except Exception as error:
            append(path, {"model": name, "error": repr(error)[:400]})
        print(f"{time.time() - begin:5.1f} s {name} {len(ways)}", flush=True)


def jobs_of(names, ways):
    """What is compiled takes longest and is begun first; all else in an order of chance."""
    long = [way for way in ways if way in OF_CARDS]
    short = [way for way in ways if way not in OF_CARDS]
    random.Random(0).shuffle(names)
    return [(name, some) for some in (long, short) if some for name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, *OF_CARDS])
    parser.add_argument("--networks", nargs="+", default=[])
    parser.add_argument("--precision", default="", help="of runs; of ways that have it")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    end = time.time() + args.seconds
    WAYS.update(OF_CARDS)
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # threads do not outlive a fork
    truths.zoo.asking_no_device()
    truths.import_once()
    append(args.out, {"line": "card", **on_card.in_own_process(on_card.card)})
    found = families(args.networks)
    queue = multiprocessing.get_context("fork").SimpleQueue()
    workers = [multiprocessing.get_context("fork").Process(
        target=work_through, args=(queue, args.out, found, args.precision, end))
        for _ in range(args.jobs)]
    for worker in workers:
        worker.start()
    for job in [*jobs_of(list(found), args.ways or list(WAYS)), *[None] * args.jobs]:
        queue.put(job)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
