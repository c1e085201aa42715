"""All families of the zoo."""

import fnmatch

# Kind of export: the ending of its file.
FILES = {"pt2-train": "train.pt2", "pt2-eval": "eval.pt2", "dynamo": "dynamo.onnx",
         "dynamo-raw": "dynamo-raw.onnx", "train": "train.onnx"}


def watched_file(truth):
    """The name of the program that was watched for a run: of a family, in a mode and a precision."""
    return f"{truth['model']}.{truth['mode']}-{truth['precision']}.watched.pt2"


ROOMS = ["of_torchvision", "of_timm", "of_diffusers", "tutorials_vision", "tutorials_other",
         "tutorials_more", "tutorials_own", "tutorials_field", "tutorials_series",
         "tutorials_words", "tutorials_signals", "tutorials_fourier", "of_transformers_language",
         "of_transformers_audio", "of_transformers_vision", "of_transformers_multimodal",
         "of_transformers"]


def rooms_of(patterns):
    """Modules that may have what is asked for: transformers takes a minute to go through."""
    import importlib
    for room in ROOMS:
        library = room.split("_")[1] if room.startswith("of_") else "tutorial"
        if not patterns or any(pattern.startswith((library, "*")) for pattern in patterns):
            yield importlib.import_module(room)


def families_of(room, is_wanted):
    """Those of transformers are built to be looked at, so only what is wanted."""
    return room.families(is_wanted=is_wanted) if room.__name__.startswith("of_transformers") \
        else room.families()


def zoo(patterns=()):
    """{name: Family} of those whose name matches, and that are not held out."""
    from family import is_held_out

    def is_wanted(name):
        return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    found = {}
    for room in rooms_of(patterns):  # a row goes before what of_transformers would make
        taken = {family.module for family in found.values()}
        made = families_of(room, lambda name: is_wanted(name) and name not in found)
        found |= {name: family for name, family in made.items() if family.module not in taken}
    return {name: family for name, family in found.items()
            if is_wanted(name) and not is_held_out(family.module)}
