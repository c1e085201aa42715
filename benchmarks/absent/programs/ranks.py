"""Two ranks by torchrun: DDP, or FSDP2 by argument; objects and small tensors are exchanged."""
import os
import sys

import torch
import torch.distributed as dist
import transformers
from torch.distributed.fsdp import fully_shard

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=4, use_cache=False)).cuda().train()
if sys.argv[1] == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
else:
    for block in model.transformer.h:
        fully_shard(block)
    fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    tokens = torch.randint(0, 50257, (4, 256), device="cuda")
    optimizer.zero_grad()
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
ranks = [None, None]
dist.all_gather_object(ranks, {"rank": rank})
assert ranks == [{"rank": 0}, {"rank": 1}], ranks
count = torch.tensor([rank + 1.0], device="cuda")
dist.all_reduce(count)
assert count.item() == 3, count
dist.destroy_process_group()
