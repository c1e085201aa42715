"""PyTorch's own operator database, one network for each operator: what op_db.py is about.

torch.testing._internal.common_methods_invocations.op_db has sample inputs for every operator.  Of
those that have a derivative in fp32, the largest of the first twelve samples is taken; its tensors
are inputs, and those that need a gradient are multiplied by a parameter of their shape first.
"""

import torch
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db

SAMPLES = 12
# Its kernel loops over lengths that a runtime whose kernels do nothing never writes.
LOOPS_OVER_VALUES = {"nn.functional.ctc_loss"}


def name_of(info):
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


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
    def __init__(self, operator, sample):
        super().__init__()
        self.operator = operator
        arguments = arguments_of(sample)
        tensors = tensors_of(arguments)
        self.inputs = tuple(tensor.detach() for tensor in tensors)
        numbers = iter(range(len(tensors)))
        self.arguments = mapped(arguments, lambda tensor: Place(next(numbers)))
        self.scales = nn.ParameterDict({str(i): nn.Parameter(torch.ones_like(tensor))
                                        for i, tensor in enumerate(tensors) if tensor.requires_grad})

    def forward(self, *inputs):
        def operand(place):
            key = str(place.number)
            tensor = inputs[place.number]
            return tensor * self.scales[key] if key in self.scales else tensor
        first, others, named = (mapped(part, operand, Place) for part in self.arguments)
        results = [result for result in tensors_of([self.operator(first, *others, **named)])
                   if result.is_floating_point()]
        return results[0] if len(results) == 1 else \
            torch.cat([result.flatten() for result in results])


def sample_of(info):
    torch.manual_seed(0)
    found = None
    for _, sample in zip(range(SAMPLES), info.sample_inputs("cpu", torch.float32,
                                                            requires_grad=True)):
        sizes = [tensor.numel() for tensor in tensors_of(arguments_of(sample))]
        if all(sizes) and (found is None or (sum(sizes), len(sizes)) > found[0]):
            found = (sum(sizes), len(sizes)), sample
    if found is None:
        raise ValueError("no sample without empty tensors")
    return found[1]


def build(info):
    return OneOperator(info.op, sample_of(info))
