"""Runs of the zoo by the driver that measured them on the card (../zoo/card_truths.py), unchanged.

    onnxfit run -g h200 -- python zoo_runs.py OUT.jsonl FAMILY... [--events EVENTS.jsonl]

One process imports the libraries; each family's runs have one of their own, forked from it, whose
allocator is empty before each run, as on the card.
"""

import argparse
import logging
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "zoo"))
import card_truths  # noqa: E402
from card_truths import recurrent, torch, truths, zoo  # noqa: E402

RECURRENT = "recurrent."


def families(names):
    """{name: Family}, those of ../recurrent by that beginning."""
    layers = {RECURRENT + name: family for name, family in recurrent.families().items()
              if RECURRENT + name in names}
    others = [name for name in names if not name.startswith(RECURRENT)]
    return layers | (zoo(others) if others else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("families", nargs="+")
    parser.add_argument("--events", type=Path)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # threads do not outlive a fork
    truths.asking_no_device()
    output = card_truths.Output(args.out, args.events)
    for name, family in families(args.families).items():
        begin = time.time()
        try:
            card_truths.measure(name, family, truths.SETTINGS, output)
        except Exception as error:  # told in a line, the list goes on
            output.add(card_truths.failed(name, "", error))
        print(f"{time.time() - begin:6.1f} s {name}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
