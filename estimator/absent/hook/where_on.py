"""Where the mode of values.py is on: in every thread, in prints, and in what Python does inside a
backward pass, but not in autograd's own work.

While any mode is on, autograd does not add gradients in place (can_accumulate_inplace in
torch/csrc/autograd/input_buffer.cpp asks isTensorSubclassLike, which a mode makes true), and a
ResNet-50's reserved memory was 4 % off.  So backward() is called without it, and Python that runs
inside switches it on again: custom functions, checkpoints' recomputation, hooks of tensors."""

import functools
import os
import threading

import torch
from torch.utils import _python_dispatch

mirrors = load("mirrors")  # noqa: F821, sitecustomize.py has given it
tensors = load("tensors")  # noqa: F821
values = load("values")  # noqa: F821

stack = _python_dispatch._get_current_dispatch_mode_stack


def switched_on(mode, call):
    """The function with the mode on."""
    if call is None:
        return None

    @functools.wraps(call)
    def with_mode(*args, **kwargs):
        if mode.in_child or mode in stack():
            return call(*args, **kwargs)
        _python_dispatch._push_mode(mode)
        try:
            return call(*args, **kwargs)
        finally:
            _python_dispatch._pop_mode()
    return with_mode


def switched_off(mode, call):
    """The function while the mode, which may lie below another one, lets everything through."""
    @functools.wraps(call)
    def without_mode(*args, **kwargs):
        mode.off += 1
        try:
            return call(*args, **kwargs)
        finally:
            mode.off -= 1
    return without_mode


def switched_over(mode, call):
    """The function without the mode, where it is the innermost one."""
    @functools.wraps(call)
    def without_mode(*args, **kwargs):
        modes = stack()
        if not modes or modes[-1] is not mode or len(modes) > 1:
            return call(*args, **kwargs)
        _python_dispatch._pop_mode()
        try:
            return call(*args, **kwargs)
        finally:
            _python_dispatch._push_mode(mode)
    return without_mode


class EngineWithoutMode:
    """Stands for autograd's engine."""

    def __init__(self, engine, mode):
        self.engine, self.mode = engine, mode

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def run_backward(self, *args, **kwargs):
        return switched_over(self.mode, self.engine.run_backward)(*args, **kwargs)


def around_backward(mode):
    variable = torch.autograd.Variable
    variable._execution_engine = EngineWithoutMode(variable._execution_engine, mode)
    function = torch.autograd.function.BackwardCFunction
    function.apply = switched_on(mode, function.apply)
    for name in ("register_hook", "register_post_accumulate_grad_hook"):
        if hasattr(torch.Tensor, name):
            setattr(torch.Tensor, name, with_hook_on(mode, getattr(torch.Tensor, name)))
    hooks = torch.autograd.graph.saved_tensors_hooks
    begin = hooks.__init__

    def __init__(self, pack_hook, unpack_hook, *args, **kwargs):
        begin(self, pack_hook, switched_on(mode, unpack_hook), *args, **kwargs)

    hooks.__init__ = __init__


def with_hook_on(mode, register):
    @functools.wraps(register)
    def registered(tensor, hook):
        return register(tensor, switched_on(mode, hook))
    return registered


def in_threads(mode):
    """Modes are a thread's own."""
    bootstrap = threading.Thread._bootstrap_inner

    def with_mode(thread):
        if not mode.in_child:
            _python_dispatch._push_mode(mode)
        bootstrap(thread)

    threading.Thread._bootstrap_inner = with_mode


def not_in_children(mode):
    """A forked process (a DataLoader's worker) has no CUDA where its parent had used it, and needs
    no mode.  One of a parent that had not may use it."""
    def child():
        if not torch.cuda._is_in_bad_fork():
            return
        mode.in_child = True
        modes = stack()
        if modes and modes[-1] is mode:
            _python_dispatch._pop_mode()

    os.register_at_fork(after_in_child=child)


def in_prints(mode):
    """print(tensor) switches all modes off, and would show zeros."""
    strings = torch._tensor_str
    strings._str_intern = switched_on(mode, strings._str_intern)


def around_captures(mode):
    graph = torch.cuda.CUDAGraph
    begin, end = graph.capture_begin, graph.capture_end

    def capture_begin(self, *args, **kwargs):
        mode.capturing += 1
        return begin(self, *args, **kwargs)

    def capture_end(self, *args, **kwargs):
        mode.capturing = max(0, mode.capturing - 1)
        return end(self, *args, **kwargs)

    graph.capture_begin, graph.capture_end = capture_begin, capture_end


# What C++ asks of tensors, in gradients and inside of other operators, where the mode is not.
READS_IN_CPP = ("_local_scalar_dense", "equal", "allclose", "nonzero", "masked_select", "_unique2",
                "unique_dim", "unique_consecutive", "unique_dim_consecutive",
                "repeat_interleave.Tensor", "bincount")


