"""How right the estimates have to be, beside how right they are: of what is committed.

    goals.py           # every goal, and what is reached
    goals.py --check   # exit 1 where one is missed that was reached, or by more than is written here

A goal that is not reached yet has what is reached beside it (`now`): that may not become worse, and
where it becomes better it is written here.
"""

import argparse
import statistics
import sys
from typing import Callable, NamedTuple, Optional

from accuracy import committed_rows, percent, percentile, read_off
from max_batch import EXPECTED as MAX_BATCH
from runs import PEAKS, PROGRAM, PYTORCH


class Goal(NamedTuple):
    what: str
    of: Callable       # a committed row -> whether it counts
    measure: Callable  # rows -> a number
    bound: float
    now: Optional[float] = None  # where the bound is not met; None where it is

    def is_met(self, value):
        return value >= self.bound if self.measure in LARGER_IS_BETTER else value <= self.bound


def runs_off(names):
    """How many rows have such a figure off."""
    def count(rows):
        return sum(any(name.split(".")[-1] in names for name in read_off(row["off"]))
                   for row in rows)
    return count


def sizes(rows, figure):
    return [abs(percent(row, figure)) for row in rows]


def median(figure):
    return lambda rows: round(statistics.median(sizes(rows, figure)), 2)


def percentile_95(figure):
    return lambda rows: round(percentile(sizes(rows, figure), 0.95), 2)


def worst(figure):
    return lambda rows: round(max(sizes(rows, figure)), 2)


def share_judged(rows):
    runs, right = (sum(int(row[name]) for row in rows) for name in ("runs", "verdicts"))
    return round(100 * right / runs, 1)


def least_share(rows):
    return round(min(100 * int(row["max_batch"]) / int(row["bisected"])
                     for row in rows if row["bisected"]), 1)


LARGER_IS_BETTER = (share_judged, least_share)


def is_any(_row):
    return True


def is_onnx(row):
    return row["kind"] not in PROGRAM


def given(row):
    return is_onnx(row) and row["given"]


def guessed(row):
    return is_onnx(row) and not row["given"]


def trains(row):
    return row["mode"] == "train"


def from_pt2(mode, is_given):
    """A program says all but which tensors of a loop are one: --labels."""
    return lambda row: (row["kind"] in PYTORCH and row["given"] == is_given
                        and row["mode"] == mode)


OF_MODEL = {"parameters", "buffers"}
ALL = {*PEAKS, *OF_MODEL, "optimizer_state", "after_forward", "after_backward", "after_step"}

PARTS = [("median", median), ("95th percentile", percentile_95), ("worst", worst)]
IN_PARTS = {"exact": [(0, None), None, (8, 12.48)],
            "allocated": [(0.1, None), (1, None), (8, 12.48)],
            "reserved": [(0.3, None), (4, None), (8, 43.75)]}

# Of the runs in expected.csv.
RUNS = [
    Goal("runs with the optimizer's state off, own guesses", guessed,
         runs_off({"optimizer_state"}), 0, 49),
    Goal("runs with parameters off, given what is lost", given, runs_off({"parameters"}), 0, 24),
    Goal("runs with buffers off, given what is lost", given, runs_off({"buffers"}), 0, 24),
    *[Goal(f"training runs with a step's {figure} peak off, given what is lost",
           lambda row: given(row) and trains(row), runs_off({figure}), 0, now)
      for figure, now in zip(PEAKS, (92, 106, 41))],
    *[Goal(f"inference runs with a step's {figure} peak off, given what is lost",
           lambda row: given(row) and not trains(row), runs_off({figure}), 0, now)
      for figure, now in zip(PEAKS, (51, 51, 13))],
    *[Goal(f"{figure} peak, own guesses, {name}, %", guessed, measure(figure), *part)
      for figure, parts in IN_PARTS.items()
      for (name, measure), part in zip(PARTS, parts) if part],
    Goal("training runs of .pt2 with a figure off, no flag", from_pt2("train", 0), runs_off(ALL),
         0, 26),
    Goal("inference runs of .pt2 with a figure off, no flag", from_pt2("eval", 0), runs_off(ALL),
         0, 2),
    Goal("training runs of .pt2 with a figure off, labels said", from_pt2("train", 1),
         runs_off(ALL), 0, 4),
]
# Of the files in max_batch.csv.
CARDS = [
    Goal("runs on a card of given size judged as they ran, %", is_any, share_judged, 98),
    Goal("largest batch, of what halving finds, the least, %", is_any, least_share, 96),
]


def reached(goal, value):
    """What is wrong with `value`, in words; "" where nothing is."""
    if goal.is_met(value):
        return "" if goal.now is None else "met now: drop what was reached before"
    if goal.now is None:
        return f"missed: {value:g}"
    if value == goal.now:
        return ""
    return f"was {goal.now:g}, is {value:g}: write it here where it is better"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    problems = 0
    print("| | goal | reached | |\n|---|---|---|---|")
    for goals, rows in [(RUNS, committed_rows()), (CARDS, list(MAX_BATCH.read().values()))]:
        for goal in goals:
            value = goal.measure([row for row in rows if goal.of(row)])
            problem = reached(goal, value)
            problems += bool(problem)
            state = problem or ("" if goal.is_met(value) else "not yet")
            print(f"| {goal.what} | {goal.bound:g} | {value:g} | {state} |")
    return 1 if args.check and problems else 0


if __name__ == "__main__":
    sys.exit(main())
