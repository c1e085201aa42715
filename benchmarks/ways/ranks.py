"""Several cards: one process that believes to be rank 0 of 8; what it sends and gets is not moved.

PyTorch's own fake process group stands for NCCL, whose buffers are not the allocator's.
"""

import contextlib
import re

import adapters
import checkpoints
import formats
import sequences
from networks import NotForThis, blocks

WORLD = 8
SMALLER = 4  # of hybrid shards, and of those after forward
# Linear layers of attention and feed-forward blocks, as estimator/libraries/tensor_plans.cc has
# them.
COLUMNS = ["q_proj", "k_proj", "v_proj", "query", "key", "value", "q_lin", "k_lin", "v_lin",
           "gate_proj", "up_proj", "fc1", "lin1", "wi", "wi_[01]", "intermediate.dense"]
ROWS = ["o_proj", "out_proj", "out_lin", "down_proj", "fc2", "lin2", "wo", "output.dense"]


def join(world=WORLD):
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())


def reduced(state, bucket):
    """For the reductions, of which a fake group returns nothing."""
    import torch
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def ddp(model, **options):
    import torch.distributed.utils as checks
    import torch.nn.parallel.distributed as parallel
    join()
    # It compares shapes between ranks.
    checks._verify_param_shape_across_processes = lambda *_, **__: None
    parallel._verify_param_shape_across_processes = lambda *_, **__: None
    made = parallel.DistributedDataParallel(model.to("cuda").train(), device_ids=[0], **options)
    made.register_comm_hook(None, reduced)
    return made


def ddp_views(model):
    return ddp(model, gradient_as_bucket_view=True)


def ddp_static(model):
    return ddp(model, static_graph=True)


def ddp_last(model):
    """Kernels with their channels last, as timm's train.py has them before it wraps the model."""
    return ddp(formats.channels_last(model))


def no_sync(model, is_last):
    """Micro-batches before the last are not reduced."""
    return contextlib.nullcontext() if is_last else model.no_sync()


def fsdp(model, *shape, **options):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    join()
    mesh = init_device_mesh("cuda", shape or (WORLD,),
                            mesh_dim_names=("replicate", "shard")[-len(shape or (WORLD,)):])
    for block in blocks(model):
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options).train()


def bf16_policy():
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy
    return MixedPrecisionPolicy(torch.bfloat16, torch.float32)


def offload_policy():
    from torch.distributed.fsdp import CPUOffloadPolicy
    return CPUOffloadPolicy(pin_memory=False)


def fsdp_bf16(model):
    return fsdp(model, mp_policy=bf16_policy())


def fsdp_checkpoint(model):
    """Recomputation first, as torchtitan does."""
    checkpoints.put_around_blocks(model)
    return fsdp(model)


def fsdp_lora(model):
    return fsdp(adapters.with_lora(model))


def fsdp_lora_checkpoint(model):
    return fsdp_checkpoint(adapters.with_lora(model))


def fsdp_keeping(model):
    return fsdp(model, reshard_after_forward=False)


def fsdp_reshard(model):
    return fsdp(model, reshard_after_forward=SMALLER)


def fsdp_reshard_bf16(model):
    return fsdp(model, reshard_after_forward=SMALLER, mp_policy=bf16_policy())


def fsdp_reshard_all(model):
    """True that is told, which the whole model obeys, too."""
    return fsdp(model, reshard_after_forward=True)


def fsdp_reshard_checkpoint(model):
    checkpoints.put_around_blocks(model)
    return fsdp_reshard(model)


