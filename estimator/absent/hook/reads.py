"""Where the program read a value that nothing knows: the user's line, for the report, and what the
value is for there.  One that is only shown goes into text, by a statement that does nothing else
(shown.py).  A size that is the most it can be is not too small.  Everything else decides."""

import linecache
import os
import sys
import sysconfig
import threading

only_shows = load("shown").only_shows  # noqa: F821, sitecustomize.py has given it

MAX_PLACES = 100
MAX_TEXT = 100  # letters of a line that goes on in the next

# Frames of these folders are a library's, not the user's.  A program in a site-packages folder of
# its own (torchrun's entry) is not what the user can change either.
OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
LIBRARY_FOLDERS = tuple(
    {os.path.join(sysconfig.get_path(name), "")
     for name in ("stdlib", "purelib", "platlib", "scripts")} | {OURS})

# Copies of weights into a file decide nothing.
SAVES = tuple(os.path.join(*path) for path in (("torch", "serialization.py"),
                                               ("safetensors", "torch.py")))

VALUES = {"item()", "bool()", "equal()", "allclose()", "a copy to the host"}  # and no size

counts = {}  # (file, line, what, kind): how often
quiet = [0]  # operators in progress of which all is known
texts = {}  # (file, line): what stands there


def is_library(file):
    return (file.startswith(LIBRARY_FOLDERS) or file.startswith("<") or "site-packages" in file
            or "dist-packages" in file)


def reader(frame):
    """The innermost frame of the user's own code; in a library's thread, the innermost; None where
    the value goes into a file."""
    inner = frame
    while frame is not None:
        if frame.f_code.co_filename.endswith(SAVES):
            return None
        if not is_library(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return inner


def note(what, is_most=False):
    if quiet[0]:
        return
    frame = reader(first_library_frame(asking_frame()))
    if frame is None:
        return
    place = frame.f_code.co_filename, frame.f_lineno
    kind = "most" if is_most else "decides"
    if what in VALUES and only_shows(*place):
        kind = "shown"
    key = place + (what, kind)
    if key in counts or len(counts) < MAX_PLACES:
        counts[key] = counts.get(key, 0) + 1
        if place not in texts:
            texts[place] = text(frame)


def asking_frame():
    """In autograd's own threads there is no Python but ours: the main thread waits for it."""
    frame = sys._getframe(2)
    if not is_ours(bottom(frame)):
        return frame
    return sys._current_frames().get(threading.main_thread().ident, frame)


def bottom(frame):
    while frame.f_back is not None:
        frame = frame.f_back
    return frame


def text(frame):
    """The line; of one that goes on in the next ("if (") what is evaluated there (Python 3.11)."""
    file = frame.f_code.co_filename
    line = linecache.getline(file, frame.f_lineno)
    if not hasattr(frame.f_code, "co_positions") or all(
            line.count(a) == line.count(b) for a, b in ("()", "[]", "{}")):
        return line.strip()
    begin, end, column, end_column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    if None in (begin, end, column, end_column):
        return line.strip()
    lines = [linecache.getline(file, number) for number in range(begin, end + 1)]
    lines[-1] = lines[-1].encode()[:end_column].decode(errors="replace")  # columns are bytes
    lines[0] = lines[0].encode()[column:].decode(errors="replace")
    return " ".join(line.strip() for line in lines)[:MAX_TEXT]


def is_ours(frame):
    return frame.f_code.co_filename.startswith(OURS)


def first_library_frame(frame):
    """Past our own frames."""
    while frame.f_back is not None and is_ours(frame):
        frame = frame.f_back
    return frame


def listed():
    rows = sorted(counts.items(), key=lambda row: -row[1])
    return [{"file": file, "line": line, "text": texts[file, line], "what": what, "count": count,
             "kind": kind} for (file, line, what, kind), count in rows]
