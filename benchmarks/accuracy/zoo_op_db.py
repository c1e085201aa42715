"""PyTorch's own operator database, one network for each operator: what op_db.py is about.

torch.testing._internal.common_methods_invocations.op_db has sample inputs for every operator.  Of
those that have a derivative in fp32, the largest of the first twelve samples is taken; its tensors
are inputs, and those that need a gradient are multiplied by a parameter of their shape first.

NAME@LAYOUT is the same operator of inputs that lie otherwise: inputs and parameters are stored with
their dimensions in another order, and seen in theirs; the result is seen in that order again and
flattened, which copies it unless it lies as the inputs do.
"""

import functools
from typing import NamedTuple

import torch
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db

SAMPLES = 12
SAMPLES_OF_LAYOUT = 200  # few have four dimensions
# Its kernel loops over lengths that a runtime whose kernels do nothing never writes.
LOOPS_OVER_VALUES = {"nn.functional.ctc_loss"}


class Layout(NamedTuple):
    """Which dimensions are stored in which order: the places of a tensor's own among the stored."""

    order: tuple  # of `rank` dimensions; empty: reversed, of two or more

    def order_of(self, rank):
        """The permutation of a stored tensor by which it is seen, () for none."""
        if not self.order:
            return tuple(reversed(range(rank))) if rank > 1 else ()
        return self.order if rank == len(self.order) else ()


LAYOUTS = {"permuted": Layout(()), "channels_last": Layout((0, 3, 1, 2))}


def seen(tensor, layout):
    order = layout.order_of(tensor.dim()) if layout else ()
    return tensor.permute(order) if order else tensor


def stored(tensor, layout):
    """seen (stored (x), …) is x."""
    order = layout.order_of(tensor.dim()) if layout else ()
    return tensor.permute([order.index(i) for i in range(len(order))]) if order else tensor


def name_of(info):
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


@functools.cache
def operators():
    """{name: OpInfo}"""
    found = {name_of(info): info for info in op_db
             if torch.float32 in info.dtypes and info.supports_autograd}
    return {name: info for name, info in found.items() if name not in LOOPS_OVER_VALUES}


def mapped(value, change, kind=torch.Tensor):
    """`value` with change(x) in place of each x of `kind` in it."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(item, change, kind) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size) \
            and not hasattr(value, "_fields"):
        return type(value)(mapped(item, change, kind) for item in value)
    return value


def arguments_of(sample):
    return [sample.input, list(sample.args), dict(sample.kwargs)]


def tensors_of(value):
    found = []
    mapped(value, found.append)
    return found


class Place:
    """Where the network's input `number` stands among a call's arguments."""

    def __init__(self, number):
        self.number = number


class OneOperator(nn.Module):
    def __init__(self, operator, sample, layout):
        super().__init__()
        self.operator, self.layout = operator, layout
        arguments = arguments_of(sample)
        tensors = tensors_of(arguments)
        self.inputs = tuple(self.as_stored(tensor) for tensor in tensors)
        numbers = iter(range(len(tensors)))
        self.arguments = mapped(arguments, lambda tensor: Place(next(numbers)))
        self.scales = nn.ParameterDict({
            str(i): nn.Parameter(torch.ones_like(self.inputs[i]))
            for i, tensor in enumerate(tensors) if tensor.requires_grad})

    def as_stored(self, tensor):
        if self.layout is None or not tensor.requires_grad:
            return tensor.detach()
        return stored(tensor.detach(), self.layout).contiguous()

    def forward(self, *inputs):
        def operand(place):
            key = str(place.number)
            tensor = inputs[place.number]
            return seen(tensor * self.scales[key], self.layout) if key in self.scales else tensor
        first, others, named = (mapped(part, operand, Place) for part in self.arguments)
        results = [stored(result, self.layout)
                   for result in tensors_of([self.operator(first, *others, **named)])
                   if result.is_floating_point()]
        if len(results) > 1:
            return torch.cat([result.flatten() for result in results])
        return results[0] if self.layout is None else results[0].flatten()


def has(layout, sample):
    """Whether the layout makes one of the sample's tensors lie otherwise."""
    return layout is None or any(
        not seen(stored(tensor, layout).contiguous(), layout).is_contiguous()
        for tensor in tensors_of(arguments_of(sample)) if tensor.requires_grad)


def sample_of(info, layout=None):
    torch.manual_seed(0)
    found = None
    count = SAMPLES if layout is None else SAMPLES_OF_LAYOUT
    for _, sample in zip(range(count), info.sample_inputs("cpu", torch.float32,
                                                            requires_grad=True)):
        sizes = [tensor.numel() for tensor in tensors_of(arguments_of(sample))]
        if all(sizes) and has(layout, sample) and \
                (found is None or (sum(sizes), len(sizes)) > found[0]):
            found = (sum(sizes), len(sizes)), sample
    if found is None:
        raise ValueError("no such sample without empty tensors")
    return found[1]


def build(name):
    operator, _, layout = name.partition("@")
    info, layout = operators()[operator], LAYOUTS.get(layout)
    return OneOperator(info.op, sample_of(info, layout), layout)


def in_layouts(names):
    """NAME@LAYOUT of all operators in `names` that have a sample for it."""
    found = []
    for name in names:
        for layout in LAYOUTS:
            try:
                sample_of(operators()[name], LAYOUTS[layout])
                found.append(f"{name}@{layout}")
            except Exception:  # some have no samples here
                pass
    return found
