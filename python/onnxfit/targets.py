"""TARGET of `python -m onnxfit export`: a model by name, built on the meta device, where nothing
has weights, with the inputs that it takes.  Nothing is downloaded but, for hf:ID, a config."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from typing import (TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence,
                    Tuple, Union)

from onnxfit.errors import OnnxfitError

if TYPE_CHECKING:
    import torch

Dim = Union[int, str]  # a number, or the name of a free dimension


class Input(NamedTuple):
    name: str
    dims: Tuple[Dim, ...]
    dtype: str = "float32"


class Target(NamedTuple):
    """A module and its inputs, by position or, for transformers, by name."""

    name: str
    module: torch.nn.Module
    inputs: List[Input]
    by_name: bool = False


def parse_input(text: str) -> Input:
    """'ids:int64=N,128'."""
    found = re.fullmatch(r"(\w+)(?::(\w+))?=([\w,]+)", text)
    if found is None:
        raise OnnxfitError(f"--input: expected NAME[:DTYPE]=DIM,DIM,…, found '{text}'",
                           "--input x=N,3,224,224")
    dims = tuple(int(dim) if dim.isdigit() else dim for dim in found[3].split(","))
    return Input(found[1], dims, found[2] or "float32")


def _image(name: str, size: Tuple[int, ...]) -> List[Input]:
    return [Input(name, ("batch", *size))]


def library(name: str) -> Any:
    """Imported; raises where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise OnnxfitError(f"expected {name} to be installed, found it missing ({error})",
                           f"pip install {name}") from error


