"""Trains a model of models.py on batches whose lengths differ, and tells what is reserved behind each step.

    onnxfit run -g a100-80gb --memory 400GiB -- python trains.py NAME LENGTHS.txt OUT.json    # as series.py starts it
"""

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from models import BATCH, made  # noqa: E402


def main():
    name, lengths, out = sys.argv[1:]
    model = made(name).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    reserved = []
    for length in map(int, Path(lengths).read_text().split()):
        tokens = torch.zeros(BATCH, length, dtype=torch.long, device="cuda")
        optimizer.zero_grad()
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        reserved.append(torch.cuda.memory_reserved())
    Path(out).write_text(json.dumps(reserved))


if __name__ == "__main__":
    main()
