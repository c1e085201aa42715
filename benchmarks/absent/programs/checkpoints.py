"""Activations checkpointed by blocks under autocast, with and without reentrance."""
import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
blocks = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
                             for _ in range(6)).cuda()
optimizer = torch.optim.AdamW(blocks.parameters())
for use_reentrant in (False, True):
    for _ in range(3):
        x = torch.randn(8, 256, 512, device="cuda", requires_grad=True)
        with torch.autocast("cuda", torch.bfloat16):
            for block in blocks:
                x = checkpoint(block, x, use_reentrant=use_reentrant)
            loss = x.float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
