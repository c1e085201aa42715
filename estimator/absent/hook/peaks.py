"""Peaks of the whole run, of each step and of each phase, while the program's own readings stay its own.

PyTorch keeps one peak per figure, which reset_peak_memory_stats() sets back to what is there now.
We set it back at each step and where a phase ends, and programs where they like.  So both calls and
the readings are wrapped where Python enters PyTorch: a reading gives the highest since the program's
own reset, and whoever takes peaks (Since) gets the highest since it last did."""

import collections
import threading

FIGURES = ("requested_bytes", "allocated_bytes", "reserved_bytes")
COUNTS = ("num_alloc_retries", "num_ooms")

# PyTorch's own entries: reading, resetting.
ENTRIES = (("_cuda_memoryStats", "_cuda_resetPeakMemoryStats"),
           ("_accelerator_getDeviceStats", "_accelerator_resetPeakStats"))

# Of one card: the most allocated and reserved of a step, what is reserved and allocated behind it, and
# all retries so far.
Row = collections.namedtuple("Row", "allocated reserved reserved_now allocated_now retries")

lock = threading.RLock()
held = {}  # device: the statistics' peaks since the program's own reset
whole = {}  # device: the run's
takers = []  # Since
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
            note(device, read(device))
            held.pop(device, None)
            return real_reset(device)

    setattr(module, reading, read_raised)
    setattr(module, resetting, reset_noted)


def note(device, stats):
    """Before they are set back."""
    raise_to(whole.setdefault(device, {}), stats)
    raise_to(held.setdefault(device, {}), stats)
    pair = [stats[figure]["all"]["peak"] for figure in FIGURES[1:]]
    for taker in takers:
        taker.most[device] = list(map(max, taker.most.get(device, pair), pair))


class Since:
    """The peaks since they were last taken, by whomever they are set back meanwhile."""

    def __init__(self):
        self.most = {}  # device: allocated, reserved
        takers.append(self)

    def take(self, devices):
        """Of each card; the next stretch begins."""
        return [self.take_of(device) for device in range(devices)]

    def take_of(self, device):
        with lock:
            stats = read(device)
            note(device, stats)
            reset(device)
            allocated, reserved = (stats[figure]["all"] for figure in FIGURES[1:])
            return Row(*self.most.pop(device), reserved["current"], allocated["current"],
                       stats["num_alloc_retries"])


of_steps = Since()


def of_step(devices):
    """Of each card; the next step begins."""
    return of_steps.take(devices)


def requested_now(device):
    return read(device)["requested_bytes"]["all"]["current"]


def so_far(devices):
    """The most that was allocated on a card, and how many events the allocator has recorded: an
    allocation is one, what is freed two, and segments are such themselves."""
    most = events = 0
    for device in range(devices):
        with lock:
            stats = read(device)
            peaks = raise_to(whole.setdefault(device, {}), stats)
        most = max(most, peaks["allocated_bytes"]["all"]["peak"])
        for what in ("allocation", "segment"):
            counts = stats[what]["all"]
            events += counts["allocated"] + 2 * counts["freed"]
    return most, events


def of_run(device):
    with lock:
        stats = read(device)
        peaks = raise_to(whole.setdefault(device, {}), stats)
        row = {figure: peaks[figure]["all"]["peak"] for figure in FIGURES}
        row.update({count: stats[count] for count in COUNTS})
        return row
