"""Trains a model of models.py on batches whose lengths differ, and tells what is reserved behind each step,
and in which it runs out of memory, if it does.

    onnxfit run -g a100-80gb --memory 400GiB -- python trains.py NAME LENGTHS.txt OUT.json    # as series.py starts it
"""

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from models import BATCH, made  # noqa: E402


def train(model, lengths, reserved):
    """Puts what is reserved behind each step into `reserved`."""
    optimizer = torch.optim.AdamW(model.parameters())
    for length in lengths:
        tokens = torch.zeros(BATCH, length, dtype=torch.long, device="cuda")
        optimizer.zero_grad()
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        reserved.append(torch.cuda.memory_reserved())


def main():
    name, lengths, out = sys.argv[1:]
    reserved, death = [], None
    try:
        train(made(name).cuda(), map(int, Path(lengths).read_text().split()), reserved)
    except torch.OutOfMemoryError:
        death = len(reserved) + 1
    free, total = torch.cuda.mem_get_info()
    told = {"reserved": reserved, "death": death, "allocated": torch.cuda.max_memory_allocated(),
            "context": total - free - torch.cuda.memory_reserved()}
    Path(out).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
