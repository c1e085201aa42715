"""Tokens one by one: `onnxfit estimate` and `onnxfit max-batch` with --mode generate."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

from onnxfit import _command, flags
from onnxfit._ask import Batch, Choice
from onnxfit._from_json import from_json
from onnxfit.errors import OnnxfitError
from onnxfit.results import Ran, Report, Target, TriedBatch

Generating = Union[str, "os.PathLike[str]", Callable[[], Any]]
Sizes = Union[None, int, Sequence[int]]


@dataclass(frozen=True)
class CacheKind:
    """What the layers of one kind keep, by the library's own name for it."""

    kind: str  # "DynamicLayer", "SlidingWindowLayer"
    layers: int
    bytes: int  # on the card, at the end
    host_bytes: int = 0  # of one that is offloaded
    first_bytes: int = 0  # of both, behind the prompt


@dataclass(frozen=True)
class GenerationRun:
    """generate() once, on one card.  A phase that was not reached has no bytes."""

    batch: int
    prompt: int  # tokens of each
    new: int
    beams: int = 1
    sequences: int = 1  # of each prompt
    cache_implementation: str = ""  # "" for dynamic
    dtype: str = ""
    calls: int = 0  # of the model, each of which brings a token as a rule
    model_bytes: Optional[int] = None  # allocated when the prompts were there
    prefill_bytes: Optional[int] = None  # allocated at most
    decoding_bytes: Optional[int] = None  # allocated at most
    cache: Tuple[CacheKind, ...] = ()
    run: Ran = field(default_factory=Ran)
    open: Tuple[str, ...] = ()  # what the answer leaves open, in sentences

    @property
    def cache_bytes(self) -> int:
        """Of all layers, on the card and on the host."""
        return sum(kind.bytes + kind.host_bytes for kind in self.cache)


@dataclass(frozen=True)
class _Generated:
    library: str  # "transformers 5.17.0"
    model: str
    targets: Tuple[Target, ...] = ()  # of each run
    runs: Tuple[GenerationRun, ...] = ()  # card by card, each batch, each prompt, each `new`
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class Generation(Report, _Generated):
    """What generate() takes on cards that are not there."""


@dataclass(frozen=True)
class LargestGeneration:
    """The largest on one card."""

    gpu: str
    solved: str  # "batch", "prompt" or "new"
    max_batch: int  # the size, whatever was solved; 0 where none runs
    run: GenerationRun  # of that size; of the least where none runs
    max_batch_fits: int = 0  # the largest that was seen to fit, where that one is TIGHT
    limited: bool = False  # all ran: a larger one may, too
    fails: Optional[int] = None  # the least that was seen not to run
    tried: Tuple[TriedBatch, ...] = ()


@dataclass(frozen=True)
class _Searched:
    library: str
    model: str
    targets: Tuple[LargestGeneration, ...] = ()
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class GenerationMaxBatch(Report, _Searched):
    """The most prompts at once, or the longest, for each card."""

    @property
    def size(self) -> int:
        """Of the first card; 0 where none runs."""
        return self.targets[0].max_batch


def _named(model: Generating) -> str:
    """As the command takes it: of a function the file and its name there."""
    if not callable(model):
        return os.fspath(model)
    name = getattr(model, "__qualname__", "<")
    try:
        file = inspect.getsourcefile(model)
    except TypeError:
        file = None
    if file is None or not name.isidentifier() or not os.path.exists(file):
        raise OnnxfitError(f"generate: expected a function at the top of a file, found {model!r}",
                           "a folder with a config.json, or a function that returns the model")
    return f"{file}:{name}"


def _asked(command: str, model: Generating, keywords: Dict[str, Any]) -> _command.Answer:
    words = {**keywords, "mode": "generate", "batch": flags.batch_of(keywords.get("batch"))}
    return _command.ask_for_json([command, _named(model), *flags.arguments(words)])


def generate(model: Generating, *, prompt: Sizes, new: Sizes = None, batch: Batch = None,
             cache: Optional[str] = None, beams: Optional[int] = None,
             precision: Optional[str] = None, gpu: Choice = None, memory: flags.Sizes = (),
             reserve: Optional[flags.Size] = None, strict: bool = False) -> Generation:
    """What generate() of a language model takes: its prompts, its tokens one by one, its cache.

    `model` is a folder with a config.json, a name that transformers knows, or a function at the
    top of a file which returns the model, for weights that are quantized or come from elsewhere.
    transformers runs it, in the Python `$ONNXFIT_PYTHON` (python3, where that is not set), on each
    of `gpu` and `memory`, with no GPU and no weights; about 10 ms a layer and token.

    `batch` prompts of `prompt` tokens get `new` tokens each (256); lists are a run of each.
    `cache` is generate()'s cache_implementation, `beams` its num_beams; `precision` is "fp32",
    "bf16" or "fp16", the config's own where nobody says.  Raises OnnxfitError where there is no
    answer; memory that does not suffice is one."""
    answer = _asked("estimate", model, {
        "prompt": prompt, "new": new, "batch": batch, "cache": cache, "beams": beams,
        "precision": precision, "gpu": gpu, "memory": memory, "reserve": reserve,
        "strict": strict})
    return from_json(Generation, answer.data, text=answer.text, raw=answer.data,
                     holds=answer.code == 0)


def generate_max_batch(model: Generating, *, prompt: Sizes = None, new: Sizes = None,
                       batch: Batch = None, solve: Optional[str] = None,
                       cache: Optional[str] = None, beams: Optional[int] = None,
                       precision: Optional[str] = None, gpu: Choice = None,
                       memory: flags.Sizes = (), reserve: Optional[flags.Size] = None,
                       multiple_of: Optional[int] = None, max: Optional[int] = None,
                       strict: bool = False) -> GenerationMaxBatch:
    """How many prompts at once a card has room for, found by 4 to 16 runs of generate(); with
    `solve="prompt"` how long they may be, with "new" how many tokens they may get, at `batch`.

    `multiple_of` and `max` are of what is looked for; everything else is as in generate().  Sizes
    that are held may be lists, a search each."""
    answer = _asked("max-batch", model, {
        "prompt": prompt, "new": new, "batch": batch, "solve": solve, "cache": cache,
        "beams": beams, "precision": precision, "gpu": gpu, "memory": memory, "reserve": reserve,
        "multiple_of": multiple_of, "max": max, "strict": strict})
    return from_json(GenerationMaxBatch, answer.data, text=answer.text, raw=answer.data,
                     holds=answer.code == 0)
