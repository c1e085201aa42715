"""Small CUDA tensors have values, though no kernel computes.

A dispatch mode sees every operator.  Each runs as it is (that is what allocates); then, if it wrote
to a tensor that has a mirror (mirrors.py), it runs on the CPU's mirrors, too (calls.py).  What an
operator makes of large tensors is unknown: pointwise ones are computed on one element, the others
are given likely values.  Where the program reads one (known_reads.py), its line is noted (reads.py).

Not seen: what compiled code launches by itself (torch.compile's kernels; their results are unknown
when they are read), and a CUDA graph's replays (its tensors hold what the capture computed).
Where a subclass wraps tensors (DTensor, and bitsandbytes' parameters do not), it unwraps first and
its own operators come here; the compiler's fake tensors pass through."""

import torch
from torch.utils import _python_dispatch

mirrors_file = load("mirrors")  # noqa: F821, sitecustomize.py has given it
reads = load("reads")  # noqa: F821
tensors = load("tensors")  # noqa: F821
Facts = load("operators").Facts  # noqa: F821
Call = load("calls").Call  # noqa: F821

Tensor, Parameter = torch.Tensor, torch.nn.Parameter
leaves_of, on_cuda = tensors.leaves_of, tensors.on_cuda


class Values(_python_dispatch.TorchDispatchMode):
    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # True imports torch._dynamo, seconds

    @classmethod
    def ignore_compile_internals(cls):
        return True

    def __init__(self):
        super().__init__()
        self.mirrors = mirrors_file.Mirrors()
        self.facts = {}
        self.capturing = 0  # CUDA graphs
        self.off = 0  # calls in which nothing is followed
        self.passing = 0  # operators whose result is thrown away
        self.in_child = False
        self.random_state = torch.Generator().get_state()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.off:
            return func(*args, **kwargs)
        facts = self.facts.get(func)
        if facts is None:
            if not isinstance(func, torch._ops.OpOverload):
                return func(*args, **kwargs)
            facts = self.facts[func] = Facts(func)
        if facts.composed:
            return self.decomposed(func, args, kwargs)
        leaves = leaves_of((args, tuple(kwargs.values())) if kwargs else args)
        device = None
        for x in leaves:
            if isinstance(x, Tensor):
                kind = type(x)
                if kind is not Tensor and kind is not Parameter and not tensors.is_plain(kind):
                    return func(*args, **kwargs) if tensors.of_compiler(kind) else NotImplemented
                if x.is_cuda:
                    if not tensors.is_strided(x):
                        return not_followed(func, facts, args, kwargs)
                    device = x.device
        if facts.view or device is None and not on_cuda(kwargs.get("device")):
            return func(*args, **kwargs)
        return Call(self, func, facts, args, kwargs, leaves).run()

    def decomposed(self, func, args, kwargs):
        """As the operators that it is made of: elsewhere autograd takes it apart before it comes here,
        in inference_mode() nobody does."""
        _python_dispatch._push_mode(self)
        try:
            return func.decompose(*args, **kwargs)
        finally:
            _python_dispatch._pop_mode()


def not_followed(func, facts, args, kwargs):
    """Of sparse and nested tensors nothing is known."""
    if facts.sparse_size:
        reads.note(facts.sparse_size)
    return func(*args, **kwargs)


def start(torch_module):
    if mirrors_file.peek is not None and mirrors_file.poke is not None:
        load("where_on").start(Values())  # noqa: F821
