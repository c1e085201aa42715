"""torch.compile for a runtime that computes nothing: Inductor's own code, whose kernels are not run.

AOTAutograd traces and partitions, Inductor fuses, orders and writes its wrappers as on a card; these
allocate every buffer by PyTorch's allocator, then call a kernel.  Calls of ATen (products of matrices,
convolutions, attention) run as in eager.  Triton's kernels are not compiled and do nothing; nor are
they tuned, which on a card takes, in the first step that nobody has cached, the size of the L2 cache
and copies of what a kernel writes in place (torch/_inductor/runtime/benchmarking.py: `buffer`).
"""

import measure_transformers as reference  # the one that ../ways has found
import without_cudnn
import torch
import torch._functorch.config
import torch._inductor.config
import triton
from torch._inductor import async_compile, compile_fx
from torch._inductor.fx_passes import pad_mm
from transformers import masking_utils as masking
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

CAPABILITY = 80  # of the card that the runtime looks like
# What the runtime answers for in eager, and what traced code asks no values of.
MASKS = {name: getattr(masking, name) for name in
         ("find_packed_sequence_indices", "fast_all", "_ignore_bidirectional_mask_sdpa")}
saved = []  # by graph: what its backward keeps of its forward
padded = []  # products that a card would have been asked about
before_step = []  # by step: its peak until the optimizer steps


class Driver(DriverBase):
    """What Inductor asks of Triton's driver before there is a kernel."""

    def __init__(self):
        pass

    @classmethod
    def is_active(cls):
        return True

    def map_python_to_cpp_type(self, ty):
        raise NotImplementedError(ty)

    def get_benchmarker(self):
        raise NotImplementedError

    def get_current_target(self):
        return GPUTarget("cuda", CAPABILITY, 32)

    def get_active_torch_device(self):
        return torch.device("cuda", 0)


class Kernel:
    def run(self, *_, **__):
        pass


def operator_of(node):
    """The call that a value comes from, through views and the parts of a tuple."""
    while node.op == "call_function":
        target = node.target
        is_view = isinstance(target, torch._ops.OpOverload) and torch._inductor.utils.is_view(target)
        if not is_view and "getitem" not in str(target):
            return str(target)
        node = node.all_input_nodes[0]
    return node.op


def bytes_of(value):
    """Of a tensor; other values are sizes."""
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def noting(partition):
    """What the partitioner keeps, by the operator that made it: for README.md's figures."""
    def note(joint, inputs, **options):
        forward, backward = partition(joint, inputs, **options)
        kept = forward.graph.find_nodes(op="output")[0].args[0][options["num_fwd_outputs"]:]
        saved.append([[operator_of(node), bytes_of(node.meta["val"])] for node in kept
                      if isinstance(node, torch.fx.Node)])
        return forward, backward
    return note


def not_padding(key):
    """A card times a product with and without padding; a runtime without kernels cannot."""
    padded.append(key)
    return False


def format_of(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Of what a convolution makes: Inductor has its inputs in other formats than eager."""
    if x.dim() == 3:
        return torch.contiguous_format
    backend = torch._C._select_conv_backend(x, w, bias, list(stride), list(padding), list(dilation),
                                            transposed, list(output_padding), groups)
    return torch._C._conv_determine_backend_memory_format(x, w, backend)


def convolution(x, w, bias, *options):
    out = without_cudnn.convolution(x, w, bias, *options)
    return torch.empty_like(out, memory_format=format_of(x, w, bias, *options), device=x.device)


def convolution_backward(grad, x, w, bias_sizes, *options_and_wanted):
    *options, wanted = options_and_wanted
    form = format_of(x, w, None, *options)
    return (torch.empty_like(x, memory_format=form) if wanted[0] else None,
            torch.empty_like(w, memory_format=form) if wanted[1] else None,
            w.new_empty(bias_sizes) if wanted[2] else None)


def while_compiling(function, otherwise):
    """Libraries skip masks that hide nothing, but not in a graph."""
    def ask(*arguments, **options):
        return (function if torch.compiler.is_compiling() else otherwise)(*arguments, **options)
    return ask


def compute_nothing():
    for name, function in MASKS.items():
        setattr(masking, name, while_compiling(function, getattr(masking, name)))
    without_cudnn.LIBRARY.impl("convolution", convolution, "CUDA", allow_override=True)
    without_cudnn.LIBRARY.impl("convolution_backward", convolution_backward, "CUDA", allow_override=True)
    triton.runtime.driver.set_active(Driver())
    async_compile.AsyncCompile.triton = lambda *_, **__: Kernel()
    compile_fx.min_cut_rematerialization_partition = noting(
        compile_fx.min_cut_rematerialization_partition)
    torch._inductor.config.compile_threads = 1
    torch._inductor.config.force_disable_caches = True
    pad_mm.get_cached_should_pad = not_padding


def compiled(model):
    return torch.compile(model.to("cuda").train())


def adamw(model):
    """That notes the peak of forward and backward alone."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    optimizer.register_step_pre_hook(
        lambda *_: before_step.append(torch.cuda.max_memory_allocated()))
    return optimizer
