"""torch.compile on a card, as its documentation has it; the loss and the optimizer are not compiled."""

STEPS = 6  # a graph is recorded in the second run of what it replays from the third on


def plainly(model):
    import torch
    return torch.compile(model.to("cuda").train())


def with_graphs(model):
    import measure_transformers as reference
    import torch
    reference.STEPS = STEPS
    return torch.compile(model.to("cuda").train(), mode="reduce-overhead")
