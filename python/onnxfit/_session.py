"""An ONNX file under ONNX Runtime: `onnxfit estimate --runtime onnxruntime`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional, Tuple, Union

from onnxfit import _command, flags
from onnxfit._ask import Batch, Choice
from onnxfit._from_json import from_json
from onnxfit.results import Report, Target

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class SessionRun:
    """A session that ran: bytes behind its making, then behind each run."""

    used_bytes: Tuple[int, ...] = ()  # of the card, beside the context
    arena_bytes: Tuple[int, ...] = ()
    error: str = ""  # what ended it


@dataclass(frozen=True)
class SessionSetting:
    """What a setting makes of it, played: bytes beside the context, over orders of weights."""

    flag: str
    low_bytes: int
    high_bytes: int


@dataclass(frozen=True)
class SessionsOnCard:
    context_bytes: int
    low_bytes: int  # beside the context, over all orders of weights that ran or were played
    high_bytes: int
    weight_bytes: int = 0
    orders: int = 0  # that were played
    failed_orders: int = 0  # of these, that found no room
    sessions: Tuple[SessionRun, ...] = ()
    settings: Tuple[SessionSetting, ...] = ()
    open: Tuple[str, ...] = ()  # what the answer leaves open, in sentences


@dataclass(frozen=True)
class SessionRam:
    """What sessions on the CPU had of RAM, in processes of their own."""

    bytes: int = 0  # at most, with weights that are mapped and were not read yet
    least_bytes: int = 0  # the most of the session that had least
    limit_bytes: Optional[int] = None  # `ram`
    verdict: Optional[str] = None  # of that
    reasons: Tuple[str, ...] = ()


@dataclass(frozen=True)
class RamSetting:
    """What a session with a setting had at most."""

    flag: str
    bytes: int


@dataclass(frozen=True)
class _Ran:
    runtime: str  # "ONNX Runtime 1.31.1"
    model: str
    batch: int
    shapes: Tuple[str, ...] = ()
    targets: Tuple[Target, ...] = ()
    runs: Tuple[SessionsOnCard, ...] = ()  # of each target
    provider: str = "cuda"
    host: Optional[SessionRam] = None  # of provider "cpu", which has no targets
    settings: Tuple[RamSetting, ...] = ()
    open: Tuple[str, ...] = ()
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class Session(Report, _Ran):
    """What sessions of ONNX Runtime take: on cards that are not there, or of this machine's RAM."""


def session(model: Union[str, "os.PathLike[str]"], *, batch: Batch = None, gpu: Choice = None,
            memory: flags.Sizes = (), **more: Unpack[flags.SessionFlags]) -> Session:
    """What the ONNX file `model` takes as a session of ONNX Runtime.

    The onnxruntime-gpu of the Python `$ONNXFIT_PYTHON` runs (python3, where that is not set), on
    each of `gpu` and `memory`; with `provider="cpu"` onnxruntime itself on this machine, for one
    with so much `ram`.  Several sizes in `batch` and `dims` are shapes that one session runs in
    turn.  Seconds; on the CPU it computes.  Raises OnnxfitError where there is no answer."""
    words = flags.arguments({"runtime": "onnxruntime", "batch": flags.batch_of(batch), "gpu": gpu,
                             "memory": memory, **more})
    answer = _command.ask_for_json(["estimate", os.fspath(model), *words])
    return from_json(Session, answer.data, text=answer.text, raw=answer.data,
                     holds=answer.code == 0)
