"""Keyword arguments and the flags of the command that they are.  A keyword is its flag's name
with "_" for "-"; `dims`, `shapes` and those that take several values are mappings and lists.
None leaves a flag out, and so to ONNXFIT_* in the environment, [defaults] of ./onnxfit.toml and
the command's default."""

from __future__ import annotations

import difflib
import operator
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, TypedDict, Union

from onnxfit.errors import OnnxfitError

Size = Union[int, str]  # bytes, or "8GiB"
Names = Union[str, Sequence[str]]  # one, or several
Sizes = Union[Size, Sequence[Size]]
Axis = Union[int, str]  # a size; in a sweep also "8,16" or "8:64:8"


class RunFlags(TypedDict, total=False):
    """What is run, beside batch, precision, optimizer and loss; `onnxfit --help` says it all."""

    dims: Mapping[str, Axis]  # sizes of free dimensions, by name
    shapes: Mapping[str, Sequence[int]]  # of inputs, by name
    fp32_weights: bool  # parameters in fp32 whatever the module has, under autocast too
    optimizer_impl: Optional[str]  # foreach, for-loop or fused
    optimizer_args: Names  # weight_decay, nesterov, amsgrad; or "none"
    galore: Union[None, int, str]  # of that optimizer: a rank, or "128:attn,mlp"
    param_groups: Optional[str]  # auto, one, matrices, transformers, timm or ultralytics
    training_args: Optional[str]  # the path of a JSON file
    loop: Optional[str]  # plain, accelerate, trainer, lightning, timm or ultralytics
    clip_grad: bool
    ema: bool
    optimizer_in_backward: bool
    strategy: Optional[str]  # single, ddp, zero-redundancy, zero1 to zero3, fsdp, fsdp-hybrid, pipeline
    world: Union[int, str]  # ranks; "auto" in an estimate
    tensor_parallel: Union[None, int, str]  # ranks that share linear layers, or "4:head"
    sequence_parallel: bool  # and tokens between them
    ddp_views: bool
    ddp_static_graph: bool
    no_sync: bool  # with accumulate
    shard_world: Optional[int]  # ranks of a replica of fsdp-hybrid
    fsdp_modules: Names  # "auto", "every=N", or modules
    fsdp_keep: bool
    fsdp_reshard: Optional[int]  # ranks
    fsdp_offload: bool
    fsdp_policy: Optional[str]  # bf16
    reduce_bucket: Optional[int]  # elements of DeepSpeed's, with zero1 to zero3
    prefetch_bucket: Optional[int]  # the same that are gathered ahead, with zero3
    persistence_threshold: Optional[int]  # the same of what stays whole, with zero3
    overlap_comm: bool  # of DeepSpeed's zero1 and zero2
    zero_offload: bool  # of zero1 to zero3: the optimizer is the host's
    schedule: Optional[str]  # 1f1b or gpipe, of a pipeline
    stage: Optional[int]  # of a pipeline; all, of which the largest is taken
    split_at: Names  # modules with which stages begin
    drop_outputs: bool  # of a pipeline's last stage
    mode: Optional[str]  # train or eval
    loss_output: Optional[str]
    label_smoothing: bool
    channels_last: bool
    cudnn_benchmark: bool  # torch.backends.cudnn.benchmark
    mixup: bool  # of timm's loop
    batch_norm: Optional[str]  # auto, restore or keep
    dropout: Union[None, str, float, Mapping[str, float]]  # p everywhere, or by names of modules
    assume: Mapping[str, bool]  # conv-bias, in-place-dropout, tied-head
    attention: Optional[str]  # sdpa or eager
    in_place: Optional[str]  # auto, always, known or never
    out_of_place: Names
    zero_grad: Optional[str]  # before-forward, before-backward, after-step or keep
    hold_outputs: bool
    drop_batch: bool
    same_batch: bool
    prefetch: Optional[int]
    accumulate: Optional[int]
    eval_batch: Optional[int]  # samples evaluated at once behind each step
    eval_keep: Optional[int]  # batches whose predictions stay on the device
    freeze: Names
    checkpoint: Names  # "auto", "every=N", or modules
    checkpoint_reentrant: bool
    compile: Optional[str]  # none, inductor or as-eager
    cuda_graphs: bool
    note: Names  # sentences that the answer lists among its assumptions
    lora: Union[None, int, str]  # a rank, or "8:q_proj,v_proj"
    lora_dropout: Optional[float]
    dora: bool
    quantize: Optional[str]  # nf4 or int8, or "nf4:q_proj,v_proj"
    framework: Optional[str]  # pytorch-1.10, -1.13, -2.0 to -2.15; what exported the model
    alloc_conf: Optional[str]
    cublas_conf: Optional[str]  # as CUBLAS_WORKSPACE_CONFIG
    overhead: Optional[Size]
    calibration: Optional[str]  # the path of a file, or "none"
    memory: Sizes
    reserve: Optional[Size]
    strict: bool
    cudnn: Optional[str]  # a folder, "auto" or "none"
    n: Optional[int]  # how many of the largest tensors
    verbose: bool
    ascii: bool


