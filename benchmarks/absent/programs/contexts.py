"""Sequences that two cards share: context_parallel of torch.distributed around a small GPT's step, whose attention
rotates keys and values by all_gather or all_to_all."""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import set_rotate_method
from torch.nn.attention import SDPBackend, sdpa_kernel

WIDTH, WORDS, LENGTH, BATCH = 1024, 32000, 2048, 2


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


rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
mesh = init_device_mesh("cuda", (2,))
model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *(Block() for _ in range(4)), nn.Linear(WIDTH, WORDS, bias=False)).cuda()
set_rotate_method({"gather": "allgather", "rotate": "alltoall"}[sys.argv[1]])
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    tokens = torch.randint(0, WORDS, (BATCH, LENGTH), device="cuda")
    labels = tokens.clone()
    optimizer.zero_grad()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), torch.autocast("cuda", torch.bfloat16), \
            context_parallel(mesh, buffers=[tokens, labels], buffer_seq_dims=[1, 1]):
        assert tokens.shape == (BATCH, LENGTH // 2), tokens.shape
        logits = model(tokens)
        nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
    optimizer.step()
assert tokens.shape == (BATCH, LENGTH), tokens.shape
dist.destroy_process_group()
