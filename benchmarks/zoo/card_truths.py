"""What the zoo's models take on the card at hand: unchanged PyTorch, random values, cuDNN and all.

    card_truths.py OUT.jsonl [FAMILY...] [--jobs N] [--seconds S] [--events EVENTS.jsonl]

Lines are those of truths.py; the first one has the card and the versions.  Families run side by
side, N at a time, which the figures allow, as they are the allocator's, of one process each.  Those
that S seconds do not see begin are left out.  A family's runs share a process, whose allocator is
empty before each; where a run leaves something behind, the next ones have their own.  --events
writes what was allocated and freed in each run's first two steps, in recorder.py's words.
"""

import argparse
import copy
import gc
import json
import logging
import multiprocessing
import os
import random
import sys
import time
import traceback
import warnings
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "accuracy"), str(HERE.parent / "recurrent")]
import networks as recurrent  # noqa: E402
import on_card  # noqa: E402
import recorder  # noqa: E402

import truths  # noqa: E402
from family import LOSSES, target_like  # noqa: E402
from registry import rooms_of, zoo  # noqa: E402

reference = truths.reference
RECORDED_STEPS = 2


# --- One run -----------------------------------------------------------------------------------

class Runner:
    """The reference loop (estimator/training/training.h) of one family, each run of a copy."""

    def __init__(self, name, family):
        self.name, self.family = name, family
        self.module = family.build()
        self.loop = truths.Loop(family)
        self.target = None

    def model(self, dtype, mode):
        model = copy.deepcopy(self.module)
        if dtype != torch.float32:  # complex numbers stay where nothing is asked
            model = model.to(dtype)
        return model.to("cuda").train(mode == "train")

    def inputs(self, batch, dtype):
        return truths.with_values(self.family.inputs(batch, "cuda", dtype))

    def find_target(self):
        """The shape behind the batch, and whether it has classes."""
        model = self.model(torch.float32, "train")
        with torch.no_grad():
            output = self.loop.forward(model, self.inputs(2, torch.float32))
        target = target_like(output, self.family.loss)
        self.target = (tuple(target.shape[1:]), target.dtype == torch.long)

    def batch(self, size, dtype):
        shape, has_classes = self.target
        return {**self.inputs(size, dtype),
                "y": torch.zeros(size, *shape, device="cuda",
                                 dtype=torch.long if has_classes else dtype)}

    def steps(self, setting):
        """Figures of each step, and the words of the first two."""
        size, precision, optimizer_name, mode = setting
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        model = self.model(dtype, mode)

        def autocast():
            return torch.autocast("cuda", torch.bfloat16, enabled=precision == "amp-bf16")

        def make_batch():
            return self.batch(size, dtype)
        if mode == "eval":
            return reference.infer(self.loop, model, make_batch, autocast)
        return reference.train(self.loop, model, make_batch, autocast,
                               reference.make_optimizer(optimizer_name, model),
                               torch.amp.GradScaler("cuda", enabled=False))

    def run(self, setting, recording):
        """The line of truths.py, and the words."""
        batch, precision, optimizer, mode = setting
        line = {"model": self.name, "batch": batch, "precision": precision,
                "optimizer": optimizer, "mode": mode,
                "flags": "--loss mse" if self.family.loss == "mse" else ""}
        words = []
        if recording:
            recorder.start()
        steps = []
        for step in self.steps(setting):
            steps.append(step)
            if recording and len(steps) == RECORDED_STEPS:
                words = words_of(recorder.entries())
                torch.cuda.memory._record_memory_history(enabled=None)
        if torch.cuda.memory_stats()["num_alloc_retries"]:
            raise RuntimeError("memory was short: the card is too small for a truth")
        return {**line, "steps": steps}, words


def words_of(entries):
    written = recorder.Recorder()
    return " ".join(filter(None, map(written.word, entries)))


# --- Processes ---------------------------------------------------------------------------------

def give_back():
    """True where the allocator has nothing left of what ran before."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved() == 0


class Output:
    """Lines of several processes in one file: each is written at once."""

    def __init__(self, path, events):
        self.path, self.events = path, events

    def add(self, line, words=""):
        append(self.path, line)
        if self.events and words:
            append(self.events, {name: line[name] for name in
                                 ("model", "batch", "precision", "optimizer", "mode")}
                   | {"events": words})


def append(path, line):
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")


def run_from(runner, settings, output):
    """Runs until one leaves something behind; how many were run."""
    for count, setting in enumerate(settings, 1):
        try:
            output.add(*runner.run(setting, output.events))
        except Exception as error:  # told in the line, the list goes on
            output.add(failed(runner.name, setting, error))
            return count
        if not give_back():
            return count
    return len(settings)


def failed(name, setting, error):
    return {"model": name, "setting": setting,
            "error": "".join(traceback.format_exception_only(error))[:300]}


def in_own_process(work):
    """What work() returns, -1 where it fails."""
    reading, writing = os.pipe()
    if not reference.in_own_process(lambda: os.write(writing, json.dumps(work()).encode())):
        os.close(writing)
        return -1
    os.close(writing)
    with os.fdopen(reading) as answer:
        return json.load(answer)


def measure(name, family, settings, output):
    """All runs of a family."""
    runner = Runner(name, family)

    def first():
        runner.find_target()
        shape, has_classes = runner.target
        return [list(shape), has_classes, give_back() and run_from(runner, settings, output)]
    found = in_own_process(first)
    if found == -1:
        return output.add(failed(name, "", RuntimeError("no run")))
    runner.target, done = (found[0], found[1]), int(found[2])
    while done < len(settings):
        more = in_own_process(lambda: run_from(runner, settings[done:], output))
        if more == -1:
            output.add(failed(name, settings[done], RuntimeError("process ended")))
        done += max(more, 1)


def work_through(queue, output, end):
    """A worker: families by name, built as they come."""
    while time.time() < end:
        name = queue.get()
        if name is None:
            return
        begin = time.time()
        try:
            families = recurrent.families() if name.startswith("recurrent.") else zoo([name])
            family = families[name.removeprefix("recurrent.")]
            measure(name, family, truths.SETTINGS, output)
        except Exception as error:
            output.add(failed(name, "", error))
        print(f"{time.time() - begin:5.1f} s {name}", flush=True)


def names_wanted(names):
    """In an order of chance, so that what a limit leaves out is of every kind."""
    names = names or [*zoo(), *("recurrent." + name for name in recurrent.families())]
    random.Random(0).shuffle(names)
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--events", type=Path)
    args = parser.parse_args()
    end = time.time() + args.seconds
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # threads do not outlive a fork
    truths.asking_no_device()
    output = Output(args.out, args.events)
    output.add({"line": "card", **on_card.in_own_process(on_card.card)})
    list(rooms_of(()))  # libraries are imported once, before any process
    queue = multiprocessing.get_context("fork").SimpleQueue()
    workers = [multiprocessing.get_context("fork").Process(
        target=work_through, args=(queue, output, end)) for _ in range(args.jobs)]
    for worker in workers:
        worker.start()
    for name in [*names_wanted(args.families), *[None] * args.jobs]:
        queue.put(name)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
