"""What is asked of arguments: which tensors are among them, and what kind they are."""

import torch

Tensor, Parameter = torch.Tensor, torch.nn.Parameter
PLAIN = torch._C._disabled_torch_dispatch_impl
CPU = torch.device("cpu")


def is_cuda(value):
    return isinstance(value, Tensor) and value.is_cuda


def is_strided(tensor):
    """One storage has its elements; not of a sparse or a nested tensor."""
    return tensor.layout is torch.strided and not tensor.is_nested


def on_cuda(device):
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, str) and device.startswith("cuda")


def is_cuda_generator(value):
    return isinstance(value, torch.Generator) and value.device.type == "cuda"


def is_plain(kind):
    """A subclass that only has another name: operators see a tensor."""
    return (kind is Tensor or kind is Parameter or kind.__torch_dispatch__ is PLAIN
            or kind.__torch_dispatch__ is Tensor.__torch_dispatch__)


def of_compiler(kind):
    return kind.__name__ in ("FakeTensor", "FunctionalTensor")


def covers_part(tensor):
    return tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()


def leaves_of(values):
    """Of lists in lists."""
    found = []
    for x in values:
        if isinstance(x, (list, tuple)):
            found.extend(leaves_of(x))
        else:
            found.append(x)
    return found


def mapped(value, change):
    if isinstance(value, (list, tuple)):
        same_kind = list if isinstance(value, list) else tuple
        return same_kind([mapped(x, change) for x in value])
    return change(value)
