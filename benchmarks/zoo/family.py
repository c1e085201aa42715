"""One architecture of the zoo: how to build it, what to feed it, which loss to take.

A family is a module of a library, such as timm.models.convnext: what its models have in common is
code.  Models are small ones of real code with weights at random; nothing is downloaded.  The loss
is taken outside the model, as an export ends at its output.
"""

import hashlib
from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn
from torch.nn import functional as F

HELD_OUT = "0123"


@dataclass
class Family:
    build: Callable   # () -> the module that is trained and exported
    inputs: Callable  # (batch, device, dtype) -> {name: tensor}, without the target
    module: str       # whose hash decides whether it is held out
    loss: str = "ce"  # of logits and classes, the last or the second dimension; or mse


def is_held_out(module):
    """Left alone, to find out whether rules generalise: neither exported nor run nor looked at."""
    return hashlib.sha256(module.encode()).hexdigest()[0] in HELD_OUT


def module_of(model):
    """timm.models.convnext of a class in timm.models.convnext.blocks."""
    return ".".join(type(model).__module__.split(".")[:3])


def without_weights(family):
    """The model on no device; built on the host first where its constructor asks for values."""
    try:
        with torch.device("meta"):
            return family.build()
    except (NotImplementedError, RuntimeError):
        return family.build().to("meta")


def cross_entropy(logits, target, label_smoothing=0.0):
    """Tokens come last, as language models have them; pixels behind the classes."""
    if logits.dim() == 3:
        logits, target = logits.view(-1, logits.size(-1)), target.view(-1)
    return F.cross_entropy(logits, target, label_smoothing=label_smoothing)


LOSSES = {"ce": cross_entropy, "mse": F.mse_loss}


def target_like(output, loss):
    """The shape, type and device of what `loss` compares `output` with."""
    if loss == "mse":
        return torch.empty_like(output)
    classes = output.dim() - 1 if output.dim() == 3 else 1
    shape = [size for dim, size in enumerate(output.shape) if dim != classes]
    return torch.zeros(shape, dtype=torch.long, device=output.device)


# --- Wrappers, as users write them for a model that returns more than a tensor ----------------

class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits


class LastHiddenState(Logits):
    def forward(self, x):
        return self.model(x).last_hidden_state


class PredictedDepth(Logits):
    def forward(self, x):
        return self.model(x).predicted_depth


class Sample(Logits):
    def forward(self, x):
        return self.model(x).sample


class Out(Logits):
    def forward(self, x):
        return self.model(x)["out"]


class First(Logits):
    def forward(self, x):
        return self.model(x)[0]


class Last(Logits):
    def forward(self, x):
        return self.model(x)[-1]


class Seq2SeqLogits(Logits):
    def forward(self, x, decoder_input_ids):
        return self.model(x, decoder_input_ids=decoder_input_ids).logits


# --- Inputs ----------------------------------------------------------------------------------

def floats(name="x", *shape):
    return lambda batch, device, dtype: {
        name: torch.empty(batch, *shape, device=device, dtype=dtype)}


def images(size=224, channels=3, name="x"):
    return floats(name, channels, size, size)


def several(floating=None, **ids):
    """Floats of the shapes in `floating`, then ids of the lengths given; () is one a sample."""
    def make(batch, device, dtype):
        found = {name: torch.empty(batch, *shape, device=device, dtype=dtype)
                 for name, shape in (floating or {}).items()}
        return {**found, **{name: torch.zeros(batch, *shape, dtype=torch.long, device=device)
                            for name, shape in ids.items()}}
    return make


def tokens(length, target=None):
    """Of an encoder, and of a decoder where `target` says how many."""
    decoder = {} if target is None else {"decoder_input_ids": (target,)}
    return several(input_ids=(length,), **decoder)


def tutorials(found):
    """{name: Family} of {name: (build, inputs, loss)}: each is a family of its own."""
    return {f"tutorial.{name}": Family(build, inputs, f"tutorial.{name}", loss)
            for name, (build, inputs, loss) in found.items()}
