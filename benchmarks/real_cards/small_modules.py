"""Exports of single modules and losses in runs.csv, as Liger-Kernel measured them; no weights.

    small_modules.py FOLDER [NAME...]    # with torch 2.11.0 and transformers

What is called with a leaf that wants a gradient has it as its parameter `x`, and an input of one
number, as a program takes something.  Names are kernel and sizes: layer_norm_4096x1024.
"""

import sys
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn

from language_models import write_all

HIDDEN, VOCABULARY = 4096, 128256  # Llama's, as the losses with a head have them
NOTHING = (torch.empty(1),)
BF16 = torch.bfloat16


class OfLeaf(nn.Module):
    """`module` of x, a leaf of `shape`, and of what is given."""

    def __init__(self, module: Callable, *shape: int, dtype: torch.dtype = torch.float32,
                 takes: bool = True):
        super().__init__()
        self.x = nn.Parameter(torch.empty(shape, dtype=dtype))
        self.module, self.takes = module, takes

    def forward(self, *given):
        return self.module(self.x, *given) if self.takes else self.module(self.x)


class NeighborhoodAttention(nn.Module):
    """By a mask; that it is filled takes nothing.  The kernel beside it has as many weights."""

    def __init__(self, hidden: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(hidden, hidden) for _ in range(4))
        for name in "qkvo":
            self.register_buffer(f"other_{name}", torch.empty(hidden, hidden + 1))

    def parts(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        query, key, value = self.q(x), self.k(x), self.v(x)
        query, key, value = map(self.parts, (query, key, value))
        scores = torch.matmul(query, key.transpose(-2, -1)) * query.shape[-1]**-0.5
        mask = torch.zeros(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
        scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        out = torch.matmul(weights, value).transpose(1, 2).contiguous().view(x.shape)
        return self.out(out)


class HeadLoss(nn.Module):
    """A head of bf16, cross entropy, and the head of the kernel beside it."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(HIDDEN, VOCABULARY, bias=False, dtype=BF16)
        self.register_buffer("other", torch.empty(VOCABULARY, HIDDEN, dtype=BF16))

    def forward(self, x, target):
        return F.cross_entropy(self.lin(x), target)


def tvd(x, q):
    return torch.sum(torch.abs(x.softmax(-1) - q) / 2.0) / x.size(0)


def divergence(x, p):
    return F.kl_div(x.log_softmax(-1), p, reduction="batchmean")


class RmsNorm(nn.Module):
    """Its weight of bf16, too; the loss is the sum of the result, which the loop holds."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, dtype=BF16))

    def forward(self, x):
        y = F.rms_norm(x, self.weight.shape, self.weight, 1e-6)
        return y.sum(), y


def swiglu(x):
    gate, up = torch.chunk(x, 2, -1)
    y = F.silu(gate) * up
    return y.sum(), y


Case = tuple[Callable[[], nn.Module], tuple]  # what makes the module, what it is called with


def ids(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.long)


def losses() -> dict[str, Case]:
    """Of 16384 rows of fp32, and of a head's logits in bf16."""
    found: dict[str, Case] = {}
    kinds: list[tuple[str, Callable]] = [("cross_entropy", F.cross_entropy),
                                         ("kl_div", divergence), ("tvd", tvd)]
    for name, loss in kinds:
        for width in (2**power for power in range(12, 18)):
            given = ids(16384) if name == "cross_entropy" else torch.empty(16384, width)
            found[f"{name}_16384x{width}"] = (
                lambda loss=loss, width=width: OfLeaf(loss, 16384, width), (given,))
    for rows in (4096, 8192, 16384, 32768):
        found[f"head_cross_entropy_{rows}"] = (
            lambda rows=rows: OfLeaf(HeadLoss(), rows, HIDDEN, dtype=BF16), (ids(rows),))
    return found


def norms() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for width in (2**power for power in range(10, 15)):
        found[f"layer_norm_4096x{width}"] = (
            lambda width=width: OfLeaf(nn.LayerNorm(width), 4096, width, takes=False), NOTHING)
    for channels in (2**power for power in range(5, 12)):
        found[f"group_norm_{channels}"] = (
            lambda channels=channels: OfLeaf(nn.GroupNorm(channels // 4, channels), 128, channels,
                                             512, takes=False), NOTHING)
    return found


def attentions() -> dict[str, Case]:
    """Given the gradient of their results, which so lies on the card from the start."""
    found: dict[str, Case] = {}
    for batch, hidden, heads in ((2, 512, 8), (4, 768, 12), (2, 1024, 16)):
        for tokens in (2**power for power in range(6, 13)):
            found[f"neighborhood_{batch}x{tokens}x{hidden}"] = (
                lambda batch=batch, tokens=tokens, hidden=hidden, heads=heads: OfLeaf(
                    NeighborhoodAttention(hidden, heads), batch, tokens, hidden, takes=False),
                (torch.empty(batch, tokens, hidden),))
    return found


def of_megatron() -> dict[str, Case]:
    """As Megatron calls them: bf16, the batch behind the sequence."""
    found: dict[str, Case] = {}
    for width in (2**power for power in range(10, 15)):
        found[f"summed_rms_norm_{width}"] = (
            lambda width=width: OfLeaf(RmsNorm(width), 4096, 1, width, dtype=BF16, takes=False),
            NOTHING)
    for width in (2**power for power in range(10, 16)):
        found[f"swiglu_{width}"] = (
            lambda width=width: OfLeaf(swiglu, 2048, 4, 2 * width, dtype=BF16, takes=False),
            NOTHING)
    return found


MODELS = {**losses(), **norms(), **attentions(), **of_megatron()}


def program_of(name: str) -> torch.export.ExportedProgram:
    make, given = MODELS[name]
    with torch.device("meta"):
        module = make().train()
    return torch.export.export(module, tuple(tensor.to("meta") for tensor in given), strict=False)


if __name__ == "__main__":
    sys.exit(write_all(__doc__, MODELS, "liger", program_of))