class EstimateFlags(RunFlags, total=False):
    why: Optional[str]  # the name of a tensor or a node
    devices: Names  # cards of all ranks, such as ["4xa100-40gb", "4xt4"]


class SeriesFlags(RunFlags, total=False):
    """Batches that differ in length."""

    lengths: str  # "uniform:64..512/8", "lognormal:180,0.6,1024", a file; "seq=uniform:64..512"
    steps: Optional[int]
    seeds: Optional[int]
    seed: Optional[int]  # the first of them
    samples: Optional[int]  # of an epoch, whose last batch has what is left
    tokens: Optional[int]  # of a batch, which has as many samples as these have room for
    pad_to: Optional[int]
    of_samples: bool  # lengths are those of samples: a batch is as long as its longest


class SolveFlags(TypedDict, total=False):
    solve: str  # a dimension, image or rank


class GenerationFlags(TypedDict, total=False):
    """Of onnxfit.generate() and generate_max_batch(), with mode="generate"."""

    prompt: Union[int, Sequence[int]]
    new: Union[int, Sequence[int]]
    cache: str  # generate()'s cache_implementation
    beams: int


class SessionFlags(TypedDict, total=False):
    """A session of ONNX Runtime, beside batch, gpu and memory."""

    runtime: str  # onnxruntime
    provider: str  # cuda, cpu
    dims: Mapping[str, Axis]
    shapes: Mapping[str, Sequence[int]]
    session: Mapping[str, object]  # fields of SessionOptions, entries of its configuration
    provider_option: Mapping[str, object]  # of its CUDA provider
    io_binding: bool
    reserve: Optional[Size]
    overhead: Optional[Size]
    ram: Optional[Size]  # of the machine, beside provider="cpu"
    strict: bool


class MaxBatchFlags(RunFlags, total=False):
    all_gpus: bool
    devices: Names  # cards of all ranks
    multiple_of: Optional[int]
    max: Optional[int]


class ProgramFlags(TypedDict, total=False):
    """Of onnxfit.run() and run_max_batch(), beside gpu, devices, memory, reserve, multiple_of and
    strict."""

    max_batch: str  # "8:512"
    steps: Optional[int]  # of an optimizer, after which the program ends
    seconds: Optional[int]
    until_same: bool  # until three turns of its loop allocate the same
    ram: Optional[Size]  # of the machine, such as "12.7GB"
    snapshot: Optional[str]  # the path of a file
    html: Optional[str]  # the same


class NumbersFlags(RunFlags, total=False):
    """A transformer given by its numbers."""

    layers: Optional[int]
    hidden: Optional[int]
    heads: Optional[int]
    seq: Optional[int]
    vocab: Optional[int]


Write = Callable[[str, object], List[str]]


# Those that are not --KEYWORD VALUE.
_FLAGS = {"dims": "--dim", "shapes": "--shape", "n": "-n", "verbose": "-v"}
_KEYWORD_OF = {flag: keyword for keyword, flag in _FLAGS.items()}


def _refuse(flag: str, expected: str, found: object) -> OnnxfitError:
    keyword = _KEYWORD_OF.get(flag, flag.lstrip("-").replace("-", "_"))
    return OnnxfitError(f"{keyword}: expected {expected}, found {found!r}")


def _one(flag: str, value: object) -> List[str]:
    if isinstance(value, (list, tuple, dict, set)):
        raise _refuse(flag, "one value", value)
    return [flag, str(value)]


def _switch(flag: str, value: object) -> List[str]:
    if not isinstance(value, bool):
        raise _refuse(flag, "True or False", value)
    return [flag] if value else []


def items(value: object) -> List[object]:
    """One value, or those of a list."""
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]


def _several(flag: str, value: object) -> List[str]:
    return [word for item in items(value) for word in _one(flag, item)]


def _sentences(flag: str, value: object) -> List[str]:
    """Each in one word: it may begin with "-"."""
    return [f"{flag}={item}" for item in items(value)]


def _list(flag: str, value: object) -> List[str]:
    """One flag with all values: an axis of a table."""
    return [flag, ",".join(str(item) for item in items(value))]


def _pairs(flag: str, value: object, separator: str, expected: str) -> List[str]:
    if not isinstance(value, Mapping):
        raise _refuse(flag, expected, value)
    words = []
    for name, item in value.items():
        words += [flag, f"{name}={separator.join(str(part) for part in items(item))}"]
    return words


def _dims(flag: str, value: object) -> List[str]:
    return _pairs(flag, value, ",", "a dictionary of sizes such as {'seq': 512}")


def _shapes(flag: str, value: object) -> List[str]:
    return _pairs(flag, value, "x", "a dictionary of shapes such as {'x': (2, 512)}")


