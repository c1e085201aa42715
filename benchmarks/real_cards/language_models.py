"""Exports of the language models in runs.csv, as the loop that was measured runs them.

    language_models.py FOLDER [NAME...]    # with torch 2.11.0 and transformers 4.51.3; no weights

The loop calls `outputs = model(**batch)` with labels and keeps `outputs` until the next forward is
through: the loss, the logits and the cache of keys and values, which the libraries make in training
too.  So the program has them all as results.  What a card does, its kernels apart, it shows: tensors
are fakes that are said to be on one, and transformers goes the ways that it goes there.
"""

import argparse
import contextlib
import io
import re
import sys
import zipfile
from pathlib import Path
from typing import Callable, Iterator

import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from transformers import cache_utils, modeling_attn_mask_utils

TOKENS = 128  # where the loop cuts its texts; nearly every batch has one that long
INPUTS = ("input_ids", "attention_mask", "labels")
GPT_NEO = {"hidden_size": 768, "num_layers": 12, "num_heads": 12, "attention_dropout": 0.0,
           "attention_types": [[["global", "local"], 6]], "embed_dropout": 0.0,
           "resid_dropout": 0.0}
CEREBRAS = {"n_layer": 10, "n_inner": 3072, "n_positions": 2048, "activation_function": "gelu",
            "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
OPT_350M = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
            "ffn_dim": 4096, "word_embed_proj_dim": 512, "do_layer_norm_before": False,
            "attention_dropout": 0.0}
T5_BASE = {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
DEEPSEEK = {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
            "num_attention_heads": 12, "num_key_value_heads": 2}
QWEN3_4B = {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "tie_word_embeddings": True}
LLAMA_3B = {"vocab_size": 128256, "hidden_size": 3072, "intermediate_size": 8192,
            "num_hidden_layers": 28, "num_attention_heads": 24, "num_key_value_heads": 8,
            "head_dim": 128, "max_position_embeddings": 131072, "tie_word_embeddings": True}

# The configurations of the models' pages.
MODELS = {
    "distilgpt2": ("GPT2LMHeadModel", {"n_layer": 6}),
    "gpt2": ("GPT2LMHeadModel", {}),
    "cerebras111m": ("GPT2LMHeadModel", CEREBRAS),
    "gptneo125m": ("GPTNeoForCausalLM", GPT_NEO),
    "opt125m": ("OPTForCausalLM", {"attention_dropout": 0.0}),
    "opt350m": ("OPTForCausalLM", OPT_350M),
    "t5small": ("T5ForConditionalGeneration", {"decoder_start_token_id": 0}),
    "deepseek_qwen15b": ("Qwen2ForCausalLM", DEEPSEEK),
    "gemma2_2b": ("Gemma2ForCausalLM", {}),
    "llama32_3b": ("LlamaForCausalLM", LLAMA_3B),
    "qwen3_4b": ("Qwen3ForCausalLM", QWEN3_4B),
    "t5base": ("T5ForConditionalGeneration", {**T5_BASE, "decoder_start_token_id": 0}),
}


def build(name: str) -> torch.nn.Module:
    class_name, config = MODELS[name]
    kind = getattr(transformers, class_name)
    with torch.device("meta"):
        model = kind._from_config(kind.config_class(**config))  # attention as from_config chooses
    model.tie_weights()
    return model.train()


def put_on_card(model: torch.nn.Module) -> None:
    """Parameters and buffers, tied ones once; in a FakeTensorMode no card is needed."""
    moved: dict[int, torch.Tensor] = {}

    def on_card(tensor: torch.Tensor) -> torch.Tensor:
        fake = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        return torch.nn.Parameter(fake, tensor.requires_grad) if is_parameter else fake
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = moved.setdefault(id(tensor), on_card(tensor))


def tensors_of(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, cache_utils.EncoderDecoderCache):
        yield from tensors_of((value.self_attention_cache, value.cross_attention_cache))
    elif isinstance(value, cache_utils.DynamicCache):
        yield from tensors_of((value.key_cache, value.value_cache))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_of(part)


class Step(torch.nn.Module):
    """All that `outputs` keeps."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, labels):
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, labels=labels)
        return tuple(tensors_of(tuple(outputs.values())))


def program_of(name: str) -> torch.export.ExportedProgram:
    step = Step(build(name))
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True):
        put_on_card(step)
        inputs = tuple(torch.zeros(3, TOKENS, dtype=torch.long, device="cuda") for _ in INPUTS)
    batch = torch.export.Dim("batch")
    return torch.export.export(step, inputs, strict=False,
                               dynamic_shapes=tuple({0: batch} for _ in INPUTS))


def without_folders(text: str) -> str:
    """Source lines name files below site-packages, or files alone."""
    text = re.sub(r'File \\"[^"\\]*?site-packages/', r'File \\"', text)
    return re.sub(r'File \\"/[^"\\]*/', r'File \\"', text)


def save(program: torch.export.ExportedProgram, path: Path) -> None:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(path, "w") as target:
        for member in source.namelist():
            data = source.read(member)
            if member.endswith(".json"):
                data = without_folders(data.decode()).encode()
            target.writestr(zipfile.ZipInfo(member), data)


def no_layer_is_dropped(*_args, **_kwargs) -> float:
    """OPT asks the host's generator whether to skip a layer (layerdrop 0: never)."""
    return 1.0


def no_autocast(*_args, **_kwargs) -> contextlib.AbstractContextManager:
    """Rotary embeddings turn it off, which the meta device does not know."""
    return contextlib.nullcontext()


def run_as_loops_do() -> None:
    """transformers asks whether it is compiled, and leaves out masks then.  A mask is looked at, and
    left out where nothing is masked; the loop's texts are padded."""
    for module in list(sys.modules.values()):
        if hasattr(module, "is_torchdynamo_compiling"):
            module.is_torchdynamo_compiling = lambda: False
    converter = modeling_attn_mask_utils.AttentionMaskConverter
    ignores = converter._ignore_causal_mask_sdpa

    def ignores_none(attention_mask, *args, **kwargs):
        return attention_mask is None and ignores(attention_mask, *args, **kwargs)
    converter._ignore_causal_mask_sdpa = staticmethod(ignores_none)


def number_on_card(data, dtype=None, device=None):
    """GPT-Neo's numbers, torch.tensor(x, device=device), which are made on the host and copied."""
    if device is None:
        return torch.as_tensor(data, dtype=dtype)
    return torch.scalar_tensor(data, dtype=dtype, device=device)


def write_all(description: str | None, models: dict, prefix: str,
              program_of: Callable[[str], torch.export.ExportedProgram]) -> int:
    """What the command line asks for: a folder, and the names of some of `models`."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(models), metavar="NAME")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        save(program_of(name), args.folder / f"{prefix}_{name}.pt2")
    return 0


def main() -> int:
    torch.rand = no_layer_is_dropped
    torch.autocast = no_autocast
    torch.tensor = number_on_card
    for class_name, _ in MODELS.values():
        getattr(transformers, class_name)  # imports its module
    run_as_loops_do()
    return write_all(__doc__, MODELS, "llm", program_of)


if __name__ == "__main__":
    sys.exit(main())
