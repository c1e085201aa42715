"""Arguments and results of forward() as torch.export takes them.  It knows tensors, numbers,
lists, dictionaries and the classes that somebody has registered; a dataclass, or a cache of keys
and values, is an object for it.  Here such an object goes in as a dictionary of what it holds, and
comes out as one; the module itself sees the object."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional, Set, Tuple

if TYPE_CHECKING:
    import torch


def _is_object(value: object) -> bool:
    """Whether it is one thing for torch.export, and neither a tensor nor a number."""
    import torch
    from torch.utils import _pytree as pytree
    if isinstance(value, (torch.Tensor, torch.nn.Module, type)) or callable(value):
        return False
    return hasattr(value, "__dict__") and pytree.tree_flatten(value)[1].is_leaf()


def _has_tensors(value: object) -> bool:
    import torch
    from torch.utils import _pytree as pytree
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))


def apart(value: Any, seen: Optional[Set[int]] = None) -> Any:
    """`value` with each object in it as a dictionary of those attributes that hold tensors."""
    seen = set() if seen is None else seen
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(apart(item, seen) for item in value)
    if type(value) is dict:
        return {key: apart(item, seen) for key, item in value.items()}
    if not _is_object(value) or id(value) in seen:
        return value
    seen.add(id(value))
    fields = value if isinstance(value, Mapping) else vars(value)
    parts = {str(name): apart(field, seen) for name, field in fields.items()}
    return {name: part for name, part in parts.items() if _has_tensors(part)}


def together(like: Any, parts: Any) -> Any:
    """The opposite: `parts`, which apart() has made of something like `like`."""
    if isinstance(like, (list, tuple)) and not hasattr(like, "_fields"):
        return type(like)(map(together, like, parts))
    if type(like) is dict:
        return {key: together(item, parts[key]) for key, item in like.items()}
    if not _is_object(like) or not isinstance(parts, dict):
        return parts
    made = copy.copy(like)
    for name, part in parts.items():
        if isinstance(like, Mapping):
            made[name] = together(like[name], part)
        else:
            object.__setattr__(made, name, together(getattr(like, name), part))
    return made


def result(value: Any) -> Any:
    """What a module returns, without what torch.export would refuse."""
    import torch
    from torch.utils import _pytree as pytree

    def known(leaf: Any) -> Any:
        if isinstance(leaf, (torch.Tensor, int, float, str, type(None), torch.SymInt)):
            return leaf
        parts = apart(leaf)
        return parts if parts is not leaf else None

    return pytree.tree_map(known, value)


def without_identity(value: Any) -> Any:
    """result() of `value`, of other tensors of the same types and shapes."""
    import torch
    from torch.utils import _pytree as pytree
    return pytree.tree_map_only(torch.Tensor, torch.empty_like, result(value))


@contextmanager
def taken(model: torch.nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Iterator[None]:
    """Within, `model` can be called with apart((args, kwargs)), and returns what torch.export
    takes.  By hooks, which leave no trace in the program."""

    def rebuilt(_: object, plain_args: Tuple[Any, ...], plain_kwargs: Dict[str, Any]) -> Any:
        return together(args, plain_args), together(kwargs, plain_kwargs)

    hooks = [model.register_forward_pre_hook(rebuilt, with_kwargs=True, prepend=True),
             model.register_forward_hook(lambda _, __, made: result(made))]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
