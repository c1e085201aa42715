"""Batches that differ in length: `onnxfit estimate --lengths` and `onnxfit max-batch --lengths`."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Tuple, Union

from onnxfit import _command, flags
from onnxfit._ask import Choice, Loss, Optimizer, ours, prepared
from onnxfit._from_json import from_json
from onnxfit.errors import OnnxfitError
from onnxfit.inputs import BatchDim
from onnxfit.programs import ModelLike
from onnxfit.results import Doubt, Report, Target, TriedBatch

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class SeriesChange:
    """What another setting makes of the worst seed's lengths, on a card that is never full."""

    what: str
    reserved_bytes: int
    flags: str = ""
    more_tokens: float = 0.0  # of all, that are padding then: 0.05 is one in twenty


@dataclass(frozen=True)
class _Played:
    model: str
    dim: str  # the dimension whose size differs
    batch: int  # the largest
    steps: int
    shortest: int
    longest: int
    different: int  # lengths that occur
    most_reserved_bytes: int  # of the worst seed, where the card is never full
    least_reserved_bytes: int  # of the seed that reserves least
    alike_bytes: int  # reserved where every batch is as long as the longest
    worst_seed: int = 0
    lengths: Tuple[int, ...] = ()  # of the worst seed's steps
    batches: Tuple[int, ...] = ()  # of the same; none where all are `batch`
    smallest_batch: int = 0
    reserved_bytes: Tuple[int, ...] = ()  # behind each of them
    peak_allocated_bytes: Tuple[int, ...] = ()  # in each of them
    changes: Tuple[SeriesChange, ...] = ()
    targets: Tuple[Target, ...] = ()
    warnings: Tuple[Doubt, ...] = ()
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class Series(Report, _Played):
    """What steps reserve whose batches are not of one length."""


@dataclass(frozen=True)
class LargestOfSeries:
    """The largest batch on one card."""

    gpu: str
    max_batch: int  # 0 where none runs
    series: _Played  # of that batch; of the first that was tried where none runs
    max_batch_fits: int = 0  # the largest that was seen to fit, where that one is TIGHT
    limited: bool = False  # all ran: a larger one may, too
    fails: Optional[int] = None  # the least that was seen not to run
    expandable: str = ""  # the verdict of that batch with expandable_segments:True
    tried: Tuple[TriedBatch, ...] = ()


@dataclass(frozen=True)
class _SearchedSeries:
    model: str
    dim: str
    targets: Tuple[LargestOfSeries, ...] = ()
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class SeriesMaxBatch(Report, _SearchedSeries):
    """The largest batch of steps that are not of one length, for each card."""

    @property
    def max_batch(self) -> int:
        """Of the first card."""
        return self.targets[0].max_batch


def _written(lengths: Sequence[int], folder: str) -> str:
    """The file of a list."""
    numbers = flags.batch_of(list(lengths))
    if not isinstance(numbers, list) or not numbers:
        raise OnnxfitError(f"lengths: expected numbers, or a text such as \"uniform:64..512\", found "
                           f"{lengths!r}")
    path = Path(folder, "lengths.txt")
    path.write_text("\n".join(str(number) for number in numbers), encoding="utf-8")
    return str(path)


def _asked(command: str, model: ModelLike, inputs: object, lengths: Union[str, Sequence[int]],
           dim: Optional[str], keywords: Mapping[str, Any],
           asked: Mapping[str, Any]) -> _command.Answer:
    with prepared(model, inputs, keywords) as (file, words), \
            tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        spec = lengths if isinstance(lengths, str) else _written(lengths, folder)
        told = {"lengths": f"{dim}={spec}" if dim else spec, **asked}
        return _command.ask_for_json(
            [command, file.path, *flags.arguments({**words, **told})], hide=ours(file))


def series(model: ModelLike, inputs: object = None, *, lengths: Union[str, Sequence[int]],
           dim: Optional[str] = None, steps: Optional[int] = None, seeds: Optional[int] = None,
           seed: Optional[int] = None, samples: Optional[int] = None,
           tokens: Optional[int] = None, pad_to: Optional[int] = None, of_samples: bool = False,
           batch: Optional[int] = None,
           precision: Optional[str] = None, optimizer: Optimizer = None, loss: Loss = None,
           labels: Any = None, gpu: Choice = None, batch_dim: BatchDim = 0,
           dynamic_shapes: Any = None, **more: Unpack[flags.RunFlags]) -> Series:
    """What a run reserves whose batches differ in length, step by step, and whether it fits `gpu`.

    `lengths` is a distribution ("uniform:64..512/8": from 64 to 512, 8 apart;
    "lognormal:180,0.6,1024": median, sigma, the longest), the path of a file of numbers, or a
    list of them, one a step; with `of_samples` one a sample, such as those of a data set.  An epoch
    of `samples` ends with a smaller batch; with `tokens` a batch has as many samples as these have
    room for.  `dim` is
    the dimension that they are sizes of, where the model leaves several free beside the batch; a
    module does with `dynamic_shapes`.  Everything else is as in estimate().  Raises OnnxfitError
    where there is no answer."""
    keywords = {**more, "batch": batch, "precision": precision, "optimizer": optimizer,
                "loss": loss, "labels": labels, "gpu": gpu, "batch_dim": batch_dim,
                "dynamic_shapes": dynamic_shapes}
    asked = {"steps": steps, "seeds": seeds, "seed": seed, "samples": samples, "tokens": tokens,
             "pad_to": pad_to, "of_samples": of_samples}
    answer = _asked("estimate", model, inputs, lengths, dim, keywords, asked)
    return from_json(Series, answer.data, text=answer.text, raw=answer.data,
                     holds=answer.code == 0)


def series_max_batch(model: ModelLike, inputs: object = None, *,
                     lengths: Union[str, Sequence[int]], dim: Optional[str] = None,
                     steps: Optional[int] = None, seeds: Optional[int] = None,
                     seed: Optional[int] = None, pad_to: Optional[int] = None,
                     of_samples: bool = False, precision: Optional[str] = None,
                     optimizer: Optimizer = None, loss: Loss = None, labels: Any = None,
                     gpu: Choice = None, batch_dim: BatchDim = 0, dynamic_shapes: Any = None,
                     **more: Unpack[flags.MaxBatchFlags]) -> SeriesMaxBatch:
    """The largest batch with which a run of batches that differ in length fits each of `gpu`.

    Every batch that is tried is played over all seeds.  Everything else is as in series() and
    max_batch().  Raises OnnxfitError where there is no answer."""
    keywords = {**more, "precision": precision, "optimizer": optimizer, "loss": loss,
                "labels": labels, "gpu": gpu, "batch_dim": batch_dim,
                "dynamic_shapes": dynamic_shapes}
    asked = {"steps": steps, "seeds": seeds, "seed": seed, "pad_to": pad_to,
             "of_samples": of_samples}
    answer = _asked("max-batch", model, inputs, lengths, dim, keywords, asked)
    return from_json(SeriesMaxBatch, answer.data, text=answer.text, raw=answer.data,
                     holds=answer.code == 0)
