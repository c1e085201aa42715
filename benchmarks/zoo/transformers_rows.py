"""A family of transformers as a row: configuration, model, what it is fed and what is read of it.

The rooms of_transformers_*.py hold the rows, for what of_transformers.py finds no inputs for.  No
part (a tower for text, images or sound) is of a family that is held out: where the default is, a
row names another.

TRANSFORMERS_DISABLE_TORCH_CHECK=1 goes before exports.py and truths.py: torch.export.save writes no
check that as many tokens stand for images as there are features, and zeros do not pass it.
"""

import copy
from typing import Callable, NamedTuple

import family as zoo
from family import Family, Logits

LAYERS = 2
VOCABULARY = 2000
IMAGE = VOCABULARY - 1  # the token in whose place a feature of an image goes
WIDTH = {"hidden_size": 256, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
         "intermediate_size": 1024}
TEXT = {**WIDTH, "vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 2}
LLAMA = {**TEXT, "model_type": "llama", "num_key_value_heads": 4, "use_cache": False}
QWEN3 = {**LLAMA, "model_type": "qwen3", "head_dim": 64}
T5 = {"model_type": "t5", "vocab_size": VOCABULARY, "d_model": 256, "d_kv": 64, "d_ff": 1024,
      "num_layers": LAYERS, "num_decoder_layers": LAYERS, "num_heads": 4, "use_cache": False}
SIGLIP = {**WIDTH, "model_type": "siglip_vision_model"}
CLIP = {**WIDTH, "model_type": "clip_vision_model"}
XLM_ROBERTA = {**TEXT, "model_type": "xlm-roberta", "max_position_embeddings": 514}


class Row(NamedTuple):
    model: str        # a class of transformers, made of its config_class with these options
    options: dict
    wrapper: type
    inputs: Callable
    loss: str = "ce"


class PairScores(Logits):
    """How well each text goes with the image, video or sound of the same sample."""
    def forward(self, x, input_ids):
        return self.model(input_ids, x)[0].diagonal()


class ImageText(Logits):
    """Of a language model that reads images in the places of a token."""
    def forward(self, pixel_values, input_ids):
        return self.model(input_ids=input_ids, pixel_values=pixel_values).logits


def build(row):
    import transformers
    model = getattr(transformers, row.model)
    options = copy.deepcopy(row.options)  # configurations take their parts out of them
    options.pop("model_type", None)
    return row.wrapper(model(model.config_class(**options)))


def module_of(row):
    import transformers
    return ".".join(getattr(transformers, row.model).__module__.split(".")[:3])


def families_of(rows, is_wanted):
    return {name: Family(lambda row=row: build(row), row.inputs, module_of(row), row.loss)
            for kind, row in rows.items()
            if is_wanted(name := f"transformers.{kind}")}


def with_image(length=96, size=224, channels=3):
    return zoo.several({"pixel_values": (channels, size, size)}, input_ids=(length,))
