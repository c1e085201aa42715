"""The run's folder, and what each process writes there: files that begin with its id."""

import json
import os
import traceback

MAX_FAILURES = 20  # of one process; what fails once fails often

failures = []


def path(name):
    return os.path.join(os.environ["ONNXFIT_RUN"], "%d.%s" % (os.getpid(), name))


def failure(what):
    """Writes down the exception at hand: ours, of which the program hears nothing."""
    failures.append(what)
    if len(failures) <= MAX_FAILURES:
        with open(path("hook.txt"), "a") as file:
            file.write("%s\n%s\n" % (what, traceback.format_exc()))


def write(name, data):
    """Whole or not at all: it is read when the process may have been killed in the middle."""
    part = path(name + ".part")
    with open(part, "wb") as file:
        file.write(data)
    os.replace(part, path(name))


def write_json(name, value):
    """Names of files may have bytes that are no text."""
    text = json.dumps(value, indent=1, default=str, ensure_ascii=False)
    write(name, text.encode("utf-8", "replace"))
