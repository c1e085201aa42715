"""Training steps that write in place, and how PyTorch's own engine runs them: step_cases.py."""

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn


def _written(write):
    """A step whose loss is of a fresh tensor, into parts of which `write` puts what a layer makes."""
    def case(device):
        layer = nn.Linear(256, 256).to(device)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)

        def step(images):
            optimizer.zero_grad()
            (write(images, layer) * 2).sum().backward()
            optimizer.step()

        return step, (torch.randn(512, 256),)
    return case


def _set_columns(images, layer):
    made = torch.zeros_like(images)
    made[..., :16] = layer(images)[..., :16]
    return made


def _set_rows(images, layer):
    made = torch.empty_like(images)
    for row in range(3):
        made[row] = layer(images)[row]
    return made


def _add_to_columns(images, layer):
    made = torch.zeros_like(images)
    made[:, :16].add_(layer(images)[:, :16])
    return made


def _averaged(update, keep):
    """A step behind which `update` moves plain tensors, kept by `keep`, towards the weights."""
    def case(device):
        layer = nn.Linear(512, 512).to(device)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        averages = keep({name: parameter.detach().clone()
                         for name, parameter in layer.named_parameters()})

        def step(images):
            optimizer.zero_grad()
            layer(images).pow(2).mean().backward()
            optimizer.step()
            kept = averages.values() if isinstance(averages, dict) else averages
            with torch.no_grad():
                for average, parameter in zip(kept, layer.parameters()):
                    update(average, parameter)

        return step, (torch.randn(64, 512),)
    return case


def _multiplied(average, parameter):
    average.mul_(0.999).add_(parameter, alpha=0.001)


def _interpolated(average, parameter):
    average.lerp_(parameter, 0.001)


def _swa(device):
    """The first update copies, those behind it compute."""
    layer = nn.Linear(512, 512).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    average = AveragedModel(layer, avg_fn=get_ema_avg_fn(0.999))

    def step(images):
        optimizer.zero_grad()
        layer(images).pow(2).mean().backward()
        optimizer.step()
        average.update_parameters(layer)

    return step, (torch.randn(64, 512),)


def _kept_at_first(device):
    layer = nn.Linear(512, 512).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    start = {}

    def step(images):
        if "weight" not in start:
            start["weight"] = layer.weight.detach().clone()
        else:
            way = (layer.weight - start["weight"]).detach()
            start["length"] = way @ way
        optimizer.zero_grad()
        layer(images).pow(2).mean().backward()
        optimizer.step()

    return step, (torch.randn(64, 512),)


class _Moved(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.zeros(1024, 1))

    def forward(self, weight):
        return weight + self.by


def _parametrized(device):
    """As peft's target_parameters: within each forward, which has the weight set to itself."""
    layer, moved = nn.Linear(1024, 1024).to(device), _Moved().to(device)

    def step(images):
        parametrize.register_parametrization(layer, "weight", moved)
        loss = layer(images).pow(2).mean()
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
        loss.backward()
        layer.zero_grad()
        moved.zero_grad()

    return step, (torch.randn(64, 1024),)


def _named(name, case):
    case.__name__ = name
    return case


IN_PLACE_CASES = (_named("columns_set", _written(_set_columns)),
                  _named("rows_set", _written(_set_rows)),
                  _named("columns_added", _written(_add_to_columns)),
                  _named("average_list", _averaged(_multiplied, lambda made: [*made.values()])),
                  _named("average_dict", _averaged(_interpolated, dict)),
                  _named("average_swa", _swa), _named("kept_at_first", _kept_at_first),
                  _named("parametrized", _parametrized))
