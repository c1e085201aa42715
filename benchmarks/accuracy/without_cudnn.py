"""Convolutions as a card lays them out, from a cuDNN that asks for no workspace: for a runtime that
computes nothing, and any version of PyTorch.
"""

import torch

LIBRARY = torch.library.Library("aten", "IMPL")  # what it registers goes when it goes


def has_own_kernel(x, w, transposed, groups):
    """Channel by channel, but in float16, where cuDNN may be taken."""
    return (not transposed and groups > 1 and x.size(1) == groups
            and w.size(0) % x.size(1) == 0 and x.dtype != torch.float16)


def runs_last(x, w):
    """cudnn_conv_suggest_memory_format (aten/src/ATen/native/ConvUtils.h)."""
    def is_last(t):
        return t.dim() > 3 and torch._prims_common.suggest_memory_format(t) != \
            torch.contiguous_format
    return x.dtype != torch.float64 and (is_last(x) or is_last(w))


def laid_out(t, last):
    """t.contiguous(memory_format=…)"""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=formats[t.dim()] if last else torch.contiguous_format)


def empty_in(shape, like, last):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return torch.empty(shape, dtype=like.dtype, device=like.device,
                       memory_format=formats[len(shape)] if last else torch.contiguous_format)


def convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    """What cuDNN's and PyTorch's own kernels make, from a cuDNN that asks for no workspace."""
    def meta(t):
        return torch.empty(t.shape, dtype=t.dtype, device="meta")
    shape = torch.ops.aten.convolution(meta(x), meta(w), None, stride, padding, dilation,
                                       transposed, output_padding, groups).shape
    last = runs_last(x, w)
    x = laid_out(x, last)
    out = empty_in(shape, x, last)
    laid_out(w, last)
    return out


def convolution_backward(grad, x, w, bias_sizes, stride, padding, dilation, transposed,
                         output_padding, groups, wanted):
    """The same of the gradients (convolution_backward of aten/src/ATen/native/Convolution.cpp)."""
    last = runs_last(x, w)
    if has_own_kernel(x, w, transposed, groups) and not last:
        return depthwise_backward(grad, x, w, wanted)
    if wanted[1] or x.dim() == 3:
        x = laid_out(x, last)
    last = runs_last(x, x)
    dense = laid_out(grad, last)
    of_x = of_w = None
    if wanted[0]:
        of_x = empty_in(x.shape, dense, last)
        laid_out(w, last)
    if wanted[1]:
        of_w = empty_in(w.shape, dense, last)
    return of_x, of_w, sum_to_channels(grad) if wanted[2] else None


def depthwise_backward(grad, x, w, wanted):
    dense = grad.contiguous()
    of_w = empty_in(w.shape, dense, False) if wanted[1] else None
    of_x = empty_in(x.shape, dense, False) if wanted[0] else None
    return of_x, of_w, sum_to_channels(grad) if wanted[2] else None


def sum_to_channels(grad):
    return grad.sum(dim=[0, *range(2, grad.dim())])


def register():
    LIBRARY.impl("convolution", convolution, "CUDA")
    LIBRARY.impl("convolution_backward", convolution_backward, "CUDA")
