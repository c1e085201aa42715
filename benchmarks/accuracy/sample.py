"""One row in so many.  Which one, the number in CHECKS_PART says: `.ci/run` takes it of the commit,
so that a week of commits asks every row."""

import os


def one_in(every, rows):
    """One at least, where there are any."""
    parts = max(1, min(every, len(rows)))
    return rows[int(os.environ.get("CHECKS_PART", "0")) % parts::every]
