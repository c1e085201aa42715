"""The first allocation or free where a prediction leaves what PyTorch did.

    events.py MODEL RECORDING [flags of onnxfit]  # exit 1 where they differ
    events.py resnet18.train tests/data/resnet18.b8.fp32.adamw.events
    events.py --peak MODEL RECORDING …            # who lives at the peak, where it differs
    events.py --check                             # what tests/data holds, and altered

MODEL is a file, or NAME.KIND of data/models*.tar.xz.  RECORDING is one of
  - torch.cuda.memory's own: [[action, size, address, [frame, …]], …] as JSON;
  - {"truth": {settings}, "events": [["+", bytes, address, "frames"], ["-", bytes, address], …]};
  - text: "+BYTES" asks, "-N BYTES" frees the N-th allocation (from 0), "s BYTES", "# …";
each of them gzipped or not.  Batch, precision, optimizer and mode come from the recording or
from its name, MODEL.bBATCH.PRECISION.OPTIMIZER…, unless flags say them.

Events are compared by identity: not only how many bytes are freed, but which allocation.
Allocations of 0 bytes take no memory and are left out.  With --any-order it does not matter
in which order memory is freed between two allocations.  With --peak the answer is instead who
lives at the peak of either side, by size, where the two differ: what a first difference, which may
be one of many that take nothing, does not show.
"""

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, namedtuple
from itertools import accumulate
from pathlib import Path

from runs import ROOT, unpack_models

# sign: "+" or "-"; number: of the allocation, from 0; where: what is known of the place.
Event = namedtuple("Event", "sign number size where")
BEFORE, AFTER = 6, 8  # events shown around a difference
SETTINGS = {"batch": ("-b", "--batch"), "precision": ("-p", "--precision"),
            "optimizer": ("-o", "--optimizer"), "mode": ("--mode", "--mode")}
SIGNS = {"alloc": "+", "free_requested": "-", "+": "+", "-": "-"}
# Models and recordings that agree in every event.
CHECKED = [("resnet18.train", "tests/data/resnet18.b8.fp32.adamw.events"),
           ("vgg16.train", "tests/data/vgg16.b8.fp32.sgdm.events")]


# --- What PyTorch did ------------------------------------------------------------------------

def read_text(lines):
    sizes = []
    for line in lines:
        if line.startswith("+"):
            sizes.append(int(line[1:]))
            yield Event("+", len(sizes) - 1, sizes[-1], "")
        elif line.startswith("-"):
            number = int(line[1:].split()[0])
            yield Event("-", number, sizes[number], "")


def read_json(rows):
    live, sizes = {}, []  # address -> number
    for action, size, address, *frames in rows:
        sign = SIGNS.get(action)
        where = " < ".join(frames[0][:3]) if frames and isinstance(frames[0], list) else \
            "".join(frames)
        if sign == "+":
            live[address] = len(sizes)
            sizes.append(size)
            yield Event("+", live[address], size, where)
        elif sign == "-":
            number = live.pop(address)
            yield Event("-", number, sizes[number], where)


def settings_of(path, truth):
    named = re.search(r"\.b(\d+)\.([a-z0-9-]+)\.([a-z0-9-]+)\.", path.name)
    found = dict(zip(SETTINGS, named.groups())) if named else {}
    return {**found, **{key: str(truth[key]) for key in SETTINGS if key in truth}}


def read_recording(path):
    """The events of a recording, and the settings that it was made with."""
    path = Path(path)
    content = path.read_bytes()
    text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode()
    if text[:1] not in "[{":
        return list(read_text(text.splitlines())), settings_of(path, {})
    recorded = json.loads(text)
    truth, rows = (recorded["truth"], recorded["events"]) if isinstance(recorded, dict) else \
        ({}, recorded)
    return list(read_json(rows)), settings_of(path, truth)


# --- What is predicted -----------------------------------------------------------------------

def read_prediction(lines):
    numbers, sizes, place, at = {}, {}, "", ""  # id -> number of those that take memory
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "phase":
            step, phase = rest.split()
            place, at = "setup" if step == "0" else f"step {step} {phase}", ""
        elif word == "at":
            at = f" at {rest}"
        elif word == "+":
            buffer, size, label = rest.split(" ", 2)
            if size != "0":
                numbers[buffer], sizes[buffer] = len(numbers), (int(size), label)
                yield Event("+", numbers[buffer], int(size), f"{label}, {place}{at}")
        elif rest in numbers:
            size, label = sizes[rest]
            yield Event("-", numbers[rest], size, f"{label}, {place}{at}")