def fsdp_hybrid(model):
    return fsdp(model, WORLD // SMALLER, SMALLER)


def fsdp_hybrid_bf16(model):
    return fsdp(model, WORLD // SMALLER, SMALLER, mp_policy=bf16_policy())


def fsdp_offload(model):
    return fsdp(model, offload_policy=offload_policy())


def fsdp_offload_bf16(model):
    return fsdp(model, offload_policy=offload_policy(), mp_policy=bf16_policy())


def set_sync(model, is_last):
    """Gradients of micro-batches before the last are neither scattered nor reduced."""
    model.set_requires_gradient_sync(is_last)
    return contextlib.nullcontext()


def sync_always(model, is_last):
    return contextlib.nullcontext()


def is_named(path, names):
    return any(re.search(rf"(^|\.){name}$", path) for name in names)


def share_layers(model, mesh, shares_head=False, shares_tokens=False):
    """Layers as parallelize_module has them, on no device until they are shared, as torchtitan does."""
    import torch
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)
    of_tokens = sequences.paths_of_blocks(model) if shares_tokens else ()
    plan = {path: ColwiseParallel() if is_named(path, COLUMNS)
            else RowwiseParallel(
                output_layouts=Shard(1) if path.startswith(of_tokens) else Replicate())
            for path, module in model.named_modules()
            if type(module) is torch.nn.Linear and is_named(path, COLUMNS + ROWS)}
    if shares_head:
        given = Shard(1) if shares_tokens else Replicate()
        plan[head_of(model)] = ColwiseParallel(input_layouts=given, output_layouts=Replicate())
    for path in plan:
        model.get_submodule(path).to("meta")
        count_own_heads(model.get_submodule(path.rpartition(".")[0]), mesh.size())
    parallelize_module(model, mesh, plan)
    if shares_tokens:
        columns = [path for path in plan
                   if is_named(path, COLUMNS) and path.startswith(of_tokens)]
        sequences.share_tokens(model, mesh, columns, gathers=not shares_head)


def tensor_parallel(model, world, **shares):
    from torch.distributed.device_mesh import init_device_mesh
    join(world)
    share_layers(model, init_device_mesh("cuda", (world,)), **shares)
    return model._apply(on_device).train()


def tensor_parallel_fsdp(model, shared, *shape, shares_tokens=False, **options):
    """A mesh of more dimensions, as torchtitan has it: layers are shared first, then all parameters."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    join()
    shape = shape or (WORLD // shared,)
    names = ("replicate", "shard")[-len(shape):]
    mesh = init_device_mesh("cuda", (*shape, shared), mesh_dim_names=(*names, "shared"))
    share_layers(model, mesh["shared"], shares_tokens=shares_tokens)
    for block in blocks(model):
        fully_shard(block, mesh=mesh[names], **options)
    fully_shard(model, mesh=mesh[names], **options)
    return model._apply(on_device).train()


def head_of(model):
    """Transformers' "lm_head": "colwise_gather_output"; one that is tied has no part of its own."""
    import torch
    heads = [path for path, module in model.named_modules()
             if type(module) is torch.nn.Linear and is_named(path, ["lm_head"])]
    tied = [sum(model.get_submodule(path).weight is parameter for module in model.modules()
                for parameter in module._parameters.values()) > 1 for path in heads]
    if len(heads) != 1 or any(tied):
        raise NotForThis("no head that stands alone")
    return heads[0]


def count_own_heads(attention, world):
    """As PyTorch's tutorial says of attention that counts its heads itself."""
    for name in ["num_attention_heads", "all_head_size"]:
        of_all = attention.__dict__.get(f"{name}_of_all", attention.__dict__.get(name))
        if of_all:
            setattr(attention, f"{name}_of_all", of_all)
            setattr(attention, name, of_all // world)


def on_device(tensor):
    import torch
    return torch.empty_like(tensor, device="cuda") if tensor.is_meta else tensor.to("cuda")


def tp2(model):
    return tensor_parallel(model, 2)


def tp2_head(model):
    return tensor_parallel(model, 2, shares_head=True)


def tp2_checkpoint(model):
    checkpoints.put_around_blocks(model)
    return tp2(model)


def tp4(model):
    return tensor_parallel(model, 4)


def tp2_fsdp(model):
    return tensor_parallel_fsdp(model, 2)


def tp4_fsdp_bf16(model):
    return tensor_parallel_fsdp(model, 4, mp_policy=bf16_policy())


def tp2_fsdp_checkpoint(model):
    checkpoints.put_around_blocks(model)
    return tp2_fsdp(model)


def tp2_fsdp_keeping(model):
    return tensor_parallel_fsdp(model, 2, reshard_after_forward=False)


def tp2_fsdp_hybrid(model):
    return tensor_parallel_fsdp(model, 2, 2, 2)


def tp2_sequence(model):
    return tensor_parallel(model, 2, shares_tokens=True)


def tp4_sequence(model):
    return tensor_parallel(model, 4, shares_tokens=True)


def tp2_sequence_head(model):
    return tensor_parallel(model, 2, shares_tokens=True, shares_head=True)


def tp2_sequence_checkpoint(model):
    checkpoints.put_around_blocks(model)
    return tp2_sequence(model)


def tp2_sequence_fsdp(model):
    return tensor_parallel_fsdp(model, 2, shares_tokens=True)
