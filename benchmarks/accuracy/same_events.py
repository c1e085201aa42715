"""Whether two builds predict the same events for every export of data/models*.tar.xz.

    same_events.py build/release/benchmarks/print_trace build/dev/benchmarks/print_trace [EVERY]

The order in which a compiler evaluates arguments must not show.  Exit 1 where it does.  With EVERY
one export of so many.
"""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from runs import unpack_models
from sample import one_in

FLAGS = ["-b", "2", "-p", "amp-fp16", "--clip-grad"]  # much happens between few operators


def events(printer, path):
    result = subprocess.run([printer, str(path), *FLAGS], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=600)
    if result.returncode != 0:
        sys.exit(f"{path.name}: exit {result.returncode}: {result.stderr}")
    return result.stdout


def compare(printers, path):
    """What differs first, or None; and how many lines there are."""
    first, second = (events(printer, path).splitlines() for printer in printers)
    for i, (a, b) in enumerate(zip(first, second)):
        if a != b:
            return f"{path.name}, line {i + 1}: {a!r} and {b!r}", len(first)
    if len(first) != len(second):
        return f"{path.name}: {len(first)} and {len(second)} lines", len(first)
    return None, len(first)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    printers, every = sys.argv[1:3], int((sys.argv[3:] or ["1"])[0])
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = one_in(every, list(unpack_models(folder).values()))
        results = list(pool.map(lambda path: compare(printers, path), paths))
    differences = [difference for difference, _ in results if difference]
    print("\n".join(differences))
    print(f"{len(results)} exports, {sum(lines for _, lines in results)} lines, "
          f"{len(differences)} differ")
    sys.exit(1 if differences or not results else 0)


if __name__ == "__main__":
    main()
