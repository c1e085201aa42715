"""Blocks in two stages of torch.distributed.pipelining, four micro-batches a step: pipelines.py gpipe or 1f1b."""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

WIDTH, WORDS, LENGTH, BATCH, MICRO_BATCHES = 1024, 32000, 256, 8, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, 16, WIDTH // 16).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


def loss_of(logits, tokens):
    return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
dist.init_process_group("nccl")
torch.manual_seed(0)
ends = [[nn.Embedding(WORDS, WIDTH)], [nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)]]
blocks = [Block() for _ in range(4)]
module = nn.Sequential(*(ends[0] + blocks if rank == 0 else blocks + ends[1])).to(device)
stage = PipelineStage(module, rank, 2, device)
schedule = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[sys.argv[1]](stage, MICRO_BATCHES, loss_fn=loss_of)
optimizer = torch.optim.AdamW(module.parameters())
for _ in range(3):
    losses = []
    tokens = torch.randint(0, WORDS, (BATCH, LENGTH), device=device)
    optimizer.zero_grad()
    if rank == 0:
        output = schedule.step(tokens)
    else:
        output = schedule.step(target=tokens, losses=losses)
    optimizer.step()
assert len(losses) == rank * MICRO_BATCHES, losses
assert all(parameter.grad is not None for parameter in module.parameters())
dist.destroy_process_group()
