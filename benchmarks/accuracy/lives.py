"""Which allocations live longer, or shorter, than PyTorch's: usually the cause of a wrong peak.

    lives.py MODEL RECORDING [flags of onnxfit]   # MODEL, RECORDING, flags: as in events.py
    lives.py --check                              # a test of itself

The two sides' allocations are matched by the order of their sizes, as diff matches lines.  Of the
matched, those are shown that die before another (matched) allocation than PyTorch's: where the
two were made, and before which allocation of ours each side frees it.  Those that cost the most,
bytes times the allocations that lie between the two deaths, come first.  Then the stretches that
have no match: what one side makes and the other does not.  What every step repeats is shown once.
"""

import difflib
import re
import sys
from collections import namedtuple

from events import Event, argument_parser, both_sides

SHOWN, STRETCH = 20, 4  # paragraphs of either list; allocations shown of a stretch
SMALLEST = 4096  # bytes of an allocation whose death matters

# size: bytes; death: how many allocations were made before it was freed, None if it never was.
Life = namedtuple("Life", "size death where")
# true, ours: the two lives; dies_true, dies_ours: before which allocation of ours.
Difference = namedtuple("Difference", "true ours dies_true dies_ours")


def lives(events):
    """The allocations of `events`, in order."""
    made = []
    for event in events:
        if event.sign == "+":
            made.append(Life(event.size, None, event.where))
        else:
            made[event.number] = made[event.number]._replace(death=len(made))
    return made


def match(true, ours):
    """{index of true: index of ours}, and the stretches of both that have no match."""
    matcher = difflib.SequenceMatcher(None, [a.size for a in true], [b.size for b in ours],
                                      autojunk=False)
    matched, unmatched = {}, []
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            matched.update(zip(range(i, i_end), range(j, j_end)))
        else:
            unmatched.append((true[i:i_end], ours[j:j_end]))
    return matched, unmatched


def differences(true, ours, matched):
    """Matched allocations that the two sides free at another place, the dearest first."""
    place, places = len(ours), {}  # of true's allocations among ours: their own or the next one's
    for i in range(len(true), -1, -1):
        place = matched.get(i, place)
        places[i] = place
    found = []
    for i, j in matched.items():
        a, b = true[i], ours[j]
        dies_true = len(ours) if a.death is None else places[a.death]
        dies_ours = len(ours) if b.death is None else b.death
        if dies_true != dies_ours and a.size >= SMALLEST:
            found.append(Difference(a, b, dies_true, dies_ours))
    return sorted(found, key=lambda d: -d.true.size * abs(d.dies_true - d.dies_ours))


def name(ours, j):
    return ours[j].where if j < len(ours) else "the end"


def describe(ours, d):
    sign = "long" if d.dies_ours > d.dies_true else "short"
    return [f"{d.true.size:>12} bytes, ours too {sign} by {abs(d.dies_ours - d.dies_true)}",
            f"    true: {d.true.where or '?'}",
            f"          freed before {name(ours, d.dies_true)}",
            f"    ours: {d.ours.where}",
            f"          freed before {name(ours, d.dies_ours)}"]


def describe_stretch(stretches):
    lines = []
    for side, made in zip(("true", "ours"), stretches):
        lines += [f"{a.size:>12} bytes in {side} alone: {a.where or '?'}" for a in made[:STRETCH]]
        lines += [f"{'':12} and {len(made) - STRETCH} more"] if len(made) > STRETCH else []
    return lines


def once_a_step(paragraphs):
    """The lines of the first SHOWN of those that differ by more than the step and a count."""
    shown = {}
    for lines in paragraphs:
        shown.setdefault(re.sub(r"step \d+|by \d+", "", "\n".join(lines[1:] or lines)), lines)
    return [line for lines in list(shown.values())[:SHOWN] for line in lines]


def report(true, ours):
    """What to print, line by line, and whether nothing differs."""
    matched, unmatched = match(true, ours)
    different = differences(true, ours, matched)
    lines = [f"{len(matched)} matched, {len(different)} of them live otherwise; "
             f"{len(unmatched)} stretches without a match",
             *once_a_step(describe(ours, d) for d in different),
             *once_a_step(describe_stretch(s) for s in unmatched)]
    return lines, not different and not unmatched


def check():
    def events(*signs):  # sizes made, and -(index + 1) of those that are freed
        sizes = [s for s in signs if s > 0]
        made = iter(range(len(sizes)))
        return [Event("+", next(made), s, f"{s} bytes") if s > 0 else
                Event("-", -s - 1, sizes[-s - 1], "") for s in signs]
    big = SMALLEST
    true = lives(events(4 * big, big, -1, 2 * big, 3 * big))
    late = lives(events(4 * big, big, 2 * big, -1, 7 * big, 3 * big))
    assert report(true, true) == (["4 matched, 0 of them live otherwise; "
                                   "0 stretches without a match"], True)
    lines, same = report(true, late)
    assert not same and lines[0].startswith("4 matched, 1 of them live otherwise; 1 stretches")
    assert lines[1].split() == [str(4 * big), "bytes,", "ours", "too", "long", "by", "1"]
    assert once_a_step([["1", "step 1 a"], ["1", "step 2 a"], ["1", "b"]]) == \
        ["1", "step 1 a", "1", "b"]
    assert lines[-1] == f"{7 * big:>12} bytes in ours alone: {7 * big} bytes"


def main():
    parser = argument_parser(__doc__)
    args, flags = parser.parse_known_args()
    if args.check:
        return check()
    if not args.recording:
        parser.error("expected a model and a recording")
    true, ours = both_sides(args, flags)
    lines, same = report(lives(true), lives(ours))
    print("\n".join(lines))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
