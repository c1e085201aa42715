"""The truths of this repository, made again on the card that is not there: what their drivers, unchanged,
count under `onnxfit run -g a100-80gb`, beside what is committed.

    truths.py --committed           # truths.csv, by set: to the byte, how far off
    truths.py --committed -v        # what is not right
    truths.py --check               # exit 1 where a case is not as truths.csv has it (needs PyTorch)
    truths.py --update              # writes truths.csv
    truths.py --every N             # one case in N; with --check and none of the others
    truths.py --only zoo ways       # these sets alone

A case is a network, a way to train, or an operator, with all its runs.
PyTorch 2.11.0 and the libraries of ../zoo/README.md (but for diffusers) and of ../ways/table.py are those of
--python, this one's where it is not given.
"""

import argparse
import json
import lzma
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Callable, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
import committed  # noqa: E402
from compare import shown  # noqa: E402
from runs import ROOT  # noqa: E402
from sample import one_in  # noqa: E402

CARD = "a100-80gb"  # as the truths' runtime looks: capability 8.0, 108 multiprocessors
# Of the ways, every one on these.
NETWORKS = ("gpt2", "transformers.llama", "torchvision.resnet18")

# Ways that need a library which is not on PyPI, a compiler of CUDA, or a newer PyTorch.
OTHERS = ("soap", "musgd", "ultralytics", "zero2", "zero3")
# Whose truths older drivers made, which are not here.
NOT_BUILT = ("bert_base", "distilgpt2", "gpt2", "mt5_large", "t5_small", "vit_b_16", "efficientnet_v2_s", "googlenet",
             "groupnorm_net", "lraspp", "mnasnet1_0", "mobilenet_v3_small", "regnet_y_400mf", "resnext50_32x4d",
             "shufflenet_v2_x1_0", "squeezenet1_1", "vgg11_bn")


class Set(NamedTuple):
    truths: str    # under benchmarks/
    driver: str
    every: int     # one case in so many is in truths.csv
    case: Callable[[dict], str]
    setting: tuple  # what tells the runs of a case apart
    arguments: Callable[[str, list], list]  # of the output and the cases: the driver's
    is_asked: Callable[[dict], bool] = lambda run: True


def of_model(run):
    return run["model"]


def named(out, cases):
    return [out, *cases]


SETS = {
    "networks": Set("accuracy/data/truth.json.xz", "accuracy/measure_again.py", 1, of_model,
                    ("batch", "precision", "optimizer", "mode"),
                    lambda out, cases: [str(ROOT / "benchmarks/accuracy/data/truth.json.xz"), out, *cases],
                    lambda run: run["model"] not in NOT_BUILT),
    "transformers": Set("accuracy/data/truth_transformers.json.xz", "accuracy/measure_transformers.py", 3, of_model,
                        ("batch", "precision", "optimizer", "mode", "flags"), named,
                        lambda run: run["model"] not in NOT_BUILT),
    "zoo": Set("zoo/data/truth.json.xz", "zoo/truths.py", 6, of_model,
               ("batch", "precision", "optimizer", "mode"), named,
               lambda run: not run["model"].startswith("diffusers.")),
    "ways": Set("ways/data/truth.json.xz", "ways/truths.py", 1, lambda run: run["way"], ("model", "batch", "precision"),
                lambda out, cases: [out, "--networks", *NETWORKS, "--ways", *cases],
                lambda run: run["model"] in NETWORKS and not run["way"].startswith(OTHERS)),
    "op_db": Set("accuracy/data/op_db.json.xz", "accuracy/measure_op_db.py", 3, lambda run: run["operator"],
                 ("precision",), lambda out, cases: [out, "--figures", *cases]),
}


def worse(before, row):
    if bool(before["failed"]) != bool(row["failed"]):
        return [f"failed: {row['failed']}"] if row["failed"] else []
    if int(row["right"]) < int(before["right"]):
        return [f"{row['right']} of {row['runs']} right, not {before['right']}"]
    return []


TABLE = committed.Table(HERE / "truths.csv", ["of", "case"], ["runs", "right", "worst", "failed"], worse,
                        lambda row: row["right"] == row["runs"])


