"""An end of a loop whose turns allocate the same (`--until-same`).

A turn is a step of an optimizer or, while the program has none, a call of its outermost module.
What modules do where an optimizer is there that has not stepped (a pass of validation first, the
parts of a batch that is accumulated) ends nothing: what a step adds is not seen yet.  Of several
optimizers, the turns of each have to be the same."""

import collections
import os
import sys
import weakref

notes = load("notes")  # noqa: F821, sitecustomize.py has given it

SAME = 3  # turns in a row, or as many pairs of them
PERIODS = (1, 2)
WITHIN = 16 << 10  # bytes; a program that keeps the loss of each turn does not grow


class Turns:
    def __init__(self, torch):
        self.torch = torch
        self.calls = 0
        self.of_calls = newest()
        self.of_optimizers = weakref.WeakKeyDictionary()
        self.retries = 0  # of all turns so far
        self.told = False

    # Who turns.

    def watch_optimizers(self, kind):
        begin, turns = kind.__init__, self

        def __init__(self, *args, **kwargs):
            begin(self, *args, **kwargs)
            turns.turns_of(self)

        kind.__init__ = __init__

    # What they took.  `rows` are peaks.of_step's.

    def turns_of(self, optimizer):
        return self.of_optimizers.setdefault(optimizer, newest())

    def after_step(self, optimizer, rows):
        """Whether the program may end."""
        return self.after(self.turns_of(optimizer), rows)

    def after_call(self, rows):
        self.calls += 1
        return self.after(self.of_calls, rows)

    def after(self, turns, rows):
        retries = sum(row.retries for row in rows)
        turns.append(([(row.allocated, row.reserved_now) for row in rows], retries - self.retries))
        self.retries = retries
        return self.are_same() and self.ranks_are()

    def are_same(self):
        return all(same(turns) for turns in list(self.of_optimizers.values()) or [self.of_calls])

    def ranks_are(self):
        """All end behind the same turn, or nearly: the first at which all have told that they may."""
        group = sys.modules.get("torch.distributed")
        if group is None or not group.is_available() or not group.is_initialized():
            return True
        everyone = all(os.path.exists(told(rank)) for rank in range(group.get_world_size()))
        if not self.told:
            self.told = True
            notes.real_open(told(group.get_rank()), "w").close()
        return everyone


def newest():
    """As many turns as are looked at."""
    return collections.deque(maxlen=SAME * max(PERIODS))


def told(rank):
    return os.path.join(os.environ["ONNXFIT_RUN"], "same.%d" % rank)


def same(turns):
    """The last three alike, or three pairs in a row: what a turn gives back late, every other has."""
    return any(repeats(list(turns)[-SAME * period:], period) for period in PERIODS)


def repeats(turns, period):
    return (len(turns) == SAME * period and not any(retries for _, retries in turns)
            and all(alike(turns[i][0], turns[i + period][0]) for i in range(len(turns) - period)))


def alike(rows, others):
    return len(rows) == len(others) and all(
        row[1] == other[1] and abs(row[0] - other[0]) <= WITHIN for row, other in zip(rows, others))
