"""The zoo: how far estimates, own guesses alone, are from what PyTorch's allocator counted.

    compare.py                 # by kind of export and library: answered, to the byte, how far off
    compare.py -v [FAMILY...]  # the largest error of each family and kind that is not right
    compare.py --check         # exit 1 where a run is not as zoo.csv has it
    compare.py --update        # writes zoo.csv
    compare.py --exports FOLDER --truths FILE.jsonl...   # of others than data/
    compare.py --card h200                               # beside what a card took; card_h200.csv

data/truth*.json.xz hold what truths.py wrote, data/models*.tar.xz what exports.py wrote, and of
watched.py some programs.
"""

import argparse
import fnmatch
import json
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
import committed  # noqa: E402
from registry import FILES, watched_file  # noqa: E402
from runs import PYTORCH, ROOT, TRUTHS_ARE_OF  # noqa: E402
from sample import one_in  # noqa: E402

FIGURES = {"exact": "requested", "allocated": "allocated", "reserved": "reserved"}
OFF = 0.005  # of a figure: what -v shows
PROGRAMS = ("pt2-train", "pt2-eval")  # what is compared with a card
WATCHED = "watched"  # asked from Python (watched.py); a program is of one mode and precision
KINDS = (*FILES, WATCHED)


def worse(before, row):
    if bool(before["refused"]) != bool(row["refused"]):
        return [f"refused: {row['refused']}"] if row["refused"] else []
    return [f"{name} {row[name]} %, not {before[name]}" for name in FIGURES
            if row[name] != "" and abs(float(row[name])) > abs(float(before[name]))]


def table_in(name):
    return committed.Table(HERE / name, ["family", "kind", "run"], [*FIGURES, "refused"], worse,
                           lambda row: not row["refused"]
                           and not any(float(row[name]) for name in FIGURES))


TABLE = table_in("zoo.csv")


# --- Runs ------------------------------------------------------------------------------------

def card_truths(name):
    """Of data/card_NAME.json.xz, which card_truths.py wrote; estimates are of that card."""
    with lzma.open(HERE / f"data/card_{name}.json.xz", "rt") as file:
        runs = json.load(file)["runs"]
    return [{**run, "flags": f"{run['flags']} --gpu {name}"} for run in runs
            if not run["model"].startswith("recurrent.")]


def read_truths(paths):
    truths = []
    for path in paths:
        if path.suffix == ".xz":
            with lzma.open(path, "rt") as file:
                truths += json.load(file)
        else:
            truths += map(json.loads, path.read_text().splitlines())
    return truths


def unpack(folder, others=()):
    """The zoo's exports, and the .pt2 in training mode of ../accuracy of these names."""
    for path in sorted((HERE / "data").glob("models*.tar.xz")):
        with tarfile.open(path) as archive:
            archive.extractall(folder)
    if not others:
        return
    with tarfile.open(HERE.parent / "accuracy/data/models_pt2.tar.xz") as archive:
        for member in {f"{name}.{FILES['pt2-train']}" for name in others} & set(archive.getnames()):
            archive.extract(member, folder)


def file_of(truth, kind):
    return watched_file(truth) if kind == WATCHED else f"{truth['model']}.{FILES[kind]}"


def jobs_of(truths, folder, families, kinds=KINDS):
    """(truth, kind, path) of all that have an export; a .pt2 is of one mode."""
    return [(truth, kind, path) for truth in truths
            if not families or any(fnmatch.fnmatchcase(truth["model"], f) for f in families)
            for kind in kinds if PYTORCH.get(kind, truth["mode"]) == truth["mode"]
            for path in [Path(folder) / file_of(truth, kind)] if path.exists()]


def key_of(truth, kind):
    run = f"b{truth['batch']} {truth['precision']} {truth['optimizer']} {truth['mode']}"
    return {"family": truth["model"], "kind": kind, "run": run}


def percent_off(truth, report):
    """Of the step that is the furthest off; reserved, of all steps' peak."""
    pairs = list(zip(truth["steps"], report["steps"]))
    found = {}
    for ours, theirs in FIGURES.items():
        errors = [estimated[f"peak_{ours}"] / true["peak"][theirs] - 1 for true, estimated in pairs]
        found[ours] = max(errors, key=abs)
    reserved = [max(step["peak"]["reserved"] for step in truth["steps"]),
                max(step["peak_reserved"] for step in report["steps"])]
    found["reserved"] = reserved[1] / reserved[0] - 1
    return {name: shown(100 * error) for name, error in found.items()}


def shown(percent):
    """0 is to the byte; what rounds to it is not."""
    if percent == 0:
        return "0"
    text = f"{percent:.3f}"
    return text if float(text) else ("0.001" if percent > 0 else "-0.001")


