"""Several cards: one process that believes to be rank 0 of 8; what it sends and gets is not moved.

PyTorch's own fake process group stands for NCCL, whose buffers are not the allocator's.
"""

import contextlib

import adapters
import checkpoints
from networks import blocks

WORLD = 8
SMALLER = 4  # of hybrid shards, and of those after forward


def join():
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())


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
