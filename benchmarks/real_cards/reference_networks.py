"""Exports of what torchvision's reference scripts train, in runs.csv; no weights.

    reference_networks.py FOLDER [NAME...]    # with torch 2.11.0 and torchvision 0.26.0

Segmentation has both of its losses in the program, beside the results, which the loop keeps.
"""

import sys

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from language_models import write_all

CLASSES, IGNORED, SHARE = 21, 255, 0.5
SIDES = {"fcn_resnet50": 480, "swin_v2_t": 256}  # of a crop


class Segmentation(nn.Module):
    def __init__(self, name: str):
        super().__init__()
        make = getattr(torchvision.models.segmentation, name)
        self.network = make(weights=None, weights_backbone=None, num_classes=CLASSES,
                            aux_loss=True)

    def forward(self, pictures, classes):
        results = self.network(pictures)
        losses = [F.cross_entropy(results[name], classes, ignore_index=IGNORED)
                  for name in ("out", "aux")]
        return losses[0] + SHARE * losses[1], *results.values()


def program_of(name: str) -> torch.export.ExportedProgram:
    side, batch = SIDES[name], torch.export.Dim.DYNAMIC
    pictures = torch.zeros(2, 3, side, side, device="meta")
    if name.startswith("swin"):
        network, given = getattr(torchvision.models, name)(), (pictures,)
    else:
        classes = torch.zeros(2, side, side, dtype=torch.long, device="meta")
        network, given = Segmentation(name), (pictures, classes)
    return torch.export.export(network.train().to("meta"), given, strict=False,
                               dynamic_shapes=tuple({0: batch} for _ in given))


if __name__ == "__main__":
    sys.exit(write_all(__doc__, SIDES, "reference", program_of))
