"""What PyTorch's allocator counts of zoo_transformers.py's models: data/truth_transformers.json.xz.

    measure_transformers.py OUT.jsonl [MODEL...]           # every setting, a line each
    measure_transformers.py --events FOLDER [MODEL...]     # recordings for events.py, batch 2
    measure_transformers.py --attention eager OUT.jsonl [MODEL...]    # data/truth_attention.json.xz

Runs on "cuda", where each run is a process of its own.  The truths here are of the runtime that
README.md tells of, whose convolutions have no workspace.  Where a program waits for a value that
lies on the device, it is said: there, a runtime that computes nothing takes the way of zero.
"""

import argparse
import json
import os
import sys
import traceback

import torch
from transformers import masking_utils as masking

import without_cudnn
import zoo_transformers as zoo

SETTINGS = [(1, "fp32", "adamw", "train"), (5, "fp32", "adamw", "train"),
            (8, "fp32", "adamw", "train"), (8, "amp-bf16", "adamw", "train"),
            (8, "bf16", "adamw", "train"), (8, "amp-fp16", "adamw", "train"),
            (8, "fp32", "sgdm", "train"), (8, "fp32", "adamw", "eval")]
RECORDED = [(2, "fp32", "adamw", "train"), (2, "amp-bf16", "adamw", "train")]
INFERRING = [(1, "fp32", "adamw", "eval"), (8, "fp32", "adamw", "eval"),
             (8, "amp-bf16", "adamw", "eval"), (8, "bf16", "adamw", "eval")]
RECORDED_INFERRING = [(2, "fp32", "adamw", "eval"), (2, "amp-bf16", "adamw", "eval")]
AUTOCAST = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}
STEPS = 3


def answering(function, answer):
    """`function`, which asks the device, with the answer that a card gives for these batches."""
    def ask(*args):
        function(*args)
        return answer
    return ask


class Shown:
    """What a program asks of the values of masks: whether one hides no token.

    A host that has run the program answers, in the order of its questions; without one, all show.
    """
    def __init__(self):
        self.answers, self.next, self.is_host = [], 0, False

    def ask_host(self, work):
        """The answers that `work`, which runs the program where there are values, gets."""
        self.answers, self.is_host = [], True
        try:
            work()
        finally:
            self.is_host = False
        return self.answers

    def take(self, answers):
        self.answers, self.next = answers, 0

    def answering(self, function):
        """`function`, with its own answer on a host, and there that of the host."""
        def ask(padding_mask, kv_length, local_attention_size=None):
            answer = bool(function(padding_mask, kv_length, local_attention_size))
            if self.is_host:
                self.answers.append(answer)
                return answer
            if self.answers:
                self.next += 1
                return self.answers[(self.next - 1) % len(self.answers)]
            return local_attention_size is None or kv_length < local_attention_size
        return ask


SHOWN = Shown()


def every_place(mask):
    """torch.nonzero of a mask that is true everywhere: those of the batches here choose all."""
    return torch.empty(mask.dim(), mask.numel(), dtype=torch.long, device=mask.device).t()


def every_one(mask):
    """torch.all of a mask that is true everywhere, read by the host: what the card has is zero."""
    torch.empty((), dtype=torch.bool, device=mask.device)  # as large as its result
    return torch.ones((), dtype=torch.bool)


def compute_nothing():
    """For a runtime whose kernels do nothing: no cuDNN, and the branches that a card takes."""
    without_cudnn.register()
    without_cudnn.LIBRARY.impl("nonzero", every_place, "CUDA")
    torch.backends.cuda.enable_cudnn_sdp(False)
    masking.find_packed_sequence_indices = answering(masking.find_packed_sequence_indices, None)
    if not hasattr(masking, "fast_all"):  # transformers below 5
        without_cudnn.LIBRARY.impl("all", every_one, "CUDA")
        return
    masking.fast_all = answering(masking.fast_all, True)  # no token is padding
    masking._ignore_bidirectional_mask_sdpa = SHOWN.answering(
        masking._ignore_bidirectional_mask_sdpa)


def make_optimizer(name, model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=1e-3)
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def peak():
    return {"allocated": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.max_memory_reserved(),
            "requested": torch.cuda.memory_stats()["requested_bytes.all.peak"]}


