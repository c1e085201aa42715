"""Peaks of the whole run and of each step, while the program's own readings stay its own.

PyTorch keeps one peak per figure, which reset_peak_memory_stats() sets back to what is there now.
We set it back at each step, and programs where they like.  So both calls and the readings are
wrapped where Python enters PyTorch: a reading gives the highest since the program's own reset,
ours gives the highest of all."""

import threading

FIGURES = ("requested_bytes", "allocated_bytes", "reserved_bytes")
COUNTS = ("num_alloc_retries", "num_ooms")

# PyTorch's own entries: reading, resetting.
ENTRIES = (("_cuda_memoryStats", "_cuda_resetPeakMemoryStats"),
           ("_accelerator_getDeviceStats", "_accelerator_resetPeakStats"))

lock = threading.RLock()
held = {}  # device: the statistics' peaks since the program's own reset
whole = {}  # device: the run's
read = reset = None


def raise_to(target, stats):
    """The higher of each peak; statistics are dicts in dicts."""
    for key, value in stats.items():
        if isinstance(value, dict):
            raise_to(target.setdefault(key, {}), value)
        elif key == "peak":
            target[key] = max(target.get(key, 0), value)
    return target


def raised(stats, target):
    for key, value in stats.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            raised(value, target[key])
        elif key == "peak":
            stats[key] = max(value, target.get(key, 0))
    return stats


def start(torch):
    global read, reset
    read, reset = torch._C._cuda_memoryStats, torch._C._cuda_resetPeakMemoryStats
    for reading, resetting in ENTRIES:
        if hasattr(torch._C, reading) and hasattr(torch._C, resetting):
            wrap(torch._C, reading, resetting)


def wrap(module, reading, resetting):
    real_read, real_reset = getattr(module, reading), getattr(module, resetting)

    def read_raised(device):
        with lock:
            return raised(real_read(device), held.get(device, {}))

    def reset_noted(device):
        with lock:
            raise_to(whole.setdefault(device, {}), read(device))
            held.pop(device, None)
            return real_reset(device)

    setattr(module, reading, read_raised)
    setattr(module, resetting, reset_noted)


def since_last_step(device):
    """Allocated and reserved."""
    with lock:
        stats = read(device)
        raise_to(whole.setdefault(device, {}), stats)
        raise_to(held.setdefault(device, {}), stats)
        reset(device)
        return tuple(stats[figure]["all"]["peak"] for figure in FIGURES[1:])


def of_run(device):
    with lock:
        stats = read(device)
        peaks = raise_to(whole.setdefault(device, {}), stats)
        row = {figure: peaks[figure]["all"]["peak"] for figure in FIGURES}
        row.update({count: stats[count] for count in COUNTS})
        return row
