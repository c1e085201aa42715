"""Networks that every version of PyTorch from 1.13 on can train: torchvision's, and attention in the
forms that came and went.  truths.py runs and exports them.
"""

import math
from typing import Callable, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

WORDS, LENGTH, WIDTH, HEADS, LAYERS = 2000, 100, 256, 4, 3


class Network(NamedTuple):
    build: Callable
    inputs: Callable  # (batch, device) -> a tensor
    batches: tuple
    needs_sdpa: bool = False  # which came with 2.0


def ids(batch, device):
    return torch.zeros(batch, LENGTH, dtype=torch.long, device=device)


def picture(side):
    return lambda batch, device: torch.zeros(batch, 3, side, side, device=device)


class Eager(nn.Module):
    """Attention as programs wrote it before there was a function for it."""

    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("seen", torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool)))

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~self.seen, float("-inf"))
        return self.dropout(F.softmax(scores, dim=-1)) @ v


class Fused(nn.Module):
    """kind: "plain", "causal" or "masked"; with dropout of attention, or without."""

    def __init__(self, kind, dropout):
        super().__init__()
        self.kind, self.dropout = kind, dropout
        self.register_buffer("seen", torch.ones(LENGTH, LENGTH, dtype=torch.bool))

    def forward(self, q, k, v):
        mask = self.seen if self.kind == "masked" else None
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout,
                                              is_causal=self.kind == "causal")


class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.attention = attention
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                 nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (t.view(batch, length, HEADS, width // HEADS).transpose(1, 2)
                   for t in (q, k, v))
        y = self.attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(y)
        return x + self.mlp(self.norm2(x))


class Words(nn.Module):
    """A transformer that tells the class of a text."""

    def __init__(self, attention):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.register_buffer("numbers", torch.arange(LENGTH))
        self.blocks = nn.Sequential(*(Block(attention()) for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1000)

    def forward(self, x):
        x = self.words(x) + self.places(self.numbers)
        return self.head(self.norm(self.blocks(x)).mean(1))


def torchvision_of(name):
    def build():
        import torchvision
        return getattr(torchvision.models, name)()
    return build


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2048), nn.ReLU(), nn.Dropout(0.5),
                         nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1000))


NETWORKS = {
    "mlp": Network(mlp, picture(32), (8, 512)),
    "resnet18": Network(torchvision_of("resnet18"), picture(224), (2, 9)),
    "vgg11": Network(torchvision_of("vgg11"), picture(224), (2, 9)),
    "mobilenet_v2": Network(torchvision_of("mobilenet_v2"), picture(224), (2, 9)),
    "convnext_tiny": Network(torchvision_of("convnext_tiny"), picture(224), (2, 9)),
    "vit_b_16": Network(torchvision_of("vit_b_16"), picture(224), (2, 9)),
    "eager_attention": Network(lambda: Words(Eager), ids, (4, 33)),
    **{f"{kind}_attention{'_with_dropout' if dropout else ''}":
       Network(lambda kind=kind, dropout=dropout: Words(lambda: Fused(kind, dropout)), ids,
               (4, 33), needs_sdpa=True)
       for kind, dropout in [("plain", 0), ("plain", 0.1), ("causal", 0.1), ("masked", 0.1)]},
}
