"""Exports of LitGPT's finetuning steps in runs.csv, by its own networks; no weights.

    litgpt_networks.py FOLDER [NAME...]    # with torch 2.11.0 and lit_gpt of
                                           # github.com/Lightning-AI/litgpt, commit 8641822, but
                                           # of adapters 0f021f3, which brought their figures

A program has the longest text of the data, since the first batch has, and the loss in pieces of 128
tokens; Fabric converts what a network returns to fp32, and the loop's `logits` has them all.  It
begins behind a validation: the angles of rotary embeddings are made anew there, in fp32, and the
keys and values of an adapter's prompt stay as that has left them.
"""

import sys
from typing import Callable

import torch
from lit_gpt import adapter, adapter_v2, lora, utils

from language_models import write_all

CHUNK = 128
RANK = {"r": 8, "alpha": 16, "dropout": 0.05, "to_query": True, "to_value": True}
# The name there, and the tokens of its longest text.
NETWORKS = {"phi": ("phi-1_5", 1044), "stablelm": ("stablelm-base-alpha-3b", 1034),
            "llama7b": ("Llama-2-7b-hf", 1304), "llama13b": ("Llama-2-13b-hf", 1304)}
COUNTS = {"phi": (1, 2, 4), "stablelm": (1, 2, 4), "llama7b": (1, 2, 4), "llama13b": (1, 2, 4)}


class Step(torch.nn.Module):
    def __init__(self, network: torch.nn.Module):
        super().__init__()
        self.network = network

    def forward(self, tokens, labels):
        logits = [piece.float() for piece in self.network(tokens, lm_head_chunk_size=CHUNK)]
        logits[-1] = logits[-1][..., :-1, :]
        return utils.chunked_cross_entropy(logits, labels[..., 1:]), *logits


def of_lora(name: str) -> torch.nn.Module:
    network = lora.GPT(lora.Config.from_name(name, **RANK))
    lora.mark_only_lora_as_trainable(network)
    return network


def of_adapter(name: str) -> torch.nn.Module:
    network = adapter.GPT(adapter.Config.from_name(name))
    adapter.mark_only_adapter_as_trainable(network)
    return network


def of_adapter_v2(name: str) -> torch.nn.Module:
    network = adapter_v2.GPT(adapter_v2.Config.from_name(name))
    adapter_v2.mark_only_adapter_v2_as_trainable(network)
    return network


WAYS: dict[str, Callable[[str], torch.nn.Module]] = {
    "lora": of_lora, "adapter": of_adapter, "adapter2": of_adapter_v2}
MODELS = [*(f"lora_{name}_{count}" for name, counts in COUNTS.items() for count in counts),
          *(f"{way}_{name}_1" for way in ("adapter", "adapter2")
            for name in ("stablelm", "llama7b"))]


def behind_validation(network: torch.nn.Module, tokens: int) -> None:
    network.max_seq_length = tokens
    network.eval()
    with torch.no_grad():
        network(torch.zeros(1, 2, dtype=torch.long, device="meta"))
    for block in network.transformer.h:
        if getattr(block.attn, "adapter_kv_cache", None) is not None:
            keep_prompt(block.attn)
    network.train()


def keep_prompt(attention: torch.nn.Module) -> None:
    """What a program takes as given is a buffer."""
    keys, values = attention.adapter_kv_cache
    del attention.adapter_kv_cache
    attention.register_buffer("prompt_keys", keys)
    attention.register_buffer("prompt_values", values)
    attention.adapter_kv_cache = (attention.prompt_keys, attention.prompt_values)


def program_of(name: str) -> torch.export.ExportedProgram:
    """The samples are as many as its name says: with a free number, torch.export takes what a loss
    that is not reduced has for one number."""
    way, network_name, count = name.split("_")
    full_name, tokens = NETWORKS[network_name]
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        network = WAYS[way](full_name)
    torch.set_default_dtype(torch.float32)
    behind_validation(network, tokens)
    given = tuple(torch.zeros(int(count), tokens, dtype=torch.long, device="meta")
                  for _ in range(2))
    return torch.export.export(Step(network), given, strict=False)


if __name__ == "__main__":
    sys.exit(write_all(__doc__, dict.fromkeys(MODELS), "litgpt", program_of))
