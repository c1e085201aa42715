"""The ways people train: how each is set up in Python, and which flags of onnxfit say the same."""

from typing import NamedTuple

# What each was run with, beside torch 2.11.0, transformers 5.17.0, torchvision, timm and diffusers
# as in ../zoo.
VERSIONS = {"peft": "0.21.2", "bitsandbytes": "0.50.2", "accelerate": "1.15.0",
            "schedulefree": "1.4.1", "lion-pytorch": "0.2.5", "lightning": "2.6.6",
            "prodigyopt": "1.1.2", "ultralytics": "8.4.190", "deepspeed": "0.19.8",
            "galore-torch": "1.0"}

FP32, AMP = (4, "fp32"), (8, "amp-bf16")  # batch, precision
BOTH, ONE, FP16 = [FP32, AMP], [FP32], [(8, "amp-fp16")]
LARGER_BF16 = [(8, "bf16"), (32, "bf16")]
LARGER = [(16, "fp32"), (32, "amp-bf16")]  # so that activations decide, and not AdamW
# Of every kind of tensor that optimizers tell apart: matrices, vectors, kernels of convolutions,
# few elements and many, one weight in two places.
FOR_OPTIMIZERS = ["gpt2", "transformers.llama", "transformers.t5", "transformers.qwen2_moe",
                  "transformers.vit", "torchvision.resnet18", "timm.swinv2_cr_tiny_224",
                  "tutorial.nested_unet"]
# Whose parameters all get a gradient, which DDP asks for; also a convolution's and experts'.
FOR_RANKS = ["gpt2", "transformers.llama", "transformers.t5", "transformers.qwen2_moe",
             "transformers.bloom", "transformers.vit", "transformers.deberta-v2",
             "torchvision.resnet18", "timm.swinv2_cr_tiny_224", "tutorial.annotated_transformer"]
# One after the other in blocks; of the deep ones in three stages, too.
DEEP = ["gpt2", "bert_base", "torchvision.resnet18", "timm.mixer_s32_224"]
FOR_STAGES = [*DEEP, "transformers.llama", "transformers.qwen3", "transformers.phi3",
              "transformers.smollm3", "transformers.qwen2_moe"]
# Whose attention and feed-forward blocks are linear layers by names that plans know.
FOR_TENSOR_PARALLEL = ["bert_base", *(f"transformers.{name}" for name in [
    "llama", "qwen3", "qwen2_moe", "granitemoe", "gemma2", "gemma4", "smollm3", "t5", "mt5",
    "distilbert", "xlm-roberta", "electra", "canine", "mobilebert", "vit", "dinov2", "beit",
    "yolos", "focalnet", "mobilevit", "depth_anything", "tipsv2_dpt", "clip", "siglip", "qwen3_vl",
    "audio-spectrogram-transformer"]), "timm.swinv2_cr_tiny_224", "timm.mixer_s32_224"]
FOR_SHARDS_OF_LAYERS = ["bert_base", *(f"transformers.{name}" for name in [
    "llama", "qwen3", "t5", "distilbert", "vit", "siglip", "qwen2_moe"])]
FOR_SHARED_TOKENS = ["bert_base", *(f"transformers.{name}" for name in [
    "llama", "qwen3", "gemma2", "smollm3", "distilbert", "xlm-roberta", "electra", "siglip",
    "tipsv2_dpt", "clip", "qwen3_vl", "audio-spectrogram-transformer", "canine"])]
MICRO_BATCHES = 2


