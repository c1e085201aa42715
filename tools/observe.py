"""Watches every architecture of the installed libraries, and writes down what their modules do.

    observe.py --skeletons build/release/tools/onnxfit_skeletons FILE [LIBRARY...]

A library's models are built from its own configurations, on no device, and their forwards run once
in training and once in inference, on a card that is not there (python/onnxfit/watched.py).  What
each class's forward calls, and when Python lets go of what it makes, goes to FILE
(estimator/observed/skeletons.h), each fact once.  What cannot be built or run is listed by its
library's own message: no list of models stands here, and no model is treated by its name.
"""

import argparse
import gc
import logging
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE)]
warnings.filterwarnings("ignore")

import torch  # noqa: E402

from onnxfit import recording, watched  # noqa: E402
from onnxfit.inputs import Inputs  # noqa: E402
from libraries import LIBRARIES  # noqa: E402


def watch(model, given):
    inputs = Inputs.of(given, model, 0)
    precision = watched.Precision.of("")

    def run(told=None):
        return watched.program(model, inputs, [], [], precision, told)

    try:
        return run()
    except Exception:  # values are asked for
        return recording.record(run).program


def watch_first(model, given, facts, mode, name):
    """The first of `given`, if it is a list, that the model takes."""
    failed = None
    for one in given if isinstance(given, list) else [given]:
        try:
            facts.add(watch(model, one), mode, name)
            return one
        except Exception as error:
            failed = failed or error
    raise failed


class Facts:
    def __init__(self, tool, keep):
        self.tool = tool
        self.keep = keep
        self.skeletons = {}  # text: which architectures

    def add(self, program, mode, name):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/watched.pt2"
            watched.save(program, path, {})
            if self.keep:
                shutil.copy(path, f"{self.keep}/{name}.{mode}.pt2")
            done = subprocess.run([self.tool, *(["--eval"] if mode == "eval" else []), path],
                                  capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-300:])
        lines = done.stdout.split("\n")
        for at in range(0, len(lines) - 2, 3):
            self.skeletons.setdefault("\n".join(lines[at:at + 3]) + "\n", name)


def traits(model):
    """What tells models apart but for their sizes: classes, names of children, flags."""
    def of(module):
        flags = sorted((name, value) for name, value in vars(module).items()
                       if isinstance(value, (bool, str)) or callable(value) and not name.startswith("_"))
        children = {"*" if name.isdigit() else name for name in module._modules}
        absent = sorted(name for group in (module._modules, module._parameters)
                        for name, value in group.items() if value is None)
        return (type(module), tuple(sorted(children)), tuple((n, str(v)[:60].split(" at 0x")[0]) for n, v in flags
                                                              if n != "training"), tuple(absent))
    return frozenset(map(of, model.modules()))


def observe(library, facts, pick):
    made = failed = same = 0
    seen = set()
    for name, build in LIBRARIES[library]():
        if pick and pick not in name:
            continue
        start = time.time()
        try:
            model, given = build()
            found = traits(model)
            if found in seen:
                same += 1
                continue
            seen.add(found)
            for mode in ("train", "eval"):
                model.train(mode == "train")
                given = [watch_first(model, given, facts, mode, name)]
            made += 1
        except Exception as error:
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}", flush=True)
        model = given = None
        gc.collect()
        if time.time() - start > 20:
            print(f"{name}: {time.time() - start:.0f} s", flush=True)
    print(f"{library}: {made} architectures, {same} more like them, {failed} failed; {len(facts.skeletons)} skeletons", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("libraries", nargs="*", default=list(LIBRARIES))
    parser.add_argument("--skeletons", required=True)
    parser.add_argument("--pick", default="", help="a part of the architectures' names")
    parser.add_argument("--keep", help="a folder for what was watched")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    facts = Facts(args.skeletons, args.keep)
    for library in args.libraries:
        observe(library, facts, args.pick)
        Path(args.file).write_text("".join(sorted(facts.skeletons)))


if __name__ == "__main__":
    main()
