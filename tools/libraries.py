"""The architectures of libraries: a name, and a function that builds one on no device and says what
its forward may be given, the likeliest first."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

LAYERS = 4  # of each stack where its configuration tells: the first, two in the middle, the last
WORDS = 32
PATCHES = 16  # on each side of a picture that is given as patches
REGIONS = 16  # of a picture, where another model has found them
CHOICES = 4
BATCH = 2


class Architecture(NamedTuple):
    name: str
    builds: list[Callable]  # of nothing: the model, what its forward may be given; the best first
    in_16_bits: bool = True  # whether its casts are to be seen


def on_no_device(build):
    try:
        with torch.device("meta"):
            return build()
    except (NotImplementedError, RuntimeError):  # its constructor asks for values
        return build().to("meta")


def zeros(*sizes, dtype=torch.float32):
    return torch.zeros(sizes, dtype=dtype, device="meta")


# --- timm, torchvision --------------------------------------------------------------------------


def timm():
    import timm as library
    for name in library.list_models():
        def build(name=name):
            model = on_no_device(lambda: library.create_model(name, pretrained=False))
            return model, [(zeros(BATCH, *model.default_cfg.get("input_size", (3, 224, 224))),)]
        yield Architecture(f"timm.{name}", [build])


def torchvision():
    from torchvision import models
    for name in models.list_models():
        if name.startswith("quantized"):
            continue  # of integers, on hosts alone

        def build(name=name):
            kept = {"weights": None, "weights_backbone": None}
            try:
                model = on_no_device(lambda: models.get_model(name, **kept))
            except TypeError:  # without a backbone
                model = on_no_device(lambda: models.get_model(name, weights=None))
            pictures = [(zeros(BATCH, 3, size, size),) for size in (299, 224)]
            return model, [*pictures, (zeros(BATCH, 3, 16, 224, 224),),
                           (zeros(BATCH, 3, 128, 128),) * 2]
        yield Architecture(f"torchvision.{name}", [build])


# --- transformers -------------------------------------------------------------------------------


def is_config(value):
    return hasattr(value, "to_dict")


def with_inner(config):
    return config, *filter(is_config, vars(config).values())


def is_depth(name):
    return any(word in name for word in ("layers", "n_layer", "depth", "blocks"))


def shorter(name, value):
    """A depth of at most LAYERS; None of what is none."""
    if is_depth(name) and type(value) is int and value > LAYERS:
        return LAYERS
    is_list = isinstance(value, (list, tuple)) and len(value) > 0
    if is_depth(name) and is_list and all(type(each) is int for each in value):
        return type(value)(min(each, LAYERS) for each in value)
    return value[:LAYERS] if name.endswith("layer_types") and is_list else None


def part_of(depth, name, value):
    """Of settings that count some of a stack's layers, as large a part of a shorter one."""
    is_part = is_depth(name) and type(value) is int and 0 < value < depth
    return max(1, value * LAYERS // depth) if is_part and depth > LAYERS else None


def names_layers(config):
    """Whether a setting says layers by their numbers, beyond the first few: of some, it reads all."""
    return any("indices" in name or "indexes" in name
               for one in with_inner(config) for name, value in vars(one).items()
               if isinstance(value, (list, tuple)) and value
               and all(type(each) is int for each in value) and max(value) >= LAYERS)


def shortened(config, seen=()):
    """`config`, and those in it, with LAYERS layers in each stack."""
    if names_layers(config):
        return config
    depth = getattr(config, "num_hidden_layers", None)
    depth = depth if type(depth) is int else 0
    for name, value in list(vars(config).items()):
        made = part_of(depth, name, value) or shorter(name, value)
        if made is not None:
            setattr(config, name, made)
        elif is_config(value) and not any(value is other for other in seen):
            shortened(value, (*seen, config))
    return config


# What some configurations leave to whoever loads weights.
UNTOLD = {"vocab_size": 1000, "pad_token_id": 0, "decoder_start_token_id": 0,
          "prediction_length": 24, "context_length": 24, "num_experts_per_tok": 2,
          "n_routed_experts": 8, "rope_theta": 10000.0, "head_dim": 64}


def filled(config, *names):
    """`config`, and those in it, with a value for each of `names` that is None there."""
    for one in with_inner(config):
        rotary = getattr(one, "rope_parameters", None)
        for holder in (vars(one), rotary if isinstance(rotary, dict) else {}):
            for name in holder.keys() & set(names):
                holder[name] = UNTOLD[name] if holder[name] is None else holder[name]
    return config


def setting(config, *names, default=None):
    """The first of `names` that the configuration has, or one in it."""
    for one in with_inner(config):
        for name in names:
            value = getattr(one, name, None)
            if value is not None:
                return value
    return default


def picture_sizes(config):
    size = setting(config, "image_size", "input_size", "img_size", default=224)
    if isinstance(size, dict):
        size = list(size.values())[:2]
    return (size, size) if isinstance(size, int) else tuple(size)[-2:]


def time_series(config):
    """Of one value a step, or several."""
    channels = setting(config, "num_input_channels", "input_size", default=1)
    lags = setting(config, "lags_sequence", default=[0])
    past = setting(config, "context_length", default=64) + max(lags)
    ahead = setting(config, "prediction_length", default=24)
    features = setting(config, "num_time_features", default=0)
    channels = (channels,) if isinstance(channels, int) and channels > 1 or not lags[-1] else ()
    return {"past_values": zeros(BATCH, past, *channels),
            "past_observed_mask": zeros(BATCH, past, *channels) + 1,
            "past_time_features": zeros(BATCH, past, features),
            "future_values": zeros(BATCH, ahead, *channels),
            "future_time_features": zeros(BATCH, ahead, features)}


def patch_values(config):
    """Of one colour: of a square, in two pictures of a video where the model takes those."""
    return (setting(config, "temporal_patch_size", default=1)
            * setting(config, "patch_size", default=14) ** 2)


def arguments(config):
    """What forwards take, by name, with sizes from the configuration."""
    high, wide = picture_sizes(config)
    colors = setting(config, "num_channels", "in_channels", default=3)
    frames = setting(config, "num_frames", default=8)
    bands = setting(config, "num_mel_bins", "feature_size", "n_mels",
                    "feature_projection_input_dim", "input_feat_per_channel", default=80)
    steps = 2 * setting(config, "max_source_positions", default=256)
    words = zeros(BATCH, WORDS, dtype=torch.long)
    return {
        "input_ids": words,
        "decoder_input_ids": words,
        "attention_mask": words + 1,
        "token_type_ids": words,
        "bbox": zeros(BATCH, WORDS, 4, dtype=torch.long),
        "pixel_values": zeros(BATCH, colors, high, wide),
        "pixel_values_videos": zeros(BATCH, frames, colors, high, wide),
        "pixel_mask": zeros(BATCH, high, wide, dtype=torch.long),
        "input_features": zeros(BATCH, bands, steps),
        "input_features_mask": zeros(BATCH, steps, dtype=torch.long) + 1,
        "input_values": zeros(BATCH, 16000),
        **time_series(config),
        "visual_feats": zeros(BATCH, REGIONS, setting(config, "visual_feat_dim", default=2048)),
        "visual_pos": zeros(BATCH, REGIONS, setting(config, "visual_pos_dim", default=4)),
        "visual_embeds": zeros(BATCH, REGIONS, setting(config, "visual_embedding_dim", default=512)),
        "qformer_input_ids": words,
        "query_embeds": zeros(BATCH, WORDS, setting(config, "hidden_size", default=768)),
        "encoder_hidden_states": zeros(
            BATCH, WORDS, setting(config, "encoder_hidden_size", "hidden_size", default=768)),
        "is_longer": zeros(BATCH, 1, dtype=torch.bool),
        "hidden_states": zeros(PATCHES**2, colors * patch_values(config)),
        "grid_thw": torch.tensor([[1, PATCHES, PATCHES]]),
    }


# What models of several kinds take, rather than their main input alone.
TOGETHER = (("input_ids", "pixel_values"), ("input_ids", "input_features"),
            ("input_ids", "bbox", "pixel_values"), ("input_ids", "bbox"),
            ("input_ids", "input_values"), ("input_ids", "input_features", "is_longer"),
            ("input_ids", "visual_feats", "visual_pos"), ("input_ids", "visual_embeds"),
            ("pixel_values_videos",))


def of_choices(value):
    is_words = value.dtype == torch.long and value.dim() == 2
    return value[:, None].repeat(1, CHOICES, 1) if is_words else value


MASKS = ("attention_mask", "decoder_attention_mask")


def givens(model, masks=()):
    known = arguments(model.config)
    taken = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    tries = []
    together = [names for names in TOGETHER if all(name in taken for name in names)]
    for names in (*together, (main,), (main, "decoder_input_ids"), *TOGETHER, tuple(known)):
        given = {name: known[name] for name in names if name in known and name in taken}
        if given and all(given.keys() != other.keys() for other in tries):
            tries.append(given)
    needed = [name for name, one in taken.items() if one.default is inspect.Parameter.empty]
    tries.append({name: known[name] for name in {main, *needed} if name in known})
    tries.append({name: of_choices(value) for name, value in tries[0].items()})
    if main == "pixel_values":
        tries.append({main: known["pixel_values_videos"]})
    if main == "input_values":
        tries.append({main: known[main][:, None]})
        frames = setting(model.config, "max_length", default=1024)
        tries.append({main: zeros(BATCH, frames, known["input_features"].shape[1])})
    for one in [one for one in tries if "input_features" in one]:
        turned = one["input_features"].transpose(1, 2)
        tries += [{**one, "input_features": turned}, {**one, "input_features": turned[:, None]}]
    with_masks = {name: known["attention_mask"] for name in masks if name in taken}
    return [{**one, **with_masks} for one in tries]


def model_classes():
    """Of all models that the library's tables name: class, whether it is a base model."""
    from transformers.models.auto import modeling_auto
    classes = {}
    for table, names in vars(modeling_auto).items():
        if table.startswith("MODEL_") and table.endswith("MAPPING_NAMES"):
            for made in names.values():
                for name in made if isinstance(made, (list, tuple)) else (made,):
                    classes.setdefault(name, table == "MODEL_MAPPING_NAMES")
    return sorted(classes.items(), key=lambda item: (not item[1], item[0]))


def config_of(kind, attention, caches):
    config = filled(kind.config_class(), "vocab_size", "pad_token_id", "prediction_length")
    for one in with_inner(config):
        if hasattr(one, "use_cache"):
            one.use_cache = caches
    config._attn_implementation = attention if kind._supports_sdpa else "eager"
    return config


def builds(class_name, attention, caches, masks):
    """Of few layers; else without a kernel that a model in it does not have; else with what its
    configuration leaves open; else, where other settings count its layers, too, of all."""
    def build(attention, change):
        import transformers as library
        kind = getattr(library, class_name)
        config = change(config_of(kind, attention, caches))
        model = on_no_device(lambda: kind(config))
        return model, givens(model, masks)

    return [partial(build, attention, shortened), partial(build, "eager", shortened),
            partial(build, attention, lambda config: shortened(filled(config, *UNTOLD))),
            partial(build, attention, lambda config: config)]


# How a base model is run: its attention, whether it fills a cache, its masks, whether also in 16
# bits.  What is around one runs it in the first way.
WAYS = (("sdpa", False, (), True), ("eager", False, MASKS, True), ("sdpa", True, MASKS, False),
        ("sdpa", False, MASKS, False), ("sdpa", True, (), False))


def transformers():
    for name, is_base in model_classes():
        for attention, caches, masks, in_16_bits in WAYS if is_base else WAYS[:1]:
            way = f"{attention}{'.cache' if caches else ''}{'.mask' if masks else ''}"
            yield Architecture(f"transformers.{name}.{way}",
                               builds(name, attention, caches, masks), in_16_bits)


# --- diffusers ----------------------------------------------------------------------------------


def sample_size(config):
    size = setting(config, "sample_size", default=32)
    return size if isinstance(size, int) else min(size)


def latents(config):
    """Of pictures, of videos, of sounds, and as a row of patches."""
    colors = setting(config, "in_channels", "in_dim", "latent_channels", default=4)
    size = sample_size(config)
    return [zeros(BATCH, colors, size, size), zeros(BATCH, colors, 5, 32, 32),
            zeros(BATCH, 5, colors, 32, 32), zeros(BATCH, colors, 1024),
            zeros(BATCH, size * size, colors)]


def text_width(config):
    return setting(config, "cross_attention_dim", "joint_attention_dim", "text_embed_dim",
                   "caption_channels", "text_dim", "encoder_hid_dim", default=768)


def around_latents(config):
    """What forwards take beside latents, by name."""
    channels = setting(config, "conditioning_channels", default=3)
    size = 8 * sample_size(config)
    time = zeros(BATCH)
    return {
        "timestep": time, "timestep_ratio": time, "guidance": time, "r": time,
        "class_labels": time.long(),
        "encoder_hidden_states": zeros(BATCH, WORDS, text_width(config)),
        "encoder_attention_mask": zeros(BATCH, WORDS, dtype=torch.long) + 1,
        "pooled_projections": zeros(BATCH, setting(config, "pooled_projection_dim", default=768)),
        "controlnet_cond": zeros(BATCH, channels, size, size),
        "img_ids": zeros(1024, 3), "txt_ids": zeros(WORDS, 3),
    }


def diffusion_givens(model):
    taken = inspect.signature(model.forward).parameters
    main = next(iter(taken))
    beside = {name: value for name, value in around_latents(model.config).items() if name in taken}
    needed = {name: value for name, value in beside.items()
              if taken[name].default is inspect.Parameter.empty}
    for some in (beside, needed):
        yield from ({main: sample, **some} for sample in latents(model.config))


def diffusers():
    import diffusers as library
    for name in sorted(dir(library)):
        kind = getattr(library, name, None)
        if not (inspect.isclass(kind) and issubclass(kind, library.ModelMixin)):
            continue

        def build(kind=kind):
            known = inspect.signature(kind.__init__).parameters
            short = {name: shorter(name, value.default) for name, value in known.items()}
            short = {name: value for name, value in short.items() if value is not None}
            try:
                model = on_no_device(lambda: kind(**short))
            except Exception:  # other settings count its layers, too
                model = on_no_device(kind)
            return model, list(diffusion_givens(model))
        yield Architecture(f"diffusers.{name}", [build])


ALL = {"torchvision": torchvision, "timm": timm, "transformers": transformers,
       "diffusers": diffusers}
