"""Families asked from Python: watched (python/onnxfit), and how far that is from what PyTorch's
allocator counted.  Needs PyTorch and the libraries of README.md.

    watched.py [FAMILY...]       # by library and mode: answered, to the byte, how far off
    watched.py -v [FAMILY...]    # what is not right
    watched.py --committed [-v]  # what watched.csv says (needs no PyTorch)
    watched.py --check           # exit 1 where a run is not as watched.csv has it
    watched.py --update [FAMILY...]    # writes watched.csv, of all families or these
    watched.py --keep FOLDER     # keeps the programs, of which data/models_watched.tar.xz has some
    watched.py --part K/N --rows FILE  # of N parts the K-th, its rows to FILE; --from FILE... reads them

Three quarters of an hour on one core.  `told` says who answered what code asked of values: "chance"
where random numbers do (at their mean), as of layers that are dropped now and then, "guess" where
nobody knows.  The truth drew its own numbers: those rows are a summary's line by themselves.
"""

import argparse
import fnmatch
import json
import logging
import os
import re
import signal
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

from compare import FIGURES, HERE, committed, estimate, key_of, quantile, read_truths, worse
from registry import watched_file
from runs import ROOT

SECONDS = 300  # for one program
TOLD = {"random numbers at their mean": "chance", "a guess": "guess"}  # guesses.py's words

TABLE = committed.Table(HERE / "watched.csv", ["family", "run"], [*FIGURES, "refused", "told"], worse,
                        lambda row: not row["refused"]
                        and not any(float(row[name]) for name in FIGURES))


# --- One program -------------------------------------------------------------------------------


def without_folders(program):
    """Source lines name files below site-packages, or files alone."""
    for node in program.json["graph_module"]["graph"]["nodes"]:
        trace = node["metadata"].get("stack_trace", "")
        trace = re.sub(r'File "[^"]*?site-packages/', 'File "', trace)
        node["metadata"]["stack_trace"] = re.sub(r'File "/[^"]*/', 'File "', trace)
    return program


@contextmanager
def limited(seconds):
    def late(*_):
        raise TimeoutError(f"not watched within {seconds} seconds")
    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def watch(family, model, truth, path):
    """Writes the program of a run, as onnxfit.estimate does; returns what was told to the code."""
    import torch
    from onnxfit import programs, watched
    from onnxfit.errors import noted
    from onnxfit.inputs import Inputs
    inputs = tuple(family.inputs(truth["batch"], "meta", torch.float32).values())
    with noted() as said, warnings.catch_warnings(), limited(SECONDS):
        warnings.simplefilter("ignore")
        made = programs.program(model, inputs, precision=truth["precision"], mode=truth["mode"])
        notes = programs.notes_json((), programs.place_of_batch(made, Inputs.of(inputs, model, 0)))
    watched.save(without_folders(made), str(path),
                 {f"extra/{programs.NOTES_MEMBER}": notes} if notes else {})
    text = "\n".join(said)
    return " ".join(name for words, name in TOLD.items() if words in text)


def on_meta(family):
    """The model without weights; what its constructor makes on the host goes with the rest."""
    import torch
    from family import without_weights
    moved = {}

    def moved_from(tensor):
        if tensor is None or tensor.is_meta:
            return tensor
        if id(tensor) not in moved:
            made = tensor.detach().to("meta")
            if isinstance(tensor, torch.nn.Parameter):
                made = torch.nn.Parameter(made, tensor.requires_grad)
            moved[id(tensor)] = made, tensor
        return moved[id(tensor)][0]
    model = without_weights(family)
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            tensors.update({name: moved_from(tensor) for name, tensor in tensors.items()})
    return model


def one(args, family, model, truth, path):
    row = {**key_of(truth, "watched"), **dict.fromkeys(FIGURES, ""), "told": ""}
    begin = time.time()
    try:
        told = watch(family, model, truth, path)
    except Exception as error:
        return {**row, "refused": re.sub(r"\s+", " ", f"{error}")[:100] or type(error).__name__}
    seconds = time.time() - begin
    return {**estimate(args.binary, truth, "watched", path), "told": told, "seconds": seconds}


def measure(args):
    import torch
    from registry import zoo
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    os.environ["ONNXFIT_BINARY"] = args.binary
    truths = {}
    for truth in read_truths([HERE / "data/truth.json.xz"]):
        truths.setdefault(truth["model"], []).append(truth)
    rows = []
    part, parts = map(int, args.part.split("/"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        chosen = [each for each in zoo(args.families).items() if each[0] in truths]
        for name, family in chosen[part - 1::parts]:
            model = on_meta(family)
            for truth in truths[name]:
                path = folder / watched_file(truth)
                rows.append(one(args, family, model, truth, path))
                if not args.keep:
                    path.unlink(missing_ok=True)
            if args.rows:
                args.rows.write_text(json.dumps(rows))
    return rows


# --- What is printed -------------------------------------------------------------------------


def line(mode, library, rows):
    answered = [row for row in rows if not row["refused"]]
    if not answered:
        return
    errors = sorted(abs(float(row["exact"])) for row in answered)
    shares = [100 * sum(not row["refused"] and row[name] == "0" for row in rows) / len(rows)
              for name in FIGURES]
    print(f"| {mode} | {library} | {len({row['family'] for row in rows})} | {len(rows)} "
          f"| {100 * len(answered) / len(rows):.1f} % | "
          + " | ".join(f"{share:.1f} %" for share in shares)
          + f" | {quantile(errors, .99):.2f} % | {errors[-1]:.1f} % |")


def print_summary(rows):
    print("| mode | library | families | runs | answered | exact to the byte | allocated | reserved "
          "| 99 % | worst |\n|---|---|---|---|---|---|---|---|---|---|")
    drawn = [row for row in rows if "chance" in row["told"]]
    others = [row for row in rows if "chance" not in row["told"]]
    for mode in ("train", "eval"):
        some = [row for row in others if row["run"].endswith(mode)]
        line(mode, "all", some)
        for library in sorted({row["family"].split(".")[0] for row in some}):
            line(mode, library, [row for row in some if row["family"].startswith(library + ".")])
    line("both", "drawn by chance", drawn)


def print_wrong(rows):
    for row in sorted(rows, key=lambda row: -abs(float(row["exact"] or 1e9))):
        if row["exact"] != "0":
            figures = " ".join(f"{name} {row[name]} %" for name in FIGURES if row[name])
            print(f"{row['family']:36} {row['run']:24} {row['refused'] or figures} {row['told']}")


def of_others(rows):
    """`rows`, and those of watched.csv of families that were not asked."""
    asked = {row["family"] for row in rows}
    return [row for row in TABLE.read().values() if row["family"] not in asked] + rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--committed", action="store_true", help="what watched.csv says")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for the programs")
    parser.add_argument("--part", default="1/1", help="of N equal parts, the K-th")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="for the rows, as they come")
    parser.add_argument("--from", type=Path, nargs="+", metavar="FILE", dest="made",
                        help="rows that were made before")
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not right")
    parser.add_argument("families", nargs="*")
    committed.add_arguments(parser)
    args = parser.parse_intermixed_args()

    def measured():
        rows = [row for path in args.made for row in json.loads(path.read_text())] if args.made \
            else measure(args)
        if (args.families or args.made) and (args.update or args.check) and TABLE.path.exists():
            rows = of_others(rows)
        rows.sort(key=TABLE.key_of)
        return rows, [TABLE.key_of(row) for row in rows]
    return committed.answer(args, TABLE, measured, print_wrong, print_summary)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "python"))
    sys.exit(main())
