"""What an engine that serves language models says of itself: how many tokens its cache of keys and values
has, and what else it gave memory to.  Read from the engine's own objects at the moment it has made
up its mind, and written at once to `<pid>.engine.json`, for an engine's processes are often killed.

Here is what all engines share.  What is known of one stands in a file of its own (engines_vllm.py); where
another version has no such function or member, what it would say is left out."""

import importlib.metadata

notes = load("notes")  # noqa: F821, sitecustomize.py has given it

said = {}


def say(**figures):
    """What is None is not known."""
    said.update((name, value) for name, value in figures.items() if value is not None)
    notes.write_json("engine.json", said)


def say_name(name, package):
    say(engine=name, version=importlib.metadata.version(package))


def attempt(what, call):
    try:
        call()
    except Exception:
        notes.failure(what)


def member(holder, *names):
    """holder.a.b, None where there is none."""
    for name in names:
        holder = getattr(holder, name, None)
    return holder


def type_name(asked, of_model):
    return asked if asked != "auto" else str(of_model).removeprefix("torch.")


def watch(module):
    """By the package's name, such as vllm, whose file says what is done with which module."""
    own = load("engines_" + module.__name__.partition(".")[0])  # noqa: F821
    attempt(module.__name__, lambda: own.WATCHED[module.__name__](module))
