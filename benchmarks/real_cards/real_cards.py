"""What others measured on real cards, beside estimates of the same runs; nothing is fitted to it.

    real_cards.py                  # by source, kind of model and card: how far off, verdicts
    real_cards.py -v               # each run
    real_cards.py --only xMem      # runs with that text in a column
    real_cards.py --check          # exit 1 where an answer is not as answers.csv has it
    real_cards.py --update         # writes answers.csv
    real_cards.py --flags "--cudnn /usr/lib"    # further flags of every estimate

runs.csv has a run per row: where it is published, what ran, what was measured.  `export` is a file
of data/models*.tar.xz that fits it, empty where none is made yet; `flags` are what is known of its
loop; `others` what other estimators answered for the same run: [bytes, whether out of memory].
"""

import argparse
import csv
import functools
import json
import os
import shlex
import statistics
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Iterable, NamedTuple, Optional

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
import committed  # noqa: E402
import contributions  # noqa: E402
from runs import by_version  # noqa: E402
from sample import one_in  # noqa: E402

UNITS = {"B": 1, "MiB": 2**20, "GiB": 2**30, "GB": 10**9}
# nvml_delta: NVML's peak less what the process had before, its context.  allocated, reserved:
# PyTorch's peaks.  allocated+ddp: with DDP's buckets, which hold all gradients.  allocated-first:
# where the first step has the longest texts, or is the only one.  device: cudaMemGetInfo's count.
# forward: what a first forward leaves beyond what was there.
MEASURED = ("nvml_delta", "nvidia-smi", "allocated", "allocated+ddp", "allocated-first",
            "reserved", "device", "forward")
TELLS_VERDICT = ("nvml_delta", "oom")  # the run was let have the whole card
BOUNDS = (0.01, 0.03, 0.05, 0.10)

Row = dict[str, str]


class Answer(NamedTuple):
    """What is said of a run.  `off` is a share of what was measured, None where only its verdict
    counts."""
    run: Row
    answer: str = ""
    off: Optional[float] = None
    verdict: str = ""
    refused: str = ""


# --- Runs ------------------------------------------------------------------------------------

def read_runs() -> list[Row]:
    with (HERE / "runs.csv").open(newline="") as file:
        return list(csv.DictReader(file)) + contributions.rows()


def unpack(folder: str) -> None:
    for path in (HERE / "data").glob("models*.tar.xz"):
        with tarfile.open(path) as archive:
            archive.extractall(folder)
    contributions.unpack(folder)


def jobs_of(runs: Iterable[Row], only: str) -> list[Row]:
    return [run for run in runs if run["export"] and only in ",".join(run.values())]


def measured_bytes(run: Row) -> float:
    return float(run["real"]) * UNITS[run["unit"]]


def other_answers(run: Row) -> dict[str, tuple[Optional[float], bool]]:
    """{estimator: (bytes, whether it says out of memory)}"""
    return json.loads(run["others"] or "{}")


def ran_out(run: Row) -> bool:
    return run["metric"] == "oom"


# --- Estimates -------------------------------------------------------------------------------

