"""All convolutions of the zoo's networks, each once, at batches 4 and 32: calls.json.

    calls.py calls.json [FAMILY...]

A JSON list: x, weight, stride, padding, dilation, transposed, output_padding, groups, as
aten.convolution takes them.  Networks are on the meta device: no card, no weights.
"""

import json
import sys
import warnings
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "accuracy"), str(HERE.parent / "zoo")]
import truths  # noqa: E402
from family import without_weights  # noqa: E402
from registry import zoo  # noqa: E402

LIBRARIES = ["timm.*", "torchvision.*", "tutorial.*", "diffusers.*"]  # what convolves most
BATCHES = (4, 32)


class Noted(TorchDispatchMode):
    """Keeps the arguments of convolutions."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.convolution.default:
            x, weight, _, *rest = args
            self.calls[json.dumps([list(x.shape), list(weight.shape), *rest])] = None
        return func(*args, **(kwargs or {}))


def note(family, calls):
    model = without_weights(family).train()
    for batch in BATCHES:
        with Noted(calls), torch.no_grad():
            truths.Loop(family).forward(model, family.inputs(batch, "meta", torch.float32))


def main():
    warnings.filterwarnings("ignore")
    calls = {}
    for name, family in zoo(sys.argv[2:] or LIBRARIES).items():
        note(family, calls)
        print(len(calls), name, flush=True)
    Path(sys.argv[1]).write_text(json.dumps([json.loads(call) for call in calls]))


if __name__ == "__main__":
    main()