def predict(printer, model, flags):
    result = subprocess.run([printer, str(model), *flags], stdin=subprocess.DEVNULL,
                            capture_output=True, encoding="utf-8", timeout=120)
    if result.returncode != 0:
        sys.exit(f"{model}: exit {result.returncode}: {result.stderr}")
    return list(read_prediction(result.stdout.splitlines()))


def find_model(model, folder):
    """A file, or what NAME.KIND is of data/models*.tar.xz, unpacked into `folder`."""
    found = model if Path(model).exists() else \
        unpack_models(folder).get(tuple(model.split(".")))
    if found is None:
        sys.exit(f"{model}: neither a file nor a model of data/models.tar.xz")
    return found


def both_sides(args, flags):
    """The events of args.recording, and those that args.printer predicts of args.model."""
    with tempfile.TemporaryDirectory() as folder:
        model = find_model(args.model, folder)
        true, settings = read_recording(args.recording)
        return true, predict(args.printer, model, flags_for(settings, flags))


def argument_parser(description):
    """What is asked for on either side, and whether a script is to test itself."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--printer", default=str(ROOT / "build/release/benchmarks/print_trace"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("model", nargs="?")
    parser.add_argument("recording", nargs="?")
    return parser


def flags_for(settings, given):
    """Flags of the recording's settings, but for those that are given."""
    flags = list(given)
    for name, value in settings.items():
        if not any(flag.startswith(SETTINGS[name]) for flag in given):
            flags += [SETTINGS[name][0], value]
    return flags


def in_any_order(events):
    """`events` with the frees between two allocations sorted."""
    frees, ordered = [], []
    for event in [*events, None]:
        if event and event.sign == "-":
            frees.append(event)
            continue
        ordered += sorted(frees, key=lambda free: free.number)
        frees = []
        if event:
            ordered.append(event)
    return ordered


# --- Both, side by side ----------------------------------------------------------------------

def same(true, ours):
    return true is not None and ours is not None and true[:3] == ours[:3]


def first_difference(true, ours):
    """The index of the first event that is not the same, None where there is none."""
    for i in range(max(len(true), len(ours))):
        if not same(event_at(true, i), event_at(ours, i)):
            return i
    return None


def event_at(events, i):
    return events[i] if 0 <= i < len(events) else None


def what(event):
    if event is None:
        return "nothing more"
    if event.sign == "+":
        return f"allocates {event.size} bytes (#{event.number})"
    return f"frees #{event.number}, {event.size} bytes"


def context(true, ours, difference):
    """Lines around a difference: one event each where both sides agree, else one a side."""
    lines = []
    for i in range(max(0, difference - BEFORE), difference + AFTER):
        a, b = event_at(true, i), event_at(ours, i)
        if same(a, b):
            lines += [f"{i:7} both     {what(a)}", f"{'':17}true: {a.where or '?'}",
                      f"{'':17}ours: {b.where}"]
            continue
        for side, event in (("true", a), ("ours", b)):
            mark = ">" if i == difference else " "
            lines += [f"{mark}{i:6} {side}     {what(event)}"]
            if event and event.where:
                lines += [f"{'':17}{event.where}"]
    return lines


def totals(name, events):
    asked = sum(event.size for event in events if event.sign == "+")
    frees = sum(event.sign == "-" for event in events)
    return f"{name}: {len(events) - frees} allocations of {asked} bytes, {frees} frees"


def origin(true, ours, difference):
    """Where the allocations come from that the two sides free."""
    for side, events in (("true", true), ("ours", ours)):
        event = event_at(events, difference)
        if event is None or event.sign != "-":
            continue
        for name, others in (("PyTorch", true), ("predicted", ours)):
            made = next((e for e in others if e[:2] == ("+", event.number)), None)
            if made and made.where:
                yield f"        #{event.number}, freed by {side}, as {name}: {made.where}"


# --- Who lives at the peak --------------------------------------------------------------------

def alive_at_peak(events):
    """The allocations that live when the most bytes are asked for, in order, and their bytes."""
    changes = [event.size if event.sign == "+" else -event.size for event in events]
    now = list(accumulate(changes))
    end = now.index(max(now)) + 1
    freed = {event.number for event in events[:end] if event.sign == "-"}
    return [event for event in events[:end]
            if event.sign == "+" and event.number not in freed], now[end - 1]


