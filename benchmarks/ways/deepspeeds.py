"""DeepSpeed's engine in the reference loop: ZeRO as rank 0 of 8, PyTorch's fake group for NCCL."""

import os

from ranks import WORLD
from table import MICRO_BATCHES

ON_HOST = {"device": "cpu", "pin_memory": True}


def on_host(model):
    """deepspeed.initialize takes it to the device."""
    return model.train()


def with_checkpoints(model):
    import checkpoints
    checkpoints.put_around_blocks(model)
    return model.train()


def join():
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    os.environ.update(LOCAL_RANK="0", RANK="0", WORLD_SIZE=str(WORLD), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29511")
    dist.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())


def step_always():
    """Where nothing is computed, gradients may be no numbers: their steps are not to be skipped."""
    from deepspeed.runtime.zero import stage3, stage_1_and_2
    for module, optimizer in ((stage3, "DeepSpeedZeroOptimizer_Stage3"),
                              (stage_1_and_2, "DeepSpeedZeroOptimizer")):
        getattr(module, optimizer).has_overflow = lambda *_, **__: False
        module.is_invalid_grad_norm = lambda _: False


class Engine:
    def __init__(self, model, optimizer, precision, accumulate=1, **zero):
        join()
        import deepspeed
        step_always()
        config = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": accumulate,
                  "bf16": {"enabled": precision == "bf16", "check_grad_overflow": False},
                  "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
                  "zero_optimization": zero}
        self.model, *_ = deepspeed.initialize(model=model, config=config, optimizer=optimizer)
        self.optimizer = self

    def zero_grad(self):
        """The engine does."""

    def scale(self, loss):
        return Backward(self.model, loss)

    def step(self, optimizer=None):
        self.model.step()

    def update(self):
        """Nothing is left to do."""


class Backward:
    def __init__(self, engine, loss):
        self.engine, self.loss = engine, loss

    def backward(self):
        self.engine.backward(self.loss)


class Zero2(Engine):
    def __init__(self, *args):
        super().__init__(*args, stage=2, reduce_bucket_size=5_000_000)


class Zero3(Engine):
    """With all that is its default."""

    def __init__(self, *args):
        super().__init__(*args, stage=3)


class Zero2Offload(Engine):
    """The optimizer's parts are on the host, pinned, as Trainer's examples have it."""

    def __init__(self, *args):
        super().__init__(*args, stage=2, reduce_bucket_size=5_000_000, offload_optimizer=ON_HOST)


class Zero3Offload(Engine):
    def __init__(self, *args):
        super().__init__(*args, stage=3, offload_optimizer=ON_HOST)


class Zero3OffloadAll(Engine):
    """Parts of parameters, too."""

    def __init__(self, *args):
        super().__init__(*args, stage=3, offload_optimizer=ON_HOST, offload_param=ON_HOST)


class Zero3InBuckets(Engine):
    """Of the sizes that Trainer's "auto" gives a model with a hidden size of 1000."""

    def __init__(self, *args):
        super().__init__(*args, stage=3, reduce_bucket_size=1_000_000,
                         stage3_prefetch_bucket_size=900_000,
                         stage3_param_persistence_threshold=10_000)
