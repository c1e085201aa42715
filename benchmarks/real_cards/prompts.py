"""Exports of what a prompt takes in runs.csv: its tokens at once, their keys and values; no weights.

    prompts.py FOLDER [NAME...]    # with torch 2.11.0 and transformers 4.46.0

The prompt's length is free; of its logits only the last are computed, as generate() asks.
"""

import sys

import torch
import transformers

from language_models import no_autocast, write_all

# The configurations of the models' pages.
SIZES = {
    "05b": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
            "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936},
    "15b": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
            "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936},
    "3b": {"hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36,
           "num_attention_heads": 16, "num_key_value_heads": 2, "vocab_size": 151936},
    "7b": {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
           "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064},
    "14b": {"hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 48,
            "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 152064},
    "32b": {"hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 64,
            "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 152064},
}
TIED = ("05b", "15b", "3b")  # their output embedding is the input's
LONGEST = 32768


class Prompt(torch.nn.Module):
    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        cache = transformers.DynamicCache()
        outputs = self.model(input_ids=tokens, past_key_values=cache, num_logits_to_keep=1)
        return outputs.logits, *cache.key_cache, *cache.value_cache


def no_mask(*_args, **_kwargs) -> None:
    """FlashAttention takes none, and a program of its calls is PyTorch's own kernel's."""


def build(name: str) -> torch.nn.Module:
    config = transformers.Qwen2Config(**SIZES[name], max_position_embeddings=LONGEST,
                                      rope_theta=1e6, rms_norm_eps=1e-6,
                                      tie_word_embeddings=name in TIED)
    with torch.device("meta"):
        model = transformers.Qwen2ForCausalLM._from_config(config, torch_dtype=torch.bfloat16)
    model.tie_weights()
    model.model._update_causal_mask = no_mask
    return model.eval()


def program_of(name: str) -> torch.export.ExportedProgram:
    tokens = torch.zeros(1, 4096, dtype=torch.long, device="meta")
    length = torch.export.Dim.DYNAMIC
    with torch.no_grad():
        return torch.export.export(Prompt(build(name)), (tokens,), strict=False,
                                   dynamic_shapes=({1: length},))


if __name__ == "__main__":
    torch.autocast = no_autocast
    sys.exit(write_all(__doc__, SIZES, "prompt_qwen2", program_of))
