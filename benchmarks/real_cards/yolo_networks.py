"""Exports of the passes that Ultralytics' AutoBatch measures, in runs.csv; no weights.

    yolo_networks.py FOLDER [NAME...]    # with torch 2.11.0

A pass is forward and backward of the sum of all results, for 2, 4, 8 and 16 pictures, which are given
a gradient, too: they are a parameter here.  Networks beside the one that is measured lie on the card
(`beside`), as many as make what its first line says is allocated: AutoBatch measures a copy, and what
was read of a file may be there, too.  All passes are in one autocast, whose cache holds the casts of
its leaves, and so the pictures of the smaller batches, their gradients and casts (`kept`).  The
networks are written anew.
"""

import copy
import sys
from typing import NamedTuple

import torch
from torch import nn

from language_models import write_all

BATCHES = (2, 4, 8, 16)
ANCHORS = 3


class Network(NamedTuple):
    family: int
    width: float
    depth: float
    classes: int
    size: int
    beside: int  # copies


NETWORKS = {
    "5s_640": Network(5, 0.50, 0.33, 80, 640, 2),
    "8n_480": Network(8, 0.25, 0.33, 1, 480, 3),
    "8s_640": Network(8, 0.50, 0.33, 10, 640, 2),
}


class Convolution(nn.Module):
    def __init__(self, given: int, made: int, size: int = 1, stride: int = 1, padding=None):
        super().__init__()
        padding = size // 2 if padding is None else padding
        self.convolution = nn.Conv2d(given, made, size, stride, padding, bias=False)
        self.norm = nn.BatchNorm2d(made)
        self.activation = nn.SiLU()

    def forward(self, x):
        return self.activation(self.norm(self.convolution(x)))


class Bottleneck(nn.Module):
    def __init__(self, width: int, adds: bool):
        super().__init__()
        self.first, self.second = Convolution(width, width), Convolution(width, width, 3)
        self.adds = adds

    def forward(self, x):
        made = self.second(self.first(x))
        return x + made if self.adds else made


