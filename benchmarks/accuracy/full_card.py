"""Whether the card at hand holds the largest batch that onnxfit max-batch says, and how much more.

    full_card.py OUT.jsonl [MODEL...] --models FOLDER [--binary onnxfit]
    full_card.py data/cards/h200_full.jsonl --table      # as a table

Of each network of zoo.py and precision: asks for the largest batch of AdamW on this card, trains three
steps of it, then of batches ever larger (by 2 %, 5 %, 10 %, 20 %) until the card is out of memory.  A line
each: what was said, what ran, what did not.  Needs a CUDA card that nothing else uses.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from card_table import find_models
from runs import ROOT, by_version, given_flags

PRECISIONS = ["fp32", "amp-bf16"]
SHARES = [0, .02, .05, .1, .2]  # beyond what was said


def said(binary, gpu, model, kind, path, precision):
    """The largest batch that does not end in out of memory, and the verdict on it."""
    command = [binary, "max-batch", str(path), "--gpu", gpu, "-p", precision, "-o", "adamw",
               *given_flags(model, kind), *by_version([]), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode not in (0, 1):
        return {"error": (done.stderr or done.stdout)[-200:]}
    target = json.loads(done.stdout)["targets"][0]
    return {"max_batch": target["max_batch"], "verdict": target["target"]["verdict"]}


def trained(model, batch, precision):
    """Figures of three steps, or the error; a process of its own."""
    import on_card
    import zoo
    network = zoo.NETWORKS[model]

    def work():
        run = on_card.Run(model, batch, precision, "adamw", "train", "default")
        return on_card.measure(run, network, network.build(), None)
    return on_card.in_own_process(work)


def tried(model, batch, precision):
    found = trained(model, batch, precision)
    if "steps" not in found or "oom" in found:
        return {"batch": batch, "failed": (found.get("oom") or found.get("error", ""))[:100]}
    reserved = max(step["peak"]["reserved"] for step in found["steps"])
    outside = max(max(step["outside"].values()) for step in found["steps"])
    return {"batch": batch, "reserved": reserved, "outside": outside, "retries": found["retries"]}


def line(args, model, kind, path, precision):
    report = said(args.binary, args.gpu, model, kind, path, precision)
    found = {"model": model, "kind": kind, "precision": precision}
    if "error" in report or not report.get("max_batch"):
        return {**found, "said": report}
    largest = report["max_batch"]
    runs = []
    for share in SHARES:
        batch = largest + int(largest * share) if share else largest
        runs.append(tried(model, batch, precision))
        print(model, precision, runs[-1], file=sys.stderr, flush=True)
        if "failed" in runs[-1]:
            break
    return {**found, "said": report, "runs": runs}


def percent(batch, said):
    return f"{batch} ({100 * batch / said - 100:+.1f} %)" if batch != said else str(batch)


def print_table(lines):
    """What ran last, and what did not; "-" where nothing larger was tried."""
    print("| network, training, adamw | largest batch, as said | verdict | the card ran | "
          "and not |\n|---|---|---|---|---|")
    for found in lines:
        said_of_it = found["said"]["max_batch"]
        ran = max(run["batch"] for run in found["runs"] if "failed" not in run)
        failed = [run["batch"] for run in found["runs"] if "failed" in run]
        print(f"| {found['model']}, {found['precision']} | {said_of_it} | {found['said']['verdict']} "
              f"| {percent(ran, said_of_it)} | "
              f"{percent(min(failed), said_of_it) if failed else '-'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--gpu", default="auto")
    parser.add_argument("--models", dest="folder", help="a folder of exports")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        return print_table(map(json.loads, args.output.read_text().splitlines()))
    if not args.folder:
        parser.error("expected a folder of exports: --models")
    import torch
    torch.set_num_threads(1)  # threads do not outlive a fork
    exports = find_models(args.folder)
    for model in args.models or exports:
        for precision in PRECISIONS:
            with args.output.open("a") as file:
                file.write(json.dumps(line(args, model, *exports[model], precision)) + "\n")


if __name__ == "__main__":
    main()
