"""Exports of torchvision's networks on ImageNet's images in runs.csv; no weights.

    image_networks.py FOLDER [NAME...]    # with torch 2.11.0 and torchvision 0.26.0
"""

import sys

import torch
import torchvision

from language_models import write_all

MODELS = {name: getattr(torchvision.models, name) for name in ("resnet18", "alexnet", "vgg16")}


def program_of(name: str) -> torch.export.ExportedProgram:
    model = MODELS[name]().train().to("meta")
    images = torch.empty(2, 3, 224, 224, device="meta")
    batch = torch.export.Dim.DYNAMIC
    return torch.export.export(model, (images,), dynamic_shapes=({0: batch},), strict=False)


if __name__ == "__main__":
    sys.exit(write_all(__doc__, MODELS, "imagenet", program_of))
