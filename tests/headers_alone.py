"""Whether each header compiles alone: tests/headers_alone.py build/dev [--every N]

Takes the commands of CMake's target all_verify_interface_header_sets, which would make objects.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks/accuracy"))
from sample import one_in  # noqa: E402


def checks(build):
    """(header, command, folder) of each."""
    for entry in json.loads(Path(build, "compile_commands.json").read_text()):
        header = re.search(r"_verify_interface_header_sets/((?:estimator|cli|benchmarks)/\S+\.h)\.cxx$",
                           entry["file"])
        if header:
            command = re.sub(r" -o \S+", "", entry["command"]) + " -fsyntax-only"
            yield header[1], shlex.split(command), entry["directory"]


def compile_alone(check):
    header, command, folder = check
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{header}:\n{done.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--every", type=int, default=1, help="one header of so many")
    args = parser.parse_args()
    chosen = one_in(args.every, sorted(checks(args.build)))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [said for said in pool.map(compile_alone, chosen) if said]
    print("\n".join([*wrong, f"{len(chosen)} headers, {len(wrong)} do not compile alone"]))
    sys.exit(1 if wrong or not chosen else 0)


if __name__ == "__main__":
    main()