def _settings(flag: str, value: object) -> List[str]:
    return _pairs(flag, value, ",", "a dictionary such as {'enable_mem_pattern': 0}")


def _dropout(flag: str, value: object) -> List[str]:
    return _pairs(flag, value, ",", "") if isinstance(value, Mapping) else _one(flag, value)


def _assume(flag: str, value: object) -> List[str]:
    expected = "a dictionary of answers such as {'tied-head': False}"
    if not isinstance(value, Mapping):
        raise _refuse(flag, expected, value)
    told = {name: "yes" if item else "no" for name, item in value.items()}
    return _pairs(flag, told, ",", expected)


_WRITERS: Dict[str, Write] = {
    **dict.fromkeys(("batch", "precision", "optimizer", "optimizer_args", "devices", "prompt",
                     "new"), _list),
    **dict.fromkeys(("gpu", "memory", "freeze", "checkpoint", "fsdp_modules",
                    "out_of_place", "only", "split_at"), _several),
    **dict.fromkeys(("channels_last", "checkpoint_reentrant", "clip_grad", "cuda_graphs",
                     "cudnn_benchmark", "ddp_static_graph", "fp32_weights", "ddp_views", "dora", "drop_batch",
                     "drop_outputs", "ema", "fsdp_keep", "fsdp_offload", "hold_outputs",
                     "io_binding", "of_samples",
                     "label_smoothing", "mixup", "no_sync", "optimizer_in_backward",
                     "overlap_comm", "same_batch", "sequence_parallel", "strict", "all_gpus", "verbose", "ascii",
                     "until_same", "update", "zero_offload"), _switch),
    "note": _sentences,
    "dims": _dims,
    "shapes": _shapes,
    "session": _settings,
    "provider_option": _settings,
    "dropout": _dropout,
    "assume": _assume,
}
KEYWORDS = frozenset(("batch", "precision", "optimizer", "loss", "labels", "gpu", "params", "update",
                      "against", "lock", "only", *EstimateFlags.__annotations__,
                      *MaxBatchFlags.__annotations__, *ProgramFlags.__annotations__,
                      *NumbersFlags.__annotations__, *SeriesFlags.__annotations__,
                      *GenerationFlags.__annotations__,
                      *SessionFlags.__annotations__, *SolveFlags.__annotations__))


# What others call it.
_ELSEWHERE = {
    "args": "inputs", "bs": "batch", "criterion": "loss", "device": "gpu", 
    "dtype": "precision", "example_inputs": "inputs", "gradient_accumulation_steps": "accumulate",
    "gradient_checkpointing": "checkpoint", "input_data": "inputs", "input_size": "inputs",
    "max_grad_norm": "clip_grad", "num_gpus": "world", "optim": "optimizer", "target": "labels",
    "targets": "labels", "vram": "memory", "world_size": "world"}
_OURS = ("inputs", "labels", "batch_dim", "dynamic_shapes", "output", "force", "budget")


def _nearest(keyword: str) -> str:
    """The keyword that was meant, or ""."""
    if keyword in _ELSEWHERE:
        return _ELSEWHERE[keyword]
    known = [*KEYWORDS, *_OURS]
    starts = [name for name in known if keyword.startswith(name + "_")]
    near = difflib.get_close_matches(keyword, known, 1, 0.7)
    return max(starts, key=len) if starts else next(iter(near), "")


def check(keywords: Iterable[str]) -> None:
    """Raises for one that is none, with the one that was meant."""
    for keyword in keywords:
        if keyword not in KEYWORDS:
            near = _nearest(keyword)
            meant = f"did you mean {near}=?" if near else "see help(onnxfit.flags)"
            raise TypeError(f"onnxfit has no keyword {keyword!r} ({meant})")


def batch_of(value: object) -> object:
    """A batch as the command takes it: numbers of NumPy and ranges as Python's own."""
    if value is None or isinstance(value, (str, int)):
        return value
    if hasattr(value, "__index__"):
        return operator.index(value)
    if not isinstance(value, Iterable):
        raise _refuse("--batch", "a number", value)
    return [batch_of(item) for item in value]


_PRECISIONS = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16",
               "torch.float64": "fp64"}


def precision_of(value: object) -> object:
    """A precision as the command takes it, of PyTorch's types, too."""
    if isinstance(value, (list, tuple)):
        return [precision_of(item) for item in value]
    return _PRECISIONS.get(str(value), value)


def arguments(keywords: Mapping[str, object]) -> List[str]:
    """The words of a command line, in the order of `keywords`."""
    check(keywords)
    words: List[str] = []
    for keyword, value in keywords.items():
        if value is None:
            continue
        flag = _FLAGS.get(keyword, "--" + keyword.replace("_", "-"))
        words += _WRITERS.get(keyword, _one)(flag, value)
    return words
