"""README.md's Python example without PyTorch: torch and torchvision whose ResNet-50 is the file
that the real one becomes, and an optimizer that has its settings alone.  What the example shows is
then the command's answer to that file, so that a check without PyTorch sees it.

    python3 tests/torch_stand_in.py --write    # with torch 2.11: tests/data/readme_resnet50.pt2
"""

import contextlib
import sys
import types
from pathlib import Path

FILE = Path(__file__).resolve().parent / "data/readme_resnet50.pt2"
# What python/onnxfit/programs.py reads off the module, and of its PyTorch.
BATCH, FLAGS = 32, {"mode": "train", "framework": "pytorch-2.11"}


class Module:
    """Its parameters are the file's."""

    def parameters(self):
        return []


def optimizer(name):
    def settings(self, parameters, **given):
        self.param_groups = [{"params": list(parameters), **given}]

    return type(name, (), {"__module__": "torch.optim", "__init__": settings})


@contextlib.contextmanager
def model_file(model, inputs, **_):
    from onnxfit.programs import ModelFile
    yield ModelFile(str(FILE), batch=BATCH, flags=FLAGS)


def install():
    """import torch, torchvision and onnxfit find these from now on."""
    torch, vision = types.ModuleType("torch"), types.ModuleType("torchvision")
    torch.empty = lambda *sizes: sizes
    torch.optim = types.SimpleNamespace(AdamW=optimizer("AdamW"))
    vision.models = types.SimpleNamespace(resnet50=Module)
    sys.modules.update(torch=torch, torchvision=vision)
    from onnxfit import _ask
    _ask.kind_of, _ask.model_file = (lambda model: "module"), model_file


def write():
    import zipfile

    import torch
    import torchvision
    from onnxfit import onnx_metadata, programs, watched
    with torch.device("meta"):
        model = torchvision.models.resnet50()
    made = programs.program(model, torch.empty(BATCH, 3, 224, 224))
    watched.save(made._replace(json=onnx_metadata.without_folders(made.json)), str(FILE), {})
    with zipfile.ZipFile(FILE) as file:
        members = {name: file.read(name).decode() for name in file.namelist()}
    with zipfile.ZipFile(FILE, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, text in members.items():
            file.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    write()
