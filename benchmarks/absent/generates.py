"""generate() as a plain program has it: what PyTorch allocated at most for the prompt, and for tokens one by one.

    python generates.py FOLDER CACHE BATCH PROMPT NEW OUT.json

FOLDER has the config of a model, CACHE is generate()'s cache_implementation, "" for the model's own.  Nothing of
onnxfit is in it.  Under a runtime whose kernels compute nothing WITHOUT_VALUES=1 stands for what generate() reads on the card."""

import json
import os
import sys
import tempfile

import torch
import transformers
from transformers.generation.utils import GenerationMixin


class Peaks:
    """The prompt's phase goes on until the model's first call has returned."""

    def __init__(self, model):
        self.model, self.prefill, self.calls = torch.cuda.memory_allocated(), 0, 0
        torch.cuda.reset_peak_memory_stats()
        model.register_forward_hook(self)

    def __call__(self, module, args, output):
        self.calls += 1
        if self.calls == 1:
            self.prefill = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()

    def told(self):
        return {"model": self.model, "prefill": self.prefill,
                "decoding": torch.cuda.max_memory_allocated()}


def without_mask(asks):
    return lambda padding_mask, *rest, **named: asks(None, *rest, **named)


def without_values(new):
    """No text ends early, and no prompt has padding: what kernels would have computed."""
    from transformers import masking_utils
    for name in ("_ignore_causal_mask_sdpa", "_ignore_bidirectional_mask_sdpa"):
        setattr(masking_utils, name, without_mask(getattr(masking_utils, name)))
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    left = [new]

    def has_unfinished(*_, **__):
        left[0] -= 1
        return left[0] >= 0

    GenerationMixin._has_unfinished_sequences = has_unfinished


def model_of(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    with tempfile.TemporaryDirectory() as saved:
        kind._from_config(config, dtype=torch.bfloat16).save_pretrained(saved)
        return kind.from_pretrained(saved, dtype=torch.bfloat16, device_map="cuda")


def inputs_of(batch, prompt):
    ids = torch.full((batch, prompt), 5).cuda()
    return {"input_ids": ids, "attention_mask": torch.ones((batch, prompt), dtype=torch.long).cuda()}


def main(folder, cache, batch, prompt, new, out):
    batch, prompt, new = int(batch), int(prompt), int(new)
    if os.environ.get("WITHOUT_VALUES"):
        without_values(new)
    model = model_of(folder)
    inputs = inputs_of(batch, prompt)
    ways = {"cache_implementation": cache, "disable_compile": True} if cache else {}
    peaks = Peaks(model)
    model.generate(**inputs, max_new_tokens=new, do_sample=False, **ways)
    with open(out, "w", encoding="utf-8") as file:
        json.dump(peaks.told(), file)


if __name__ == "__main__":
    main(*sys.argv[1:])
