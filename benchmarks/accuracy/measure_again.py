"""Measures runs of data/truth*.json.xz again: settings and flags are theirs, figures are counted anew.

    measure_again.py data/truth_loops.json.xz OUT.jsonl MODEL...

Of the networks of zoo.py, by name; of truth.json.xz, truth_loops.json.xz and truth_optimizers.json.xz,
with the PyTorch at hand.  Runs on "cuda", on the runtime that README.md tells of.
"""

import argparse
import copy
import fnmatch
import json
import lzma
import os

import torch
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import measure_transformers as reference
import zoo

AUTOCAST = reference.AUTOCAST
WEIGHTS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
OPTIMIZERS = {"sgd": (torch.optim.SGD, {}), "sgdm": (torch.optim.SGD, {"momentum": 0.9}),
              "adam": (torch.optim.Adam, {}), "adamw": (torch.optim.AdamW, {}),
              "rmsprop": (torch.optim.RMSprop, {}), "adagrad": (torch.optim.Adagrad, {}),
              "adafactor": (torch.optim.Adafactor, {})}


def flags_of(text):
    parser = argparse.ArgumentParser()
    parser.add_argument("--zero-grad", default="before-forward")
    parser.add_argument("--hold-outputs", action="store_true")
    parser.add_argument("--prefetch", type=int, default=0)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--freeze", action="append", default=[])
    parser.add_argument("--optimizer-impl")
    parser.add_argument("--clip-grad", action="store_true")
    parser.add_argument("--ema", action="store_true")
    return parser.parse_args([word.strip("'") for word in text.split()])


def make_optimizer(run, flags, parameters):
    make, options = OPTIMIZERS[run["optimizer"]]
    if flags.optimizer_impl:
        options = {**options, "foreach": flags.optimizer_impl == "foreach"}
    if flags.optimizer_impl == "fused":
        options |= {"fused": True, "foreach": None}
    return make(parameters, lr=1e-3, **options)


class Loop:
    """The reference loop (estimator/training/training.h) with a run's flags."""

    def __init__(self, run):
        self.run, self.flags = run, flags_of(run.get("flags", ""))
        self.network = zoo.NETWORKS[run["model"]]
        self.dtype = WEIGHTS.get(run["precision"], torch.float32)
        self.model = self.network.build().to(self.dtype).to("cuda")
        self.model.train(run["mode"] == "train")
        for name, parameter in self.model.named_parameters():
            if any(fnmatch.fnmatchcase(name, glob) for glob in self.flags.freeze):
                parameter.requires_grad_(False)
        self.ahead = []

    def batch(self):
        self.ahead.append(self.network.batch(self.run["batch"], "cuda", self.dtype))
        return self.ahead.pop(0)

    def autocast(self):
        precision = self.run["precision"]
        return torch.autocast("cuda", AUTOCAST.get(precision, torch.float16),
                              enabled=precision in AUTOCAST)

    def loss(self, out, labels):
        loss = F.cross_entropy(out, labels)
        return loss / self.flags.accumulate if self.flags.accumulate > 1 else loss

    def steps(self):
        if self.run["mode"] == "eval":
            return list(self.inferences())
        return list(self.training())

    def inferences(self):
        for _ in range(reference.STEPS):
            torch.cuda.reset_peak_memory_stats()
            with torch.no_grad(), self.autocast():
                x, _ = self.batch()
                out = self.model(x)
            yield {"peak": reference.peak()}

    def training(self):
        flags, model = self.flags, self.model
        parameters = [p for p in model.parameters() if p.requires_grad]
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999),
                                use_buffers=True) if flags.ema else None
        optimizer = make_optimizer(self.run, flags, parameters)
        scaler = torch.amp.GradScaler("cuda", enabled=self.run["precision"] == "amp-fp16")
        for _ in range(flags.prefetch):
            self.ahead.append(self.network.batch(self.run["batch"], "cuda", self.dtype))
        for _ in range(reference.STEPS):
            torch.cuda.reset_peak_memory_stats()
            for i in range(flags.accumulate):
                x, labels = self.batch()
                if i == 0 and flags.zero_grad != "before-backward":
                    optimizer.zero_grad(set_to_none=flags.zero_grad != "keep")
                with self.autocast():
                    if flags.hold_outputs:
                        out = model(x)
                        loss = self.loss(out, labels)
                    else:
                        loss = self.loss(model(x), labels)
                step = {"after_forward": torch.cuda.memory_allocated()}
                if i == 0 and flags.zero_grad == "before-backward":
                    optimizer.zero_grad()
                scaler.scale(loss).backward()
                step["after_backward"] = torch.cuda.memory_allocated()
            if flags.clip_grad:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            scaler.step(optimizer)
            scaler.update()
            if average is not None:
                average.update_parameters(model)
            yield {**step, "after_step": torch.cuda.memory_allocated(), "peak": reference.peak()}


def append(path, run):
    torch.backends.cuda.enable_cudnn_sdp(False)
    with open(path, "a") as file:
        file.write(json.dumps({**run, "steps": Loop(copy.copy(run)).steps()}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truths")
    parser.add_argument("out")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    torch.set_num_threads(1)  # threads do not outlive a fork
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    reference.compute_nothing()
    with lzma.open(args.truths, "rt") as file:
        runs = [run for run in json.load(file) if run["model"] in args.models]
    for run in runs:
        if not reference.in_own_process(lambda: append(args.out, run)):
            print("failed:", run["model"], run.get("flags", ""), flush=True)


if __name__ == "__main__":
    main()
