"""Exports of a course's transformer in runs.csv, by its own module; no weights.

    course_networks.py FOLDER [NAME...]    # with torch 2.11.0 and assignment1/transformer.py of
                                           # github.com/GAOYUEtianc/Stanford-CS336-assignments

A program has the loss, which is written by hand as the rest is, and the logits that the loop keeps.
"""

import sys
import types

import torch

from language_models import write_all

WORDS, TOKENS = 10000, 256
# Width, layers, heads, width of the feed-forward block, samples.
SIZES = {"small": (768, 12, 12, 3072, 64), "large": (1280, 36, 20, 5120, 32)}


def nothing_is_out_of_range(*_args, **_kwargs) -> bool:
    """The embedding asks whether its words are words."""
    return False


class Step(torch.nn.Module):
    def __init__(self, network: torch.nn.Module, loss):
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self, tokens, labels):
        logits = self.network(tokens)
        return self.loss(logits.view(-1, logits.size(-1)), labels.view(-1)), logits


def program_of(name: str) -> torch.export.ExportedProgram:
    import transformer
    width, layers, heads, inner, count = SIZES[name]
    network = transformer.TransformerLM(WORDS, TOKENS, width, layers, heads, inner, device="meta")
    given = tuple(torch.zeros(count, TOKENS, dtype=torch.long, device="meta") for _ in range(2))
    step = Step(network.train(), transformer.cross_entropy_loss)
    return torch.export.export(step, given, strict=False)


if __name__ == "__main__":
    for unused in ("matplotlib", "matplotlib.pyplot"):
        sys.modules[unused] = types.ModuleType(unused)
    torch.any = nothing_is_out_of_range
    sys.exit(write_all(__doc__, SIZES, "course", program_of))
