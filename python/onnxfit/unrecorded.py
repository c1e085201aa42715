"""What torch.export has no program of, in words for who asked: by where in PyTorch, or in the model,
it failed."""

from __future__ import annotations

import re
from types import FrameType
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Tuple

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_NO_PROGRAM = "of which torch.export records no program"


class Reason(NamedTuple):
    found: str
    hint: str = ""


# By a part of the path of a file of PyTorch's (2.11) that was running.
_OF_FILES: Tuple[Tuple[str, Reason], ...] = (
    ("torch/nn/attention/flex_attention.py", Reason(
        f"flex_attention, {_NO_PROGRAM} that the command can read",
        "torch.nn.functional.scaled_dot_product_attention in its place")),
    ("torch/nested/", Reason(f"a nested tensor, whose sizes follow from values, {_NO_PROGRAM}",
                             "a padded tensor with a mask in its place")),
)
_SPARSE = re.compile("sparse", re.IGNORECASE)


def _errors(error: Optional[BaseException]) -> Iterator[BaseException]:
    """It, and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _frames(error: BaseException) -> Iterator[FrameType]:
    for each in _errors(error):
        trace = each.__traceback__
        while trace is not None:
            yield trace.tb_frame
            trace = trace.tb_next


def is_of_experts(error: BaseException) -> bool:
    """Whether it failed in a mixture's experts, of whom each takes the tokens routed to it."""
    modules = (frame.f_locals.get("self") for frame in _frames(error))
    return any("expert" in type(module).__name__.lower() for module in modules
               if hasattr(module, "named_parameters"))


def has_sparse(program: ExportedProgram) -> bool:
    layouts = (getattr(node.meta.get("val"), "layout", None) for node in program.graph.nodes)
    return any(str(layout) not in ("None", "torch.strided") for layout in layouts)


def reason(error: BaseException) -> Optional[Reason]:
    """What was running, of a few things that never have a program."""
    files = {frame.f_code.co_filename.replace("\\", "/") for frame in _frames(error)}
    for part, said in _OF_FILES:
        if any(part in file for file in files):
            return said
    if any(_SPARSE.search(str(each).partition("\n")[0]) for each in _errors(error)):
        return Reason("a sparse tensor, whose products run in cuSPARSE with workspaces that follow "
                      "from its values", "a dense tensor in its place")
    return None