def truths_of(name):
    """{case: {setting: run}} of those that have figures."""
    cases = defaultdict(dict)
    with lzma.open(HERE.parent / SETS[name].truths, "rt") as file:
        for run in json.load(file):
            if run.get("steps") and SETS[name].is_asked(run):
                cases[SETS[name].case(run)][setting_of(name, run)] = run
    return cases


def setting_of(name, run):
    return tuple(str(run.get(key, "")) for key in SETS[name].setting)


def made(args, name, cases, folder):
    """{case: {setting: run}}, by the driver."""
    what, out = SETS[name], Path(folder) / f"{name}.jsonl"
    command = [args.binary, "run", "-g", CARD, "--", args.python, "-B", str(HERE.parent / what.driver),
               *what.arguments(str(out), cases)]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   check=False)
    found = defaultdict(dict)
    for line in out.read_text().splitlines() if out.exists() else []:
        run = json.loads(line)
        found[what.case(run)][setting_of(name, run)] = run
    return found


def off(truth, run):
    """The peak that is furthest off, in percent; 0 where all figures of all steps are the same."""
    if not run or not run.get("steps"):
        return None
    if run["steps"] == truth["steps"]:
        return 0
    peaks, wanted = peaks_of(run), peaks_of(truth)
    errors = [100 * (peaks[name] / wanted[name] - 1) for name in wanted if wanted[name]]
    return max(errors, key=abs) or 1e-9  # what is kept between phases is other


def peaks_of(run):
    """{figure: the highest of the steps}; drivers of operators name each."""
    steps = [step.get("peak") or {key: step[key] for key in step if key.startswith("peak")} for step in run["steps"]]
    return {name: max(step[name] for step in steps) for name in steps[0]}


def row_of(name, case, truths, runs):
    errors = [off(truth, runs.get(setting)) for setting, truth in truths.items()]
    counted = [error for error in errors if error is not None]
    return {"of": name, "case": case, "runs": len(errors), "right": counted.count(0),
            "worst": shown(max(counted, key=abs)) if counted else "",
            "failed": "" if len(counted) == len(errors) else f"{len(errors) - len(counted)} of {len(errors)}"}


def measure(args):
    rows, keys = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only:
            truths = truths_of(name)
            cases = sorted(truths)[::SETS[name].every]
            keys += [(name, case) for case in cases]
            cases = one_in(args.every, cases)
            runs = made(args, name, cases, folder)
            rows += [row_of(name, case, truths[case], runs[case]) for case in cases]
    return rows, keys


# --- What is printed ---------------------------------------------------------------------------

def print_summary(rows):
    print("| of | cases | runs | to the byte | cases within 0.5 % | worst | not run |\n|---|---|---|---|---|---|---|")
    for name in SETS:
        some = [row for row in rows if row["of"] == name]
        if not some:
            continue
        worst = [abs(float(row["worst"])) for row in some if row["worst"]]
        runs, right = (sum(int(row[key]) for row in some) for key in ("runs", "right"))
        failed = sum(int(row["failed"].split()[0]) for row in some if row["failed"])
        print(f"| {name} | {len(some)} | {runs} | {100 * right / runs:.1f} % | "
              f"{100 * sum(error <= .5 for error in worst) / len(some):.0f} % | {max(worst, default=0):.1f} % | {failed} |")


def print_wrong(rows):
    for row in sorted(rows, key=lambda row: -abs(float(row["worst"] or 1e9))):
        if int(row["right"]) < int(row["runs"]):
            print(f"{row['of']:13}{row['case']:44}{row['right']:>3} of {row['runs']:>2} right, worst "
                  f"{row['worst'] or '-'} %" + (f", not run: {row['failed']}" if row["failed"] else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--python", default=sys.executable, help="with PyTorch")
    parser.add_argument("--committed", action="store_true", help="what truths.csv says")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one case in N")
    parser.add_argument("--only", nargs="+", default=list(SETS), choices=list(SETS), help="these sets alone")
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not right")
    committed.add_arguments(parser)
    args = parser.parse_args()
    def of_these(show):
        return lambda rows: show([row for row in rows if row["of"] in args.only])
    return committed.answer(args, TABLE, lambda: measure(args), of_these(print_wrong), of_these(print_summary))


if __name__ == "__main__":
    sys.exit(main())
