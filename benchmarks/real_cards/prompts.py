"""Exports of what prompts take in runs.csv: tokens at once, their keys and values; no weights.

    prompts.py FOLDER [NAME...]    # with torch 2.11.0 and transformers 4.46.0 or 4.38.2

A program's length is free.  Of Qwen2.5's logits only the last are computed, as generate() asks
transformers 4.46; Qwen2 was measured with 4.38, whose logits are all computed and converted to
fp32.
"""

import sys

import torch
import transformers
from transformers.models.qwen2 import modeling_qwen2

from language_models import no_autocast, write_all

SDPA = torch.nn.functional.scaled_dot_product_attention
IS_OLD = transformers.__version__ == "4.38.2"
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
MODELS = ("05b", "15b", "7b") if IS_OLD else SIZES


class Prompt(torch.nn.Module):
    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        cache = transformers.DynamicCache()
        asked = {} if IS_OLD else {"num_logits_to_keep": 1}
        outputs = self.model(input_ids=tokens, past_key_values=cache, **asked)
        return outputs.logits, *cache.key_cache, *cache.value_cache


def no_mask(*_args, **_kwargs) -> None:
    """FlashAttention takes none, and a program of its calls is PyTorch's own kernel's."""


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
    """Whether a free length is more than one has to be told (4.38)."""
    return SDPA(query, key, value, attn_mask, dropout_p, bool(is_causal))


def build(name: str) -> torch.nn.Module:
    config = transformers.Qwen2Config(**SIZES[name], max_position_embeddings=LONGEST,
                                      rope_theta=1e6, rms_norm_eps=1e-6,
                                      tie_word_embeddings=name in TIED)
    with torch.device("meta"):
        model = transformers.Qwen2ForCausalLM._from_config(config, torch_dtype=torch.bfloat16)
    model.tie_weights()
    model.model._update_causal_mask = no_mask
    modeling_qwen2._prepare_4d_causal_attention_mask_for_sdpa = no_mask
    return model.eval()


def program_of(name: str) -> torch.export.ExportedProgram:
    tokens = torch.zeros(1, 4096, dtype=torch.long, device="meta")
    with torch.no_grad():
        return torch.export.export(Prompt(build(name)), (tokens,), strict=False,
                                   dynamic_shapes=({1: torch.export.Dim.DYNAMIC},))


if __name__ == "__main__":
    torch.autocast = no_autocast
    if IS_OLD:
        torch.nn.functional.scaled_dot_product_attention = attention
    prefix = "prompt_qwen2" if IS_OLD else "prompt_qwen25"
    sys.exit(write_all(__doc__, dict.fromkeys(MODELS), prefix, program_of))
