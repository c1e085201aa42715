"""How much GPU memory a PyTorch training step needs, and why: the command onnxfit for Python.

    >>> import onnxfit
    >>> print(onnxfit.estimate("model.pt2", batch=32, gpu="rtx3060"))

`torch` is needed for models that are Python objects alone.  `python -m onnxfit export TARGET`
writes models of libraries to files."""

from onnxfit._ask import check, closed_form, estimate, max_batch, report, sweep
from onnxfit._generate import Generation, GenerationMaxBatch, generate, generate_max_batch
from onnxfit._program import run, run_max_batch
from onnxfit._series import Series, SeriesMaxBatch, series, series_max_batch
from onnxfit._session import Session, session
from onnxfit._solve import Solved, solve
from onnxfit.errors import OnnxfitError, OnnxfitWarning
from onnxfit.results import Check, ClosedForm, Estimate, MaxBatch, ProgramMaxBatch, ProgramRun, Sweep

__all__ = ["Check", "ClosedForm", "Estimate", "Generation", "GenerationMaxBatch", "MaxBatch",
           "OnnxfitError", "OnnxfitWarning", "ProgramMaxBatch", "ProgramRun", "Series",
           "SeriesMaxBatch", "Session", "Solved", "Sweep", "check", "closed_form", "estimate",
           "generate", "generate_max_batch", "max_batch", "report", "run", "run_max_batch",
           "series", "series_max_batch", "session", "solve", "sweep"]
