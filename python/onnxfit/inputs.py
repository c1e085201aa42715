"""What forward() is called with: an example, and which dimensions of it the batch sizes."""

from __future__ import annotations

import inspect
import itertools
from fractions import Fraction
from typing import (TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional,
                    Sequence, Tuple, Union)

from onnxfit import plain_values
from onnxfit.errors import OnnxfitError

if TYPE_CHECKING:
    import torch

# A dimension of every tensor, or of those arguments that are named; others have dimension 0.
BatchDim = Union[int, Mapping[str, int]]


def of_torch(value: Any) -> Any:
    """With tensors of the same elements in the place of NumPy's arrays."""
    import torch
    from torch.utils import _pytree as pytree

    def tensor(leaf: Any) -> Any:
        is_array = type(leaf).__module__ == "numpy" and getattr(leaf, "ndim", 0) > 0
        return torch.from_numpy(leaf) if is_array else leaf

    return pytree.tree_map(tensor, value)


def _leaves(value: Any) -> List[torch.Tensor]:
    import torch
    from torch.utils import _pytree as pytree
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _dense(made: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The elements of `made` without gaps, in the order of dimensions that `like` has them in."""
    strides = like.stride()
    order = sorted(range(like.dim()), key=lambda axis: (-strides[axis], axis))
    ordered = made.permute(order)
    if made is like and ordered.is_contiguous():
        return like
    back = sorted(range(like.dim()), key=lambda at: order[at])
    return ordered.contiguous().permute(back)


class Free(NamedTuple):
    """A size that is left open."""

    name: str
    size: int  # in the example
    axes: Tuple[Tuple[int, ...], ...]  # of each tensor: the dimensions that follow it


class Inputs(NamedTuple):
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    # Of each tensor: the dimensions that the batch sizes.
    axes: Tuple[Tuple[int, ...], ...] = ()
    batch: Optional[int] = None  # the size of the first of them
    are_zeros: bool = False  # they came from meta, where nothing has values

    @staticmethod
    def of(inputs: object, model: torch.nn.Module, batch_dim: BatchDim = 0) -> Inputs:
        """A tensor, a tuple or list of positional arguments, or a dictionary of named ones, with
        dictionaries in the place of objects."""
        args, kwargs = of_torch(_arguments(inputs, model))
        return Inputs(args, kwargs)._with_axes(model, batch_dim)

    def apart(self) -> Inputs:
        """With dictionaries in the place of objects."""
        args, kwargs = plain_values.apart((self.args, self.kwargs))
        return self._replace(args=args, kwargs=kwargs)

    def tensors(self) -> List[torch.Tensor]:
        return _leaves((self.args, self.kwargs))

    def mapped(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
        """With each tensor changed; one that is given twice stays one."""
        import torch
        from torch.utils import _pytree as pytree
        made: Dict[int, torch.Tensor] = {}

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            new = change(tensor)
            return made.setdefault(id(tensor), new)

        args, kwargs = pytree.tree_map_only(torch.Tensor, changed, (self.args, self.kwargs))
        return self._replace(args=args, kwargs=kwargs)

    def first_places(self) -> List[int]:
        """Of each tensor, in order, the place of the one that it is: its own, or an earlier one's,
        where somebody has given it twice (labels=input_ids)."""
        first: Dict[int, int] = {}
        return [first.setdefault(id(tensor), place)
                for place, tensor in enumerate(self.tensors())]

    def once(self) -> Inputs:
        """With None where a tensor is given again: what a program takes is one allocation each."""
        import torch
        from torch.utils import _pytree as pytree
        firsts = self.first_places()
        places = iter(range(len(firsts)))

        def kept(tensor: torch.Tensor) -> Optional[torch.Tensor]:
            place = next(places)
            return tensor if firsts[place] == place else None

        args, kwargs = pytree.tree_map_only(torch.Tensor, kept, (self.args, self.kwargs))
        axes = tuple(of for place, of in enumerate(self.axes) if firsts[place] == place)
        return self._replace(args=args, kwargs=kwargs, axes=axes)

    def with_batch(self, batch: int) -> Inputs:
        """At another one."""
        if self.batch in (None, 0, batch):
            return self
        return self.resized([Free("", self.batch or 1, self.axes)], [batch])

    def resized(self, frees: Sequence[Free], sizes: Sequence[int]) -> Inputs:
        """With each of `frees` at another size; an axis that is twice as long stays so."""
        import torch
        from torch.utils._python_dispatch import _disable_current_modes
        factors = [Fraction(size, free.size) for free, size in zip(frees, sizes)]
        places = itertools.count()

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            place = next(places)
            made = tensor
            for free, factor in zip(frees, factors):
                for axis in free.axes[place] if factor != 1 else ():
                    size = int(made.shape[axis] * factor)
                    shape = [size if at == axis else -1 for at in range(made.dim())]
                    made = made.narrow(axis, 0, 1).expand(shape)
            return _dense(made, tensor)

        with _disable_current_modes():  # the new ones have elements, too
            made = self.mapped(changed)
        at = next((at for at, free in enumerate(frees) if free.axes == self.axes), None)
        return made if at is None else made._replace(batch=sizes[at])

    def frees(self, name: str) -> List[Free]:
        """The batch by that name, where there is one."""
        return [Free(name, self.batch, self.axes)] if self.batch else []

    def with_labels(self, name: str, labels: Any, axes: Tuple[Tuple[int, ...], ...]) -> Inputs:
        """With one more argument, behind the others."""
        return self._replace(kwargs={**self.kwargs, name: labels}, axes=(*self.axes, *axes))

    def multiples(self, labels: Any) -> Tuple[Tuple[int, ...], ...]:
        """Of labels that somebody gave: dimension 0, where the batch may size it."""
        batch = self.batch
        return tuple((0,) if batch and tensor.dim() > 0 and tensor.shape[0] % batch == 0 else ()
                     for tensor in _leaves(labels))

    def named(self, shapes: Any, model: torch.nn.Module) -> List[Free]:
        """What `shapes` leaves open, as torch.export's dynamic_shapes do: the batch first.  Sizes
        without a name that are alike are one."""
        places = _open_axes(shapes, self.apart(), model)
        groups: Dict[str, List[Tuple[int, int]]] = {}
        tensors = self.apart().tensors()
        for place, axis, name in places:
            size = int(tensors[place].shape[axis])
            groups.setdefault(name or f"size_{size}", []).append((place, axis))
        frees = []
        for name, found in groups.items():
            axes = tuple(tuple(axis for at, axis in found if at == place)
                         for place in range(len(tensors)))
            place, axis = found[0]
            frees.append(Free(name, int(tensors[place].shape[axis]), axes))
        is_batch = [any(set(of) & set(own) for of, own in zip(free.axes, self.axes))
                    for free in frees]
        return [frees[at] for at in sorted(range(len(frees)), key=lambda at: not is_batch[at])]

    def shapes(self, frees: Sequence[Free]) -> Any:
        """What torch.export is to leave open of once()."""
        from torch.export import Dim, ShapesCollection
        shapes = ShapesCollection()  # type: ignore[no-untyped-call]
        for place, tensor in enumerate(self.tensors()):
            axes = {axis: Dim.AUTO for free in frees for axis in free.axes[place]}
            if axes:
                shapes[tensor] = axes
        return shapes

    def _with_axes(self, model: torch.nn.Module, batch_dim: BatchDim) -> Inputs:
        dims: List[int] = []
        named = self._named(model)
        _check_names(batch_dim, [name for name, _ in named])
        for name, value in named:
            dim = batch_dim.get(name, 0) if isinstance(batch_dim, Mapping) else batch_dim
            dims += [dim] * len(_leaves(plain_values.apart(value)))
        tensors = self.apart().tensors()
        sizes = [tensor.shape[dim] if -tensor.dim() <= dim < tensor.dim() else None
                 for tensor, dim in zip(tensors, dims)]
        batch = next((size for size in sizes if size is not None), None)
        if tensors and batch is None and batch_dim != 0:
            raise OnnxfitError(f"batch_dim: expected a dimension of inputs, found {batch_dim} of "
                               f"{', '.join(str(list(tensor.shape)) for tensor in tensors)}")
        if batch == 0:
            first = next(name for name, value in named
                         if any(0 in tensor.shape for tensor in _leaves(plain_values.apart(value))))
            raise OnnxfitError(f"inputs: {first or 'one'}: expected a batch of 1 or more, found "
                               f"{', '.join(str(list(tensor.shape)) for tensor in tensors)}",
                               "an example with a batch of 2, or batch_dim=")
        axes = tuple((dim % tensor.dim(),) if size is not None and size == batch else ()
                     for tensor, dim, size in zip(tensors, dims, sizes))
        return self._replace(axes=axes, batch=batch)

    def _named(self, model: torch.nn.Module) -> List[Tuple[str, Any]]:
        """Each argument by its name, positional ones by that of forward()."""
        try:
            names = list(inspect.signature(model.forward).parameters)
        except (TypeError, ValueError):
            names = []
        names += [""] * len(self.args)
        return [*zip(names, self.args), *self.kwargs.items()]


def _open_axes(shapes: Any, parts: Inputs, model: torch.nn.Module
               ) -> List[Tuple[int, int, str]]:
    """Tensor, dimension and name ("" of none) of each that `shapes` leaves open."""
    import torch
    given = inspect.signature(model.forward).bind(*parts.args, **parts.kwargs).arguments
    if hasattr(shapes, "dynamic_shapes"):  # ShapesCollection
        shapes = shapes.dynamic_shapes(model, parts.args, parts.kwargs)
    if isinstance(shapes, (tuple, list)):
        shapes = dict(zip(given, shapes))
    ids = {id(tensor): place for place, tensor in reversed(list(enumerate(parts.tensors())))}
    found: List[Tuple[int, int, str]] = []

    def look(value: Any, spec: Any) -> None:
        if isinstance(value, torch.Tensor):
            axes = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
            found.extend((ids[id(value)], axis % value.dim(), name) for axis, name in
                         ((axis, _dim_name(dim)) for axis, dim in axes) if name is not None)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                look(item, spec.get(key) if isinstance(spec, Mapping) else None)
        elif isinstance(value, (tuple, list)):
            for item, each in zip(value, spec or [None] * len(value)):
                look(item, each)

    for name, value in given.items():
        look(value, shapes.get(name) if isinstance(shapes, Mapping) else None)
    return found


def _dim_name(dim: Any) -> Optional[str]:
    """Of Dim("seq") and "seq"; "" of Dim.AUTO, None of what stays as it is."""
    if dim is None or isinstance(dim, int) or str(getattr(dim, "name", "")) == "STATIC":
        return None
    if isinstance(dim, str):
        return dim
    name = getattr(dim, "__name__", "")
    return name if str(name).isidentifier() else ""


def _check_names(batch_dim: BatchDim, names: List[str]) -> None:
    if not isinstance(batch_dim, Mapping):
        return
    unknown = [name for name in batch_dim if name not in names]
    if unknown:
        known = ", ".join(name for name in names if name)
        raise OnnxfitError(f"batch_dim: expected names of inputs ({known}), found "
                           f"{', '.join(map(repr, unknown))}")


def positional(model: torch.nn.Module) -> List[str]:
    """The names of those that forward() may be given by position."""
    try:
        values = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):  # of C++
        return []
    return [value.name for value in values
            if value.kind in (value.POSITIONAL_ONLY, value.POSITIONAL_OR_KEYWORD)]


def _binds(model: torch.nn.Module, *args: Any, **kwargs: Any) -> bool:
    try:
        inspect.signature(model.forward).bind(*args, **kwargs)
        return True
    except (TypeError, ValueError):
        return False


def _arguments(inputs: object, model: torch.nn.Module) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """Positional and named ones.  A list or a dictionary whose items are none is one itself."""
    if isinstance(inputs, Mapping):
        names = {str(name): value for name, value in inputs.items()}
        is_one = len(positional(model)) == 1 and not _binds(model, **names)
        return ((inputs,), {}) if is_one and inputs else ((), names)
    if isinstance(inputs, list) and not _binds(model, *inputs) and _binds(model, inputs):
        return (inputs,), {}
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def _are_sizes(inputs: object) -> bool:
    """(8, 3, 224, 224), torch.Size, or one number: what a tensor is made of."""
    items = inputs if isinstance(inputs, (tuple, list)) else [inputs]
    return bool(items) and all(type(item) is int for item in items)


def _found(inputs: object) -> str:
    kind = type(inputs).__name__
    is_empty = isinstance(inputs, (tuple, list, dict)) and not inputs
    return f"an empty {kind}" if is_empty else kind


def check(model: torch.nn.Module, inputs: object, example: Inputs) -> None:
    """Raises where forward() does not take them."""
    name = type(model).__name__
    if not example.tensors():
        expected = "a tensor, or some in a tuple or a dictionary"
        if _are_sizes(inputs):
            sizes = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
            shown = ", ".join(map(str, sizes))
            raise OnnxfitError(f"{name}: inputs: expected {expected}, found sizes",
                               f"torch.empty({shown}), of tokens "
                               f"torch.zeros({shown}, dtype=torch.long)")
        raise OnnxfitError(f"{name}: inputs: expected {expected}, found {_found(inputs)}")
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):  # of C++
        return
    try:
        signature.bind(*example.args, **example.kwargs)
    except TypeError as error:
        bare = [value.replace(annotation=value.empty) for value in signature.parameters.values()]
        expected = str(signature.replace(parameters=bare, return_annotation=signature.empty))
        found = ", ".join(example.kwargs) or f"{len(example.args)} by position"
        raise OnnxfitError(f"{name}: inputs: expected those of forward{expected}, found {found}: "
                           f"{error}") from error


def on_device_of(model: torch.nn.Module, inputs: Inputs, keeps_integers: bool = False) -> Inputs:
    """Where the parameters are: a model on the meta device takes inputs there, and one that is
    not takes none from there.  Integers may stay where they have elements, which code asks for."""
    import torch
    devices = {parameter.device for parameter in model.parameters()}
    if len(devices) != 1:
        return inputs
    device = devices.pop()

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_meta and device.type != "meta":
            return torch.zeros_like(tensor, device=device)
        if keeps_integers and device.type == "meta" and not tensor.is_floating_point():
            return tensor
        return tensor.to(device)

    are_zeros = device.type != "meta" and any(tensor.is_meta for tensor in inputs.tensors())
    return inputs.mapped(moved)._replace(are_zeros=inputs.are_zeros or are_zeros)


# Of ATen's, those whose operands are of one type of floats: PyTorch has no kernels for others.
_OF_ONE_TYPE = frozenset((
    "linear", "addmm", "mm", "bmm", "matmul", "baddbmm", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"))


TYPED = _OF_ONE_TYPE | {"embedding"}  # operators that check_types knows


def check_types(where: str, name: str, operands: Sequence[torch.Tensor]) -> None:
    """Shapes are found without kernels, and so for types that no kernel takes: raises for them.
    `name` is that of an operator, `where` the module that calls it."""
    import torch
    kinds = [tensor.dtype for tensor in operands]
    if name == "embedding" and len(kinds) > 1 and kinds[1].is_floating_point:
        raise OnnxfitError(f"{where}: expected indices of whole numbers, found {kinds[1]}",
                           "inputs of torch.long")
    floats = list(dict.fromkeys(kind for kind in kinds if kind.is_floating_point))
    if name != "embedding" and len(floats) > 1 and not torch.is_autocast_enabled("cuda"):
        raise OnnxfitError(f"{where}: expected tensors of one type, as PyTorch does, found "
                           f"{' and '.join(map(str, floats))}", f"inputs of {floats[-1]}")
