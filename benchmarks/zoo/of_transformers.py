"""Families of transformers 5.17.0: every model type that one tensor, or two, can be given.

Each is built from its own configuration with few layers and a small vocabulary, and a quarter of
its widths where it would be large and that can be built.  The task is the first that the type has.
"""

import warnings
from typing import NamedTuple

import family as zoo
from family import Family

LAYERS = 3
VOCABULARY = 2000
EXPERTS = 4
LARGE, TOO_LARGE = 60_000_000, 300_000_000  # parameters
FEW = {"vocab_size": VOCABULARY, "vocab_size_per_layer_input": VOCABULARY}
FEW |= dict.fromkeys(["num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
                      "decoder_layers", "num_encoder_layers", "num_decoder_layers"], LAYERS)
FEW |= dict.fromkeys(["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"],
                     EXPERTS)
WIDTHS = ["hidden_size", "intermediate_size", "d_model", "ffn_dim", "d_ff", "n_embd", "n_inner",
          "encoder_ffn_dim", "decoder_ffn_dim", "dim", "hidden_dim", "moe_intermediate_size",
          "shared_expert_intermediate_size", "word_embed_proj_dim", "embedding_size", "emb_dim"]
SPECIAL = ["pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id",
           "sep_token_id", "cls_token_id", "mask_token_id"]


class Task(NamedTuple):
    auto_class: str
    wrapper: type
    loss: str


TASKS = [Task("AutoModelForSeq2SeqLM", zoo.Seq2SeqLogits, "ce"),
         Task("AutoModelForCausalLM", zoo.Logits, "ce"),
         Task("AutoModelForMaskedLM", zoo.Logits, "ce"),
         Task("AutoModelForImageClassification", zoo.Logits, "ce"),
         Task("AutoModelForVideoClassification", zoo.Logits, "ce"),
         Task("AutoModelForSemanticSegmentation", zoo.Logits, "ce"),
         Task("AutoModelForDepthEstimation", zoo.PredictedDepth, "mse"),
         Task("AutoModelForObjectDetection", zoo.Logits, "mse"),
         Task("AutoModelForCTC", zoo.Logits, "mse"),
         Task("AutoModelForAudioClassification", zoo.Logits, "ce"),
         Task("AutoModelForSequenceClassification", zoo.Logits, "ce"),
         Task("AutoModel", zoo.LastHiddenState, "mse")]


def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0][:150]


def reduced(config_class, shrink):
    """Keyword arguments that make a small configuration of the class, its parts' among them."""
    usual = config_class()
    options = {name: min(value, few) for name, few in FEW.items()
               if isinstance(value := getattr(usual, name, None), int)}
    for name in WIDTHS:
        value = getattr(usual, name, None)
        if shrink > 1 and isinstance(value, int) and name not in usual.attribute_map:
            options[name] = value // shrink
    for name in SPECIAL:
        if isinstance(value := getattr(usual, name, None), int) and value >= VOCABULARY:
            options[name] = 1
    for name, part in config_class.sub_configs.items():
        own = getattr(usual, name, None)
        if getattr(part, "model_type", None) and own is not None:
            options[name] = reduced(type(own), shrink)
    if hasattr(usual, "use_cache"):
        options["use_cache"] = False
    if hasattr(usual, "layerdrop"):
        options["layerdrop"] = 0.0  # which layers a step has would be left to chance
    return {name: value for name, value in options.items() if name not in usual.attribute_map}


def built(config_class, task, shrink):
    import transformers
    config = config_class(**reduced(config_class, shrink))
    return getattr(transformers, task.auto_class).from_config(config)


def classes(task):
    """{configuration class: model class} of those that the task has."""
    import transformers
    return getattr(transformers, task.auto_class)._model_mapping


def config_classes():
    """{model type: configuration class}"""
    from transformers import CONFIG_MAPPING
    found = {}
    for name in CONFIG_MAPPING:
        try:
            found[name] = CONFIG_MAPPING[name]
        except Exception:  # wants a library that is not here
            continue
    return found


def task_of(config_class):
    for task in TASKS:
        if config_class in classes(task):
            return task
    return None


def first_number(config, name, otherwise):
    value = getattr(config, name, otherwise)
    value = otherwise if value is None else value
    return value[0] if isinstance(value, (list, tuple)) else value


def inputs_of(model, task):
    """One free dimension, the batch; None where this file knows no inputs."""
    config = model.config
    vision = getattr(config, "vision_config", None) or config
    size = first_number(vision, "image_size", 224)
    channels = first_number(vision, "num_channels", 3)
    kind = model.main_input_name
    if kind == "input_ids":
        return zoo.tokens(96, 64 if task.wrapper is zoo.Seq2SeqLogits else None)
    if kind == "pixel_values" and "Video" in task.auto_class:
        frames = first_number(config, "num_frames", 16)
        return zoo.floats("pixel_values", frames, channels, size, size)
    if kind in ("pixel_values", "pixel_values_videos"):
        return zoo.floats(kind, channels, size, size)
    if kind == "input_values" and hasattr(config, "max_length"):  # spectrograms
        return zoo.floats(kind, config.max_length, config.num_mel_bins)
    if kind == "input_values":
        return zoo.floats(kind, 16000)
    if kind == "input_features":
        mels = first_number(config, "num_mel_bins", first_number(config, "feature_size", 80))
        return zoo.floats(kind, 200, mels)
    return None


def smallest(config_class, task):
    """What can be built on no device: by how much widths are cut, and the model: the first that is
    not large, else the smallest."""
    import torch
    found, failure = [], None
    for shrink in (1, 4, 8, 2):
        try:
            with torch.device("meta"):
                model = built(config_class, task, shrink)
        except Exception as error:
            failure = failure or error
            continue
        found.append((sum(p.numel() for p in model.parameters()), shrink, model))
        if found[-1][0] <= LARGE:
            return found[-1][1:]
    if not found:
        raise ValueError(f"cannot be built: {first_line(failure)}")
    count, shrink, model = min(found, key=lambda one: one[0])
    if count > TOO_LARGE:
        raise ValueError(f"{count} parameters")
    return shrink, model


def family_of(name, config_class, task):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shrink, model = smallest(config_class, task)
    inputs = inputs_of(model, task)
    if inputs is None:
        raise ValueError(f"main input {model.main_input_name}")
    return Family(lambda: task.wrapper(built(config_class, task, shrink)), inputs,
                  zoo.module_of(model), task.loss)


def model_module(task, config_class):
    """transformers.models.bert, without building one."""
    found = classes(task)[config_class]
    found = found[0] if isinstance(found, tuple) else found
    return ".".join(found.__module__.split(".")[:3])


def families(known=(), is_wanted=lambda name: True):
    """One of each module, of the names that are wanted, that is not held out or is in `known`;
    says what cannot be made."""
    made, modules = {}, set()
    for name, config_class in config_classes().items():
        task = task_of(config_class) if is_wanted(f"transformers.{name}") else None
        if task is None:
            continue
        try:
            module = model_module(task, config_class)
            if module in modules or (zoo.is_held_out(module) and module not in known):
                continue
            made[f"transformers.{name}"] = family_of(name, config_class, task)
            modules.add(module)
        except Exception as error:
            print(f"left out: transformers.{name}:", first_line(error), flush=True)
    return made