def report_peak(true, ours):
    """Lines: for each size of which not as many live at both peaks, who they are."""
    sides = {"true": alive_at_peak(true), "ours": alive_at_peak(ours)}
    lines = [f"peak: PyTorch {sides['true'][1]}, predicted {sides['ours'][1]}"]
    counts = {name: Counter(event.size for event in alive) for name, (alive, _) in sides.items()}
    differ = {size: (counts["ours"][size] - counts["true"][size]) * size
              for size in counts["true"] | counts["ours"]}
    for size in sorted((s for s in differ if differ[s]), key=lambda s: -abs(differ[s])):
        lines.append(f"{differ[size]:+} bytes: PyTorch {counts['true'][size]}, "
                     f"predicted {counts['ours'][size]} of {size}")
        lines += [f"    {name} #{event.number} {event.where or '?'}"
                  for name, (alive, _) in sides.items() for event in alive if event.size == size]
    return lines, sides["true"][1] == sides["ours"][1]


def report(true, ours):
    """What to print, line by line, and whether both sides are the same."""
    difference = first_difference(true, ours)
    sums = [totals("true", true), totals("ours", ours)]
    if difference is None:
        return [f"same: {len(true)} events", *sums], True
    return [f"first difference at event {difference}: PyTorch "
            f"{what(event_at(true, difference))}, predicted {what(event_at(ours, difference))}",
            *context(true, ours, difference), *origin(true, ours, difference),
            f"{difference} events agree until then", *sums], False


# --- A test of itself ------------------------------------------------------------------------

def freed_instead(events):
    """`events` with two frees of equal sizes in a row exchanged, and the index of the first."""
    for i in range(len(events) // 2, len(events) - 1):
        a, b = events[i], events[i + 1]
        if a.sign == b.sign == "-" and a.size == b.size:
            return [*events[:i], b, a, *events[i + 2:]], i
    raise AssertionError("no two frees of equal sizes in a row")


def check_changes(true, ours):
    """Changes made on purpose are named, by place and identity."""
    altered, place = freed_instead(true)
    assert report(altered, ours)[0][0] == (
        f"first difference at event {place}: PyTorch frees #{true[place + 1].number}, "
        f"{true[place].size} bytes, predicted frees #{true[place].number}, "
        f"{true[place].size} bytes")
    altered = [*true[:place], true[place]._replace(sign="+", size=7), *true[place + 1:]]
    assert f"at event {place}: PyTorch allocates 7 bytes" in report(altered, ours)[0][0]
    assert "PyTorch nothing more, predicted " in report(true[:place], ours)[0][0]


def check_raw_form():
    rows = [["segment_alloc", 2097152, 0, []], ["alloc", 512, 0, ["a.py:1:f", "b.py:2:g"]],
            ["alloc", 512, 512, []], ["free_requested", 512, 0, []],
            ["free_completed", 512, 0, []], ["alloc", 512, 0, []]]
    assert list(read_json(rows)) == [
        Event("+", 0, 512, "a.py:1:f < b.py:2:g"), Event("+", 1, 512, ""),
        Event("-", 0, 512, ""), Event("+", 2, 512, "")]


def check_peak():
    true = [Event("+", 0, 8, "a"), Event("+", 1, 4, "b"), Event("-", 0, 8, "a"),
            Event("+", 2, 2, "c")]
    ours = [Event("+", 0, 8, "x"), Event("-", 0, 8, "x"), Event("+", 1, 4, "y")]
    assert report_peak(true, ours) == (
        ["peak: PyTorch 12, predicted 8", "-4 bytes: PyTorch 1, predicted 0 of 4",
         "    true #1 b"], False)
    assert report_peak(true, true)[1]


def check_any_order():
    a, b, c = Event("-", 0, 512, ""), Event("-", 1, 512, ""), Event("+", 2, 512, "")
    assert in_any_order([b, a, c, b]) == [a, b, c, b]


def check(printer, models):
    """The committed recordings have no difference, and changes made on purpose are named."""
    check_raw_form()
    check_any_order()
    check_peak()
    for model, recording in CHECKED:
        true, settings = read_recording(ROOT / recording)
        ours = predict(printer, models[tuple(model.split("."))], flags_for(settings, []))
        lines, equal = report(true, ours)
        print("\n".join([f"{model}: {lines[0]}", *lines[1:]]))
        if not equal:
            return 1
        check_changes(true, ours)
    return 0


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--any-order", action="store_true")
    parser.add_argument("--peak", action="store_true")
    args, flags = parser.parse_known_args()
    if args.check:
        with tempfile.TemporaryDirectory() as folder:
            return check(args.printer, unpack_models(folder))
    if not args.recording:
        parser.error("expected a model and a recording")
    true, ours = both_sides(args, flags)
    order = in_any_order if args.any_order else list
    lines, equal = report_peak(true, ours) if args.peak else report(order(true), order(ours))
    print("\n".join(lines))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
