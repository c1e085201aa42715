"""What lives at the peak on one side alone: the first look at a peak that is a little off.

    at_peak.py MODEL RECORDING [flags of onnxfit]   # MODEL, RECORDING, flags: as in events.py
    at_peak.py --check                              # a test of itself

Of the sizes that live at each side's highest point those are shown of which one side has more,
the most bytes first, and where it made them (all of that size, since the two sides are matched by
size alone).  A difference that lives.py shows as well is one that matters here.
"""

import sys
from collections import defaultdict

from events import Event, run

SHOWN = 12  # sizes
PLACES = 6  # of a size


def at_peak(events):
    """What lives at the highest point, {size: where each was made}, the bytes, the last event's."""
    live, total, highest, until = {}, 0, 0, 0
    for i, event in enumerate(events):
        if event.sign == "+":
            live[event.number] = event.size
            total += event.size
        else:
            total -= live.pop(event.number)
        if total > highest:
            highest, until = total, i + 1
    made = {}
    for event in events[:until]:
        if event.sign == "+":
            made[event.number] = event
        else:
            del made[event.number]
    sizes = defaultdict(list)
    for event in made.values():
        sizes[event.size].append(event.where or "?")
    return sizes, highest, events[until - 1].where if until else ""


def describe(size, true, ours):
    side, more = ("true", true) if len(true) > len(ours) else ("ours", ours)
    return [f"{side} has {abs(len(true) - len(ours))} more of {size} bytes "
            f"({len(true)} and {len(ours)})", *(f"    {where}" for where in more[:PLACES])]


def report(true, ours):
    """What to print, line by line, and whether the same lives on both sides."""
    (sizes_true, bytes_true, at_true), (sizes_ours, bytes_ours, at_ours) = map(at_peak,
                                                                               (true, ours))
    lines = [f"true {bytes_true} bytes at {at_true or '?'}", f"ours {bytes_ours} bytes at {at_ours}"]

    def excess(size):
        return size * abs(len(sizes_true[size]) - len(sizes_ours[size]))
    different = sorted((size for size in {*sizes_true, *sizes_ours} if excess(size)),
                       key=excess, reverse=True)
    for size in different[:SHOWN]:
        lines += describe(size, sizes_true[size], sizes_ours[size])
    return lines, not different


def check():
    def events(*signs):  # sizes made, and -(index + 1) of those that are freed
        sizes = [s for s in signs if s > 0]
        made = iter(range(len(sizes)))
        return [Event("+", next(made), s, f"{s} bytes") if s > 0 else
                Event("-", -s - 1, sizes[-s - 1], "") for s in signs]
    true = events(40, 10, -1, 20, 30)  # 60 bytes at its end
    late = events(40, 10, 20, -1, 30)  # 70 bytes before the 40 go
    assert report(true, true) == (["true 60 bytes at 30 bytes", "ours 60 bytes at 30 bytes"], True)
    assert report(true, late) == (["true 60 bytes at 30 bytes", "ours 70 bytes at 20 bytes",
                                   "ours has 1 more of 40 bytes (0 and 1)", "    40 bytes",
                                   "true has 1 more of 30 bytes (1 and 0)", "    30 bytes"], False)
    assert at_peak([]) == ({}, 0, "")


if __name__ == "__main__":
    sys.exit(run(__doc__, check, report))
