"""A small GPT by DeepSpeed's own engine on two cards, in bf16: zeros.py STAGE."""

import sys

import deepspeed
import torch
from torch import nn

HIDDEN, LAYERS, WORDS, LENGTH, BATCH = 1024, 8, 32000, 512, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN) for _ in range(2))
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, 16, HIDDEN // 16).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, HIDDEN))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(WORDS, HIDDEN), nn.Linear(HIDDEN, WORDS, bias=False)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))

    def forward(self, tokens):
        logits = self.head(self.blocks(self.embedding(tokens)))
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def main():
    config = {"train_micro_batch_size_per_gpu": BATCH, "bf16": {"enabled": True},
              "zero_optimization": {"stage": int(sys.argv[1])},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}}
    model = Words()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    for _ in range(3):
        loss = engine(torch.randint(0, WORDS, (BATCH, LENGTH), device=engine.device))
        engine.backward(loss)
        engine.step()


if __name__ == "__main__":
    main()
