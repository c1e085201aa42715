"""TARGET of `python -m onnxfit export`: a model by name, built on the meta device, where nothing
has weights, with the inputs that it takes.  Nothing is downloaded but, for hf:ID, a config."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import traceback
from typing import (TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence,
                    Tuple, Union)

from onnxfit import source_lines
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
    # What a function returned beside its module: inputs as onnxfit.estimate() takes them.
    example: Any = None
    is_own: bool = False  # of a function, not of a library


def written(inputs: Sequence[str], in_config: bool) -> str:
    """Inputs as one types them: flags of a command, or the key of onnxfit.toml."""
    if not in_config:
        return " ".join(f"--input {text}" for text in inputs)
    quoted = ", ".join(f'"{text}"' for text in inputs)
    return f"input = [{quoted}]" if len(inputs) > 1 else f"input = {quoted}"


def parse_input(text: str, in_config: bool = False) -> Input:
    """'ids:int64=N,128'."""
    found = re.fullmatch(r"(\w+)(?::(\w+))?=([\w,]+)", text)
    if found is None:
        raise OnnxfitError(f"{'' if in_config else '--'}input: expected NAME[:DTYPE]=DIM,DIM,…, "
                           f"found '{text}'", written(["x=N,3,224,224"], in_config))
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


def _why(error: BaseException, target: str) -> OnnxfitError:
    """Of code of the user's that raised: what, and the line of theirs."""
    said = " ".join(str(error).split())
    place = source_lines.innermost(traceback.extract_tb(error.__traceback__))
    where = f" ({place})" if place else ""
    hint = ("`if __name__ == \"__main__\":` around what runs as a script"
            if isinstance(error, SystemExit) else "")
    return OnnxfitError(f"{target}: expected a function that returns a model, found "
                        f"{type(error).__name__}: {source_lines.shortened(said)}{where}", hint)


def _no_target(target: str, found: object) -> OnnxfitError:
    module, _, function = target.partition(":")
    plain = module[:-3].replace("/", ".") if module.endswith(".py") else ""
    return OnnxfitError(f"{target}: expected torchvision:NAME, timm:NAME, hf:PATH-OR-ID or "
                        f"MODULE:FUNCTION, found {found}", f"{plain}:{function}" if plain else "")


def _is_module_missing(error: BaseException, module: str) -> bool:
    """Whether it is the module itself, or a package around it, that was not found."""
    name = getattr(error, "name", None)
    return isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{name}.")


def _imported(target: str) -> Callable[[], Any]:
    module, _, function = target.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if _is_module_missing(error, module):
            raise _no_target(target, error) from error
        raise _why(error, target) from error
    if not callable(getattr(imported, function, None)):
        raise _no_target(target, f"no such function in {module}")
    return getattr(imported, function)  # type: ignore[no-any-return]


def _parted(made: Any, target: str) -> Tuple[torch.nn.Module, Any]:
    """What a function returned: a model, or one and an example of its inputs."""
    import torch
    is_pair = isinstance(made, tuple) and len(made) == 2
    model, example = made if is_pair else (made, None)
    if not isinstance(model, torch.nn.Module):
        found = type(made).__name__ + (f" that begins with {type(model).__name__}" if is_pair else "")
        raise OnnxfitError(f"{target}: expected a function that returns a torch.nn.Module, or one "
                           f"and an example of its inputs, found {found}",
                           "return model, torch.zeros(2, 3, 224, 224)")
    return model, example


def _function(target: str) -> Target:
    build = _imported(target)
    examples: List[Any] = []

    def model() -> torch.nn.Module:
        made, example = _parted(build(), target)
        examples.append(example)
        return made

    try:
        module = on_meta(model)
    except OnnxfitError:
        raise
    except (Exception, SystemExit) as error:
        raise _why(error, target) from error
    return Target(target.partition(":")[2], module, [], example=examples[-1], is_own=True)


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


def _how_to_say(names: Sequence[str], in_config: bool) -> str:
    """"--input x=N,3,224,224", and how tokens are said."""
    pictures = written([f"{name}=N,3,224,224" for name in names], in_config)
    tokens = written([f"{names[0]}:int64=N,seq"], in_config)
    return f"{pictures}, of tokens {tokens}"


_LIBRARIES: Dict[str, Callable[[str], Target]] = {
    "torchvision": _torchvision, "timm": _timm, "hf": _hf}


def find(target: str, inputs: Optional[List[Input]] = None, in_config: bool = False) -> Target:
    """The model that `target` names; `inputs` take the place of those that are known of it."""
    library, _, name = target.partition(":")
    if not name:
        raise OnnxfitError(f"'{target}': expected torchvision:NAME, timm:NAME, hf:PATH-OR-ID or "
                           "MODULE:FUNCTION", f"torchvision:{target}")
    make = _LIBRARIES.get(library)
    found = make(name) if make else _function(target)
    if inputs:
        return found._replace(inputs=inputs, example=None)
    if not found.inputs and found.example is None:
        said = "input" if in_config else "--input"
        raise OnnxfitError(
            f"{target}: expected {said} for what forward{_taken(found.module)} takes, or a "
            f"function that returns an example of it beside the model, found neither",
            _how_to_say(_needed(found.module), in_config))
    return found