class Way(NamedTuple):
    flags: str = ""  # of onnxfit
    model: str = ""  # FILE:FUNCTION(model) -> model on the device; "" moves it there
    optimizer: str = "optimizers:of_torch:AdamW"  # FILE:FUNCTION[:ARGUMENT](model) -> optimizer
    optimizer_flag: str = "adamw"
    inputs: str = ""  # FILE:FUNCTION(batch) -> batch, of another format
    loss: str = ""  # FILE:FUNCTION(output, target), in place of the network's cross entropy
    loop: str = ""  # FILE:FUNCTION that runs its own, or a class that is asked to go backward
    evaluates: str = ""  # FILE:FUNCTION(...) that evaluates when a step of the loop has ended
    micro_batches: str = ""  # FILE:FUNCTION(model, is_last) -> context of one, of MICRO_BATCHES
    eval_times: int = 1  # so many times the batch of training is that of evaluation
    settings: list = BOTH
    networks: list = []  # all


def of_optimizer(flag, optimizer, flags="", networks=FOR_OPTIMIZERS):
    return Way(flags, optimizer=f"optimizers:{optimizer}", optimizer_flag=flag, settings=ONE,
               networks=networks)


def in_trainer(flag, optim):
    return Way("--loop trainer", loop=f"trainers:trainer_with:{optim}", optimizer_flag=flag,
               settings=ONE)


def in_pipeline(stage, schedule, flags="", keeps="", stages=2, networks=FOR_STAGES):
    return Way(f"--strategy pipeline --world {stages} --stage {stage} --accumulate 4 "
               f"--schedule {schedule} {flags}",
               loop=f"stages:pipeline:{stages}:{stage}:{schedule}{keeps}", networks=networks)


def beside_shards(made, flags="", ranks=2, strategy="fsdp", settings=BOTH,
                  networks=FOR_TENSOR_PARALLEL):
    """Of 8 ranks, `ranks` that share layers."""
    return Way(f"--tensor-parallel {ranks} --strategy {strategy} --world {8 // ranks} {flags}",
               f"ranks:{made}", "optimizers:among_shards:AdamW", settings=settings,
               networks=networks)


# LoRA's layers are peft's own for the type, or LINEAR where peft has none for it.
LINEAR = ":*"
RANKS = "--world 8 --strategy"
EVALUATES = "--eval-batch {eval_batch}"
KEEPS = f"{EVALUATES} --eval-keep 3"

