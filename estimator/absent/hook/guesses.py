"""What follows of a call of whose tensors nothing is known: likely values (mirrors.py)."""

import torch

mirrors_file = load("mirrors")  # noqa: F821, sitecustomize.py has given it
operators = load("operators")  # noqa: F821
tensors = load("tensors")  # noqa: F821
has_mirror = mirrors_file.has_mirror

FEW = 256  # experts or classes, of which each is chosen about as often


def follow_constants(call, written, made):
    """With a tensor of which one value is all that is known.  Of pointwise operators one
    element is computed, so that isfinite(x).all() is true and isnan(x).any() is not."""
    value = None
    is_of_one = call.facts.pointwise or call.facts.name in operators.SAME_OF_ONE
    if is_of_one and not written and any(map(mirrors_file.is_whole, made)):
        value = of_one_element(call)
    if value is None:
        return lose(call, written, made)
    for x in made:
        if has_mirror(x):
            call.guess(x, value)


def of_one_element(call):
    if any(x.numel() > 1 and not call.mirrors.is_constant(x) for x in call.inputs()):
        return None
    is_told = not call.facts.pointwise

    def element(x):
        if not tensors.is_cuda(x):
            return x
        return call.mirrors.to_read(x, is_told).reshape(-1)[:1].reshape(())

    try:
        args, kwargs = call.changed(element)
        if call.facts.name in operators.SAME_OF_ONE:
            return bool(args[0])
        return call.func(*args, **kwargs).item()
    except Exception:
        return None


def lose(call, written, made):
    """Nothing is known of what was written.  What was there is the likeliest guess."""
    ids = {id(x) for x in written}
    for x in written:
        if has_mirror(x):
            call.mirrors.find(x).unknown = True
    for x in made:
        if id(x) not in ids and has_mirror(x):
            call.guess(x, mirrors_file.likely(x.dtype))
            spread(call, x)


def spread(call, out):
    """Which expert, which class: of few, a model that is trained chooses each about as often."""
    if not chooses(call) or not mirrors_file.is_whole(out) or not call.leaves[0].dim():
        return
    dim = operators.CHOICES[call.facts.name]
    if dim < len(call.args):
        dim = call.args[dim]
    elif call.facts.name in operators.LAST_BY_DEFAULT:
        dim = call.kwargs.get("dim", -1)
    else:
        return
    size = call.leaves[0].shape[dim] if isinstance(dim, int) else 0
    if 0 < size <= FEW:
        call.settle(out, (torch.arange(out.numel()) % size).view(out.shape), True)


def chooses(call):
    """By numbers that are guesses; the highest of counts is computed."""
    return call.facts.name in operators.CHOICES and call.leaves[0].dtype.is_floating_point


def is_known_in_part(call):
    """Something is known of what it reads, or was computed of what is known."""
    return any(mirror is not None and (mirror.bytes is not None or not mirror.unknown)
               for _, mirror in call.seen)


def counts(call):
    x = call.leaves[0]
    return call.facts.name in operators.COUNTS and x.dtype is torch.bool and has_mirror(x)
