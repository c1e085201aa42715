"""The models of series.py, with their losses: what is exported, and what trains.

    models.py FOLDER     # writes NAME.pt2 without weights, with a length that is free

Needs torch and transformers (2.11.0, 5.17.0).
"""

import sys
from pathlib import Path

import torch

BATCH = 16


class WithLoss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, labels=tokens).loss


def bert():
    from transformers import BertConfig, BertForMaskedLM
    return BertForMaskedLM(BertConfig(vocab_size=30522, hidden_size=512, num_hidden_layers=4,
                                      num_attention_heads=8, intermediate_size=2048))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(n_embd=384, n_layer=6, n_head=6, n_positions=512, use_cache=False))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=32000, hidden_size=512, intermediate_size=1408, num_hidden_layers=8,
        num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=1024, use_cache=False))


def qwen3():
    from transformers import Qwen3Config, Qwen3ForCausalLM
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=32000, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, head_dim=64,
        num_attention_heads=6, num_key_value_heads=6, max_position_embeddings=1024, use_cache=False))


def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    return T5ForConditionalGeneration(T5Config(
        vocab_size=32000, d_model=384, d_kv=64, d_ff=1024, num_layers=4, num_heads=6, decoder_start_token_id=0,
        use_cache=False))


# Each with the type in which it trains.
MODELS = {"bert": (bert, torch.float32), "gpt2": (gpt2, torch.float32),
          "llama": (llama, torch.bfloat16), "qwen3": (qwen3, torch.bfloat16), "t5": (t5, torch.float32)}


def made(name):
    make, dtype = MODELS[name]
    return WithLoss(make().to(dtype)).train()


def main():
    for name in MODELS:
        with torch.device("meta"):
            model = made(name)
            tokens = torch.zeros(BATCH, 128, dtype=torch.long)
        length = torch.export.Dim("length", min=3, max=512)
        program = torch.export.export(model, (tokens,), dynamic_shapes={"tokens": {1: length}})
        torch.export.save(program, Path(sys.argv[1]) / f"{name}.pt2")


if __name__ == "__main__":
    main()