def in_cpp(mode):
    """x[mask]'s gradient, to name one, is put by the rows that the mask chooses."""
    library = torch.library.Library("aten", "IMPL")
    for name in READS_IN_CPP:
        packet, _, overload = name.partition(".")
        func = getattr(getattr(torch.ops.aten, packet), overload or "default")
        library.impl(name, reader_below(mode, func), "BackendSelect", with_keyset=True)
    mode.library = library  # as long as the mode


def reader_below(mode, func):
    below = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    facts = values.Facts(func)

    def read(keyset, *args, **kwargs):
        def run():
            return func.redispatch(keyset & below, *args, **kwargs)

        leaves = tensors.leaves_of((args, tuple(kwargs.values())))
        cuda = [x for x in leaves if tensors.is_cuda(x)]
        if (not cuda or mode.off or mode.capturing or mode.passing
                or not all(tensors.is_plain(type(x)) and tensors.is_strided(x) for x in cuda)):
            return run()
        try:
            call = values.Call(mode, func, facts, args, kwargs, leaves)
            call.look_at_inputs()
            return load("known_reads").told(call, run)  # noqa: F821
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception:
            load("notes").failure(str(func))  # noqa: F821
            return run()

    return read


# Composed of other operators, which are others while any mode is on (areAnyTensorSubclassLike in
# ATen/TensorSubclassLikeUtils.h, PyTorch 2.11): ctc_loss takes lengths on the host for an error,
# attention without a kernel of its own adds its mask to scores in place.
def around_composites(mode):
    torch.ctc_loss = switched_over(mode, torch.ctc_loss)
    functional = torch.nn.functional
    attend = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = of_large(attend, switched_over(mode, attend))
    torch.jit._builtins._register_builtin(functional.scaled_dot_product_attention,
                                          "aten::scaled_dot_product_attention")


def of_large(call, other):
    """The other where its query is so large that it has no value, outside of compilers."""
    is_compiling = load("outermost").asks_for_compilers(torch)  # noqa: F821

    @functools.wraps(call)
    def chosen(*args, **kwargs):
        if is_compiling():
            return call(*args, **kwargs)
        query = args[0] if args else kwargs.get("query")
        is_large = query is not None and query.numel() * query.element_size() > mirrors.SMALL
        return (other if is_large else call)(*args, **kwargs)
    return chosen


def forget_written(mode, values_given):
    """What a kernel of the program's own may have written, floats that were made as zeros too.
    Whole numbers stay: kernels are given indices far more often than they make them."""
    for x in tensors.leaves_of(values_given):
        if tensors.is_cuda(x) and x.dtype.is_floating_point:
            mirror = mode.mirrors.of(x)
            if mirror is not None:
                mode.mirrors.guess(mirror, values.mirrors_file.likely(x.dtype))


def around_triton(jit):
    """Of triton.runtime.jit, whenever it is imported."""
    run = jit.JITFunction.run

    def run_and_forget(self, *args, **kwargs):
        result = run(self, *args, **kwargs)
        try:
            forget_written(on[0], (args, tuple(kwargs.values())))
        except Exception:
            load("notes").failure("triton")  # noqa: F821
        return result

    jit.JITFunction.run = run_and_forget


def around_benchmarks(benchmarking):
    """Of torch._inductor.runtime.benchmarking: between launches it empties the card's cache, by zeros
    in a tensor as large, whose mirror took seconds for each of torch.compile's kernels."""
    for kind in vars(benchmarking).values():
        if isinstance(kind, type) and "benchmark_gpu" in vars(kind):
            kind.benchmark_gpu = switched_off(on[0], kind.benchmark_gpu)


def around_folding(module):
    """Of torch._inductor.constant_folding and fx_passes.joint_graph: a graph's constants are computed
    with all modes off, and asked for their value, by which sums with zeros and products with ones go."""
    for kind in list(vars(module).values()):
        if not isinstance(kind, type) or not hasattr(kind, "add_node_replacement"):
            continue
        for name in {"__init__", "run"} & vars(kind).keys():
            setattr(kind, name, switched_on(on[0], getattr(kind, name)))


on = []  # the mode
PLACES = (around_backward, in_threads, not_in_children, in_prints, around_captures, in_cpp,
          around_composites)


def start(mode):
    """Pushed without TorchDispatchMode.__enter__, which tells torch.compile of a mode that it would
    have to step aside for: compiled code must be compiled here as it is without us."""
    for place in PLACES:
        try:
            place(mode)
        except Exception:
            load("notes").failure(place.__name__)  # noqa: F821
    on.append(mode)
    _python_dispatch._push_mode(mode)
