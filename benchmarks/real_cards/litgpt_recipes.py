"""Exports of LitGPT's recipes in runs.csv (its config_hub), by its own networks; no weights.

    litgpt_recipes.py FOLDER [NAME...]    # with torch 2.11.0 and litgpt of
                                          # github.com/Lightning-AI/litgpt, commit 5895df10

A program has a recipe's samples at once, each of as many tokens as a recipe lets through, and the
loss in pieces, as litgpt_networks.py has them.
"""

import sys

import torch
from litgpt import lora, model, utils

from language_models import write_all

TOKENS, CHUNK = 512, 128
FEW = {"lora_r": 32, "lora_alpha": 16, "lora_dropout": 0.05, "lora_query": True,
       "lora_value": True}
ALL = {**FEW, "lora_key": True, "lora_projection": True, "lora_mlp": True, "lora_head": True}
# The name there, adapters (none: all is trained), and samples.
RECIPES = {
    "falcon7b": ("falcon-7b", FEW, 1),
    "gemma2b": ("Gemma-2b", {**ALL, "lora_r": 8, "lora_dropout": 0.1}, 2),
    "gemma7b": ("Gemma-7b", {**ALL, "lora_r": 16, "lora_dropout": 0.1}, 1),
    "llama2": ("Llama-2-7b-hf", FEW, 2),
    "llama3": ("Llama-3-8B", FEW, 1),
    "mistral": ("Mistral-7B-v0.1", FEW, 2),
    "phi2": ("phi-2", {**ALL, "lora_r": 8}, 4),
    "stablelm": ("stablelm-base-alpha-3b", FEW, 1),
    "tinyllama": ("tiny-llama-1.1b", ALL, 8),
    "tinyllama_full": ("tiny-llama-1.1b", None, 4),
}


class Step(torch.nn.Module):
    def __init__(self, network: torch.nn.Module):
        super().__init__()
        self.network = network

    def forward(self, tokens, labels):
        logits = [piece.float() for piece in self.network(tokens, lm_head_chunk_size=CHUNK)]
        logits[-1] = logits[-1][..., :-1, :]
        return utils.chunked_cross_entropy(logits, labels[..., 1:]), *logits


class FullStep(Step):
    """Without adapters the network returns its logits whole."""

    def forward(self, tokens, labels):
        logits = self.network(tokens).float()
        return utils.chunked_cross_entropy(logits[..., :-1, :], labels[..., 1:]), logits


def network_of(name: str, adapters: dict | None) -> torch.nn.Module:
    if adapters is None:
        return model.GPT(model.Config.from_name(name))
    network = lora.GPT(lora.Config.from_name(name, **adapters))
    lora.mark_only_lora_as_trainable(network)
    return network


def program_of(name: str) -> torch.export.ExportedProgram:
    full_name, adapters, count = RECIPES[name]
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        network = network_of(full_name, adapters)
    torch.set_default_dtype(torch.float32)
    network.max_seq_length = TOKENS  # makes the angles anew, in fp32
    given = tuple(torch.zeros(count, TOKENS, dtype=torch.long, device="meta") for _ in range(2))
    step = Step if adapters else FullStep
    return torch.export.export(step(network.train()), given, strict=False)


if __name__ == "__main__":
    utils.max = lambda _least, labels: labels  # some label always counts
    sys.exit(write_all(__doc__, dict.fromkeys(RECIPES), "recipe", program_of))
