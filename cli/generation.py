"""generate() of a transformers model on the card, once, in a process of its own.

    python generation.py ASKED.json ANSWER.json

`ASKED` is {"model", "batch", "prompt", "new", "beams", "cache", "dtype"}; 0 beams and "" are the model's own.
`model` is a folder with a config.json, a name that transformers knows, or "module:function", which returns a
model.  `ANSWER` is {"missing"} of a package, {"error"}, or {"library", "name", "dtype", "beams", "sequences",
"cache_implementation", "calls", "most_prompt", "most_new", "open": [sentences], "cache": [{"kind", "layers",
"bytes", "host_bytes", "first_bytes"}]}: of each kind of layers what it holds at the end, and behind the first
call; the most are those of a table of positions, 0 without one.

A model by its config is loaded by from_pretrained(), from a file of weights that is a hole: as large as
the real one, and no byte of it on the disk."""

import importlib
import json
import os
import shutil
import struct
import sys
import tempfile

TYPES = {"torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16",
         "torch.float64": "F64", "torch.int64": "I64", "torch.int32": "I32", "torch.int8": "I8",
         "torch.uint8": "U8", "torch.bool": "BOOL"}  # of safetensors' headers

SPARE_ROWS = 8  # of a table of positions, beside those that its config names
SHARD = 4 << 30  # bytes of a file; one that is larger than the machine's RAM may not be mapped


class Refused(Exception):
    """What the command says of what it was given."""


def first_line(error):
    return str(error).strip().partition("\n")[0]


# --- The model ------------------------------------------------------------------------------------

def class_of(config):
    """The class that generates, by the config's own word, else by its kind."""
    import transformers
    named = [getattr(transformers, name, None) for name in config.architectures or ()]
    for kind in named:
        if kind is not None and getattr(kind, "can_generate", lambda: False)():
            return kind
    for auto in (transformers.AutoModelForCausalLM, transformers.AutoModelForSeq2SeqLM,
                 transformers.AutoModelForSpeechSeq2Seq):
        if type(config) in auto._model_mapping:
            return auto._model_mapping[type(config)]
    raise Refused(f"expected a model that generates, found {config.model_type}")


def empty_model(kind, config, dtype):
    import torch
    with torch.device("meta"):
        return kind._from_config(config, dtype=dtype)


