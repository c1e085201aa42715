"""Runs of the ways by the driver that measured them on the card (../ways/card_truths.py), unchanged.

    onnxfit run -g h200 -- python ways_runs.py OUT.jsonl NETWORK/WAY/PRECISION... [--events EVENTS.jsonl]

Each run is a process of its own, as on the card.
"""

import argparse
import importlib
import importlib.util
import logging
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "ways"))
import card_truths  # noqa: E402
import recorder  # noqa: E402
from card_truths import WAYS, torch, truths  # noqa: E402


def import_once():
    """truths.import_once, of what is installed: ways of other libraries tell that they are not."""
    ask = torch.cuda.get_device_capability
    torch.cuda.get_device_capability = lambda device=None: (9, 0)  # bitsandbytes asks
    for library in ["accelerate", "bitsandbytes", "peft", "schedulefree"]:
        if importlib.util.find_spec(library):
            importlib.import_module(library)
    torch.cuda.get_device_capability = ask


def recording(run, path):
    """card_truths.run, which also writes what was allocated and freed, in recorder.py's words."""
    def recorded(name, family, way_name, target, setting):
        recorder.start()
        line = run(name, family, way_name, target, setting)
        words = " ".join(filter(None, map(recorder.Recorder().word, recorder.entries())))
        card_truths.append(path, {key: line[key] for key in ("model", "way", "batch", "precision")}
                           | {"events": words})
        return line
    return recorded


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="+", metavar="NETWORK/WAY/PRECISION")
    parser.add_argument("--events", type=Path)
    args = parser.parse_args()
    WAYS.update(card_truths.OF_CARDS)
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # threads do not outlive a fork
    truths.zoo.asking_no_device()
    import_once()
    if args.events:
        card_truths.run = recording(card_truths.run, args.events)
    runs = [run.split("/") for run in args.runs]
    found = card_truths.families(sorted({name for name, _, _ in runs}))
    for name, way, precision in runs:
        begin = time.time()
        try:
            card_truths.measure(args.out, name, found[name], [way], precision, float("inf"))
        except Exception as error:  # told in a line, the list goes on
            card_truths.append(args.out, {"model": name, "way": way, "error": repr(error)[:400]})
        print(f"{time.time() - begin:6.1f} s {name} {way}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
