"""What PyTorch's allocator counts under DeepSpeed's ZeRO: the figures of
tests/zero_partition_test.cc (stage 2) and tests/zero_stage3_test.cc (3).

    deepspeed_zero.py STAGE BUCKET WORLD OPTIMIZER [MICRO_BATCHES] [overlap]    # 2 5000000 8 adamw
    PREFETCH=1000000 PERSISTS=1000 deepspeed_zero.py 3 5000000 8 adamw

Runs on "cuda", as truths.py does; torch 2.11.0, deepspeed 0.19.8 (its source folder on PYTHONPATH is
enough: no operator of its own is built).  PyTorch's fake process group stands for NCCL.  The net is
that of the test: four residual blocks and a head, in bf16, 4 samples.
"""

import os
import sys

import torch

STAGE, BUCKET, WORLD = map(int, sys.argv[1:4])
OPTIMIZER = sys.argv[4]
OVERLAPS = sys.argv[-1] == "overlap"
MICRO_BATCHES = int(sys.argv[5]) if len(sys.argv) > 5 and sys.argv[5].isdigit() else 1
OF_STAGE_3 = {name: int(os.environ[variable]) for name, variable in
              [("stage3_prefetch_bucket_size", "PREFETCH"),
               ("stage3_param_persistence_threshold", "PERSISTS")] if variable in os.environ}
OPTIMIZERS = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(),
                                torch.nn.Linear(4096, 1024)) for _ in range(4))
        self.head = torch.nn.Linear(1024, 10)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def engine_of(model):
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    os.environ.update(LOCAL_RANK="0", RANK="0", WORLD_SIZE=str(WORLD), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29511")
    dist.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())
    import deepspeed
    from deepspeed.runtime.zero import stage3
    # Where nothing is computed, gradients may be no numbers: their steps are not to be skipped.
    stage3.DeepSpeedZeroOptimizer_Stage3.has_overflow = lambda *_, **__: False
    stage3.is_invalid_grad_norm = lambda _: False
    config = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": MICRO_BATCHES,
              "bf16": {"enabled": True, "check_grad_overflow": False},
              "zero_allow_untested_optimizer": True,
              "zero_optimization": {"stage": STAGE, "reduce_bucket_size": BUCKET,
                                    "overlap_comm": OVERLAPS, **OF_STAGE_3}}
    optimizer = OPTIMIZERS[OPTIMIZER](model.parameters(), lr=1e-3)
    return deepspeed.initialize(model=model, config=config, optimizer=optimizer)[0]


def step(engine):
    """The largest sum of what was asked for, and of what was reserved, meanwhile."""
    torch.cuda.reset_peak_memory_stats()
    for _ in range(MICRO_BATCHES):
        x = torch.randn(4, 1024).to("cuda", torch.bfloat16)
        labels = torch.zeros(4, dtype=torch.long, device="cuda")
        engine.backward(torch.nn.functional.cross_entropy(engine(x), labels))
        engine.step()
    stats = torch.cuda.memory_stats()
    return stats["requested_bytes.all.peak"], stats["reserved_bytes.all.peak"]


def main():
    engine = engine_of(Net())
    for number in (1, 2, 3):
        exact, reserved = step(engine)
        print(f"step {number}: exact {exact}, reserved {reserved}")


if __name__ == "__main__":
    main()
