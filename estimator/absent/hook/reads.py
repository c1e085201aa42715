"""Where the program read a value that nothing knows: the user's line, for the report."""

import linecache
import os
import sys
import sysconfig

MAX_PLACES = 100

# Frames of these folders are a library's, not the user's.  A program in a site-packages folder of
# its own (torchrun's entry) is not what the user can change either.
LIBRARY_FOLDERS = tuple(
    {os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "purelib", "platlib", "scripts")}
    | {os.path.dirname(os.path.abspath(__file__)) + os.sep})

counts = {}  # (file, line, what): how often


def is_library(file):
    return (file.startswith(LIBRARY_FOLDERS) or file.startswith("<") or "site-packages" in file
            or "dist-packages" in file)


def place(frame):
    """The innermost line of the user's own code; in a library's thread, the innermost line."""
    inner = frame
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return inner.f_code.co_filename, inner.f_lineno


def note(what):
    key = place(first_library_frame(sys._getframe(1))) + (what,)
    if key in counts or len(counts) < MAX_PLACES:
        counts[key] = counts.get(key, 0) + 1


def first_library_frame(frame):
    """Past our own frames."""
    here = os.path.dirname(os.path.abspath(__file__)) + os.sep
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        frame = frame.f_back
    return frame


def listed():
    rows = sorted(counts.items(), key=lambda row: -row[1])
    return [{"file": file, "line": line, "text": linecache.getline(file, line).strip(),
             "what": what, "count": count} for (file, line, what), count in rows]