WAYS = {
    "plain": Way(settings=[FP32, AMP, *LARGER]),
    "checkpoint": Way("--checkpoint auto", "checkpoints:of_blocks", settings=LARGER),
    "checkpoint-reentrant": Way("--checkpoint auto --checkpoint-reentrant",
                                "checkpoints:reentrant", settings=LARGER),
    "checkpoint-every2": Way("--checkpoint every=2", "checkpoints:every_second",
                              settings=LARGER),
    "lora": Way("--lora 8{layers} --lora-dropout 0.05", "adapters:lora"),
    "lora-all": Way("--lora 16:all-linear", "adapters:lora_all", settings=[AMP]),
    "lora-checkpoint": Way("--lora 8{layers} --lora-dropout 0.05 --checkpoint auto",
                           "adapters:lora_checkpoint", settings=[AMP]),
    "lora-checkpoint-reentrant": Way(
        "--lora 8{layers} --lora-dropout 0.05 --checkpoint auto --checkpoint-reentrant",
        "adapters:lora_checkpoint_reentrant", settings=[AMP]),
    "dora": Way("--lora 8{layers} --dora", "adapters:dora", settings=[AMP]),
    "qlora": Way("--quantize nf4 --lora 8{layers} --lora-dropout 0.05", "adapters:qlora"),
    "qlora-checkpoint": Way(
        "--quantize nf4 --lora 8{layers} --lora-dropout 0.05 --checkpoint auto",
        "adapters:qlora_checkpoint", settings=[AMP]),
    "qlora-checkpoint-reentrant": Way(
        "--quantize nf4 --lora 8{layers} --lora-dropout 0.05 --checkpoint auto "
        "--checkpoint-reentrant", "adapters:qlora_checkpoint_reentrant", settings=[AMP]),
    "int8": Way("--quantize int8 --lora 8{layers} --lora-dropout 0.05", "adapters:int8",
                settings=[AMP]),
    "adamw-8bit": Way(optimizer="optimizers:of_bitsandbytes:AdamW8bit",
                      optimizer_flag="adamw-8bit"),
    "sgdm-decay": of_optimizer("sgdm", "of_torch:SGD:momentum:weight_decay",
                               "--optimizer-args weight_decay"),
    "sgdm-nesterov": of_optimizer("sgdm", "of_torch:SGD:momentum:weight_decay:nesterov",
                                  "--optimizer-args weight_decay,nesterov"),
    "sgdm-nesterov-loop": of_optimizer(
        "sgdm", "in_loop:SGD:momentum:weight_decay:nesterov",
        "--optimizer-args weight_decay,nesterov --optimizer-impl for-loop"),
    "sgd-decay": of_optimizer("sgd", "of_torch:SGD:weight_decay", "--optimizer-args weight_decay"),
    "adam-decay": of_optimizer("adam", "of_torch:Adam:weight_decay",
                               "--optimizer-args weight_decay"),
    "adam-decay-loop": of_optimizer("adam", "in_loop:Adam:weight_decay",
                                    "--optimizer-args weight_decay --optimizer-impl for-loop"),
    "adamw-amsgrad": of_optimizer("adamw", "of_torch:AdamW:weight_decay:amsgrad",
                                  "--optimizer-args weight_decay,amsgrad"),
    "rmsprop-decay": of_optimizer("rmsprop", "of_torch:RMSprop:weight_decay",
                                  "--optimizer-args weight_decay"),
    "adagrad-decay": of_optimizer("adagrad", "of_torch:Adagrad:weight_decay",
                                  "--optimizer-args weight_decay"),
    "adamw-groups": of_optimizer("adamw", "by_matrices:AdamW", "--param-groups matrices"),
    "adamw-amsgrad-groups": of_optimizer(
        "adamw", "by_matrices:AdamW:amsgrad",
        "--param-groups matrices --optimizer-args weight_decay,amsgrad"),
    "sgdm-groups": of_optimizer("sgdm", "by_matrices:SGD:momentum",
                                "--param-groups matrices --optimizer-args weight_decay"),
    "adam-groups": of_optimizer("adam", "by_matrices:Adam",
                                "--param-groups matrices --optimizer-args weight_decay"),
    "ademamix": of_optimizer("ademamix-32bit", "of_bitsandbytes:AdEMAMix"),
    "ademamix-8bit": of_optimizer("ademamix-8bit", "of_bitsandbytes:AdEMAMix8bit"),
    "sgd-8bit": of_optimizer("sgdm-8bit", "of_bitsandbytes:SGD8bit:momentum"),
    "rmsprop-8bit": of_optimizer("rmsprop-8bit", "of_bitsandbytes:RMSprop8bit"),
    "rmsprop-bnb": of_optimizer("rmsprop-32bit", "of_bitsandbytes:RMSprop32bit"),
    "adagrad-8bit": of_optimizer("adagrad-8bit", "of_bitsandbytes:Adagrad8bit"),
    "lion-timm": of_optimizer("timm-lion", "of_timm:lion"),
    "adopt-timm": of_optimizer("timm-adopt", "of_timm:adopt"),
    "lamb-timm": of_optimizer("timm-lamb", "of_timm:lamb"),
    "schedule-free-sgd": of_optimizer("schedule-free-sgd", "schedule_free_sgd"),
    "nadam": of_optimizer("nadam", "of_torch:NAdam"),
    "nadam-loop": of_optimizer("nadam", "in_loop:NAdam", "--optimizer-impl for-loop"),
    "nadam-decay": of_optimizer("nadam", "of_torch:NAdam:weight_decay",
                                "--optimizer-args weight_decay"),
    "radam": of_optimizer("radam", "of_torch:RAdam"),
    "radam-decay": of_optimizer("radam", "of_torch:RAdam:weight_decay",
                                "--optimizer-args weight_decay"),
    "adamax": of_optimizer("adamax", "of_torch:Adamax"),
    "adamax-loop": of_optimizer("adamax", "in_loop:Adamax", "--optimizer-impl for-loop"),
    "adamax-decay": of_optimizer("adamax", "of_torch:Adamax:weight_decay",
                                 "--optimizer-args weight_decay"),
    "adadelta": of_optimizer("adadelta", "of_torch:Adadelta"),
    "adadelta-loop": of_optimizer("adadelta", "in_loop:Adadelta", "--optimizer-impl for-loop"),
    "adadelta-decay": of_optimizer("adadelta", "of_torch:Adadelta:weight_decay",
                                   "--optimizer-args weight_decay"),
    "adadelta-decay-loop": of_optimizer(
        "adadelta", "in_loop:Adadelta:weight_decay",
        "--optimizer-args weight_decay --optimizer-impl for-loop"),
    "asgd": of_optimizer("asgd", "of_torch:ASGD"),
    "asgd-decay": of_optimizer("asgd", "of_torch:ASGD:weight_decay",
                               "--optimizer-args weight_decay"),
    "prodigy": of_optimizer("prodigy", "prodigy"),
    "soap": of_optimizer("soap", "soap"),
    "galore": Way("--galore 16:all-linear", optimizer="optimizers:galore:16:all-linear",
                  optimizer_flag="galore", settings=[*BOTH, (8, "bf16")],
                  networks=FOR_OPTIMIZERS),
    "galore-attn-mlp": Way(optimizer="optimizers:galore:128:attn:mlp", optimizer_flag="galore",
                           networks=["gpt2", "transformers.llama", "transformers.qwen2_moe",
                                     "timm.swinv2_cr_tiny_224"]),
    "galore-in-backward": of_optimizer(
        "galore", "galore_in_backward:16:all-linear",
        "--galore 16:all-linear --optimizer-in-backward"),
    "musgd": of_optimizer("musgd", "musgd", "--optimizer-args weight_decay"),
    "paged-adamw": of_optimizer("paged-adamw-32bit", "of_bitsandbytes:PagedAdamW"),
    "paged-adamw-8bit": of_optimizer("paged-adamw-8bit", "of_bitsandbytes:PagedAdamW8bit"),
    "lion": of_optimizer("lion", "lion"),
    "lion-bnb": of_optimizer("lion-32bit", "of_bitsandbytes:Lion"),
    "lion-8bit": of_optimizer("lion-8bit", "of_bitsandbytes:Lion8bit"),
    "adafactor": of_optimizer("adafactor", "of_torch:Adafactor"),
    "adafactor-transformers": of_optimizer("adafactor-transformers", "adafactor_of_transformers"),
    "schedule-free": of_optimizer("schedule-free-adamw", "schedule_free"),
    "muon": of_optimizer("muon", "muon", networks=["gpt2", "transformers.llama",
                                                   "transformers.vit"]),
    "optimizer-in-backward": Way("--optimizer-in-backward", optimizer="optimizers:in_backward",
                                 settings=LARGER),
    "ddp": Way(f"{RANKS} ddp", "ranks:ddp"),
    "ddp-views": Way(f"{RANKS} ddp --ddp-views", "ranks:ddp_views", settings=[AMP]),
    "zero1": Way(f"{RANKS} zero-redundancy", "ranks:ddp", "optimizers:zero"),
    "fsdp2": Way(f"{RANKS} fsdp", "ranks:fsdp"),
    "fsdp2-bf16": Way(f"{RANKS} fsdp --fsdp-policy bf16", "ranks:fsdp_bf16", settings=ONE),
    "fsdp2-keeping": Way(f"{RANKS} fsdp --fsdp-keep", "ranks:fsdp_keeping", settings=ONE),
    "fsdp2-checkpoint": Way(f"{RANKS} fsdp --checkpoint auto", "ranks:fsdp_checkpoint",
                            settings=LARGER),
    "fsdp2-lora": Way(f"{RANKS} fsdp --lora 8{{layers}} --lora-dropout 0.05", "ranks:fsdp_lora",
                      settings=[AMP]),
    "fsdp2-lora-checkpoint": Way(
        f"{RANKS} fsdp --lora 8{{layers}} --lora-dropout 0.05 --checkpoint auto",
        "ranks:fsdp_lora_checkpoint", settings=[AMP], networks=FOR_RANKS),
    "fsdp2-reshard": Way(f"{RANKS} fsdp --fsdp-reshard 4", "ranks:fsdp_reshard",
                         networks=FOR_RANKS),
    "fsdp2-hybrid": Way(f"{RANKS} fsdp-hybrid --shard-world 4", "ranks:fsdp_hybrid",
                        networks=FOR_RANKS),
    "fsdp2-hybrid-bf16": Way(f"{RANKS} fsdp-hybrid --shard-world 4 --fsdp-policy bf16",
                             "ranks:fsdp_hybrid_bf16", settings=ONE, networks=FOR_RANKS),
    "fsdp2-offload": Way(f"{RANKS} fsdp --fsdp-offload", "ranks:fsdp_offload",
                         networks=FOR_RANKS),
    "fsdp2-reshard-bf16": Way(f"{RANKS} fsdp --fsdp-reshard 4 --fsdp-policy bf16",
                              "ranks:fsdp_reshard_bf16", settings=ONE, networks=FOR_RANKS),
    "fsdp2-reshard-all": Way(f"{RANKS} fsdp --fsdp-reshard 8", "ranks:fsdp_reshard_all",
                             settings=[AMP], networks=FOR_RANKS),
    "fsdp2-reshard-checkpoint": Way(f"{RANKS} fsdp --fsdp-reshard 4 --checkpoint auto",
                                    "ranks:fsdp_reshard_checkpoint", settings=LARGER,
                                    networks=FOR_RANKS),
    "fsdp2-offload-bf16": Way(f"{RANKS} fsdp --fsdp-offload --fsdp-policy bf16",
                              "ranks:fsdp_offload_bf16", settings=ONE, networks=FOR_RANKS),
    "fsdp2-clip": Way(f"{RANKS} fsdp --clip-grad", "ranks:fsdp", "optimizers:Clipping",
                      networks=FOR_RANKS),
    "ddp-static": Way(f"{RANKS} ddp --ddp-static-graph", "ranks:ddp_static", networks=FOR_RANKS),
    "ddp-accumulate": Way(f"{RANKS} ddp --accumulate 2 --no-sync", "ranks:ddp",
                          micro_batches="ranks:no_sync", networks=FOR_RANKS),
    "ddp-views-accumulate": Way(f"{RANKS} ddp --ddp-views --accumulate 2 --no-sync",
                                "ranks:ddp_views", settings=[AMP],
                                micro_batches="ranks:no_sync", networks=FOR_RANKS),
    "fsdp2-accumulate": Way(f"{RANKS} fsdp --accumulate 2", "ranks:fsdp",
                            micro_batches="ranks:sync_always", networks=FOR_RANKS),
    "fsdp2-accumulate-unsynced": Way(f"{RANKS} fsdp --accumulate 2 --no-sync", "ranks:fsdp",
                                     micro_batches="ranks:set_sync", networks=FOR_RANKS),
    "fsdp2-bf16-accumulate-unsynced": Way(
        f"{RANKS} fsdp --fsdp-policy bf16 --accumulate 2 --no-sync", "ranks:fsdp_bf16",
        settings=ONE, micro_batches="ranks:set_sync", networks=FOR_RANKS),
    "pipeline-first": in_pipeline(0, "1f1b"),
    "pipeline-middle": in_pipeline(1, "1f1b", stages=3, networks=DEEP),
    "pipeline-last": in_pipeline(1, "1f1b", "--drop-outputs"),
    "pipeline-outputs": in_pipeline(1, "1f1b", keeps=":keeps"),
    "gpipe-first": in_pipeline(0, "gpipe"),
    "gpipe-middle": in_pipeline(1, "gpipe", stages=3, networks=DEEP),
    "gpipe-last": in_pipeline(1, "gpipe", "--drop-outputs"),
    "tp2": Way("--tensor-parallel 2", "ranks:tp2", "optimizers:among_shards:AdamW",
               settings=[FP32, *LARGER], networks=FOR_TENSOR_PARALLEL),
    "tp4": Way("--tensor-parallel 4", "ranks:tp4", "optimizers:among_shards:AdamW",
               settings=[FP32, AMP], networks=FOR_TENSOR_PARALLEL),
    "tp2-head": Way("--tensor-parallel 2:head", "ranks:tp2_head", "optimizers:among_shards:AdamW",
                    settings=[FP32, *LARGER], networks=FOR_TENSOR_PARALLEL),
    "tp2-checkpoint": Way("--tensor-parallel 2 --checkpoint auto", "ranks:tp2_checkpoint",
                          "optimizers:among_shards:AdamW", settings=LARGER,
                          networks=FOR_TENSOR_PARALLEL),
    "tp4-sgdm": Way("--tensor-parallel 4 --optimizer-args weight_decay", "ranks:tp4",
                    "optimizers:among_shards:SGD:momentum:weight_decay", optimizer_flag="sgdm",
                    settings=[AMP], networks=["bert_base", "transformers.llama", "transformers.vit"]),
    "tp2-sequence": Way("--tensor-parallel 2 --sequence-parallel", "ranks:tp2_sequence",
                        "optimizers:among_shards:AdamW", settings=[FP32, *LARGER],
                        networks=FOR_SHARED_TOKENS),
    "tp4-sequence": Way("--tensor-parallel 4 --sequence-parallel", "ranks:tp4_sequence",
                        "optimizers:among_shards:AdamW", networks=FOR_SHARED_TOKENS),
    "tp2-sequence-head": Way("--tensor-parallel 2:head --sequence-parallel",
                             "ranks:tp2_sequence_head", "optimizers:among_shards:AdamW",
                             settings=[FP32, *LARGER], networks=FOR_SHARED_TOKENS),
    "tp2-sequence-checkpoint": Way("--tensor-parallel 2 --sequence-parallel --checkpoint auto",
                                   "ranks:tp2_sequence_checkpoint",
                                   "optimizers:among_shards:AdamW", settings=LARGER,
                                   networks=FOR_SHARED_TOKENS),
    "tp2-sequence-fsdp2": beside_shards("tp2_sequence_fsdp", "--sequence-parallel",
                                        settings=[FP32, *LARGER], networks=FOR_SHARED_TOKENS),
    "tp2-fsdp2": beside_shards("tp2_fsdp", settings=[FP32, *LARGER]),
    "tp4-fsdp2-bf16": beside_shards("tp4_fsdp_bf16", "--fsdp-policy bf16", ranks=4, settings=ONE),
    "tp2-fsdp2-checkpoint": beside_shards("tp2_fsdp_checkpoint", "--checkpoint auto",
                                          settings=LARGER),
    "tp2-fsdp2-keeping": beside_shards("tp2_fsdp_keeping", "--fsdp-keep", settings=ONE,
                                       networks=FOR_SHARDS_OF_LAYERS),
    "tp2-fsdp2-hybrid": beside_shards("tp2_fsdp_hybrid", "--shard-world 2", strategy="fsdp-hybrid",
                                      networks=FOR_SHARDS_OF_LAYERS),
    "tp2-fsdp2-accumulate": beside_shards("tp2_fsdp", "--accumulate 2 --no-sync",
                                          networks=FOR_SHARDS_OF_LAYERS
                                          )._replace(micro_batches="ranks:set_sync"),
    "zero2": Way(f"{RANKS} zero2 --reduce-bucket 5000000", "deepspeeds:on_host",
                 loop="deepspeeds:Zero2", settings=LARGER_BF16, networks=FOR_RANKS),
    "zero3": Way(f"{RANKS} zero3", "deepspeeds:on_host", loop="deepspeeds:Zero3",
                 settings=[FP32, *LARGER_BF16], networks=FOR_RANKS),
    "zero3-buckets": Way(
        f"{RANKS} zero3 --reduce-bucket 1000000 --prefetch-bucket 900000 "
        "--persistence-threshold 10000", "deepspeeds:on_host", loop="deepspeeds:Zero3InBuckets",
        settings=LARGER_BF16, networks=FOR_RANKS),
    "zero2-offload": Way(f"{RANKS} zero2 --zero-offload --reduce-bucket 5000000",
                         "deepspeeds:on_host", loop="deepspeeds:Zero2Offload",
                         settings=LARGER_BF16, networks=FOR_RANKS),
    "zero3-offload": Way(f"{RANKS} zero3 --zero-offload", "deepspeeds:on_host",
                         loop="deepspeeds:Zero3Offload", settings=LARGER_BF16, networks=FOR_RANKS),
    "zero3-checkpoint": Way(
        f"{RANKS} zero3 --checkpoint auto --reduce-bucket 1000000 --prefetch-bucket 900000 "
        "--persistence-threshold 10000", "deepspeeds:with_checkpoints",
        loop="deepspeeds:Zero3InBuckets", settings=LARGER_BF16, networks=FOR_RANKS),
    "channels-last": Way("--channels-last", "formats:channels_last", inputs="formats:pictures_last"),
    "channels-last-ddp": Way(f"{RANKS} ddp --channels-last", "ranks:ddp_last",
                             inputs="formats:pictures_last"),
    "label-smoothing": Way("--label-smoothing", loss="losses:smoothed", settings=LARGER),
    "trainer": Way("--loop trainer", loop="trainers:trainer", settings=LARGER),
    "trainer-smoothing": Way("--loop trainer --label-smoothing",
                             loop="trainers:trainer_smoothing", settings=LARGER),
    "trainer-adamw": Way("--loop trainer --optimizer-impl foreach",
                         loop="trainers:trainer_adamw", settings=[AMP]),
    "trainer-sgd": Way("--loop trainer --optimizer-args weight_decay",
                       loop="trainers:trainer_sgd", optimizer_flag="sgd", settings=ONE),
    "trainer-adamw-8bit": in_trainer("adamw-8bit", "adamw_bnb_8bit"),
    "trainer-paged-adamw-8bit": in_trainer("paged-adamw-8bit", "paged_adamw_8bit"),
    "trainer-lion-8bit": in_trainer("lion-8bit", "lion_8bit"),
    "trainer-rmsprop-8bit": in_trainer("rmsprop-8bit", "rmsprop_bnb_8bit"),
    "trainer-ademamix-8bit": in_trainer("ademamix-8bit", "ademamix_8bit"),
    "trainer-galore": Way("--loop trainer --galore 16:all-linear", loop="trainers:trainer_galore",
                          optimizer_flag="galore", networks=FOR_OPTIMIZERS),
    "trainer-accumulate": Way("--loop trainer --accumulate 2",
                              loop="trainers:trainer_accumulate", settings=LARGER),
    "trainer-fp16": Way("--loop trainer", loop="trainers:trainer", settings=FP16),
    "lightning-accumulate": Way("--loop lightning --accumulate 2",
                                loop="trainers:lightning_accumulate", settings=LARGER),
    "lightning-fp16": Way("--loop lightning", loop="trainers:lightning", settings=FP16),
    "accelerate-accumulate": Way("--loop accelerate --accumulate 2 --zero-grad after-step",
                                 loop="trainers:accelerate_accumulate", settings=LARGER),
    "accelerate-fp16": Way("--loop accelerate", loop="trainers:Accelerated", settings=FP16),
    "evaluation": Way(EVALUATES, evaluates="evaluations:Evaluation"),
    "evaluation-twice": Way(EVALUATES, evaluates="evaluations:Evaluation", eval_times=2),
    "evaluation-kept": Way(KEEPS, evaluates="evaluations:Keeping"),
    "evaluation-kept-twice": Way(KEEPS, evaluates="evaluations:Keeping", eval_times=2,
                                 settings=ONE),
    "trainer-evaluation": Way(f"--loop trainer {EVALUATES}", loop="trainers:trainer_evaluation"),
    "trainer-evaluation-twice": Way(f"--loop trainer {EVALUATES}", eval_times=2,
                                    loop="trainers:trainer_evaluation_twice"),
    "trainer-evaluation-kept": Way(f"--loop trainer {KEEPS}", loop="trainers:trainer_keeping"),
    "trainer-evaluation-kept-twice": Way(f"--loop trainer {KEEPS}", eval_times=2,
                                         loop="trainers:trainer_keeping_twice", settings=ONE),
    "ultralytics-step": Way(
        "--param-groups ultralytics --clip-grad --ema --optimizer-args weight_decay,nesterov "
        "--zero-grad after-step",
        loop="trainers:ultralytics_step", optimizer_flag="sgdm", settings=[FP32, *FP16],
        networks=["torchvision.resnet18", "torchvision.convnext_tiny", "timm.resnet50",
                  "timm.swinv2_cr_tiny_224", "transformers.vit", "transformers.mobilevit"]),
    "ultralytics": Way("--loop ultralytics --accumulate 1", loop="trainers:ultralytics_sgd",
                       optimizer_flag="sgdm", settings=[(16, "fp32"), (32, "amp-fp16")]),
    "ultralytics-musgd": Way("--loop ultralytics --accumulate 1", optimizer_flag="musgd",
                             loop="trainers:ultralytics_musgd", settings=[(32, "amp-fp16")]),
    "ultralytics-adamw": Way("--loop ultralytics --accumulate 1",
                             loop="trainers:ultralytics_adamw", settings=[(32, "amp-fp16")]),
    "ultralytics-accumulate": Way("--loop ultralytics", loop="trainers:ultralytics_accumulate_sgd",
                                  optimizer_flag="sgdm", settings=[(32, "amp-fp16")]),
    "timm": Way("--loop timm --optimizer-args weight_decay,nesterov", optimizer_flag="sgdm",
                loop="trainers:timm", settings=LARGER),
    "timm-fp16": Way("--loop timm", loop="trainers:timm_adamw", settings=FP16),
    "timm-mixup": Way("--loop timm --mixup", loop="trainers:timm_mixup", settings=LARGER),
    "timm-ema": Way("--loop timm --ema", loop="trainers:timm_ema", settings=ONE),
    "timm-lamb": Way("--loop timm --optimizer-args weight_decay", optimizer_flag="timm-lamb",
                     loop="trainers:timm_lamb", settings=LARGER),
    "timm-adamw": Way("--loop timm", loop="trainers:timm_adamw", settings=LARGER),
    "lightning": Way("--loop lightning", loop="trainers:lightning", settings=LARGER),
    "accelerate": Way("--loop accelerate", loop="trainers:Accelerated", settings=LARGER),
}


def eval_batch_of(way, batch):
    return way.eval_times * batch


def flags_of(truth):
    """Of onnxfit, that ask for a run."""
    way = WAYS[truth["way"]]
    layers = LINEAR if truth.get("layers_by_name") else ""
    flags = way.flags.format(layers=layers, eval_batch=eval_batch_of(way, truth["batch"]))
    return f"{flags} --loss {truth['loss']}" if truth["loss"] else flags
