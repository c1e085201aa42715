"""What a program itself reads of its phases, between resets of its own: printed at its end, for
programs.py to hold the answer's against."""
import contextlib
import json

import torch

most = {}
on_card = {}  # behind a phase's last end


def begin():
    torch.cuda.reset_peak_memory_stats()


def end(name):
    """What came since begin(), or the last end()."""
    most[name] = max(most.get(name, 0), torch.cuda.max_memory_allocated())
    begin()


@contextlib.contextmanager
def reading(name):
    begin()
    yield
    end(name)


def around(holder, function, name):
    """Every call of holder.function."""
    real = getattr(holder, function)

    def wrapped(*args, **kwargs):
        with reading(name):
            return real(*args, **kwargs)

    setattr(holder, function, wrapped)


def left(name):
    free, total = torch.cuda.mem_get_info()
    on_card[name] = total - free


def tell():
    print("phases " + json.dumps(most), flush=True)
    print("left " + json.dumps(on_card), flush=True)