def ask(binary: str, command: str, run: Row, folder: str, flags: list[str]) -> tuple[dict, str]:
    """(what it answers, "") or ({}, why it does not)."""
    asked = [*shlex.split(run["flags"]), *shlex.split(run["target"]), *flags]
    done = subprocess.run([binary, command, f"{folder}/{run['export']}", *asked,
                           *by_version(asked),
                           "--format", "json", "--calibration", "none"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if done.returncode in (0, 1):
        return json.loads(done.stdout), ""
    return {}, (done.stderr or f"crashed: {done.returncode}").splitlines()[0][:100]


def beside_interval(most: int, lowest: int, too_large: int) -> float:
    """0 where the largest batch lies in [lowest, too_large), else its distance to that."""
    if most < lowest:
        return most / lowest - 1
    return max(0.0, most / (too_large - 1) - 1)


def largest_batch(run: Row, said: dict) -> Answer:
    most = said["targets"][0]["max_batch"]
    off = beside_interval(most, int(run["real"]), int(run["next_batch"]))
    return Answer(run, str(most), off)


def reserved_on_card(said: dict) -> int:
    """Where a card is full, cached memory goes back before more is reserved."""
    target, peak = said["targets"][0], said["peak"]
    if target["verdict"] == "oom" or not target.get("retries"):
        return peak["reserved_bytes"]  # a verdict goes by the worse of two ways to read a file
    return target["used_bytes"] - (peak["device_bytes"] - peak["reserved_bytes"])


def forward_of(said: dict) -> int:
    """What a first forward leaves, less what was there before it."""
    model = said["model"]
    inputs = sum(part["bytes"] for part in said["breakdown"] if part["kind"] == "inputs")
    return (said["steps"][0]["after_forward"] - model["parameter_bytes"] - model["buffer_bytes"]
            - inputs)


def peak_of(run: Row, said: dict) -> int:
    if run["metric"] == "reserved":
        return said["peak"]["reserved_bytes"]
    if run["metric"] in ("nvidia-smi", "device"):
        return said["peak"]["device_bytes"]
    if run["metric"] == "allocated":
        return said["peak"]["allocated_bytes"]
    if run["metric"] == "allocated-first":
        return said["steps"][0]["peak_allocated"]
    if run["metric"] == "forward":
        return forward_of(said)
    if run["metric"] == "allocated+ddp":
        return said["peak"]["allocated_bytes"] + said["model"]["parameter_bytes"]
    return reserved_on_card(said)


def judge(run: Row, said: dict) -> Answer:
    verdict = said["targets"][0]["verdict"] if run["metric"] in TELLS_VERDICT else ""
    if ran_out(run):
        return Answer(run, verdict=verdict)
    found = peak_of(run, said)
    return Answer(run, str(found), found / measured_bytes(run) - 1, verdict)


def estimate(binary: str, folder: str, flags: list[str], run: Row) -> Answer:
    searches = run["metric"] == "batch_interval"
    said, refused = ask(binary, "max-batch" if searches else "estimate", run, folder, flags)
    if refused:
        return Answer(run, refused=refused)
    return largest_batch(run, said) if searches else judge(run, said)


def measure(binary: str, runs: list[Row], flags: list[str]) -> list[Answer]:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        unpack(folder)
        return list(pool.map(functools.partial(estimate, binary, folder, flags), runs))


# --- What is committed -----------------------------------------------------------------------

KEY = ["source", "path", "model", "batch", "precision", "optimizer"]


def is_right(answer_verdict: str, run_metric: str) -> bool:
    return (answer_verdict == "oom") == (run_metric == "oom")


def row_of(answer: Answer) -> Row:
    """As answers.csv has it."""
    off = "" if answer.off is None else f"{100 * answer.off:.2f}"
    return {**{name: answer.run[name] for name in [*KEY, "metric"]}, "answer": answer.answer,
            "off": off, "verdict": answer.verdict, "refused": answer.refused}


def worse(before: Row, now: Row) -> list[str]:
    if bool(before["refused"]) != bool(now["refused"]):
        return [f"refused: {now['refused']}"] if now["refused"] else []
    found = []
    if now["off"] and abs(float(now["off"])) > abs(float(before["off"] or 0)):
        found.append(f"{now['off']} %, not {before['off']}")
    if is_right(before["verdict"], now["metric"]) > is_right(now["verdict"], now["metric"]):
        found.append(f"says {now['verdict']}, not {before['verdict']}")
    return found


def is_perfect(row: Row) -> bool:
    right = not row["verdict"] or is_right(row["verdict"], row["metric"])
    return not row["refused"] and right and not float(row["off"] or 0)


FIGURES = ["metric", "answer", "off", "verdict", "refused"]
TABLE = committed.Table(HERE / "answers.csv", KEY, FIGURES, worse, is_perfect)


def answer_of(row: Row, run: Row) -> Answer:
    """What row_of has written."""
    off = float(row["off"]) / 100 if row["off"] else None
    return Answer(run, row["answer"], off, row["verdict"], row["refused"])


def committed_answers(runs: Iterable[Row]) -> list[Answer]:
    rows = TABLE.read()
    return [answer_of(rows[TABLE.key_of(run)], run) for run in runs if TABLE.key_of(run) in rows]


# --- Tables ----------------------------------------------------------------------------------

HEAD = ("runs | within 1 % | 3 % | 5 % | 10 % | median | of absolute | 90 % | worst |\n"
        "|" + "---|" * 10)


def cells(errors: list[float]) -> str:
    """How many, shares within each bound, medians, 90th percentile, worst."""
    sizes = sorted(map(abs, errors))
    within = [f"{100 * sum(size <= bound for size in sizes) / len(sizes):.0f} %"
              for bound in BOUNDS]
    percentile = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
    return " | ".join([str(len(sizes)), *within, f"{100 * statistics.median(errors):+.2f} %",
                       f"{100 * statistics.median(sizes):.2f} %", f"{100 * percentile:.1f} %",
                       f"{100 * max(errors, key=abs):+.1f} %"])


def groups_of(answers: Iterable[Answer], key: Callable[[Answer], str]) -> dict[str, list[Answer]]:
    found: dict[str, list[Answer]] = {}
    for answer in answers:
        found.setdefault(key(answer), []).append(answer)
    return dict(sorted(found.items()))


def source_of(answer: Answer) -> str:
    return f"{answer.run['source'].split('/')[1]}, {answer.run['kind']}"


def card_of(answer: Answer) -> str:
    return answer.run["card"].split(",")[0]


def print_peaks(answers: list[Answer]) -> None:
    some = [answer for answer in answers
            if answer.off is not None and answer.run["metric"] in MEASURED]
    for what, key in (("source and kind", source_of), ("card", card_of)):
        print(f"| {what} | {HEAD}")
        for name, group in groups_of(some, key).items():
            print(f"| {name} | {cells([answer.off for answer in group])} |")
        print()
    if some:
        print(f"| | {HEAD}\n| all | {cells([answer.off for answer in some])} |\n")


def beside(answers: list[Answer], name: str) -> tuple[list[float], list[float]]:
    """Errors of estimator `name` and ours, on the runs for which it named bytes."""
    pairs = [(other_answers(answer.run)[name][0] / measured_bytes(answer.run) - 1, answer.off)
             for answer in answers if answer.off is not None
             and (other_answers(answer.run).get(name) or [None])[0]]
    return [theirs for theirs, _ in pairs], [ours for _, ours in pairs]


def names_of_others(answers: Iterable[Answer]) -> list[str]:
    return sorted({name for answer in answers for name in other_answers(answer.run)})


def print_others(answers: list[Answer]) -> None:
    """Each estimator's answers, and ours on the same runs."""
    print(f"| source and kind, estimator | {HEAD}")
    for group, some in groups_of(answers, source_of).items():
        for name in names_of_others(some):
            theirs, ours = beside(some, name)
            if theirs:
                print(f"| {group}: {name} | {cells(theirs)} |\n| onnxfit on the same | "
                      f"{cells(ours)} |")
    print()


def print_verdicts(answers: list[Answer]) -> None:
    """Of runs that had the whole card: whether they ran is said rightly."""
    some = [answer for answer in answers if answer.verdict]
    right = sum(is_right(answer.verdict, answer.run["metric"]) for answer in some)
    print(f"| estimator | verdicts | right |\n|---|---|---|\n| onnxfit | {len(some)} | {right} |")
    for name in names_of_others(some):
        said = [(other_answers(answer.run)[name][1], ran_out(answer.run)) for answer in some
                if name in other_answers(answer.run)]
        print(f"| {name} | {len(said)} | {sum(oom == real for oom, real in said)} |")
    print()


def print_batches(answers: list[Answer]) -> None:
    some = [answer for answer in answers
            if answer.run["metric"] == "batch_interval" and answer.off is not None]
    print("| largest batches | runs | inside the measured interval | below | above | worst |\n"
          "|---|---|---|---|---|---|")
    for name, group in groups_of(some, card_of).items():
        offs = [answer.off for answer in group]
        below, above = sum(off < 0 for off in offs), sum(off > 0 for off in offs)
        print(f"| {name} | {len(offs)} | {len(offs) - below - above} | {below} | {above} | "
              f"{100 * max(offs, key=abs):+.1f} % |")


def spread(errors: list[float]) -> str:
    """Median, median of absolute errors, 90th percentile and worst."""
    return " | ".join(cells(errors).split(" | ")[5:])


def others_in_short(answers: list[Answer]) -> str:
    found = {name: beside(answers, name)[0] for name in names_of_others(answers)}
    return ", ".join(f"{name} {100 * statistics.median(map(abs, errors)):.1f} %"
                     for name, errors in found.items() if errors)


def print_short(answers: list[Answer]) -> None:
    """One line for each source and kind, as the README has it."""
    print("| source, models | runs | median | of absolute | 90 % | worst | others: of absolute |\n"
          "|---|---|---|---|---|---|---|")
    some = [answer for answer in answers
            if answer.off is not None and answer.run["metric"] in MEASURED]
    for name, group in groups_of(some, source_of).items():
        errors = [answer.off for answer in group]
        print(f"| {name} | {len(group)} | {spread(errors)} | {others_in_short(group)} |")


def print_summary(answers: list[Answer]) -> None:
    print_peaks(answers)
    print_others(answers)
    print_verdicts(answers)
    print_batches(answers)


def print_runs(answers: list[Answer]) -> None:
    """The furthest off first."""
    for answer in sorted(answers, key=lambda answer: -abs(answer.off or 0)):
        run = answer.run
        off = "" if answer.off is None else f"{100 * answer.off:+.2f} %"
        print(f"{run['source'].split('/')[1][:14]:14} {run['model'][:32]:32} {run['batch']:>5} "
              f"{run['optimizer'][:9]:9} {card_of(answer)[:14]:14} {run['real']:>12} "
              f"{run['unit']:3} {answer.answer:>12} {off:>9} {answer.verdict} {answer.refused}")


def answers_of(args: argparse.Namespace) -> list[Answer]:
    runs = jobs_of(read_runs(), args.only)
    if args.committed:
        return committed_answers(runs)
    return measure(args.binary, one_in(args.every, runs), shlex.split(args.flags))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--flags", default="", help="further flags of every estimate")
    parser.add_argument("--committed", action="store_true", help="what answers.csv says")
    parser.add_argument("--short", action="store_true", help="the README's table")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one run in N")
    parser.add_argument("-v", "--verbose", action="store_true", help="each run")
    committed.add_arguments(parser)
    args = parser.parse_args()
    answers = answers_of(args)
    keys = [TABLE.key_of(run) for run in jobs_of(read_runs(), "")]
    status = committed.settle(args, TABLE, [row_of(answer) for answer in answers], keys)
    if status is None:
        shown = print_runs if args.verbose else print_short if args.short else print_summary
        shown(answers)
    return status or 0


if __name__ == "__main__":
    sys.exit(main())
