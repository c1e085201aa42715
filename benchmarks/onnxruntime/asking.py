"""What sessions.py and models.py share: how onnxfit is asked of a file, and how their tables are."""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "accuracy"))
import committed  # noqa: E402
from runs import ROOT  # noqa: E402


@contextmanager
def files_of(archive):
    """The folder of its files, as long as they are needed."""
    with tempfile.TemporaryDirectory() as name, tarfile.open(HERE / "data" / archive) as packed:
        packed.extractall(name, filter="data")
        yield Path(name)


def answer(args, path, batch, card, flags):
    """What the JSON of one run has (docs/onnxruntime.md)."""
    command = [args.binary, "estimate", str(path), "--runtime", "onnxruntime", "-b", str(batch), "-g", card,
               "-f", "json", *flags]
    result = subprocess.run(command, capture_output=True, text=True, check=False,
                            env={**os.environ, "ONNXFIT_PYTHON": args.python})
    if result.returncode > 1:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout)["runs"][0]


def all_inside(row):
    return int(row["inside"]) == int(row["sessions"])


def print_wrong(rows):
    for row in rows:
        if row["inside"] != row["sessions"]:
            print(row)


def counted(rows):
    """Sessions inside, of how many, and the share in percent."""
    inside, count = (sum(int(row[name]) for row in rows) for name in ("inside", "sessions"))
    return inside, count, 100 * inside / count


def parser(doc, table):
    result = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    result.add_argument("--python", default=sys.executable, help="one with onnxruntime-gpu")
    result.add_argument("-v", "--verbose", action="store_true", help="what is not inside")
    result.add_argument("--committed", action="store_true", help=f"what {table.path.name} says")
    result.add_argument("models", nargs="*")
    committed.add_arguments(result)
    return result


def run(args, table, rows_of, print_summary):
    """`rows_of(args)` yields a row after the other, each shown as it is there.  Of models that are named
    alone, the others' rows stay as they are committed."""
    def measured():
        rows = []
        for row in rows_of(args):
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
        left = list(table.read()) if args.models else []
        return rows, left + [table.key_of(row) for row in rows]
    return committed.answer(args, table, measured, print_wrong, print_summary)
