"""Where the program reads values, or has a size decided by them: it gets what the mirrors hold, and
where that is a guess, its line is noted.

A size that a guess decides is the most that it can be, as long as nothing of that guess was told: a
mask that may be anything chooses every row, numbers that may be any all differ.  What was computed
from guesses that were told stays as computed, which need not be the most."""

import torch

mirrors_file = load("mirrors")  # noqa: F821, sitecustomize.py has given it
operators = load("operators")  # noqa: F821
reads = load("reads")  # noqa: F821
tensors = load("tensors")  # noqa: F821
has_mirror = mirrors_file.has_mirror

TOLD_AT_ONCE = 64 << 10  # bytes
LARGE_READ = 1 << 24  # elements that two tensors are compared of


def told(call, run):
    """What a call gives that reads values; `run` is the operator as it is."""
    return read(call) if call.facts.read else sized(call, run)


def read(call):
    if call.unknown():
        reads.note(call.facts.read)
    if call.facts.name == "aten::equal" and call.leaves[0].numel() > LARGE_READ:
        return True
    return call.compute()


def sized(call, run):
    """The operator's result, of the size that its values have.  The operator itself runs, too: what
    it takes meanwhile does not depend on them."""
    what = call.args[call.facts.name in operators.SIZED_BY_SECOND]
    of_guess = call.mirrors.is_unknown(what)
    most = None
    if of_guess and call.mirrors.is_untold(what):
        most = most_of(call, what)
    if of_guess:
        reads.note(call.facts.sized, is_most=most is not None)
    if call.facts.name == "aten::_nested_tensor_from_mask":
        return nested(call, what)
    taken_meanwhile(call, run)
    if most is not None:
        return most()
    return tensors.mapped(call.compute(), lambda x: placed(call, x))


def nested(call, mask):
    """As PyTorch does it, by the sizes that it would have read."""
    padded = call.args[0]
    lengths = call.mirrors.to_read(mask, True).sum(1)
    return torch._nested_from_padded(
        padded, torch.stack([lengths, torch.full_like(lengths, padded.shape[2])], 1))


def taken_meanwhile(call, run):
    """The result is freed before the true one is made."""
    call.mode.passing += 1
    try:
        run()
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception:
        pass  # it has looked at what no kernel computed
    finally:
        call.mode.passing -= 1


def placed(call, value):
    """A CUDA tensor as this one of the CPU, with its values."""
    if not isinstance(value, torch.Tensor):
        return value
    out = torch.empty_like(value, device=call.inputs()[0].device)
    if has_mirror(out):
        call.settle(out, value, call.unknown())
    return out


def most_of(call, what):
    """What makes the largest result that this operator can have of such a tensor; None where no
    size is the largest."""
    name = call.facts.name
    if name == "aten::nonzero":
        call.mirrors.choose_all(what)
        return lambda: guessed(call, (what.numel(), what.dim()), torch.int64)
    if name == "aten::masked_select":
        call.mirrors.choose_all(what)
        source = call.args[0]
        count = torch.broadcast_shapes(source.shape, what.shape).numel()
        return lambda: guessed(call, (count,), source.dtype)
    if name == "aten::_nested_tensor_from_mask":
        call.mirrors.choose_all(what)
        return lambda: nested(call, what)
    if name == "torchvision::nms":
        return lambda: guessed(call, (what.shape[0],), torch.int64, torch.arange)
    if "unique" in name:
        return lambda: all_different(call, what)
    return None


def guessed(call, shape, dtype, value=None):
    """A new tensor of likely values, or of these."""
    out = torch.empty(shape, dtype=dtype, device=call.inputs()[0].device)
    if has_mirror(out):
        call.guess(out, mirrors_file.likely(dtype))
        if value is not None:
            call.settle(out, value(out.numel()).view(shape), True)
        elif out.numel() * out.element_size() <= TOLD_AT_ONCE:
            call.mirrors.tell_device(out)  # who called may be C++, which does not ask us
    return out


def all_different(call, what):
    """Each its own: as many as there are, in their order, once each.  Of the results that were not
    asked for, PyTorch makes empty ones."""
    names = [a.name for a in call.func._schema.arguments]
    given = dict(zip(names, call.args)) | call.kwargs
    dim, numel = given.get("dim"), what.numel()
    count = numel if dim is None else what.shape[dim]
    inverse, counts = given.get("return_inverse"), given.get("return_counts")
    of_inverse = what.shape if dim is None else (count,)
    return (guessed(call, (count,) if dim is None else what.shape, what.dtype),
            guessed(call, of_inverse if inverse else (0,), torch.int64, torch.arange),
            guessed(call, (count if counts else 0,), torch.int64,
                    lambda n: torch.ones(n, dtype=torch.int64)))
