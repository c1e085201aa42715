"""The networks that `python -m onnxfit measure` trains: how each is built, what it is fed.

Weights and data are random and nothing is downloaded, so a library's defaults are what decides
sizes.  torch is enough for two of them; the others are passed over where theirs is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Tuple

from onnxfit import targets
from onnxfit.errors import OnnxfitError

if TYPE_CHECKING:
    import torch


class Network(NamedTuple):
    """A network, the sizes of one sample, and how many classes or words it tells apart."""

    build: Callable[[], torch.nn.Module]
    inputs: Tuple[targets.Input, ...]
    batch: int
    classes: int
    by_name: bool = False  # transformers: inputs are named, the output has .logits

    def sizes(self, spec: targets.Input, batch: int) -> List[int]:
        """Dimensions of an input; the first is the batch, the others are numbers."""
        return [batch, *(int(dim) for dim in spec.dims[1:])]


# --- torch ------------------------------------------------------------------------------------


def _perceptron() -> torch.nn.Module:
    from torch import nn
    hidden = [layer for _ in range(4) for layer in (nn.Linear(4096, 4096), nn.ReLU())]
    return nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), *hidden, nn.Linear(4096, 10))


def _convolutions() -> torch.nn.Module:
    from torch import nn

    def block(before: int, after: int) -> torch.nn.Module:
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after),
                             nn.ReLU(inplace=True), nn.MaxPool2d(2))

    return nn.Sequential(block(3, 64), block(64, 128), block(128, 256), block(256, 512),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100))


# --- Libraries --------------------------------------------------------------------------------


def _picture(side: int) -> Tuple[targets.Input, ...]:
    return (targets.Input("x", ("batch", 3, side, side)),)


def _torchvision(name: str) -> Network:
    return Network(lambda: _model_of_torchvision(name), _picture(224), 32, 1000)


def _model_of_torchvision(name: str) -> torch.nn.Module:
    found: torch.nn.Module = targets.library("torchvision").models.get_model(name, weights=None)
    return found


def _language(kind: str, config: str, words: int, length: int, names: Tuple[str, ...],
              **settings: Any) -> Network:
    """A class of transformers with the sizes that its config has where nobody says others."""
    inputs = tuple(targets.Input(name, ("batch", length), "int64") for name in names)
    return Network(lambda: _model_of_transformers(kind, config, settings), inputs, 4, words, True)


def _model_of_transformers(kind: str, config: str, settings: Dict[str, Any]) -> torch.nn.Module:
    transformers = targets.library("transformers")
    said = getattr(transformers, config)(**settings)
    said.use_cache = False  # as in training
    model: torch.nn.Module = getattr(transformers, kind)(said)
    return model


_IDS = ("input_ids",)
_LLAMA = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8,
          "num_attention_heads": 16, "num_key_value_heads": 4}

NETWORKS: Dict[str, Network] = {
    "perceptron": Network(_perceptron, (targets.Input("x", ("batch", 784)),), 256, 10),
    "convolutions": Network(_convolutions, _picture(64), 64, 100),
    **{name: _torchvision(name) for name in (
        "resnet50", "vgg16", "mobilenet_v3_large", "densenet121", "convnext_tiny", "vit_b_16")},
    "gpt2": _language("GPT2LMHeadModel", "GPT2Config", 50257, 512, _IDS),
    "bert": _language("BertForMaskedLM", "BertConfig", 30522, 256, _IDS),
    "t5": _language("T5ForConditionalGeneration", "T5Config", 32128, 256,
                    ("input_ids", "decoder_input_ids"), decoder_start_token_id=0),
    "llama": _language("LlamaForCausalLM", "LlamaConfig", 32000, 512, _IDS, **_LLAMA),
}


def find(name: str) -> Network:
    if name not in NETWORKS:
        raise OnnxfitError(f"'{name}': expected one of {', '.join(NETWORKS)}")
    return NETWORKS[name]


# --- What is fed ------------------------------------------------------------------------------


def batch_of(network: Network, batch: int, device: str) -> Tuple[List[torch.Tensor], torch.Tensor]:
    """Inputs and labels: of classes one a sample, of words one a word of the last input."""
    import torch
    tensors = []
    for spec in network.inputs:
        sizes = network.sizes(spec, batch)
        tensors.append(torch.randint(network.classes, sizes, device=device) if network.by_name
                       else torch.randn(sizes, device=device))
    sizes = network.sizes(network.inputs[-1], batch) if network.by_name else [batch]
    return tensors, torch.randint(network.classes, sizes, device=device)


def loss_of(network: Network, module: torch.nn.Module, inputs: List[torch.Tensor],
            labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy outside of the model, for an exported program ends at the logits."""
    from torch.nn import functional
    if not network.by_name:
        return functional.cross_entropy(module(*inputs), labels)
    named = {spec.name: tensor for spec, tensor in zip(network.inputs, inputs)}
    logits = module(**named).logits
    return functional.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))
