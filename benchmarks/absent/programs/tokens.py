"""A loop as people train a GPT of their own: tokens in a mapped file, accumulation, evaluation, checkpoints."""
import math

import numpy
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.before(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.wide(self.between(x))


class Network(nn.Module):
    def __init__(self, words=5000, width=384, heads=6, depth=6, length=256):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        return self.head(self.blocks(self.word(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))))


def batch():
    start = torch.randint(len(data) - 257, (12,))
    rows = torch.stack([torch.from_numpy(data[i:i + 257].astype(numpy.int64)) for i in start])
    rows = rows.pin_memory().to("cuda", non_blocking=True)
    return rows[:, :-1], rows[:, 1:]


def loss_of(x, y):
    with torch.autocast("cuda", torch.bfloat16):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


torch.manual_seed(0)
numpy.random.default_rng(0).integers(0, 5000, 100_000, dtype=numpy.uint16).tofile("tokens.bin")
data = numpy.memmap("tokens.bin", dtype=numpy.uint16, mode="r")
model = Network().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
best = math.inf
for step in range(6):
    if step % 3 == 0:
        with torch.no_grad():
            best = min(best, sum(loss_of(*batch()).item() for _ in range(4)) / 4)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "ckpt.pt")
    for _ in range(2):
        (loss_of(*batch()) / 2).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
assert 0 < best < math.inf
assert torch.load("ckpt.pt")["model"].keys() == model.state_dict().keys()
