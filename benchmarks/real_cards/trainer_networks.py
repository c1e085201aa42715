"""Exports of the language models that fms-acceleration's benches train, in runs.csv; no weights.

    trainer_networks.py FOLDER [NAME...]    # with torch 2.11.0 and transformers 4.48.1

Trainer calls `outputs = model(**inputs)` with labels and lets go of all but the loss.  FlashAttention's
package stands in the program as PyTorch's kernel, which takes grouped heads as they are.
"""

import sys

import torch
import transformers
from torch.nn import functional as F
from transformers import modeling_utils

from language_models import no_autocast, write_all

TOKENS = 4096  # texts are packed
MISTRAL = {"attention_dropout": 0.0, "sliding_window": 4096}
MODELS = {"mistral7b": ("MistralForCausalLM", MISTRAL)}


def attend(_module, query, key, value, _mask, scaling=None, **_other):
    mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling,
                                           enable_gqa=True)
    return mixed.transpose(1, 2).contiguous(), None


class Step(torch.nn.Module):
    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels, use_cache=False).loss


def program_of(name: str) -> torch.export.ExportedProgram:
    class_name, config = MODELS[name]
    kind = getattr(transformers, class_name)
    with torch.device("meta"):
        model = kind._from_config(kind.config_class(**config), attn_implementation="sdpa",
                                  torch_dtype=torch.bfloat16)
    model.model._update_causal_mask = lambda *_args, **_kwargs: None  # no text is padded
    given = tuple(torch.zeros(2, TOKENS, dtype=torch.long, device="meta") for _ in range(2))
    batch = torch.export.Dim.DYNAMIC
    return torch.export.export(Step(model.train()), given, strict=False,
                               dynamic_shapes=({0: batch}, {0: batch}))


if __name__ == "__main__":
    torch.autocast = no_autocast
    modeling_utils.ALL_ATTENTION_FUNCTIONS["sdpa"] = attend
    sys.exit(write_all(__doc__, MODELS, "trainer", program_of))