def on_meta(build: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """Some constructors read values, which meta has not; those build for real first."""
    import torch
    try:
        with torch.device("meta"):
            module = build()
    except (RuntimeError, NotImplementedError):
        module = build()
    return module.to("meta")


def _first_parameter(module: torch.nn.Module) -> str:
    return next(iter(inspect.signature(module.forward).parameters), "x")


# --- Libraries ----------------------------------------------------------------------------------


def _torchvision_size(models: Any, name: str) -> int:
    """The crop that its weights were trained for, which are not read."""
    try:
        transforms = models.get_model_weights(name).DEFAULT.transforms
        return int(transforms.keywords["crop_size"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return 224


def _torchvision(name: str) -> Target:
    models = library("torchvision").models
    if name not in models.list_models():
        raise OnnxfitError(f"torchvision:{name}: expected a model of torchvision, found none",
                           "one of torchvision.models.list_models()")
    known = inspect.signature(models.get_model_builder(name)).parameters
    without = {"weights": None, "weights_backbone": None}
    module = on_meta(lambda: models.get_model(
        name, **{key: value for key, value in without.items() if key in known}))
    size = _torchvision_size(models, name)
    return Target(name, module, _image(_first_parameter(module), (3, size, size)))


def _timm(name: str) -> Target:
    timm = library("timm")
    if not timm.is_model(name.split(".")[0]):
        raise OnnxfitError(f"timm:{name}: expected a model of timm, found none",
                           "one of timm.list_models()")
    module = on_meta(lambda: timm.create_model(name, pretrained=False))
    size = getattr(module, "pretrained_cfg", {}).get("input_size", (3, 224, 224))
    return Target(name, module, _image(_first_parameter(module), tuple(size)))


# --- transformers -------------------------------------------------------------------------------


def _config_of(transformers: Any, place: str) -> Any:
    """Of a folder, a config.json or an id; the last is the only one that asks the network."""
    try:
        return transformers.AutoConfig.from_pretrained(place)
    except Exception as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise OnnxfitError(f"hf:{place}: expected a folder, a config.json or an id with a config, "
                           f"found none: {said}") from error


def _class_of(transformers: Any, config: Any, place: str) -> Any:
    names = getattr(config, "architectures", None) or ["AutoModel"]
    found = getattr(transformers, names[0], None)
    if found is None:
        raise OnnxfitError(f"hf:{place}: expected a class of transformers in architectures, found "
                           f"{names[0]}", "pip install -U transformers")
    return found


def _vision_inputs(config: Any) -> List[Input]:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", 224)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return _image("pixel_values", (getattr(vision, "num_channels", 3), height, width))


def _audio_inputs(config: Any, name: str) -> List[Input]:
    if name == "input_values":
        return [Input(name, ("batch", "samples"))]
    frames = 2 * getattr(config, "max_source_positions", 1500)
    return [Input(name, ("batch", getattr(config, "num_mel_bins", 80), frames))]


def _hf_inputs(module: Any) -> List[Input]:
    """What its class calls its main input, beside it the decoder's tokens, and the text of models
    of both."""
    config = module.config
    name = getattr(module, "main_input_name", "input_ids")
    known = inspect.signature(module.forward).parameters
    ids = Input("input_ids", ("batch", "seq"), "int64")
    inputs: List[Input] = []
    if name == "pixel_values" or hasattr(config, "vision_config"):
        inputs += _vision_inputs(config)
    elif name in ("input_features", "input_values"):
        inputs += _audio_inputs(config, name)
    if name == "input_ids" or hasattr(config, "text_config"):
        inputs.append(ids)
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in known:
        inputs.append(Input("decoder_input_ids", ("batch", "target"), "int64"))
    return inputs


def _hf(place: str) -> Target:
    transformers = library("transformers")
    config = _config_of(transformers, place)
    config.use_cache = False  # as in training
    if getattr(config, "pad_token_id", 0) is None:  # heads of classification look for it
        end = getattr(config, "eos_token_id", None)
        config.pad_token_id = end if isinstance(end, int) else 0
    kind = _class_of(transformers, config, place)
    make = getattr(kind, "from_config", None) or kind._from_config
    module = on_meta(lambda: make(config))
    name = os.path.basename(place.rstrip("/").replace("/config.json", ""))
    return Target(name, module, _hf_inputs(module), by_name=True)


# --- All ----------------------------------------------------------------------------------------


def _function(target: str) -> Target:
    module, _, function = target.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        build = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise OnnxfitError(f"{target}: expected torchvision:NAME, timm:NAME, hf:PATH-OR-ID or "
                           f"MODULE:FUNCTION, found {error}") from error
    return Target(function, on_meta(build), [])


def _taken(module: torch.nn.Module) -> str:
    """"(ids, mask=None)"."""
    signature = inspect.signature(module.forward)
    bare = [value.replace(annotation=value.empty) for value in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def _needed(module: torch.nn.Module) -> List[str]:
    """The arguments that forward() has to be given; the first where that is none."""
    values = inspect.signature(module.forward).parameters.values()
    names = [value.name for value in values if value.default is value.empty
             and value.kind not in (value.VAR_POSITIONAL, value.VAR_KEYWORD)]
    return names or [_first_parameter(module)]


def _how_to_say(names: Sequence[str]) -> str:
    """"--input x=N,3,224,224", and how tokens are said."""
    pictures = " ".join(f"--input {name}=N,3,224,224" for name in names)
    return f"{pictures}, of tokens --input {names[0]}:int64=N,seq"


_LIBRARIES: Dict[str, Callable[[str], Target]] = {
    "torchvision": _torchvision, "timm": _timm, "hf": _hf}


def find(target: str, inputs: Optional[List[Input]] = None) -> Target:
    """The model that `target` names; `inputs` take the place of those that are known of it."""
    library, _, name = target.partition(":")
    if not name:
        raise OnnxfitError(f"'{target}': expected torchvision:NAME, timm:NAME, hf:PATH-OR-ID or "
                           "MODULE:FUNCTION", f"torchvision:{target}")
    make = _LIBRARIES.get(library)
    found = make(name) if make else _function(target)
    if inputs:
        return found._replace(inputs=inputs)
    if not found.inputs:
        raise OnnxfitError(f"{target}: expected --input for what forward{_taken(found.module)} "
                           f"takes, found none", _how_to_say(_needed(found.module)))
    return found
