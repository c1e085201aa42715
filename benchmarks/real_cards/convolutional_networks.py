"""Exports of xMem's convolutional networks in runs.csv; no weights.

    convolutional_networks.py FOLDER [NAME...]    # with torch 2.11.0 and torchvision 0.26.0

torchvision's constructors with 1000 classes, but 10 of MNASNet and MobileNetV3, as that repository's
perf_estimator/models.py has them; images of CIFAR-10 resized to 86 x 86.
"""

import sys
from typing import Callable

import torch
from torchvision import models
from torchvision.models import mobilenetv3

from language_models import write_all

SIZE = 86


def mobilenet(size: str, last_channel: int) -> torch.nn.Module:
    settings, _ = mobilenetv3._mobilenet_v3_conf(f"mobilenet_v3_{size}")
    return models.MobileNetV3(settings, last_channel=last_channel, num_classes=10)


# By the repository's own names.
MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "VGG16": models.vgg16,
    "VGG19": models.vgg19,
    "ResNet101": models.resnet101,
    "ResNet152": models.resnet152,
    "MobileNetV2": models.mobilenet_v2,
    "MobeNetV3Small": lambda: mobilenet("small", 1024),
    "MobeNetV3Large": lambda: mobilenet("large", 1280),
    "MnasNet": lambda: models.MNASNet(alpha=1.0, num_classes=10),
    "ConvNeXtTiny": models.convnext_tiny,
    "ConvNeXtBase": models.convnext_base,
    "RegNetX400MF": models.regnet_x_400mf,
    "RegNetY400MF": models.regnet_y_400mf,
}


def program_of(name: str) -> torch.export.ExportedProgram:
    model = MODELS[name]().train().to("meta")
    images = torch.empty(2, 3, SIZE, SIZE, device="meta")
    batch = torch.export.Dim.DYNAMIC
    return torch.export.export(model, (images,), dynamic_shapes=({0: batch},), strict=False)


if __name__ == "__main__":
    sys.exit(write_all(__doc__, MODELS, "xmem", program_of))