class CrossStage(nn.Module):
    """Bottlenecks on one half, put together with the other one."""

    def __init__(self, given: int, made: int, count: int, adds: bool = True):
        super().__init__()
        self.into, self.around = Convolution(given, made // 2), Convolution(given, made // 2)
        self.out = Convolution(made, made)
        self.bottlenecks = nn.Sequential(*(Bottleneck(made // 2, adds) for _ in range(count)))

    def forward(self, x):
        return self.out(torch.cat((self.bottlenecks(self.into(x)), self.around(x)), 1))


class Pools(nn.Module):
    def __init__(self, given: int, made: int):
        super().__init__()
        self.into, self.out = Convolution(given, given // 2), Convolution(given * 2, made)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        x = self.into(x)
        once = self.pool(x)
        twice = self.pool(once)
        return self.out(torch.cat((x, once, twice, self.pool(twice)), 1))


class Yolo5(nn.Module):
    """Of version 6.0."""

    def __init__(self, width: float, depth: float, classes: int):
        super().__init__()
        a, b, c, d, e = (int(width * channels) for channels in (64, 128, 256, 512, 1024))
        few, some, many = (round(depth * count) for count in (3, 6, 9))
        self.results = classes + 5
        self.stem = nn.Sequential(Convolution(3, a, 6, 2, 2), Convolution(a, b, 3, 2),
                                  CrossStage(b, b, few), Convolution(b, c, 3, 2),
                                  CrossStage(c, c, some))
        self.middle = nn.Sequential(Convolution(c, d, 3, 2), CrossStage(d, d, many))
        self.end = nn.Sequential(Convolution(d, e, 3, 2), CrossStage(e, e, few), Pools(e, e))
        self.up1, self.join1 = Convolution(e, d), CrossStage(e, d, few, False)
        self.up2, self.join2 = Convolution(d, c), CrossStage(d, c, few, False)
        self.down1, self.join3 = Convolution(c, c, 3, 2), CrossStage(d, d, few, False)
        self.down2, self.join4 = Convolution(d, d, 3, 2), CrossStage(e, e, few, False)
        self.larger = nn.Upsample(scale_factor=2)
        self.heads = nn.ModuleList(nn.Conv2d(channels, ANCHORS * self.results, 1)
                                   for channels in (c, d, e))

    def forward(self, x):
        fine = self.stem(x)
        middle = self.middle(fine)
        first = self.up1(self.end(middle))
        second = self.up2(self.join1(torch.cat((self.larger(first), middle), 1)))
        near = self.join2(torch.cat((self.larger(second), fine), 1))
        mid = self.join3(torch.cat((self.down1(near), second), 1))
        far = self.join4(torch.cat((self.down2(mid), first), 1))
        return [self.seen(head(level)) for head, level in zip(self.heads, (near, mid, far))]

    def seen(self, x):
        count, _, height, width = x.shape
        return x.view(count, ANCHORS, self.results, height, width).permute(
            0, 1, 3, 4, 2).contiguous()


class Bottleneck8(nn.Module):
    def __init__(self, width: int, adds: bool):
        super().__init__()
        self.first, self.second = Convolution(width, width, 3), Convolution(width, width, 3)
        self.adds = adds

    def forward(self, x):
        made = self.second(self.first(x))
        return x + made if self.adds else made


class Fast(nn.Module):
    """What each bottleneck makes is put together."""

    def __init__(self, given: int, made: int, count: int, adds: bool = False):
        super().__init__()
        self.into = Convolution(given, made)
        self.out = Convolution((2 + count) * (made // 2), made)
        self.bottlenecks = nn.ModuleList(Bottleneck8(made // 2, adds) for _ in range(count))

    def forward(self, x):
        parts = list(self.into(x).chunk(2, 1))
        for bottleneck in self.bottlenecks:
            parts.append(bottleneck(parts[-1]))
        return self.out(torch.cat(parts, 1))


def branch(given: int, width: int, made: int) -> nn.Module:
    return nn.Sequential(Convolution(given, width, 3), Convolution(width, width, 3),
                         nn.Conv2d(width, made, 1))


class Yolo8(nn.Module):
    """Of 2023, n and s."""

    def __init__(self, width: float, depth: float, classes: int):
        super().__init__()
        a, b, c, d, e = (int(width * channels) for channels in (64, 128, 256, 512, 1024))
        few, some = (round(depth * count) for count in (3, 6))
        self.stem = nn.Sequential(Convolution(3, a, 3, 2), Convolution(a, b, 3, 2),
                                  Fast(b, b, few, True), Convolution(b, c, 3, 2),
                                  Fast(c, c, some, True))
        self.middle = nn.Sequential(Convolution(c, d, 3, 2), Fast(d, d, some, True))
        self.end = nn.Sequential(Convolution(d, e, 3, 2), Fast(e, e, few, True), Pools(e, e))
        self.larger = nn.Upsample(scale_factor=2)
        self.join1, self.join2 = Fast(d + e, d, few), Fast(c + d, c, few)
        self.down1, self.join3 = Convolution(c, c, 3, 2), Fast(c + d, d, few)
        self.down2, self.join4 = Convolution(d, d, 3, 2), Fast(d + e, e, few)
        self.boxes = nn.ModuleList(branch(channels, max(16, c // 4, 64), 64)
                                   for channels in (c, d, e))
        self.classes = nn.ModuleList(branch(channels, max(c, min(classes, 100)), classes)
                                     for channels in (c, d, e))

    def forward(self, x):
        fine = self.stem(x)
        middle = self.middle(fine)
        end = self.end(middle)
        second = self.join1(torch.cat((self.larger(end), middle), 1))
        near = self.join2(torch.cat((self.larger(second), fine), 1))
        mid = self.join3(torch.cat((self.down1(near), second), 1))
        far = self.join4(torch.cat((self.down2(mid), end), 1))
        return [torch.cat((boxes(level), classes(level)), 1) for boxes, classes, level
                in zip(self.boxes, self.classes, (near, mid, far))]


class Pass(nn.Module):
    def __init__(self, network: nn.Module, batch: int, size: int, beside: int):
        super().__init__()
        self.network = network
        self.pictures = nn.Parameter(torch.empty(batch, 3, size, size))
        self.register_buffer("kept", torch.empty(batch - 1, 3, size, 5 * size // 2))
        self.beside = nn.ModuleList(copy.deepcopy(network) for _ in range(beside))
        self.beside.requires_grad_(False)

    def forward(self, nothing):
        results = self.network(self.pictures)
        total = sum(result.sum() for result in results)
        return total + nothing.sum(), *results


def network_of(name: str) -> nn.Module:
    described = NETWORKS[name]
    kind = Yolo8 if described.family == 8 else Yolo5
    return kind(described.width, described.depth, described.classes)


def program_of(name: str) -> torch.export.ExportedProgram:
    network, batch = name.rsplit("_", 1)
    described = NETWORKS[network]
    run = Pass(network_of(network), int(batch), described.size, described.beside).train().to("meta")
    return torch.export.export(run, (torch.zeros(1, device="meta"),), strict=False)


if __name__ == "__main__":
    sys.exit(write_all(__doc__, {f"{name}_{batch}": None for name in NETWORKS
                                 for batch in BATCHES}, "yolo", program_of))
