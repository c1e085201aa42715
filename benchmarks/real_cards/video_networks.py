"""Exports of MMAction2's recognizers in runs.csv, written anew from their configurations.

    video_networks.py FOLDER [NAME...]    # with torch 2.11.0; no weights

A name has the network, its depth, frames and classes: tsn_50_8x400.  Flow has ten channels.
"""

import sys
from typing import Callable

import torch
from torch import nn

from language_models import write_all

BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


def shifted(x: torch.Tensor, frames: int) -> torch.Tensor:
    """An eighth of the channels from the next frame, an eighth from the one before."""
    count, channels, height, width = x.shape
    x = x.view(-1, frames, channels, height * width)
    fold = channels // 8
    left, middle, right = x[:, :, :fold], x[:, :, fold:2 * fold], x[:, :, 2 * fold:]
    left = torch.cat((left[:, 1:], (left - left)[:, :1]), 1)
    middle = torch.cat(((middle - middle)[:, :1], middle[:, :-1]), 1)
    return torch.cat((left, middle, right), 2).view(count, channels, height, width)


class Bottleneck(nn.Module):
    """`time` is the first convolution's length in frames, 0 where images have none; a `shift` has
    their number."""

    def __init__(self, inner: int, planes: int, stride: int, time: int = 0, shift: int = 0):
        super().__init__()
        conv, norm = (nn.Conv3d, nn.BatchNorm3d) if time else (nn.Conv2d, nn.BatchNorm2d)
        first, middle, one = ([time, 1, 1], [1, 3, 3], [1, 1, 1]) if time else (1, 3, 1)
        padding = ([time // 2, 0, 0], [0, 1, 1]) if time else (0, 1)
        strides = (1, stride, stride) if time else stride
        self.conv1 = conv(inner, planes, first, padding=padding[0], bias=False)
        self.conv2 = conv(planes, planes, middle, strides, padding[1], bias=False)
        self.conv3 = conv(planes, 4 * planes, one, bias=False)
        self.norms = nn.ModuleList(norm(width) for width in (planes, planes, 4 * planes))
        self.relu = nn.ReLU(inplace=True)
        self.shift = shift
        self.downsample = None
        if inner != 4 * planes:
            self.downsample = nn.Sequential(conv(inner, 4 * planes, one, strides, bias=False),
                                            norm(4 * planes))

    def forward(self, x):
        out = self.conv1(shifted(x, self.shift) if self.shift else x)
        out = self.relu(self.norms[0](out))
        out = self.relu(self.norms[1](self.conv2(out)))
        out = self.norms[2](self.conv3(out))
        return self.relu(out + (self.downsample(x) if self.downsample else x))


def stages(depth: int, times: list[list[int]], shift: int = 0) -> list[nn.Module]:
    """`times` are each stage's first convolutions', repeated as often as it takes."""
    found, inner = [], 64
    for stage, count in enumerate(BLOCKS[depth]):
        planes = 64 * 2**stage
        every = 2 if depth == 101 else 1  # where deep, each second block is shifted
        blocks = [Bottleneck(inner if place == 0 else 4 * planes, planes,
                             2 if place == 0 and stage else 1,
                             times[stage][place % len(times[stage])],
                             shift if place % every == 0 else 0) for place in range(count)]
        found.append(nn.Sequential(*blocks))
        inner = 4 * planes
    return found


class OfFrames(nn.Module):
    """TSN, and TSM where `shift`: frames are images, and the head's answers their mean."""

    def __init__(self, depth: int, frames: int, classes: int, shift: bool, channels: int):
        super().__init__()
        self.frames = frames
        self.stem = nn.Sequential(nn.Conv2d(channels, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
                                  nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.stages = nn.Sequential(*stages(depth, [[0]] * 4, frames if shift else 0))
        self.pool, self.drop = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.4)
        self.fc = nn.Linear(2048, classes)
        self.shift = shift

    def forward(self, images):
        x = images.reshape(-1, *images.shape[2:])
        x = self.pool(self.stages(self.stem(x)))
        if self.shift:
            x = self.fc(self.drop(x.flatten(1)))
            return x.view(-1, self.frames, x.shape[1]).mean(1)
        x = x.reshape(-1, self.frames, *x.shape[1:]).mean(1)
        return self.fc(self.drop(x).flatten(1))


class OfClips(nn.Module):
    """SlowOnly, and I3D where time is made shorter."""

    def __init__(self, shorter: bool, classes: int, channels: int):
        super().__init__()
        step, kernel = (2, 5) if shorter else (1, 1)
        times = ([[3], [3, 1], [3, 1], [1, 3]] if shorter else [[1], [1], [3], [3]])
        self.stem = nn.Sequential(
            nn.Conv3d(channels, 64, (kernel, 7, 7), (step, 2, 2), (kernel // 2, 3, 3), bias=False),
            nn.BatchNorm3d(64), nn.ReLU(inplace=True),
            nn.MaxPool3d((1, 3, 3), (step, 2, 2), (0, 1, 1)))
        first, *rest = stages(50, times)
        pool = [nn.MaxPool3d((2, 1, 1), (2, 1, 1))] if shorter else []
        self.stages = nn.Sequential(first, *pool, *rest)
        self.pool, self.drop = nn.AdaptiveAvgPool3d(1), nn.Dropout(0.5)
        self.fc = nn.Linear(2048, classes)

    def forward(self, clips):
        x = clips.reshape(-1, *clips.shape[2:])
        x = self.pool(self.stages(self.stem(x)))
        return self.fc(self.drop(x).flatten(1))


class C3d(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        widths = [3, 64, 128, 256, 256, 512, 512, 512, 512]
        layers: list[nn.Module] = []
        for place, (inner, outer) in enumerate(zip(widths, widths[1:])):
            layers += [nn.Conv3d(inner, outer, 3, padding=1), nn.ReLU()]
            if place == 0:
                layers.append(nn.MaxPool3d((1, 2, 2), (1, 2, 2)))
            elif place in (1, 3, 5):
                layers.append(nn.MaxPool3d(2, 2))
        layers.append(nn.MaxPool3d(2, 2, padding=(0, 1, 1)))
        self.features = nn.Sequential(*layers)
        self.fc6, self.fc7 = nn.Linear(8192, 4096), nn.Linear(4096, 4096)
        self.relu, self.drop = nn.ReLU(), nn.Dropout(0.5)
        self.fc_cls = nn.Linear(4096, classes)

    def forward(self, clips):
        x = self.features(clips.reshape(-1, *clips.shape[2:])).flatten(1)
        x = self.drop(self.relu(self.fc6(x)))
        return self.fc_cls(self.drop(self.relu(self.fc7(x))))


Case = tuple[Callable[[], nn.Module], tuple[int, ...]]  # what makes it, one video's shape


def of_frames(depth: int, frames: int, classes: int, shift: bool, channels: int = 3) -> Case:
    return (lambda: OfFrames(depth, frames, classes, shift, channels),
            (frames, channels, 224, 224))


def of_clips(shorter: bool, frames: int, classes: int, channels: int = 3) -> Case:
    return lambda: OfClips(shorter, classes, channels), (1, channels, frames, 224, 224)


MODELS: dict[str, Case] = {
    **{f"tsn_50_{frames}x{classes}": of_frames(50, frames, classes, False)
       for frames, classes in ((3, 101), (3, 400), (6, 339), (8, 48), (8, 51), (8, 174), (8, 200),
                               (8, 400), (8, 600), (8, 700), (16, 48), (16, 174))},
    **{f"tsn_50_{frames}x{classes}_flow": of_frames(50, frames, classes, False, 10)
       for frames, classes in ((3, 400), (8, 400), (8, 200))},
    "tsn_101_5x313": of_frames(101, 5, 313, False),
    **{f"tsm_50_{frames}x{classes}": of_frames(50, frames, classes, True)
       for frames, classes in ((8, 48), (8, 51), (8, 101), (8, 174), (8, 400), (16, 51),
                               (16, 101), (16, 174), (16, 400))},
    "tsm_101_8x174": of_frames(101, 8, 174, True),
    **{f"slowonly_{frames}": of_clips(False, frames, 400) for frames in (4, 8)},
    "i3d_32": of_clips(True, 32, 400),
    "c3d_16": (lambda: C3d(101), (1, 3, 16, 112, 112)),
}


def program_of(name: str) -> torch.export.ExportedProgram:
    make, shape = MODELS[name]
    with torch.device("meta"):
        model = make().train()
    videos = torch.empty(2, *shape, device="meta")
    batch = torch.export.Dim.DYNAMIC
    return torch.export.export(model, (videos,), dynamic_shapes=({0: batch},), strict=False)


if __name__ == "__main__":
    sys.exit(write_all(__doc__, MODELS, "mmaction", program_of))
