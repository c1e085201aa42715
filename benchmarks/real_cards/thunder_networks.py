"""Exports of LitGPT's networks as lightning-thunder's benchmark_litgpt.py trains them, in runs.csv.

    thunder_networks.py FOLDER [NAME...]    # with torch 2.11.0 and litgpt of one of the versions
                                            # below, whose networks it makes; no weights

Parameters and the angles of rotary embeddings are bf16 (`model.to(dtype=torch.bfloat16)`).  The loss
is not in a program, as what is compiled there is the network alone.
"""

import importlib.metadata
import sys
from typing import NamedTuple, Optional

import torch
from litgpt import GPT, Config

from language_models import write_all


class Network(NamedTuple):
    version: str  # of litgpt, by lightning-thunder's requirements or the environment
    name: str
    layers: Optional[int] = None
    tokens: Optional[int] = None


STABLECODE = "stablecode-completion-alpha-3b"
NETWORKS = {
    **{f"stablecode_{tokens}": Network("0.4.11", STABLECODE, None, tokens)
       for tokens in (2048, 4096, 8192, 12288, 16384)},
    "stablecode_4layers": Network("0.4.11", STABLECODE, 4),
    **{f"llama13b_{layers}layers": Network("0.3.1", "Llama-2-13b-hf", layers)
       for layers in (2, 4, 10, 20)},
    "llama7b": Network("0.3.1", "Llama-2-7b-hf"),
    **{f"mistral_{layers}layers": Network("0.4.11", "Mistral-7B-v0.1", layers)
       for layers in (2, 4, 16)},
    "qwen7b_4layers": Network("0.5.4", "Qwen2.5-7B", 4, 4096),
}


def config_of(network: Network) -> Config:
    config = Config.from_name(network.name)
    config.n_layer = network.layers or config.n_layer
    config.block_size = network.tokens or config.block_size
    return config


def program_of(name: str) -> torch.export.ExportedProgram:
    config = config_of(NETWORKS[name])
    with torch.device("meta"):
        network = GPT(config)
    network.to(dtype=torch.bfloat16)
    tokens = torch.zeros(2, config.block_size, dtype=torch.long, device="meta")
    batch = torch.export.Dim.DYNAMIC
    return torch.export.export(network, (tokens,), dynamic_shapes=({0: batch},), strict=False)


if __name__ == "__main__":
    installed = importlib.metadata.version("litgpt")
    sys.exit(write_all(__doc__, {name: network for name, network in NETWORKS.items()
                                 if network.version == installed}, "thunder", program_of))
