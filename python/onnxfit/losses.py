"""The loss: its name, or the object or function that a training loop calls."""

from __future__ import annotations

from typing import Dict, List, Optional

from onnxfit.errors import OnnxfitError, warn

# By name of a class or a function.
_NAMES: Dict[str, str] = {
    "CrossEntropyLoss": "cross-entropy",
    "cross_entropy": "cross-entropy",
    "MSELoss": "mse",
    "mse_loss": "mse",
    "ForCausalLMLoss": "causal-lm",  # transformers.loss.loss_utils
}

# What else a loss may be told, and what it is where it is told nothing.
_DEFAULTS: Dict[str, object] = {"weight": None, "reduction": "mean"}


def _unread(loss: object) -> List[str]:
    return [f"{name}={getattr(loss, name)}" if name != "weight" else "weight"
            for name, usual in _DEFAULTS.items()
            if getattr(loss, name, usual) is not usual and getattr(loss, name) != usual]


def smooths(loss: object) -> Optional[bool]:
    """Whether its labels are smoothed; None where nobody says."""
    return True if getattr(loss, "label_smoothing", 0) else None


def flag_of(loss: object) -> Optional[str]:
    """What --loss takes for `loss`; None where nobody says."""
    if loss is None or isinstance(loss, str):
        return loss
    name = getattr(loss, "__name__", type(loss).__name__)
    known = _NAMES.get(name)
    if known is None:
        raise OnnxfitError(f"loss: expected one of {', '.join(sorted(_NAMES))}, found {name}",
                           "loss='none', and the loss within the model's forward")
    unread = _unread(loss)
    if unread:
        warn(f"{name}: {', '.join(unread)} is not in the figures")
    return known
