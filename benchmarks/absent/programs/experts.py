"""Experts of a small Qwen3-MoE on two cards, half of them on each, by transformers' own plan."""
import os
import tempfile

import torch
import torch.distributed as dist
import transformers
from torch.distributed.tensor.experimental import implicit_replication
from transformers.distributed import DistributedConfig

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
folder = [tempfile.mkdtemp() if rank == 0 else None]
dist.broadcast_object_list(folder)
if rank == 0:
    config = transformers.Qwen3MoeConfig(
        vocab_size=32000, hidden_size=512, intermediate_size=1024, moe_intermediate_size=512, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=8, head_dim=64, num_experts=8, num_experts_per_tok=2)
    transformers.Qwen3MoeForCausalLM(config).save_pretrained(folder[0])
dist.barrier()
model = transformers.AutoModelForCausalLM.from_pretrained(
    folder[0], use_cache=False, distributed_config=DistributedConfig(tp_size=2, enable_expert_parallel=True))
optimizer = torch.optim.AdamW(model.train().parameters())
for _ in range(3):
    tokens = torch.randint(0, 32000, (4, 256), device="cuda")
    optimizer.zero_grad()
    model(input_ids=tokens, labels=tokens).loss.backward()
    with implicit_replication():  # of parameters that are shared beside whole ones
        optimizer.step()
weight = model.model.layers[0].mlp.experts.down_proj
assert weight.to_local().shape == (4, 512, 512), weight.shape
dist.destroy_process_group()
