"""Watches every architecture of the installed libraries, and packs what their modules do.

    observe.py                        # all libraries of libraries.py: hours on one core
    observe.py timm torchvision       # these alone
    observe.py --add transformers     # beside what the data has, which may be of other releases
    observe.py --keep FOLDER ...      # keeps what is watched; --from FOLDER packs that
    observe.py --part 1/2 --keep ...  # one half of the architectures, for one of two cores
    observe.py --in-fp32 ...          # none in 16 bits, in a third of the time
    observe.py --check                # exit 1 where an installed release is not in the data

Models are built from their library's own configurations, on no device, and their forwards run in
training and in inference, each also in 16 bits and under autocast, which show the casts that do
nothing in fp32, on a card that is not there (python/onnxfit/watched.py).  What the
forward of each class calls, and behind which call Python lets go of what it makes, goes to
estimator/observed/libraries.bin, each fact once (estimator/observed/skeletons.h).  What cannot be
built or run is listed with its library's own message: no list of models stands here, and none is
treated by its name.  Needs PyTorch, the libraries, and the target onnxfit_skeletons, built.
"""

import argparse
import gc
import importlib.metadata
import itertools
import logging
import os
import re
import struct
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE)]

RUNS = {"train": "", "train-bf16": "bf16", "train-amp": "amp-bf16",
        "eval": "", "eval-bf16": "bf16", "eval-amp": "amp-bf16"}  # name: precision
DATA = HERE.parent / "estimator/observed/libraries.bin"
TOOL = HERE.parent / "build/release/tools/onnxfit_skeletons"
NAMES = ("torch", "torchvision", "timm", "transformers", "diffusers")  # of packages


def watch(model, given, precision):
    from onnxfit import recording, watched
    from onnxfit.inputs import Inputs
    inputs = Inputs.of(given, model, 0)

    def run(told=None):
        return watched.program(model, inputs, [], [], watched.Precision.of(precision), told)

    try:
        return run()
    except RuntimeError:  # some forwards ask for values
        return recording.record(run).program


def watch_first(model, givens, precision=""):
    """The program of the first of `givens` that the model takes, and that one."""
    failed = None
    for given in givens:
        try:
            return watch(model, given, precision), given
        except Exception as error:
            failed = failed or error
    raise failed or ValueError("nobody knows what its forward takes")


def traits(model, given):
    """What tells models apart but for their sizes: classes, names of children, flags, inputs."""
    def text_of(value):
        return str(value)[:60].split(" at 0x")[0]

    def of(module):
        flags = [(name, text_of(value)) for name, value in sorted(vars(module).items())
                 if name != "training" and not name.startswith("_")
                 and (isinstance(value, (bool, str)) or callable(value))]
        children = {"*" if name.isdigit() else name for name in module._modules}
        absent = [name for group in (module._modules, module._parameters)
                  for name, value in group.items() if value is None]
        return type(module), tuple(sorted(children)), tuple(flags), tuple(absent)

    config = getattr(getattr(model, "config", None), "__dict__", {})
    settings = [(name, text_of(value)) for name, value in config.items()
                if isinstance(value, (bool, str))]
    return frozenset(map(of, model.modules())), tuple(sorted(settings)), tuple(given)


def watch_runs(model, givens, paths):
    """Writes the programs of those runs that `paths` names, as far as they run; raises what the
    first that does not raises.  A mode that does not run is not tried in 16 bits."""
    from onnxfit import watched
    failed, failing = None, set()
    for run, path in paths.items():
        mode = run.split("-")[0]
        if mode in failing:
            continue
        model.train(mode == "train")
        try:
            program, given = watch_first(model, givens, RUNS[run])
        except Exception as error:
            failed = failed or error
            failing.add(mode)
            continue
        watched.save(program, str(path), {})
        givens = [given]
    if failed is not None:
        raise failed


def missing(one, folder):
    """Where the programs of its runs go, by run, but of those that are there."""
    paths = {run: Path(f"{folder}/{one.name}.{run}.pt2") for run, precision in RUNS.items()
             if one.in_16_bits or not precision}
    return {run: path for run, path in paths.items() if not path.exists()}


def watch_architecture(one, folder, seen):
    """Whether it differs from those of `seen`; its runs have files in `folder` then.  What follows
    the first build is for runs that are missing."""
    failed = None
    for build in one.builds:
        paths = missing(one, folder)
        if not paths:
            return False
        try:
            model, givens = build()
            found = traits(model, givens[0])
            if found in seen:
                return False
            watch_runs(model, givens, paths)
            seen.add(found)
            return True
        except Exception as error:
            failed = failed or error
    raise failed


