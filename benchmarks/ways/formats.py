"""Memory formats: pictures and kernels with their channels last."""

from networks import NotForThis


def is_picture(tensor):
    return tensor.is_floating_point() and tensor.dim() == 4


def channels_last(model):
    """docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html: on the device first."""
    import torch
    if not any(parameter.dim() == 4 for parameter in model.parameters()):
        raise NotForThis("no kernel of pictures")
    return model.to("cuda").to(memory_format=torch.channels_last).train()


def pictures_last(batch):
    """A batch on the device, as timm's train.py makes it of one that came there as it was."""
    import torch
    if not any(is_picture(tensor) for tensor in batch.values()):
        raise NotForThis("no picture")
    return {name: tensor.contiguous(memory_format=torch.channels_last)
            if is_picture(tensor) else tensor for name, tensor in batch.items()}
