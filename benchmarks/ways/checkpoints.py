"""Recomputation: torch.utils.checkpoint around blocks."""

from functools import partial

from networks import NotForThis, blocks, inner, is_of_transformers


def put_around(block, use_reentrant):
    from torch.utils.checkpoint import checkpoint
    forward = block.forward

    def run(*args, **kwargs):
        result = checkpoint(partial(forward, **kwargs), *args, use_reentrant=use_reentrant)
        in_lists = isinstance(result, list) or any(isinstance(arg, (list, tuple)) for arg in args)
        if use_reentrant and in_lists:
            raise NotForThis("a reentrant checkpoint gives no gradients to what is in a list")
        return result
    block.forward = run


def is_by_library(model):
    return is_of_transformers(model) and inner(model).supports_gradient_checkpointing


def by_library(model, use_reentrant):
    """model.gradient_checkpointing_enable(), as users of transformers do."""
    if not is_by_library(model):
        raise NotForThis("no gradient_checkpointing_enable")
    inner(model).gradient_checkpointing_enable({"use_reentrant": use_reentrant})


def put_around_blocks(model, use_reentrant=False):
    if is_by_library(model):
        by_library(model, use_reentrant)
    else:
        for block in blocks(model):
            put_around(block, use_reentrant)


def of_blocks(model, use_reentrant=False):
    put_around_blocks(model, use_reentrant)
    return model.to("cuda").train()


def reentrant(model):
    return of_blocks(model, use_reentrant=True)


def every_second(model):
    """The second, fourth, …, as torchtitan counts for selective_ac_option="2"."""
    for block in blocks(model)[1::2]:
        put_around(block, use_reentrant=False)
    return model.to("cuda").train()
