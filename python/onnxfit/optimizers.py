"""Optimizers: their names, or the real objects, from which their flags are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from onnxfit.errors import OnnxfitError, warn

if TYPE_CHECKING:
    import torch

# (first part of a class's module, its name) → the command's name.  AdamW of transformers is gone
# since 5.0; bitsandbytes has several names for one thing.
_CLASSES: Dict[Tuple[str, str], str] = {
    ("torch", "SGD"): "sgd",
    ("torch", "Adam"): "adam",
    ("torch", "AdamW"): "adamw",
    ("torch", "RMSprop"): "rmsprop",
    ("torch", "Adagrad"): "adagrad",
    ("torch", "SparseAdam"): "sparse-adam",
    ("torch", "Adafactor"): "adafactor",
    ("torch", "Adadelta"): "adadelta",
    ("torch", "ASGD"): "asgd",
    ("torch", "Muon"): "muon",
    ("lion_pytorch", "Lion"): "lion",
    ("bitsandbytes", "AdamW8bit"): "adamw-8bit",
    ("bitsandbytes", "PagedAdamW8bit"): "paged-adamw-8bit",
    ("bitsandbytes", "PagedAdamW"): "paged-adamw-32bit",
    ("bitsandbytes", "PagedAdamW32bit"): "paged-adamw-32bit",
    ("bitsandbytes", "Lion"): "lion-32bit",
    ("bitsandbytes", "Lion32bit"): "lion-32bit",
    ("bitsandbytes", "Lion8bit"): "lion-8bit",
    ("bitsandbytes", "PagedLion"): "paged-lion-32bit",
    ("bitsandbytes", "PagedLion32bit"): "paged-lion-32bit",
    ("bitsandbytes", "PagedLion8bit"): "paged-lion-8bit",
    ("torch", "NAdam"): "nadam",
    ("torch", "RAdam"): "radam",
    ("torch", "Adamax"): "adamax",
    ("bitsandbytes", "AdEMAMix"): "ademamix-32bit",
    ("bitsandbytes", "AdEMAMix32bit"): "ademamix-32bit",
    ("bitsandbytes", "AdEMAMix8bit"): "ademamix-8bit",
    ("bitsandbytes", "PagedAdEMAMix"): "paged-ademamix-32bit",
    ("bitsandbytes", "PagedAdEMAMix32bit"): "paged-ademamix-32bit",
    ("bitsandbytes", "PagedAdEMAMix8bit"): "paged-ademamix-8bit",
    ("bitsandbytes", "SGD8bit"): "sgdm-8bit",
    ("bitsandbytes", "RMSprop"): "rmsprop-32bit",
    ("bitsandbytes", "RMSprop32bit"): "rmsprop-32bit",
    ("bitsandbytes", "RMSprop8bit"): "rmsprop-8bit",
    ("bitsandbytes", "Adagrad8bit"): "adagrad-8bit",
    ("torchao", "AdamW8bit"): "torchao-adamw-8bit",
    ("torchao", "AdamW4bit"): "torchao-adamw-4bit",
    ("torchao", "AdamWFp8"): "torchao-adamw-fp8",
    ("timm", "Lion"): "timm-lion",
    ("timm", "Adopt"): "timm-adopt",
    ("timm", "Lamb"): "timm-lamb",
    ("transformers", "Adafactor"): "adafactor-transformers",
    ("schedulefree", "AdamWScheduleFree"): "schedule-free-adamw",
    ("schedulefree", "SGDScheduleFree"): "schedule-free-sgd",
    ("prodigyopt", "Prodigy"): "prodigy",
    ("ultralytics", "MuSGD"): "musgd",
    ("galore_torch", "AdamW"): "galore",
    ("soap", "SOAP"): "soap",  # the file that nikhilvyas/SOAP asks to copy
}

# Classes of bitsandbytes whose states have as many bits as they are told (optim_bits).
_OF_8_BITS: Mapping[str, str] = {
    "ademamix-32bit": "ademamix-8bit",
    "paged-ademamix-32bit": "paged-ademamix-8bit",
    "lion-32bit": "lion-8bit",
    "paged-lion-32bit": "paged-lion-8bit",
    "paged-adamw-32bit": "paged-adamw-8bit",
    "rmsprop-32bit": "rmsprop-8bit",
}

# Settings of a group that the command knows by name (--optimizer-args), where they are not zero.
# AdamW's weight decay scales parameters in place.
_COUNTED: Mapping[str, Sequence[str]] = {
    "sgd": ("weight_decay",),
    "sgdm": ("weight_decay", "nesterov"),
    "adam": ("weight_decay", "amsgrad"),
    "adamw": ("amsgrad",),
    "rmsprop": ("weight_decay",),
    "adagrad": ("weight_decay",),
    "nadam": ("weight_decay",),
    "radam": ("weight_decay",),
    "adamax": ("weight_decay",),
    "timm-adopt": ("weight_decay",),
    "timm-lamb": ("weight_decay",),
    "adadelta": ("weight_decay",),
    "asgd": ("weight_decay",),
    "musgd": ("weight_decay",),
}

# Those that take memory which it does not count, and what they are where they do not.
_UNCOUNTED: Mapping[str, Mapping[str, object]] = {
    "sgd": {"maximize": False, "differentiable": False},
    "sgdm": {"maximize": False, "differentiable": False},
    "adam": {"maximize": False, "differentiable": False},
    "adamw": {"maximize": False, "differentiable": False},
    "rmsprop": {"centered": False, "momentum": 0, "maximize": False, "differentiable": False},
    "adagrad": {"maximize": False, "differentiable": False},
    "sparse-adam": {"maximize": False},
    "nadam": {"maximize": False, "differentiable": False},
    "radam": {"maximize": False, "differentiable": False},
    "adamax": {"maximize": False, "differentiable": False},
    "adafactor": {"maximize": False},
    "timm-lion": {"caution": False, "maximize": False},
    "timm-adopt": {"caution": False, "maximize": False, "differentiable": False},
    "timm-lamb": {"caution": False},
    "adadelta": {"maximize": False, "differentiable": False, "capturable": False},
    "asgd": {"maximize": False, "differentiable": False, "capturable": False},
    "prodigy": {"slice_p": 1, "fsdp_in_use": False},
    "soap": {"precondition_1d": False, "merge_dims": False, "normalize_grads": False,
             "max_precond_dim": 10000},
    "adafactor-transformers": {"beta1": None, "scale_parameter": False},
}

# Numbers that change no size.
_SIZELESS = frozenset(("params", "lr", "initial_lr", "betas", "eps", "param_names", "max_lr",
                       "min_lr", "base_momentum", "max_momentum"))


# Whose steps take what their groups alone do not say.
_NOT_IN_STEPS = frozenset(("musgd", "galore", "soap"))

# Whose groups are known: ultralytics', and those that are projected.
_WITH_GROUPS = frozenset(("musgd", "galore"))


class OptimizerFlags(NamedTuple):
    optimizer: str
    impl: Optional[str] = None  # PyTorch's choice
    args: Optional[List[str]] = None  # --optimizer-args
    groups: Optional[str] = None  # --param-groups
    galore: Optional[str] = None  # --galore


def _name_of(optimizer: object) -> str:
    for base in type(optimizer).__mro__:
        known = _CLASSES.get((base.__module__.split(".")[0], base.__name__))
        if known:
            return known
    found = f"{type(optimizer).__module__}.{type(optimizer).__name__}"
    expected = ", ".join(dict.fromkeys(name for _, name in _CLASSES))
    if type(optimizer).__name__ == "LBFGS":  # torch/optim/lbfgs.py, _gather_flat_grad
        size = getattr(optimizer, "param_groups")[0].get("history_size", 100)
        raise OnnxfitError(f"optimizer: expected one of {expected}, found {found}, which keeps up "
                           f"to {2 * size} tensors of the size of all parameters: its history of "
                           f"{size} steps, of which no other keeps as many")
    raise OnnxfitError(f"optimizer: expected one of {expected}, found {found}",
                       "the name of one that keeps as many tensors, such as 'adamw'")


def _impl_of(group: Mapping[str, Any]) -> Optional[str]:
    if group.get("fused"):
        return "fused"
    if group.get("foreach") is None:
        return None
    return "foreach" if group["foreach"] else "for-loop"


def _args_of(name: str, groups: Iterable[Mapping[str, Any]]) -> Optional[List[str]]:
    """Those of any group: a setting of one is taken for all."""
    given = [key for key in _COUNTED.get(name, ()) if any(group.get(key) for group in groups)]
    return given or None


def _say_uncounted(name: str, groups: Iterable[Mapping[str, Any]]) -> None:
    usual = _UNCOUNTED.get(name, {})
    found = {key: group[key] for group in groups for key in usual
             if key in group and group[key] != usual[key]}
    if found:
        told = ", ".join(f"{key}={value}" for key, value in found.items())
        warn(f"optimizer: what {told} takes is not in the figures")


def _groups_of(groups: List[Dict[str, Any]]) -> Optional[str]:
    """Two that are told apart by dimensions, as nanoGPT has them."""
    if len(groups) != 2 or groups[1].get("weight_decay"):
        return None
    are_matrices = [[parameter.dim() >= 2 for parameter in group["params"]] for group in groups]
    return "matrices" if all(are_matrices[0]) and not any(are_matrices[1]) else None


def _say_groups(name: str, groups: List[Dict[str, Any]]) -> None:
    if len(groups) < 2 or name in _WITH_GROUPS or _groups_of(groups):
        return
    keys = {key for group in groups for key in group if key not in _SIZELESS}
    differ = sorted(key for key in keys
                    if any(group.get(key) != groups[0].get(key) for group in groups))
    told = f" that differ in {', '.join(differ)}" if differ else ""
    warn(f"optimizer: {len(groups)} parameter groups{told} are stepped one after the other; the "
         "answer is for one group with the settings of the first")


def _say_missing(groups: List[Dict[str, Any]], model: torch.nn.Module) -> None:
    """Names parameters that get gradients and are not in the optimizer."""
    held = {id(parameter) for group in groups for parameter in group["params"]}
    missing = [name for name, parameter in model.named_parameters()
               if parameter.requires_grad and id(parameter) not in held]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        warn(f"optimizer: {', '.join(missing[:3])}{more} get gradients and are in no parameter "
             "group; the answer counts optimizer state for them, too")


def _galore_of(groups: List[Dict[str, Any]], model: Optional[torch.nn.Module]) -> Optional[str]:
    """The rank, and names that pick those layers alone."""
    projected = [group for group in groups if "rank" in group]
    if not projected:
        raise OnnxfitError("optimizer: expected a group with a rank, as galore projects, found none",
                           "the name of another one, such as 'adamw'")
    rank = projected[0]["rank"]
    if any((group["rank"], group["proj_type"]) != (rank, "std") for group in projected):
        warn(f"optimizer: the answer is for one group of rank {rank} and proj_type='std'")
    if model is None:
        return str(rank)
    held = {id(parameter) for group in projected for parameter in group["params"]}
    layers = {path: id(module.weight) in held for path, module in model.named_modules()
              if getattr(getattr(module, "weight", None), "ndim", 0) == 2}
    paths = [path for path, is_held in layers.items() if is_held]
    names = sorted({path.rpartition(".")[2] for path in paths})
    are_told = not any(name in path for name in names
                       for path, is_held in layers.items() if not is_held)
    return f"{rank}:{','.join(names if are_told else paths)}"


def say_uncounted_of(optimizer: Any) -> None:
    """Warns of what groups_of_step() leaves out."""
    _say_uncounted(_name_of(optimizer), optimizer.param_groups)


def groups_of_step(optimizer: Any, names: Mapping[int, str]) -> List[Dict[str, Any]]:
    """The parameter groups of an optimizer that a whole step has, for a program; `names` of
    parameters by their id."""
    name = _name_of(optimizer)
    if name in _NOT_IN_STEPS:
        raise OnnxfitError(f"optimizer: expected one whose step is known without its model, found "
                           f"{name}", "onnxfit run -- python train.py")
    is_8_bits = getattr(getattr(optimizer, "args", None), "optim_bits", 32) == 8
    return [{"optimizer": "sgdm" if name == "sgd" and group.get("momentum")
             else _OF_8_BITS.get(name, name) if is_8_bits else name,
             "impl": _impl_of(group) or "", "args": _args_of(name, [group]) or [],
             "parameters": [names[id(parameter)] for parameter in group["params"]
                            if id(parameter) in names]} for group in optimizer.param_groups]


_NAMES = frozenset((*_CLASSES.values(), "none", "sgdm", "muon"))
_BY_CLASS = {name.lower(): flag for (_, name), flag in reversed(list(_CLASSES.items()))}


def _listed(names: Any) -> Any:
    """`names`, which a sweep tries one by one; of objects two would step in turn (a GAN's)."""
    unnamed = [name for name in names if name is not None and not isinstance(name, str)]
    if unnamed:
        raise OnnxfitError(
            f"optimizer: expected one optimizer, or names, found a list with "
            f"{type(unnamed[0]).__name__}: a loop of two optimizers, each with a loss of its own, "
            "is not known by them alone", "onnxfit.estimate(step, batch), with a function that is the "
            "whole step")
    return names


def named(names: Any) -> Any:
    """A name, or a list of them, as the command has it: "Adam" as "adam", "AdamW8bit" as
    "adamw-8bit".  What is none stays as it is."""
    if names is None:
        return None
    if not isinstance(names, str):
        return [named(name) for name in _listed(names)]
    plain = names.lower().replace("_", "-")
    return plain if plain in _NAMES else _BY_CLASS.get(plain, names)


def made(optimizer: object, model: Optional[torch.nn.Module]) -> object:
    """The object, where it is the class, or a function, that makes it of parameters."""
    if hasattr(optimizer, "param_groups") or not callable(optimizer):
        return optimizer
    import torch
    parameters = ([torch.nn.Parameter(torch.zeros(2, 2))] if model is None
                  else list(model.parameters()))
    return optimizer(parameters)


def has_one_group(optimizer: object) -> bool:
    return len(getattr(optimizer, "param_groups")) == 1


def flags_of(optimizer: object, model: Optional[torch.nn.Module] = None) -> OptimizerFlags:
    """The flags of a torch.optim object (or Lion's, or bitsandbytes').  What its answer leaves
    out is said in a warning; `model` is asked whether all of its parameters are there."""
    name = _name_of(optimizer)
    groups: List[Dict[str, Any]] = getattr(optimizer, "param_groups")
    if name == "sgd" and groups[0].get("momentum"):
        name = "sgdm"
    if getattr(getattr(optimizer, "args", None), "optim_bits", 32) == 8:
        name = _OF_8_BITS.get(name, name)
    _say_uncounted(name, groups)
    _say_groups(name, groups)
    if model is not None:
        _say_missing(groups, model)
    if name == "galore":
        return OptimizerFlags(name, galore=_galore_of(groups, model))
    return OptimizerFlags(name, _impl_of(groups[0]), _args_of(name, groups), _groups_of(groups))
