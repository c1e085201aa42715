"""All families of the zoo."""

import fnmatch

# Kind of export: the ending of its file.
FILES = {"pt2-train": "train.pt2", "pt2-eval": "eval.pt2", "dynamo": "dynamo.onnx",
         "dynamo-raw": "dynamo-raw.onnx", "train": "train.onnx"}
ROOMS = ["of_torchvision", "of_timm", "of_diffusers", "tutorials_vision", "tutorials_other",
         "tutorials_more", "of_transformers"]


def rooms_of(patterns):
    """Modules that may have what is asked for: transformers takes a minute to go through."""
    import importlib
    for room in ROOMS:
        library = room.removeprefix("of_") if room.startswith("of_") else "tutorial"
        if not patterns or any(pattern.startswith((library, "*")) for pattern in patterns):
            yield importlib.import_module(room)


def zoo(patterns=()):
    """{name: Family} of those whose name matches, and that are not held out."""
    from family import is_held_out
    return {name: family for room in rooms_of(patterns) for name, family in room.families().items()
            if not is_held_out(family.module)
            and (not patterns or any(fnmatch.fnmatchcase(name, p) for p in patterns))}
