"""A small Llama whose layers two cards share: tensors.py rows, sequences (PyTorch's plans) or auto (transformers' own)."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from transformers.distributed import DistributedConfig

COLUMNS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
ROWS = ("self_attn.o_proj", "mlp.down_proj")
CONFIG = {"vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4,
          "num_attention_heads": 16, "num_key_value_heads": 16, "use_cache": False}


def in_rows(model, mesh):
    for layer in model.model.layers:
        parallelize_module(layer, mesh, {**dict.fromkeys(COLUMNS, ColwiseParallel()), **dict.fromkeys(ROWS, RowwiseParallel())})
    return model


def in_sequences(model, mesh):
    """What is between those layers is shared by tokens."""
    plan = {"embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel()}
    parallelize_module(model.model, mesh, plan)
    whole = PrepareModuleInput(input_kwarg_layouts={"hidden_states": Shard(1)},
                               desired_input_kwarg_layouts={"hidden_states": Replicate()})
    for layer in model.model.layers:
        parallelize_module(layer, mesh, {
            "input_layernorm": SequenceParallel(), "post_attention_layernorm": SequenceParallel(), "self_attn": whole,
            "mlp": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            **dict.fromkeys(COLUMNS, ColwiseParallel()), **dict.fromkeys(ROWS, RowwiseParallel(output_layouts=Shard(1)))})
    return parallelize_module(model, mesh, {"lm_head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})


def by_itself(model):
    """from_pretrained reads each rank's part."""
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    if rank == 0:
        model.save_pretrained(folder[0])
    dist.barrier()
    plan = DistributedConfig(tp_plan="auto", tp_size=2)
    return transformers.AutoModelForCausalLM.from_pretrained(folder[0], distributed_config=plan, use_cache=False)


rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG))
if sys.argv[1] == "auto":
    model = by_itself(model)
else:
    share = in_rows if sys.argv[1] == "rows" else in_sequences
    model = share(model.cuda(), init_device_mesh("cuda", (2,)))
optimizer = torch.optim.AdamW(model.train().parameters())
positions = torch.arange(256, device="cuda")[None]
for _ in range(3):
    tokens = torch.randint(0, 32000, (4, 256), device="cuda")
    optimizer.zero_grad()
    model(input_ids=tokens, position_ids=positions, labels=tokens).loss.backward()
    with implicit_replication():  # of parameters that are shared beside whole ones
        optimizer.step()
weight = model.model.layers[0].mlp.up_proj.weight
assert weight.to_local().shape == (1408, 1024), weight.shape
dist.destroy_process_group()
