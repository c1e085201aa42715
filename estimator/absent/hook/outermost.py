"""Calls of modules that no other module makes, seen where Python enters them: what a program does in
turn (phases.py), and what a loop without an optimizer repeats (turns.py).

The calls within pay one look at a set of threads.  Nothing is seen while a compiler traces, nor
of what compiled code calls by itself."""

import contextlib
import threading

get_ident = threading.get_ident

inside = set()  # threads, in such a call
before, after = [], []  # functions of the module, which may raise nothing but an end of the program


def asks_for_compilers(torch):
    """What tells whether a compiler looks on, from PyTorch 2.3 on; before, none does."""
    return getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


def watch(torch):
    kind = torch.nn.Module
    call = kind.__call__
    is_compiling = asks_for_compilers(torch)

    def __call__(self, *args, **kwargs):
        if is_compiling() or get_ident() in inside:
            return call(self, *args, **kwargs)
        ident = get_ident()
        inside.add(ident)
        try:
            for tell in before:
                tell(self)
            result = call(self, *args, **kwargs)
        finally:
            inside.discard(ident)
        for tell in after:
            tell(self)
        return result

    kind.__call__ = __call__


@contextlib.contextmanager
def outside():
    """What is called meanwhile is seen, though a module's forward() may call it."""
    ident = get_ident()
    was_inside = ident in inside
    inside.discard(ident)
    try:
        yield
    finally:
        if was_inside:
            inside.add(ident)


def is_alone():
    """Whether it is the main thread's, or the main thread is in none: replicas of a module (DataParallel)
    run in threads of their own while it waits."""
    main = threading.main_thread().ident
    return get_ident() == main or main not in inside
