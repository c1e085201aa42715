"""One training run on the card at hand, in a process of its own: workspaces of cuBLAS and what
cuDNN keeps last as long as their process.

    python -m onnxfit._card_run card                     # the card and its libraries
    python -m onnxfit._card_run gpt2 4 amp-bf16          # three steps

Writes one line of JSON, the last of what it writes.  Bytes, all of them.  `outside` is what the
device counts as used beyond the allocator's segments (cudaMemGetInfo's total - free - reserved): of
a process that is alone on its card the CUDA context, its kernels and libraries."""

from __future__ import annotations

import contextlib
import json
import platform
import sys
from importlib import metadata
from typing import Any, Dict, Iterator, List

from onnxfit import _networks

STEPS = 3
LIBRARIES = ("torch", "torchvision", "transformers")


def _outside() -> int:
    import torch
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


def _versions() -> Dict[str, str]:
    """Of what is installed, with the CUDA and cuDNN that torch brought."""
    import torch
    found = {"cuda": str(torch.version.cuda)}
    with contextlib.suppress(RuntimeError):  # another cuDNN is in the way
        found["cudnn"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def card() -> Dict[str, Any]:
    """The card, what a first tensor takes there, and the versions of what runs on it."""
    import torch
    properties = torch.cuda.get_device_properties(0)
    torch.empty(1, device="cuda")
    return {"name": properties.name, "compute_capability": 10 * properties.major + properties.minor,
            "multiprocessors": properties.multi_processor_count,
            "total_bytes": torch.cuda.mem_get_info()[1],
            "outside_bytes": _outside(), "system": platform.platform(), "versions": _versions()}


def _steps(network: _networks.Network, module: Any, batch: int, precision: str) -> Iterator[int]:
    """The loop that an estimate is of.  Yields what lies outside of the allocator, part by part."""
    import torch
    optimizer = torch.optim.AdamW(module.parameters())
    for _ in range(STEPS):
        inputs, labels = _networks.batch_of(network, batch, "cuda")
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "amp-bf16"):
            loss = _networks.loss_of(network, module, inputs, labels)
        yield _outside()
        loss.backward()  # type: ignore[no-untyped-call]
        yield _outside()
        optimizer.step()
        yield _outside()


def _peaks() -> Dict[str, int]:
    import torch
    stats = torch.cuda.memory_stats()
    return {"exact_bytes": stats["requested_bytes.all.peak"],
            "allocated_bytes": stats["allocated_bytes.all.peak"],
            "reserved_bytes": stats["reserved_bytes.all.peak"]}


def run(name: str, batch: int, precision: str) -> Dict[str, Any]:
    """Peaks of the whole run, or what the allocator said where the card is too small."""
    network = _networks.find(name)
    import torch
    module = network.build().to("cuda").train()
    try:
        outside = max(_steps(network, module, batch, precision))
    except torch.cuda.OutOfMemoryError as error:
        return {"out_of_memory": str(error)}
    peaks = _peaks()
    retries = torch.cuda.memory_stats().get("num_alloc_retries", 0)
    return {**peaks, "outside_bytes": outside, "retries": retries}


def main(words: List[str]) -> None:
    found = card() if words == ["card"] else run(words[0], int(words[1]), words[2])
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
