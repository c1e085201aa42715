"""One estimate of training memory by one estimator of PyTorch's, in this process.

    estimators.py ESTIMATOR MODEL    # prints {"peak_bytes": …, "own_seconds": …}
    estimators.py versions           # {"torch": …, "torchvision": …, "transformers": …}

Seconds are those behind the imports.  The model is built, trained for two steps by AdamW, and
dropped; the second step is the first that has the optimizer's state from its beginning.
"""

import argparse
import json
import os
import tempfile
import time
import weakref
from typing import Callable, NamedTuple

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

STEPS = 2


class Model(NamedTuple):
    load: Callable    # imports what builds it -> a function that does
    inputs: Callable  # () -> its input and the target


def load_resnet50():
    from torchvision.models import resnet50
    return resnet50


def load_gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return lambda: GPT2LMHeadModel(GPT2Config(use_cache=False))


def load_llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    return lambda: LlamaForCausalLM(LlamaConfig(use_cache=False))


def images():
    return torch.zeros(32, 3, 224, 224), torch.zeros(32, dtype=torch.long)


def tokens(batch, sequence):
    return lambda: (torch.zeros(batch, sequence, dtype=torch.long),
                    torch.zeros(batch, sequence, dtype=torch.long))


MODELS = {"resnet50": Model(load_resnet50, images), "gpt2": Model(load_gpt2, tokens(8, 512)),
          "llama_7b": Model(load_llama, tokens(1, 512))}


def optimizer_of(model):
    """As it runs on a card, where foreach is the default."""
    return torch.optim.AdamW(model.parameters(), foreach=True)


def loss_of(model, batch):
    x, y = batch
    output = model(x)
    logits = getattr(output, "logits", output)
    return F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))


def train_step(model, optimizer, batch):
    """The loop of benchmarks/accuracy, which holds no output during the backward pass."""
    loss_of(model, batch).backward()
    optimizer.step()
    optimizer.zero_grad()


def by_mem_tracker(build, inputs):
    """PyTorch's own tracker, which asks for its statistics to be dropped between two steps."""
    from torch.distributed._tools.mem_tracker import MemTracker
    peaks = []
    with FakeTensorMode():
        model, batch = build(), inputs()
        optimizer = optimizer_of(model)
        tracker = MemTracker()
        tracker.track_external(model, optimizer, *batch)
        with tracker:
            for _ in range(STEPS):
                train_step(model, optimizer, batch)
                peaks += [kinds["Total"] for kinds in tracker.get_tracker_snapshot("peak").values()]
                tracker.reset_mod_stats()
    return max(peaks)


class LiveBytes(TorchDispatchMode):
    """Sums the storages of all tensors that live, each once."""

    def __init__(self):
        super().__init__()
        self.storages, self.bytes, self.peak = {}, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tree_map_only(torch.Tensor, self.count, result)
        return result

    def count(self, tensor):
        storage = tensor.untyped_storage()
        key = id(storage)
        if key in self.storages:
            return
        size = storage.nbytes()
        self.storages[key] = weakref.ref(storage, lambda _: self.forget(key, size))
        self.bytes += size
        self.peak = max(self.peak, self.bytes)

    def forget(self, key, size):
        del self.storages[key]
        self.bytes -= size


def by_fake_tensors(build, inputs):
    """The least that such an estimator does: fake tensors, and a sum of those that live."""
    with FakeTensorMode(), LiveBytes() as live:
        model, batch = build(), inputs()
        optimizer = optimizer_of(model)
        for _ in range(STEPS):
            train_step(model, optimizer, batch)
    return live.peak


def by_profile(build, inputs):
    """No estimate: the file that xMem reads, of steps that are computed, with its own settings."""
    model, batch = build(), inputs()
    optimizer = optimizer_of(model)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                record_shapes=True, profile_memory=True, with_stack=True,
                                with_modules=True) as profile:
        for _ in range(STEPS):
            train_step(model, optimizer, batch)
    with tempfile.TemporaryDirectory() as folder:
        profile.export_chrome_trace(os.path.join(folder, "trace.json"))


ESTIMATORS = {"mem_tracker": by_mem_tracker, "fake_tensors": by_fake_tensors,
              "cpu_profile": by_profile}


def versions():
    import torchvision
    import transformers
    return {module.__name__: module.__version__.partition("+")[0]
            for module in (torch, torchvision, transformers)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("estimator", choices=[*ESTIMATORS, "versions"])
    parser.add_argument("model", choices=MODELS, nargs="?")
    args = parser.parse_args()
    if args.estimator == "versions":
        print(json.dumps(versions()))
        return
    build = MODELS[args.model].load()
    start = time.perf_counter()
    peak = ESTIMATORS[args.estimator](build, MODELS[args.model].inputs)
    print(json.dumps({"peak_bytes": peak, "own_seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
