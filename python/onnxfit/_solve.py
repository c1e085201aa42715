"""The largest of another size than the batch: `onnxfit max-batch --solve`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Tuple, Union

from onnxfit import _command, flags
from onnxfit._ask import Batch, Choice, Loss, Optimizer, ours, prepared
from onnxfit._from_json import from_json
from onnxfit.inputs import BatchDim
from onnxfit.programs import ModelLike
from onnxfit.results import Doubt, Report, Target

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class SolvedSize:
    size: int  # 0: there is none
    used_bytes: Optional[int] = None  # of the card


@dataclass(frozen=True)
class FailingSize:
    """The first above the answer that does not run (that does not fit, with `strict`)."""

    size: int
    verdict: str


@dataclass(frozen=True)
class SolvedRow:
    """The largest on one card, at one batch."""

    batch: int
    gpu: str
    memory_bytes: int
    fits: SolvedSize  # the largest that FITS
    runs: SolvedSize  # the largest that runs, if only TIGHT
    target: Target  # at the size to take: that which fits, else that which runs
    dims: Mapping[str, int] = field(default_factory=dict)
    precision: str = "fp32"
    optimizer: str = "adamw"
    mode: str = "train"
    next: Optional[FailingSize] = None
    end: str = ""  # why the model takes no larger one; "" where the card is full first
    limited: bool = False  # larger ones run, too: `max` ends it
    allocated_bytes: Optional[int] = None  # at the size to take
    reserved_bytes: Optional[int] = None
    device_bytes: Optional[int] = None
    assumptions: Tuple[str, ...] = ()
    warnings: Tuple[Doubt, ...] = ()


@dataclass(frozen=True)
class _Found:
    model: str
    solve: str  # the name of what was solved for
    multiple_of: int = 1
    rows: Tuple[SolvedRow, ...] = ()
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class Solved(Report, _Found):
    """The largest of a size, by batch and card."""

    @property
    def size(self) -> int:
        """Of the first row, the size to take: the largest that FITS, else that runs; 0 for none."""
        return self.rows[0].fits.size or self.rows[0].runs.size


def solve(model: ModelLike, inputs: object = None, *, name: str, batch: Batch = None,
          precision: Choice = None, optimizer: Union[Optimizer, Sequence[str]] = None,
          loss: Loss = None, labels: Any = None, gpu: Choice = None, batch_dim: BatchDim = 0,
          dynamic_shapes: Any = None, **more: Unpack[flags.MaxBatchFlags]) -> Solved:
    """The largest `name` that a card trains at the batch: a dimension that the model leaves free
    ("seq"; a module does with `dynamic_shapes`), "image" for height and width alike, or "rank" of
    `lora`.  `batch`, `precision` and `optimizer` may be lists, a row each.  Everything else is as
    in max_batch().  Raises OnnxfitError where there is no answer."""
    keywords = {**more, "batch": batch, "precision": precision, "optimizer": optimizer,
                "loss": loss, "labels": labels, "gpu": gpu, "batch_dim": batch_dim,
                "dynamic_shapes": dynamic_shapes}
    with prepared(model, inputs, keywords) as (file, words):
        given: Mapping[str, Any] = more.get("dims") or {}
        dims = {dim: size for dim, size in words.get("dims", {}).items()
                if dim != name or dim in given}  # an example has one, too
        asked = {**words, "dims": dims, "solve": name}
        answer = _command.ask_for_json(["max-batch", file.path, *flags.arguments(asked)],
                                       hide=ours(file))
    return from_json(Solved, answer.data, text=answer.text, raw=answer.data,
                     holds=answer.code == 0)
