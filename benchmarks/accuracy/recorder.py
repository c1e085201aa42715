"""Which allocations a call makes, from torch.cuda.memory's own history.

As text, one word an event: "+BYTES" asks, "-N" frees the N-th allocation (from 0; those that
were alive before are "-before").  So "+4096 +1048576 -1" is a result of 4 KiB and a workspace of
1 MiB.
"""

import gzip
import json

import torch


def start(stacks=None):
    """Begins a history with no entry.  `stacks` "python" keeps Python's frames."""
    context = {"context": None} if stacks is None else {"stacks": stacks}
    torch.cuda.memory._record_memory_history(max_entries=1000000, clear_history=True, **context)


def entries():
    return torch.cuda.memory._snapshot()["device_traces"][0]


class Recorder:
    """Numbers allocations across calls."""

    def __init__(self):
        self.numbers = {}  # address -> number, of what is alive
        self.count = 0

    def of(self, call):
        """What call() returns, and its events as text."""
        start()
        result = call()
        return result, " ".join(filter(None, map(self.word, entries())))

    def word(self, entry):
        action, size, address = entry["action"], entry["size"], entry["addr"]
        if action == "alloc":
            self.numbers[address] = self.count
            self.count += 1
            return f"+{size}"
        if action == "free_requested":
            return f"-{self.numbers.pop(address, 'before')}"
        return None  # segments, and frees once more when they are complete


def place(frame):
    return f"{frame['filename'].rsplit('/', 1)[-1]}:{frame['line']}:{frame['name']}"


def write(path, settings):
    """The history since start() in the form that events.py reads."""
    signs = {"alloc": "+", "free_requested": "-"}
    events = [[signs[entry["action"]], entry["size"], entry["addr"],
               " < ".join(place(frame) for frame in entry.get("frames", [])[:4])]
              for entry in entries() if entry["action"] in signs]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps({"truth": settings, "events": events}).encode(),
                                   mtime=0))