def infer(spec, model, make_batch, autocast):
    for _ in range(STEPS):
        torch.cuda.reset_peak_memory_stats()
        with torch.no_grad(), autocast():
            batch = make_batch()
            out = spec.forward(model, batch)
        yield {"peak": peak()}


def train(spec, model, make_batch, autocast, optimizer, scaler):
    def loss_of(batch):
        out = spec.forward(model, batch)
        return spec.loss(out, batch["y"])
    for _ in range(STEPS):
        torch.cuda.reset_peak_memory_stats()
        batch = make_batch()
        optimizer.zero_grad()
        with autocast():
            loss = loss_of(batch)
        step = {"after_forward": torch.cuda.memory_allocated()}
        scaler.scale(loss).backward()
        step["after_backward"] = torch.cuda.memory_allocated()
        scaler.step(optimizer)
        scaler.update()
        yield {**step, "after_step": torch.cuda.memory_allocated(), "peak": peak()}


def flags_of(spec):
    """Those of onnxfit that ask for the model that was run."""
    return spec.flags if zoo.attention is None else f"--attention {zoo.attention} {spec.flags}".strip()


def run(name, batch_size, precision, optimizer_name, mode):
    """One run, as data/truth_transformers.json.xz has it."""
    spec = zoo.MODELS[name]
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = spec.build().to(dtype).to("cuda").train(mode == "train")
    truth = {"model": name, "batch": batch_size, "precision": precision,
             "optimizer": optimizer_name, "mode": mode, "flags": flags_of(spec),
             "params": sum(p.numel() for p in model.parameters()),
             "buffer_bytes": sum(b.numel() * b.element_size() for b in model.buffers())}

    def autocast():
        return torch.autocast("cuda", AUTOCAST.get(precision, torch.float16),
                              enabled=precision in AUTOCAST)

    def make_batch():
        return spec.inputs(batch_size, "cuda", dtype)
    if mode == "eval":
        truth["steps"] = list(infer(spec, model, make_batch, autocast))
        return truth
    optimizer = make_optimizer(optimizer_name, model)
    scaler = torch.amp.GradScaler("cuda", enabled=precision == "amp-fp16")
    truth["steps"] = list(train(spec, model, make_batch, autocast, optimizer, scaler))
    truth["opt_state_bytes"] = sum(
        t.numel() * t.element_size() for state in optimizer.state.values()
        for t in state.values() if torch.is_tensor(t) and t.is_cuda)
    return truth


def record(folder, name, setting):
    torch.cuda.memory._record_memory_history(max_entries=1000000, stacks="python")
    torch.cuda.set_sync_debug_mode("warn")
    truth = run(name, *setting)
    rows = [[e["action"], e["size"], e["addr"],
             [f'{f["filename"].rsplit("/", 1)[-1]}:{f["line"]}:{f["name"]}'
              for f in e.get("frames", [])[:12]]]
            for e in torch.cuda.memory._snapshot()["device_traces"][0]]
    with open(f"{folder}/{name}.b{setting[0]}.{setting[1]}.json", "w") as file:
        json.dump({"truth": truth, "events": rows}, file)


def in_own_process(work):
    """CUDA's state and the allocator's are those of a new process each time."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    code = 1
    try:
        work()
        code = 0
    except Exception:
        print("".join(traceback.format_exc().splitlines(True)[-6:]), file=sys.stderr)
    sys.stdout.flush()
    os._exit(code)


def settings_of(name, recorded):
    if zoo.MODELS[name].only_infers:
        return RECORDED_INFERRING if recorded else INFERRING
    return RECORDED if recorded else SETTINGS


def append(path, name, setting):
    truth = run(name, *setting)
    if torch.cuda.memory_stats()["num_alloc_retries"]:
        raise RuntimeError("memory was short: the card is too small for a truth")
    with open(path, "a") as file:
        file.write(json.dumps(truth) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--attention", choices=["eager"], help="instead of sdpa")
    args = parser.parse_args()
    zoo.attention = args.attention
    torch.set_num_threads(1)  # threads do not outlive a fork
    compute_nothing()
    for name in args.models or zoo.MODELS:
        for setting in settings_of(name, args.events):
            work = record if args.events else append
            if not in_own_process(lambda: work(args.out, name, setting)):
                print("failed:", name, *setting, flush=True)
        print(name, flush=True)


if __name__ == "__main__":
    main()
