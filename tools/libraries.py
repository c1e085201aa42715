"""The architectures of libraries: (name, function that builds one and what it is given)."""

import inspect

import torch

LAYERS = 4  # of each stack: the first, two in the middle, the last
WORDS = 32
BATCH = 2


def on_no_device(build):
    try:
        with torch.device("meta"):
            return build()
    except (NotImplementedError, RuntimeError):
        return build().to("meta")


def zeros(*sizes, dtype=torch.float32):
    return torch.zeros(sizes, dtype=dtype, device="meta")


# --- timm, torchvision --------------------------------------------------------------------------

def timm():
    import timm as library
    seen = set()
    for name in library.list_models():
        def build(name=name):
            model = on_no_device(lambda: library.create_model(name, pretrained=False))
            return model, (zeros(BATCH, *model.default_cfg.get("input_size", (3, 224, 224))),)
        yield f"timm.{name}", build


def torchvision():
    from torchvision import models
    for name in models.list_models():
        if name.startswith("quantized"):
            continue  # of integers, on hosts alone

        def build(name=name):
            kept = {key: None for key in ("weights", "weights_backbone")}
            try:
                model = on_no_device(lambda: models.get_model(name, **kept))
            except TypeError:
                model = on_no_device(lambda: models.get_model(name, weights=None))
            return model, [(zeros(BATCH, 3, size, size),) for size in (299, 224)] + [
                (zeros(BATCH, 3, 16, 224, 224),), (zeros(BATCH, 3, 128, 128),) * 2]
        yield f"torchvision.{name}", build


# --- transformers -------------------------------------------------------------------------------

def shortened(config, seen=None):
    """`config` with LAYERS layers in each stack."""
    seen = seen if seen is not None else set()
    if id(config) in seen:
        return config
    seen.add(id(config))
    for name, value in list(vars(config).items()):
        is_depth = any(word in name for word in ("layers", "depth", "blocks"))
        if is_depth and isinstance(value, int) and not isinstance(value, bool) and value > LAYERS:
            setattr(config, name, LAYERS)
        elif is_depth and isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value):
            setattr(config, name, type(value)(min(v, LAYERS) for v in value))
        elif name.endswith("layer_types") and isinstance(value, list):
            setattr(config, name, value[:LAYERS])
        elif hasattr(value, "to_dict"):
            shortened(value, seen)
    return config


def setting(config, *names, default=None):
    """The first of `names` that the configuration has, or one in it."""
    below = [value for value in vars(config).values() if hasattr(value, "to_dict")]
    for one in (config, *below):
        for name in names:
            value = getattr(one, name, None)
            if value is not None:
                return value
    return default


def arguments(config):
    """What forwards take, by name: shapes from the configuration."""
    size = setting(config, "image_size", "input_size", "img_size", default=224)
    high, wide = (size, size) if isinstance(size, int) else (list(size.values())[:2] if isinstance(size, dict) else tuple(size)[-2:])
    colors = setting(config, "num_channels", "in_channels", default=3)
    frames = setting(config, "num_frames", default=8)
    mels = setting(config, "num_mel_bins", "feature_size", "n_mels", default=80)
    steps = 2 * setting(config, "max_source_positions", default=256)
    words = zeros(BATCH, WORDS, dtype=torch.long)
    return {
        "input_ids": words, "decoder_input_ids": words,
        "attention_mask": torch.ones(BATCH, WORDS, dtype=torch.long, device="meta"),
        "token_type_ids": words, "bbox": zeros(BATCH, WORDS, 4, dtype=torch.long),
        "pixel_values": zeros(BATCH, colors, high, wide),
        "pixel_values_videos": zeros(BATCH, frames, colors, high, wide),
        "input_features": zeros(BATCH, mels, steps), "input_values": zeros(BATCH, 16000),
        "audio_values": zeros(BATCH, 1, 16000), "pixel_mask": zeros(BATCH, high, wide, dtype=torch.long),
        "past_values": zeros(BATCH, setting(config, "context_length", default=64), setting(config, "num_input_channels", "input_size", default=1) if isinstance(setting(config, "num_input_channels", "input_size", default=1), int) else 1),
    }


def givens(model):
    """Arguments to try, the likeliest first."""
    known = arguments(model.config)
    taken = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    tries = []
    def add(*names):
        given = {name: known[name] for name in names if name in known and name in taken}
        if given and not any(given.keys() == other.keys() for other in tries):
            tries.append(given)
    add(main)
    add(main, "decoder_input_ids")
    add("input_ids", "pixel_values")
    add("input_ids", "input_features")
    add("input_ids", "bbox", "pixel_values")
    add("input_ids", "input_values")
    add("pixel_values_videos")
    if main == "pixel_values" and "pixel_values" in taken:
        tries.append({main: known["pixel_values_videos"]})
    if main == "input_features" and "input_features" in taken:
        tries.append({main: known[main].transpose(1, 2)})
    add(*known)
    return tries


def transformers():
    import transformers as library
    from transformers.models.auto import configuration_auto, modeling_auto
    classes = {}
    for table, names in vars(modeling_auto).items():
        if table.startswith("MODEL_") and table.endswith("MAPPING_NAMES"):
            for kind, name in names.items():
                for one in (name if isinstance(name, (list, tuple)) else (name,)):
                    classes.setdefault(one, (kind, table == "MODEL_MAPPING_NAMES"))
    for name, (kind, is_base) in sorted(classes.items(), key=lambda item: (not item[1][1], item[0])):
        for attention in ("sdpa", "eager") if is_base else ("sdpa",):
            def build(name=name, attention=attention):
                kind_of = getattr(library, name)

                def made(change):
                    config = change(kind_of.config_class())
                    config._attn_implementation = attention if kind_of._supports_sdpa else "eager"
                    return on_no_device(lambda: kind_of(config))
                try:
                    model = made(shortened)
                except Exception:
                    model = made(lambda config: config)
                return model, givens(model)
            yield f"transformers.{name}.{attention}", build


LIBRARIES = {"timm": timm, "torchvision": torchvision, "transformers": transformers}
