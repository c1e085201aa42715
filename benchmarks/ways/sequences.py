"""Sequence parallelism beside shared layers: what lies between them has 1/N of the tokens.

The plan of torchtitan's models and of PyTorch's tutorial (SequenceParallel for norms,
PrepareModuleInput for attention and feed-forward blocks), for any model whose blocks repeat: the
first block is given all tokens and takes its own, behind the last one, and norms and dropouts
that follow it, all come together again.
"""

import re

from networks import NotForThis, blocks

# Whose norm behind the blocks is of one token.
POOLING = ["CLIPVisionModel", "CLIPVisionTransformer"]


class Prepare:
    """PrepareModuleInput of the argument that has hidden states, whatever its name and place, and of
    those that are the same (queries from it, keys and values of it)."""

    def __init__(self, given, wanted, is_local):
        self.given, self.wanted, self.is_local = given, wanted, is_local

    def apply(self, module, mesh):
        module.register_forward_pre_hook(lambda _, args, kwargs: self.prepare(args, kwargs, mesh),
                                         with_kwargs=True)

    def prepare(self, args, kwargs, mesh):
        if args:
            made = redistributed(args[0], mesh, self)
            return tuple(made if arg is args[0] else arg for arg in args), kwargs
        return args, {**kwargs, "hidden_states": redistributed(kwargs["hidden_states"], mesh, self)}


class PrepareResult:
    """PrepareModuleOutput of the first result."""

    def __init__(self, given, wanted):
        self.given, self.wanted, self.is_local = given, wanted, True

    def apply(self, module, mesh):
        def prepared(_, args, result):
            if isinstance(result, tuple):
                return (redistributed(result[0], mesh, self), *result[1:])
            return redistributed(result, mesh, self)
        module.register_forward_hook(prepared)


def redistributed(tensor, mesh, style):
    from torch.distributed.tensor import DTensor
    if not isinstance(tensor, DTensor):
        tensor = DTensor.from_local(tensor, mesh, (style.given,), run_check=False)
    if tensor.shape[1] % mesh.size():
        raise NotForThis("tokens that are not shared evenly")
    tensor = tensor.redistribute(placements=(style.wanted,))
    return tensor.to_local() if style.is_local else tensor


def share_tokens(model, mesh, columns, gathers=True):
    """`columns`: paths of layers whose columns are shared; `gathers`: behind the blocks, and not in
    the head."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module
    path_of = {module: path for path, module in model.named_modules()}
    takers = list(dict.fromkeys(path.rpartition(".")[0] for path in columns))
    for path in takers:
        Prepare(Shard(1), Replicate(), is_local=False).apply(model.get_submodule(path), mesh)
    found = [region for region in regions(model, path_of)
             if any(path.startswith(f"{region[0]}.") for path in takers)]
    if not found:
        raise NotForThis("no blocks that share layers")
    for begin, inside, end in found:
        plan = {path: SequenceParallel(use_local_output=True) for path in inside
                if path.rpartition(".")[0] not in takers}
        for path in plan:
            model.get_submodule(path).to("meta")
        parallelize_module(model, mesh, plan)
        Prepare(Replicate(), Shard(1), is_local=True).apply(model.get_submodule(begin), mesh)
        if gathers:
            PrepareResult(Shard(1), Replicate()).apply(model.get_submodule(end), mesh)


def paths_of_blocks(model):
    """Layers outside of them have all tokens."""
    path_of = {module: path for path, module in model.named_modules()}
    return tuple(f"{path_of[block]}." for block in blocks(model))


def regions(model, path_of):
    """By list of blocks: the first one, norms and dropouts in and behind them, where they end."""
    lists = {}
    for block in blocks(model):
        lists.setdefault(path_of[block].rpartition(".")[0], []).append(path_of[block])
    for parent, paths in lists.items():
        inside = [path for block in paths for path, module in named(model, block)
                  if is_norm(module)]
        behind = list(children_behind(model, parent))
        yield paths[0], inside + behind, (paths + behind)[-1]


def named(model, block):
    return [(f"{block}.{path}", module) for path, module in model.get_submodule(block).named_modules()]


def is_norm(module):
    return "Norm" in type(module).__name__


def children_behind(model, parent):
    """Norms beside the list, or beside what has nothing but that list, and the dropout next to them."""
    above, _, name = parent.rpartition(".")
    children = list(model.get_submodule(above).named_children())
    at = [child for child, _ in children].index(name)
    found = []
    is_of_one = type(model.get_submodule(above)).__name__ in POOLING
    for child, module in [] if is_of_one else children[at + 1:]:
        if is_norm(module) or (found and re.search("Dropout", type(module).__name__)):
            found.append(f"{above}.{child}")
    if not found and len(children) == 1:
        return children_behind(model, above)
    return found
