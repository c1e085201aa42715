"""The zoo's goals, what is reached, and which families are beyond a goal; of zoo.csv.

    goals.py          # a table
    goals.py --check  # exit 1 where a goal that was met is not

Shares count refused runs as wrong; percentiles are of those that are answered.
"""

import argparse
import sys
from typing import NamedTuple

from compare import TABLE, quantile


class Goal(NamedTuple):
    kind: str
    mode: str
    share: float  # of runs right to the byte, percent
    percentile: float  # 95th, of |error| in percent
    worst: float
    met: str  # of "share", "percentile" and "worst"


GOALS = [
    Goal("pt2-train", "train", 97, .5, 5, "share percentile worst"),
    Goal("dynamo-raw", "train", 90, 2, 10, "share percentile"),
    Goal("train", "train", 80, 4, 15, "share percentile"),
    Goal("pt2-eval", "eval", 95, .5, 5, "share percentile worst"),
    Goal("watched", "train", 99.5, 0, .5, ""),
    Goal("watched", "eval", 99.5, 0, .5, "percentile worst"),
    Goal("dynamo-raw", "eval", 85, 2, 10, "share percentile"),
    Goal("train", "eval", 75, 4, 15, "share percentile"),
]


class Reached(NamedTuple):
    share: float
    percentile: float
    worst: float
    beyond: list  # families, those furthest off first

    def meets(self, goal):
        met = {"share": self.share >= goal.share, "percentile": self.percentile <= goal.percentile,
               "worst": self.worst <= goal.worst}
        return {name for name, is_met in met.items() if is_met}


def rows_of(goal):
    return [row for row in TABLE.read().values()
            if row["kind"] == goal.kind and row["run"].endswith(goal.mode)]


def reached(goal):
    rows = rows_of(goal)
    off = {}
    for row in rows:
        error = float("inf") if row["refused"] else abs(float(row["exact"]))
        off[row["family"]] = max(error, off.get(row["family"], 0))
    errors = sorted(abs(float(row["exact"])) for row in rows if not row["refused"])
    right = sum(not row["refused"] and float(row["exact"]) == 0 for row in rows)
    beyond = sorted((family for family in off if off[family] > goal.worst),
                    key=lambda family: -off[family])
    return Reached(100 * right / len(rows), quantile(errors, .95), errors[-1], beyond)


def line(goal):
    now = reached(goal)
    names = ", ".join(family.split(".", 1)[1] for family in now.beyond)
    return (f"| `{goal.kind}` | {goal.mode} | {now.share:.1f} (≥ {goal.share}) "
            f"| {now.percentile:.2f} (≤ {goal.percentile}) | {now.worst:.1f} (≤ {goal.worst}) "
            f"| {names} |")


def print_table():
    print("| export | mode | to the byte, % | 95th percentile, % | worst, % "
          "| refused, or beyond the worst |\n|---|---|---|---|---|---|")
    for goal in GOALS:
        print(line(goal))


def check():
    lost = [(goal.kind, goal.mode, name) for goal in GOALS
            for name in goal.met.split() if name not in reached(goal).meets(goal)]
    for kind, mode, name in lost:
        print(f"{kind}, {mode}: the goal for {name} was met and is not")
    return 1 if lost else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        return check()
    print_table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