def observe(library, architectures, folder):
    """Writes programs to `folder`, NAME.train.pt2 and so on, but those that are there."""
    seen, failed, made = set(), 0, 0
    for one in architectures:
        try:
            made += watch_architecture(one, folder, seen)
        except Exception as error:
            failed += 1
            reason = (str(error).splitlines() or [""])[0][:120]
            print(f"{one.name}: {type(error).__name__}: {reason}", flush=True)
        gc.collect()
    print(f"{library}: {made} architectures that differ, {failed} not watched", flush=True)


def facts_of(text):
    """Three lines each."""
    lines = text.splitlines(keepends=True)
    return {"".join(lines[at:at + 3]) for at in range(0, len(lines), 3)}


def skeletons(path):
    """The facts of one program."""
    run = path.suffixes[-2][1:]  # NAME.train-amp.pt2
    done = subprocess.run([TOOL, run, path], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{path.name}: {done.stderr.strip()[-200:]}", flush=True)
        return set()
    return facts_of(done.stdout)


def installed():
    """As known_releases."""
    found = set()
    for name in NAMES:
        try:
            found.add((name, importlib.metadata.version(name).split("+")[0]))
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def unpacked():
    """The facts of the data."""
    return facts_of(subprocess.run([TOOL, "--unpack", DATA], capture_output=True, text=True,
                                   check=True).stdout)


def write_changes(before, after):
    """What there is to read of a release: the Python modules whose classes do something else."""
    changed = {}
    for sign, facts in (("+", after - before), ("-", before - after)):
        for fact in facts:
            counts = changed.setdefault(fact.split(None, 1)[0].rpartition(".")[0], {"+": 0, "-": 0})
            counts[sign] += 1
    for module, counts in sorted(changed.items()):
        print(f"  {module}: +{counts['+']} -{counts['-']}")


def pack(folder, adds):
    programs = sorted(Path(folder).glob("*.pt2"))
    before = unpacked()
    facts = {skeleton for path in programs for skeleton in skeletons(path)}
    watched_of = {path.name.split(".")[0] for path in programs} | {"torch"}
    releases = {one for one in installed() if one[0] in watched_of}
    if adds:
        facts |= before
        releases |= known_releases()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("".join(sorted(facts)))
        text.flush()
        named = ", ".join(" ".join(one) for one in sorted(releases))
        subprocess.run([TOOL, "--pack", named, text.name, DATA], check=True)
    after = unpacked()
    write_changes(before, after)
    print(f"{DATA.name}: {len(after)} facts, {len(programs)} programs were read, "
          f"{DATA.stat().st_size} bytes; {named}")


def known_releases():
    """As the data says: {("timm", "1.0.31"), ("torch", "2.11.0")}."""
    data = DATA.read_bytes()
    size, _, _ = struct.unpack_from("<III", data)
    return {tuple(one.split(" ")) for one in data[12:12 + size].decode().split(", ")}


def check():
    known = known_releases()
    missing_ones = sorted(installed() - known)
    for name, version in missing_ones:
        of = [one for library, one in sorted(known) if library == name] or ["none"]
        watched = "" if name == "torch" else f" {name}"  # with torch, all of them
        print(f"{name} {version} is installed, the data is of {', '.join(of)} "
              f"(try: tools/observe.py --add{watched})")
    return 1 if missing_ones else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*")
    parser.add_argument("--keep", metavar="FOLDER", type=Path)
    parser.add_argument("--from", dest="kept", metavar="FOLDER")
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--pick", default="", metavar="REGEX",
                        help="what is in the architectures' names")
    parser.add_argument("--part", default="1/1", metavar="K/N")
    parser.add_argument("--in-fp32", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    part, parts = map(int, args.part.split("/"))
    if args.check:
        return check()
    if args.kept:
        return pack(args.kept, args.add)
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    os.environ["HF_HUB_OFFLINE"] = "1"  # some configurations ask for files, and wait
    import libraries
    import torch
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        for library in args.libraries or libraries.ALL:
            some = (one for one in libraries.ALL[library]() if re.search(args.pick, one.name))
            if args.in_fp32:
                some = (one._replace(in_16_bits=False) for one in some)
            observe(library, itertools.islice(some, part - 1, None, parts), folder)
        if not args.keep:
            pack(folder, args.add)
    return 0


if __name__ == "__main__":
    sys.exit(main())
