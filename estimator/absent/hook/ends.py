"""How a program ended, as far as Python knows."""

import sys


def last_exception():
    """What Python printed, whoever replaced sys.excepthook; None where nothing was raised."""
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def name_of(kind):
    """As a traceback has it: "ValueError", "torch.OutOfMemoryError"."""
    module = "" if kind.__module__ == "builtins" else kind.__module__ + "."
    return module + kind.__qualname__
