"""Which tensors are views of one another, as autograd has it: what is written into a slice is written
into what it is a slice of, which requires gradients from then on, as do its other slices.

A run is watched below autograd, where no tensor says what it is a view of."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Iterator, List, Tuple

if TYPE_CHECKING:
    import torch

_FAMILY = "_onnxfit_family"  # an attribute of a tensor

# What they make has the same elements, and autograd does not know it.
_APART = frozenset(("detach", "detach_"))


class Family:
    """A tensor and its views.  It keeps none of them alive."""

    def __init__(self, run: Views) -> None:
        self.run = run  # parameters outlive one
        self._members: List[Tuple[weakref.ref[torch.Tensor], str]] = []

    def add(self, tensor: torch.Tensor, name: str) -> None:
        self._members.append((weakref.ref(tensor), name))
        setattr(tensor, _FAMILY, self)

    def names(self) -> List[str]:
        """All that its members have had."""
        return [name for _, name in self._members]

    def alive(self) -> Iterator[torch.Tensor]:
        return (tensor for ref, _ in self._members for tensor in (ref(),) if tensor is not None)


class Views:
    """The families of one run."""

    def family_of(self, tensor: torch.Tensor, name: str) -> Family:
        """A new one where it has none."""
        found = getattr(tensor, _FAMILY, None)
        if isinstance(found, Family) and found.run is self:
            return found
        made = Family(self)
        made.add(tensor, name)
        return made

    def add(self, func: Any, operands: List[Tuple[torch.Tensor, str]], made: torch.Tensor,
            name: str) -> None:
        """`made`, which a call of `func` has named, is a view of the operand whose elements it has."""
        import torch
        if func.overloadpacket.__name__ in _APART:
            Family(self).add(made, name)
            return
        shares: Any = getattr(torch._C, "_is_alias_of")
        base = next((each for each in operands if shares(each[0], made)), None)
        if base is not None:
            self.family_of(*base).add(made, name)