def saved_tensors(model):
    """{name: tensor} as save_pretrained() writes them: tied ones once, experts one by one."""
    seen, tensors = set(), {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:  # before transformers 5, whose names are those of the files
        return tensors
    return revert_weight_conversion(model, tensors)


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def shards_of(tensors):
    """Of {name: tensor} those of each file, in order."""
    shards, end = [{}], 0
    for name, tensor in tensors.items():
        if end and end + bytes_of(tensor) > SHARD:
            shards.append({})
            end = 0
        shards[-1][name] = tensor
        end += bytes_of(tensor)
    return shards


def write_hole(tensors, path):
    """A safetensors file of tensors."""
    header, end = {}, 0
    for name, tensor in tensors.items():
        begin, end = end, end + bytes_of(tensor)
        header[name] = {"dtype": TYPES[str(tensor.dtype)], "shape": list(tensor.shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def write_weights(model, folder):
    shards = shards_of(saved_tensors(model))
    if len(shards) == 1:
        return write_hole(shards[0], os.path.join(folder, "model.safetensors"))
    places = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_hole(shard, os.path.join(folder, file))
        places.update(dict.fromkeys(shard, file))
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as index:
        json.dump({"metadata": {}, "weight_map": places}, index)


def config_of(name):
    import transformers
    if os.path.isdir(name) and not os.path.exists(os.path.join(name, "config.json")):
        raise Refused("expected a config.json in the folder, found none")
    if name.startswith((".", os.sep)) and not os.path.exists(name):
        raise Refused("expected a folder with a config.json, found no such folder")
    try:
        return transformers.AutoConfig.from_pretrained(name)
    except OSError as error:
        raise Refused("expected a folder with a config.json, a name that transformers knows or "
                      f"model.py:load, found: {first_line(error)}") from None


def by_config(name, dtype):
    import torch
    config = config_of(name)
    if getattr(config, "quantization_config", None) is not None:
        raise Refused("expected weights that are not quantized; a function that loads the model has "
                      "its own way: model.py:load")
    wanted = config.dtype if dtype == "auto" else getattr(torch, dtype)
    wanted = wanted or torch.float32
    kind = class_of(config)
    with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        config.save_pretrained(folder)
        own = os.path.join(name, "generation_config.json")
        if os.path.exists(own):
            shutil.copy(own, folder)
        write_weights(empty_model(kind, config, wanted), folder)
        return kind.from_pretrained(folder, dtype=wanted, device_map="cuda")


def by_function(text, dtype):
    import torch
    place, name = text.rsplit(":", 1)
    folder, module = os.path.split(place.removesuffix(".py"))
    sys.path.insert(0, os.path.abspath(folder))
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Refused(f"expected a function that returns a model, found: {error}") from None
    model = function()
    if dtype != "auto":
        raise Refused("expected the precision in the function itself")
    if not hasattr(model, "generate"):
        raise Refused(f"expected a model of transformers, found {type(model).__name__}")
    placed = next(model.parameters()).device.type
    if placed == "meta":
        raise Refused("expected a model with weights on the CPU or the card, found one on meta")
    return model if placed == "cuda" else model.to(torch.device("cuda"))


# --- What it is given -----------------------------------------------------------------------------

def special_ids(config):
    """Ids of tokens that mean something, of nested configs, too."""
    found = set()
    for name, value in vars(config).items():
        if name.endswith(("token_id", "token_index")):
            found.update(value if isinstance(value, list) else [value])
        elif hasattr(value, "model_type"):
            found |= special_ids(value)
    return found


def inputs_of(model, batch, prompt):
    """Prompts of one length without padding, or one recording each, as a tokenizer or a feature extractor
    brings them to the card."""
    import torch
    config = model.config
    if model.main_input_name == "input_ids":
        plain = next(i for i in range(config.get_text_config().vocab_size)
                     if i not in special_ids(config))
        ids = torch.full((batch, prompt), plain)
        return {"input_ids": ids.cuda(), "attention_mask": torch.ones_like(ids).cuda()}
    if model.main_input_name == "input_features" and hasattr(config, "num_mel_bins"):
        shape = batch, config.num_mel_bins, 2 * config.max_source_positions
        return {"input_features": torch.zeros(shape, dtype=model.dtype).cuda()}
    raise Refused(f"expected a model of tokens, found one of {model.main_input_name}")


def ways_of(model, asked):
    """How generate() is called.  An id beyond the vocabulary ends no text, and no clock does."""
    own = model.generation_config
    own.max_time = own.stop_strings = None
    ways = {"max_new_tokens": asked["new"], "disable_compile": True}
    if own.eos_token_id is not None:
        beyond = model.config.get_text_config().vocab_size + 1
        several = range(len(own.eos_token_id)) if isinstance(own.eos_token_id, list) else ()
        ways["eos_token_id"] = [beyond + i for i in several] or beyond
    if asked["beams"]:
        ways["num_beams"] = asked["beams"]
    if asked["cache"].startswith("paged"):
        raise Refused("expected a cache that grows with the tokens, found one that takes what the card has free")
    if asked["cache"]:
        ways["cache_implementation"] = asked["cache"]
    return ways


def effective(model, ways):
    """What its generation_config.json adds to what was asked."""
    own = model.generation_config
    return {"beams": ways.get("num_beams", own.num_beams or 1), "sequences": own.num_return_sequences or 1,
            "cache_implementation": ways.get("cache_implementation", own.cache_implementation or "")}


# --- What stays open ------------------------------------------------------------------------------

def positions_of(model):
    """How many its config names, and whether they are a table, beyond which nothing can be read."""
    import torch
    config = model.config.get_text_config(decoder=True)
    most = getattr(config, "max_position_embeddings", None) or 0
    tables = [module.num_embeddings for name, module in model.named_modules() if isinstance(
        module, torch.nn.Embedding) and any(word in name for word in ("wpe", "position", "pos_emb"))]
    return most, any(most <= rows <= most + SPARE_ROWS for rows in tables)


def most_tokens(model, asked, positions):
    """Of prompts and of new ones, where positions are a table; the last token is not read."""
    most, is_table = positions
    if not most or not is_table:
        return {"most_prompt": 0, "most_new": 0}
    if model.config.is_encoder_decoder:
        return {"most_prompt": most, "most_new": most}
    return {"most_prompt": max(1, most - asked["new"] + 1), "most_new": max(1, most - asked["prompt"] + 1)}


def check_positions(most, asked):
    for name in ("prompt", "new"):
        if most[f"most_{name}"] and asked[name] > most[f"most_{name}"]:
            raise Refused(f"expected --{name} {most[f'most_{name}']} or less, as its positions are a table, "
                          f"found {asked[name]}")


def open_of(model, asked, positions):
    sentences = []
    most, is_table = positions
    read = asked["new"] if model.config.is_encoder_decoder else asked["prompt"] + asked["new"] - 1
    if most and not is_table and read > most:
        sentences.append(f"each text reads {read} tokens, more than the {most} positions that its config names")
    if any(getattr(model.config, f"{what}_config", None) is not None for what in ("vision", "audio")):
        sentences.append("prompts have no image and no sound: what reads these did not run, and their tokens are "
                         "not among those of the prompts")
    if model.generation_config.use_cache is False:
        sentences.append("its generation_config.json keeps no cache: each token reads all others again")
    return sentences


# --- What its cache holds -------------------------------------------------------------------------

def parts_of(value):
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    return list(vars(value).values()) if hasattr(value, "__dict__") else []


def tensors_in(value, seen):
    """All that an object of a cache has, wherever: lists, dictionaries, parts of quantized tensors."""
    import torch
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        inner = [getattr(value, name) for name in value.__tensor_flatten__()[0]] if hasattr(
            value, "__tensor_flatten__") else ()
        if not inner:
            yield value
        for part in inner:
            yield from tensors_in(part, seen)
        return
    for part in parts_of(value):
        if not isinstance(part, type) and not callable(part):
            yield from tensors_in(part, seen)


def layers_of(cache):
    """Its layers, and the same of both halves of an encoder and a decoder's: names and objects."""
    for half in ("self_attention_cache", "cross_attention_cache"):
        if hasattr(cache, half):
            of = "" if half.startswith("self") else " of the encoder's"
            yield from ((name + of, layer) for name, layer in layers_of(getattr(cache, half)))
    for layer in getattr(cache, "layers", [] if hasattr(cache, "self_attention_cache") else [cache]):
        yield type(layer).__name__, layer


def bytes_by_kind(cache):
    """{kind: [layers, bytes on the card, bytes on the host]}; a storage counts once."""
    kinds, storages, seen = {}, set(), set()
    for name, layer in layers_of(cache):
        row = kinds.setdefault(name, [0, 0, 0])
        row[0] += 1
        for tensor in tensors_in(layer, seen):
            storage = tensor.untyped_storage()
            if (key := (tensor.device, storage.data_ptr())) not in storages and storage.nbytes():
                storages.add(key)
                row[1 if tensor.is_cuda else 2] += storage.nbytes()
    return kinds


class CacheWatch:
    """Looks at the cache behind the model's first call, and keeps hold of the last."""

    def __init__(self):
        self.calls, self.first, self.cache = 0, {}, None

    def __call__(self, model, args, output):
        self.calls += 1
        names = ("past_key_values", "cache_params")
        found = next((c for c in (getattr(output, n, None) for n in names) if c is not None), None)
        self.cache = self.cache if found is None else found
        if self.calls == 1 and found is not None:
            self.first = bytes_by_kind(found)

    def told(self):
        last = {} if self.cache is None else bytes_by_kind(self.cache)
        return [{"kind": kind, "layers": row[0], "bytes": row[1], "host_bytes": row[2],
                 "first_bytes": sum(self.first.get(kind, [0, 0, 0])[1:])}
                for kind, row in last.items()]


# --- The run --------------------------------------------------------------------------------------

def built_of(asked):
    model = asked["model"]
    is_function = ":" in model and not os.path.exists(model)
    return (by_function if is_function else by_config)(model, asked["dtype"]).eval()


def generate(asked, answer):
    built = built_of(asked)
    model = built.get_base_model() if hasattr(built, "get_base_model") else built  # adapters are around it
    positions = positions_of(model)
    most = most_tokens(model, asked, positions)
    check_positions(most, asked)
    ways = ways_of(model, asked)
    answer.update(name=type(model).__name__, dtype=str(model.dtype).removeprefix("torch."),
                  open=open_of(model, asked, positions), **most, **effective(model, ways))
    watch = CacheWatch()
    model.register_forward_hook(watch)
    try:
        built.generate(**inputs_of(model, asked["batch"], asked["prompt"]), **ways)
    finally:
        answer.update(calls=watch.calls, cache=watch.told())
    if watch.cache is None and model.generation_config.use_cache is not False:
        answer["open"].append("the model's outputs have no cache that could be looked at: its bytes are in the "
                              "figures, and not told apart")


def note_end(error, answer):
    """Puts into `answer` what ended the run, if it was none of memory."""
    if isinstance(error, KeyboardInterrupt):
        answer["error"] = "interrupted"
    elif isinstance(error, ImportError) and error.name in ("torch", "transformers"):
        answer["missing"] = error.name
    elif isinstance(error, Refused):
        answer["error"] = str(error)
    elif type(error).__name__ != "OutOfMemoryError":
        answer["error"] = f"{type(error).__name__}: {first_line(error)}"


def main(asked_path, answer_path):
    # Threads that load weights in the order of chance leave other holes each time.
    os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
    with open(asked_path, encoding="utf-8") as file:
        asked = json.load(file)
    answer = {}
    try:
        import torch
        import transformers
        answer["library"] = f"transformers {transformers.__version__}"
        transformers.logging.disable_progress_bar()
        generate(asked, answer)
    except (Exception, KeyboardInterrupt) as error:
        note_end(error, answer)
        raise
    finally:
        with open(answer_path, "w", encoding="utf-8") as file:
            json.dump(answer, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
