"""Exports of DINO's training step (github.com/facebookresearch/dino) in runs.csv; no weights.

    dino_networks.py FOLDER [NAME...]    # with torch 2.11.0

ViT-S/16, written anew: a teacher of two large crops, a student of all ten, and the loss between them,
whose center is renewed.  `thawed` trains the gains of the last layer, too.
"""

import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

from language_models import write_all

WIDTH, HEADS, LAYERS, PATCH = 384, 6, 12, 16
SAMPLES, LARGE, SMALL = 64, 224, 96  # pictures of a card, sizes of crops
LARGE_CROPS, SMALL_CROPS = 2, 8
RESULTS, HIDDEN, BOTTLENECK = 65536, 2048, 256
DROPPED = 0.1  # paths, at the last block
STUDENT_TEMPERATURE, TEACHER_TEMPERATURE, MOMENTUM = 0.1, 0.04, 0.9


class DropPath(nn.Module):
    def __init__(self, share: float):
        super().__init__()
        self.kept = 1 - share

    def forward(self, x):
        if self.kept == 1 or not self.training:
            return x
        paths = self.kept + torch.rand((x.shape[0], 1, 1), dtype=x.dtype, device=x.device)
        paths.floor_()
        return x.div(self.kept) * paths


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        count, tokens, _ = x.shape
        parts = self.qkv(x).reshape(count, tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        weights = (query @ key.transpose(-2, -1)) * (WIDTH // HEADS)**-0.5
        weights = weights.softmax(dim=-1)
        return self.out((weights @ value).transpose(1, 2).reshape(count, tokens, WIDTH)), weights


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = self.into(x)
        x = F.gelu(x)
        return self.out(x)


class Block(nn.Module):
    def __init__(self, dropped: float):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.feed = Attention(), Feed()
        self.drop = DropPath(dropped)

    def forward(self, x):
        mixed, _weights = self.attention(self.norm1(x))
        x = x + self.drop(mixed)
        return x + self.drop(self.feed(self.norm2(x)))


class Backbone(nn.Module):
    def __init__(self, dropped: float):
        super().__init__()
        self.side = LARGE // PATCH
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.first = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.places = nn.Parameter(torch.zeros(1, self.side**2 + 1, WIDTH))
        self.blocks = nn.ModuleList(Block(dropped * i / (LAYERS - 1)) for i in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def places_of(self, side: int) -> torch.Tensor:
        if side == self.side:
            return self.places
        first, rest = self.places[:, 0], self.places[:, 1:]
        scale = (side + 0.1) / self.side
        rest = F.interpolate(
            rest.reshape(1, self.side, self.side, WIDTH).permute(0, 3, 1, 2),
            scale_factor=(scale, scale), mode="bicubic")
        rest = rest.permute(0, 2, 3, 1).view(1, -1, WIDTH)
        return torch.cat((first.unsqueeze(0), rest), dim=1)

    def forward(self, x):
        count, side = x.shape[0], x.shape[-1] // PATCH
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(count, -1, -1), x), dim=1)
        x = x + self.places_of(side)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)[:, 0]


class Network(nn.Module):
    def __init__(self, dropped: float, trains_gains: bool):
        super().__init__()
        self.backbone = Backbone(dropped)
        self.head = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN),
                                  nn.GELU(), nn.Linear(HIDDEN, BOTTLENECK))
        self.last = nn.utils.weight_norm(nn.Linear(BOTTLENECK, RESULTS, bias=False))
        self.last.weight_g.requires_grad = trains_gains

    def forward(self, *crops):
        found = torch.empty(0, device=crops[0].device)
        for size in sorted({crop.shape[-1] for crop in crops}, reverse=True):
            alike = torch.cat([crop for crop in crops if crop.shape[-1] == size])
            found = torch.cat((found, self.backbone(alike)))
        return self.last(F.normalize(self.head(found), dim=-1, p=2))


class Step(nn.Module):
    def __init__(self, trains_gains: bool):
        super().__init__()
        self.student = Network(DROPPED, trains_gains)
        self.teacher = Network(0.0, trains_gains).requires_grad_(False)
        self.register_buffer("center", torch.zeros(1, RESULTS))

    def forward(self, *crops):
        taught = self.teacher(*crops[:LARGE_CROPS])
        learnt = self.student(*crops)
        return self.loss(learnt, taught), taught, learnt

    def loss(self, learnt, taught):
        students = (learnt / STUDENT_TEMPERATURE).chunk(LARGE_CROPS + SMALL_CROPS)
        teachers = F.softmax((taught - self.center) / TEACHER_TEMPERATURE, dim=-1)
        teachers = teachers.detach().chunk(LARGE_CROPS)
        total, terms = 0, 0
        for i, teacher in enumerate(teachers):
            for j, student in enumerate(students):
                if i != j:
                    loss = torch.sum(-teacher * F.log_softmax(student, dim=-1), dim=-1)
                    total += loss.mean()
                    terms += 1
        total /= terms
        mean = torch.sum(taught, dim=0, keepdim=True) / len(taught)
        self.center.copy_(self.center * MOMENTUM + mean * (1 - MOMENTUM))
        return total


MODELS = {"vits16": False, "vits16_thawed": True}


def program_of(name: str) -> torch.export.ExportedProgram:
    step = Step(MODELS[name]).train().to("meta")
    crops = [torch.zeros(SAMPLES, 3, size, size, device="meta")
             for size in [LARGE] * LARGE_CROPS + [SMALL] * SMALL_CROPS]
    return torch.export.export(step, tuple(crops), strict=False)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(write_all(__doc__, MODELS, "dino", program_of))
