"""Tables of committed figures, and the ratchet that holds them.

A table is a CSV file: columns that name a run, columns of its figures, and `reason`: why a figure
of the run became worse when that was last committed.  It stays until every figure is right.

A check fails where a run is not as committed (a table whose figures may vary says what is worse,
and holds them to that alone), where a run of the table is not made any more (its
truth or its export is gone), and where one is made that the table does not have.  An update takes
figures that are better or new; worse ones only with a reason, and runs that are gone only if it is
told so.
"""

import csv
from pathlib import Path
from typing import Callable, NamedTuple

SHOWN = 20  # problems that are printed


class Table(NamedTuple):
    path: Path
    key: list      # columns that name a run
    figures: list  # columns of figures
    # worse(before, row): the figures that are, in words.  Empty where none is.
    worse: Callable[[dict, dict], list]
    is_right: Callable[[dict], bool]  # no figure of the row can be better
    is_exact: bool = True  # a figure that is better, or other and not worse, is not as committed

    def columns(self):
        return [*self.key, *self.figures, "reason"]

    def key_of(self, row):
        return tuple(str(row[name]) for name in self.key)

    def read(self):
        """{key: row of strings}"""
        with self.path.open(newline="") as file:
            return {self.key_of(row): row for row in csv.DictReader(file)}

    def write(self, rows):
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns(), extrasaction="ignore",
                                    lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def text_of(table, row):
    return {name: str(row[name]) for name in table.figures}


def described(table, before, row):
    """What of a run is not as committed."""
    worse = table.worse(before, row)
    if worse:
        return "worse: " + ", ".join(worse)
    if not table.is_exact:
        return ""
    old, new = text_of(table, before), text_of(table, row)
    changed = [f"{name} was {old[name] or 'right'}, is {new[name] or 'right'}"
               for name in table.figures if old[name] != new[name]]
    return "better: " + ", ".join(changed) if changed else ""


def gone(table, expected, keys):
    """Runs of the table that nothing makes any more."""
    return [f"{' '.join(key)}: in {table.path.name}, not among the runs" for key in expected
            if key not in keys]


def check(table, rows, keys):
    """Prints what is not as committed.  `rows` are those that were made, `keys` name all that could
    be.  Returns an exit status."""
    expected = table.read()
    keys = {tuple(map(str, key)) for key in keys}
    problems = gone(table, expected, keys)
    problems += [f"{' '.join(key)}: not in {table.path.name}" for key in keys
                 if key not in expected]
    for row in rows:
        before = expected.get(table.key_of(row))
        change = described(table, before, row) if before else ""
        if change:
            problems.append(f"{' '.join(table.key_of(row))}: {change}")
    print(*problems[:SHOWN], sep="\n", end="\n" if problems else "")
    print(f"{len(rows)} runs, {len(problems)} not as committed"
          + (" (if they should change: --update)" if problems else ""))
    return 1 if problems or not rows else 0


def update(table, rows, reason="", drop=False):
    """Commits `rows`, which are all runs.  Returns an exit status."""
    expected = table.read() if table.path.exists() else {}
    refused = [] if drop else gone(table, expected, {table.key_of(row) for row in rows})
    for row in rows:
        before = expected.get(table.key_of(row), {})
        worse = table.worse(before, row) if before else []
        if worse and not reason:
            refused.append(f"{' '.join(table.key_of(row))}: worse: {', '.join(worse)}")
        row["reason"] = reason if worse else "" if table.is_right(row) else before.get("reason", "")
    if refused:
        print(*refused[:SHOWN], sep="\n")
        print(f"{len(refused)} runs refused (worse ones: --reason WHY, kept in the table; those "
              "that are gone: --drop)")
        return 1
    table.write(rows)
    return 0


def add_arguments(parser):
    """Flags of every script with a table."""
    parser.add_argument("--check", action="store_true", help="fail where a figure is not committed")
    parser.add_argument("--update", action="store_true", help="commit the figures of today")
    parser.add_argument("--reason", default="", metavar="WHY", help="why some of them are worse")
    parser.add_argument("--drop", action="store_true", help="forget runs that are gone")


def settle(args, table, rows, keys):
    """What these flags ask for.  Returns an exit status, or None where the figures are to be
    printed."""
    if args.check:
        return check(table, rows, keys)
    if args.update and update(table, rows, args.reason, args.drop):
        return 1
    return None


def answer(args, table, measure, print_wrong, print_summary):
    """What a script's flags ask for, of the table (--committed) or of the rows and keys that
    `measure` makes.  Returns an exit status."""
    rows, keys = (list(table.read().values()), []) if args.committed else measure()
    status = settle(args, table, rows, keys)
    if status is not None:
        return status
    if args.verbose:
        print_wrong(rows)
    print_summary(rows)
    return 0
