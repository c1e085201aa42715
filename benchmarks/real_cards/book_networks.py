"""Exports of the networks that rasbt's repositories measured, in runs.csv; no weights.

    book_networks.py FOLDER [NAME...]    # with torch 2.11.0 and torchvision 0.26.0

GPT of 124 million parameters, written anew: with all of it by hand (`stored` has the mask of each
block in a buffer), with PyTorch's classes, and with its attention, too.
"""

import math
import sys
from typing import Callable

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from language_models import write_all

WIDTH, HEADS, LAYERS, TOKENS, DROPOUT = 768, 12, 12, 1024, 0.1
WORDS = 50257


def future() -> torch.Tensor:
    return torch.triu(torch.ones(TOKENS, TOKENS), diagonal=1)


class WrittenNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        normed = (x - mean) / torch.sqrt(variance + 1e-5)
        return self.scale * normed + self.shift


class WrittenGelu(nn.Module):
    def forward(self, x):
        root = torch.sqrt(torch.tensor(2 / math.pi, device="cpu"))  # takes nothing of the card
        return 0.5 * x * (1 + torch.tanh(root * (x + 0.044715 * torch.pow(x, 3))))


class WrittenAttention(nn.Module):
    def __init__(self, stored: bool):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.register_buffer("mask", future() if stored else None)

    def hidden(self, tokens: int, device: torch.device) -> torch.Tensor:
        if self.mask is not None:
            return self.mask.bool()[:tokens, :tokens]
        return torch.triu(torch.ones(tokens, tokens, dtype=torch.bool, device=device), diagonal=1)

    def forward(self, x):
        count, tokens, _ = x.shape
        key, query, value = self.key(x), self.query(x), self.value(x)
        key, value, query = (part.view(count, tokens, HEADS, -1).transpose(1, 2)
                             for part in (key, value, query))
        scores = query @ key.transpose(2, 3)
        scores.masked_fill_(self.hidden(tokens, x.device), -torch.inf)
        weights = self.dropout(torch.softmax(scores / key.shape[-1]**0.5, dim=-1))
        mixed = (weights @ value).transpose(1, 2)
        mixed = mixed.reshape(count, tokens, WIDTH)
        return self.out(mixed)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        count, tokens, _ = x.shape
        parts = self.qkv(x).view(count, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=DROPOUT,
                                               is_causal=True)
        mixed = mixed.transpose(1, 2).contiguous().view(count, tokens, WIDTH)
        return self.out(mixed)


class Block(nn.Module):
    def __init__(self, attention: nn.Module, norm: Callable, gelu: nn.Module):
        super().__init__()
        self.norm1, self.norm2 = norm(WIDTH), norm(WIDTH)
        self.attention = attention
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), gelu, nn.Linear(4 * WIDTH, WIDTH))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        shortcut = x
        x = self.norm1(x)
        x = self.attention(x)
        x = self.dropout(x)
        x = x + shortcut
        shortcut = x
        x = self.norm2(x)
        x = self.feed(x)
        x = self.dropout(x)
        x = x + shortcut
        return x


class Gpt(nn.Module):
    def __init__(self, attention: Callable, norm: Callable, gelu: Callable, words: int = WORDS):
        super().__init__()
        self.words, self.places = nn.Embedding(words, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(*(Block(attention(), norm, gelu()) for _ in range(LAYERS)))
        self.norm = norm(WIDTH)
        self.head = nn.Linear(WIDTH, words, bias=False)

    def forward(self, tokens):
        words = self.words(tokens)
        places = self.places(torch.arange(tokens.shape[1], device=tokens.device))
        x = words + places
        x = self.dropout(x)
        x = self.blocks(x)
        x = self.norm(x)
        return self.head(x)


def gelu() -> nn.Module:
    return nn.GELU(approximate="tanh")


def vit(name: str, size: int = 224) -> nn.Module:
    model = getattr(torchvision.models, name)(image_size=size)
    model.heads.head = nn.Linear(model.heads.head.in_features, 10)
    return model


GPTS = {
    "gpt_stored": lambda: Gpt(lambda: WrittenAttention(True), WrittenNorm, WrittenGelu),
    "gpt_written": lambda: Gpt(lambda: WrittenAttention(False), WrittenNorm, WrittenGelu),
    "gpt_classes": lambda: Gpt(lambda: WrittenAttention(False), nn.LayerNorm, gelu),
    "gpt_sdpa": lambda: Gpt(Attention, nn.LayerNorm, gelu),
    "gpt_sdpa_50304": lambda: Gpt(Attention, nn.LayerNorm, gelu, 50304),
}
VITS = {name: lambda name=name: vit(name) for name in ("vit_b_16", "vit_l_16")}
MODELS = {**GPTS, **VITS}


def inputs_of(name: str) -> torch.Tensor:
    if name in GPTS:
        return torch.zeros(2, TOKENS, dtype=torch.long, device="meta")
    return torch.empty(2, 3, 224, 224, device="meta")


def program_of(name: str) -> torch.export.ExportedProgram:
    model = MODELS[name]().train().to("meta")
    batch = torch.export.Dim.DYNAMIC
    return torch.export.export(model, (inputs_of(name),), dynamic_shapes=({0: batch},),
                               strict=False)


if __name__ == "__main__":
    sys.exit(write_all(__doc__, MODELS, "book", program_of))
