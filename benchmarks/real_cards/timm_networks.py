"""Exports of timm's networks on the RTX 4090 in runs.csv that have a LayerNorm, which its benchmark.py
runs with --fast-norm, or write in place, which ONNX does not tell; no weights.

    timm_networks.py FOLDER [NAME...]    # with torch 2.11.0 and timm 1.0.31
"""

import sys

import timm
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from language_models import put_on_card, write_all

SIDES = {
    "convnext_nano": 384,
    "convnext_small": 384,
    "convnext_base": 320,
    "convnext_large_mlp": 256,
    "convnext_xlarge": 224,
    "swin_large_patch4_window7_224": 224,
    "vit_large_patch14_dinov2": 518,
    "xception41": 299,
    "xception65": 299,
}
MODELS = {f"{model}_{side}": (model, side) for model, side in SIDES.items()}


def program_of(name: str) -> torch.export.ExportedProgram:
    model_name, side = MODELS[name]
    with torch.device("meta"):
        model = timm.create_model(model_name).eval()
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True):
        put_on_card(model)
        images = torch.empty(2, 3, side, side, device="cuda")
    return torch.export.export(model, (images,), strict=False,
                               dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))


if __name__ == "__main__":
    timm.layers.set_fast_norm()
    sys.exit(write_all(__doc__, MODELS, "timmeval", program_of))
