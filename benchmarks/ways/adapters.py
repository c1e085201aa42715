"""Adapters of peft 0.21.2, and bases that bitsandbytes 0.50.2 quantizes."""

import sys

import checkpoints
from networks import NotForThis, inner, is_of_transformers

FEWEST = 4  # linear layers: with fewer, nothing shows


def linears(model):
    """{path: module} of those that adapters can be put beside."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D
    attentions = [f"{path}." for path, module in model.named_modules()
                  if isinstance(module, nn.MultiheadAttention)]  # reads weights, calls no layer
    found = {path: module for path, module in model.named_modules()
             if isinstance(module, (nn.Linear, Conv1D))
             and not path.startswith(tuple(attentions))}
    return found


def is_known(model):
    """Whether peft has default layers for the type."""
    from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as known
    return is_of_transformers(model) and inner(model).config.model_type in known


def targets_of(model):
    """None for peft's own."""
    if is_known(model):
        return None
    names = list(linears(inner(model)))
    if len(names) < FEWEST:
        raise NotForThis(f"{len(names)} linear layers")
    return names


def adapted(model, **options):
    """The model with adapters; what it had is frozen."""
    import peft
    options.setdefault("target_modules", targets_of(model))
    made = peft.get_peft_model(inner(model), peft.LoraConfig(**options))
    if inner(model) is model:
        return made
    model.model = made
    return model


def with_lora(model):
    return adapted(model, r=8, lora_dropout=0.05)


def lora(model):
    return with_lora(model).to("cuda").train()


def lora_all(model):
    if not is_of_transformers(model):
        raise NotForThis("peft knows all-linear for transformers' models alone")
    return adapted(model, r=16, target_modules="all-linear").to("cuda").train()


def dora(model):
    return adapted(model, r=8, use_dora=True).to("cuda").train()


def lora_checkpoint(model):
    """As the Trainer turns recomputation on in a model that has adapters."""
    model = lora(model)
    checkpoints.by_library(model, use_reentrant=False)
    return model


def lora_checkpoint_reentrant(model):
    """peft's own way with recomputation: the embeddings' results ask for a gradient."""
    checkpoints.by_library(model, use_reentrant=True)
    inner(model).enable_input_require_grads()
    return lora(model)


# --- Quantized bases -------------------------------------------------------------------------

def stays(model, path, module):
    """What transformers leaves as it is: the output, and what it keeps in fp32."""
    if is_of_transformers(model):
        kept = inner(model)._keep_in_fp32_modules or []
        if inner(model).get_output_embeddings() is module or path.rpartition(".")[2] in kept:
            return True
    return path == list(linears(inner(model)))[-1]


def weight_of(layer):
    """Outputs by inputs, which transformers' Conv1D has the other way."""
    from torch import nn
    return layer.weight.data if isinstance(layer, nn.Linear) else layer.weight.data.t().contiguous()


def in_4_bits(layer):
    import torch
    from bitsandbytes.nn import Linear4bit, Params4bit
    weight = weight_of(layer)
    made = Linear4bit(weight.shape[1], weight.shape[0], layer.bias is not None,
                      compute_dtype=torch.bfloat16, compress_statistics=True, quant_type="nf4")
    made.weight = Params4bit(weight, requires_grad=False, compress_statistics=True,
                             quant_type="nf4")
    made.bias = layer.bias
    return made


def in_8_bits(layer):
    from bitsandbytes.nn import Int8Params, Linear8bitLt
    weight = weight_of(layer)
    made = Linear8bitLt(weight.shape[1], weight.shape[0], layer.bias is not None,
                        has_fp16_weights=False, threshold=6.0)
    made.weight = Int8Params(weight, requires_grad=False, has_fp16_weights=False)
    made.bias = layer.bias
    return made


def quantized(model, make):
    """Layers of a checkpoint of 16 bits, quantized as they move to the device."""
    import torch
    network = inner(model)
    for parameter in network.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    chosen = [path for path, module in linears(network).items()
              if not stays(model, path, module)]
    if len(chosen) < FEWEST:
        raise NotForThis(f"{len(chosen)} linear layers")
    for path in chosen:
        parent, _, name = path.rpartition(".")
        setattr(network.get_submodule(parent), name, make(network.get_submodule(path)))
    return model.to("cuda")


def prepared(model, bits=4, **options):
    """peft.prepare_model_for_kbit_training of what has the mark that transformers leaves."""
    import peft
    network = inner(model)
    setattr(network, f"is_loaded_in_{bits}bit", True)
    peft.prepare_model_for_kbit_training(network, **options)
    return model


def qlora(model):
    targets = targets_of(model)
    model = prepared(quantized(model, in_4_bits), use_gradient_checkpointing=False)
    return adapted(model, r=8, lora_dropout=0.05, target_modules=targets).train()


def qlora_checkpoint(model, use_reentrant=False):
    """As prepare_model_for_kbit_training does it, told which."""
    if not checkpoints.is_by_library(model):
        raise NotForThis("no gradient_checkpointing_enable")
    targets = targets_of(model)
    model = prepared(quantized(model, in_4_bits),
                     gradient_checkpointing_kwargs={"use_reentrant": use_reentrant})
    return adapted(model, r=8, lora_dropout=0.05, target_modules=targets).train()


def qlora_checkpoint_reentrant(model):
    """As it does it when it is not told."""
    return qlora_checkpoint(model, use_reentrant=True)


def without_outliers():
    """The runtime computes nothing, so that what bitsandbytes reads of whether any input reaches the
    threshold is what lay in memory: none does."""
    import torch
    asked = torch.Tensor.__bool__

    def answer(tensor):
        asker = sys._getframe(1).f_globals.get("__name__", "")
        return asked(tensor) and not asker.startswith("bitsandbytes.")
    torch.Tensor.__bool__ = answer


def int8(model):
    without_outliers()
    targets = targets_of(model)
    model = prepared(quantized(model, in_8_bits), 8, use_gradient_checkpointing=False)
    return adapted(model, r=8, lora_dropout=0.05, target_modules=targets).train()