def estimate(binary, truth, kind, path):
    row = {**key_of(truth, kind), **dict.fromkeys(FIGURES, ""), "refused": ""}
    command = [binary, str(path), "-b", str(truth["batch"]), "-p", truth["precision"],
               "-o", truth["optimizer"], "--mode", truth["mode"], "--framework",
               truth.get("framework", TRUTHS_ARE_OF), "--format", "json", "-n", "0", *truth["flags"].split()]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=120)
    if result.returncode == 0:
        return {**row, **percent_off(truth, json.loads(result.stdout))}
    if result.returncode != 2 or not result.stderr.startswith("error: "):
        return {**row, "refused": f"CRASHED {result.returncode} {result.stderr[-100:]}"}
    return {**row, "refused": result.stderr.splitlines()[0][7:].split(": ", 1)[-1][:100]}


def measure(args):
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = args.exports or scratch
        if not args.exports:
            unpack(scratch)
        truths = card_truths(args.card) if args.card else \
            read_truths(args.truths or sorted(HERE.glob("data/truth*.json.xz")))
        kinds = PROGRAMS if args.card else KINDS
        keys = [tuple(key_of(truth, kind).values())
                for truth, kind, _ in jobs_of(truths, folder, [], kinds)]
        jobs = one_in(args.every, jobs_of(truths, folder, args.families, kinds))
        return list(pool.map(lambda job: estimate(args.binary, *job), jobs)), keys


# --- What is printed -------------------------------------------------------------------------

def quantile(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def line(kind, mode, library, rows):
    answered = [row for row in rows if not row["refused"]]
    if not answered:
        return
    errors = sorted(abs(float(row["exact"])) for row in answered)
    right = sum(error == 0 for error in errors)
    close = sum(error <= 100 * OFF for error in errors)
    print(f"| `{kind}` | {mode} | {library} | {len({row['family'] for row in rows})} | {len(rows)} "
          f"| {100 * len(answered) / len(rows):.0f} % | {100 * right / len(rows):.1f} % "
          f"| {100 * close / len(rows):.1f} % | {quantile(errors, .5):.2f} % "
          f"| {quantile(errors, .95):.1f} % | {errors[-1]:.1f} % |")


def print_summary(rows):
    print("| export | mode | library | families | runs | answered | to the byte | within 0.5 % "
          "| median | 95 % | worst |\n|---|---|---|---|---|---|---|---|---|---|---|")
    libraries = sorted({row["family"].split(".")[0] for row in rows})
    for mode in ("train", "eval"):
        for kind in KINDS:
            some = [row for row in rows if row["kind"] == kind and row["run"].endswith(mode)]
            line(kind, mode, "all", some)
            for library in libraries:
                line(kind, mode, library,
                     [row for row in some if row["family"].startswith(library + ".")])


def card_line(precision, mode, rows):
    """A line for the peak that was requested, one for what was reserved."""
    for figure in ("exact", "reserved"):
        errors = sorted(abs(float(row[figure])) for row in rows if not row["refused"])
        shares = [100 * sum(error <= most for error in errors) / len(rows) for most in (0, .5, 3)]
        print(f"| {precision} | {mode} | {'requested' if figure == 'exact' else figure} "
              f"| {len(rows)} | {shares[0]:.1f} % | {shares[1]:.1f} % | {shares[2]:.1f} % "
              f"| {quantile(errors, .5):.2f} % | {quantile(errors, .95):.1f} % "
              f"| {errors[-1]:.1f} % |")


def print_card(rows):
    print("| precision | mode | peak | runs | to the byte | within 0.5 % | 3 % | median | 95 % "
          "| worst |\n|---|---|---|---|---|---|---|---|---|---|")
    runs = sorted({tuple(row["run"].split()[1::2]) for row in rows}, key=lambda run: run[::-1])
    for precision, mode in runs:
        card_line(precision, mode, [row for row in rows
                                    if row["run"].split()[1::2] == [precision, mode]])


def print_wrong(rows):
    """One line for each family, kind and mode: its largest error."""
    seen = set()
    for row in sorted(rows, key=lambda row: -abs(float(row["exact"] or 1e9))):
        key = row["family"], row["kind"], row["run"].rsplit(" ", 1)[-1]
        if key in seen or row["exact"] == "0":
            continue
        seen.add(key)
        figures = " ".join(f"{name} {float(row[name]):+.3f} %" for name in FIGURES if row[name])
        print(f"{row['family']:36} {row['kind']:10} {row['run']:24} {row['refused'] or figures}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--committed", action="store_true", help="what zoo.csv says")
    parser.add_argument("--exports", type=Path, metavar="FOLDER")
    parser.add_argument("--truths", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--card", metavar="NAME", help="beside data/card_NAME.json.xz")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one run in N")
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not right")
    parser.add_argument("families", nargs="*")
    committed.add_arguments(parser)
    args = parser.parse_intermixed_args()
    table = table_in(f"card_{args.card}.csv") if args.card else TABLE
    return committed.answer(args, table, lambda: measure(args), print_wrong,
                            print_card if args.card else print_summary)


if __name__ == "__main__":
    sys.exit(main())
