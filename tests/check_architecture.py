"""Holds the includes to the rooms of estimator/README.md: who may include whom, and who
alone may touch a library.

    check_architecture.py [ROOT]      # one line a violation, exit 1 if there is one
    check_architecture.py --self-test # shows that each rule can fail
"""

import re
import sys
import tempfile
from pathlib import Path

# A room and the rooms that it may include, beside itself.  Each refers to rooms above it.
ROOMS = {
    "base": [],
    "memory": ["base"],
    "graph": ["base"],
    "program": ["graph", "base"],
    "pt2": ["program", "graph", "base"],
    "eager": ["program", "memory", "graph", "base"],
    "fit": ["pt2", "eager", "program", "memory", "graph", "base"],
    "report": ["fit", "memory", "graph", "base"],
    "cuda": ["memory", "base"],
    "cli": ["cuda", "report", "fit", "eager", "program", "memory", "graph", "base"],
    "benchmarks": ["cli", "report", "fit", "eager", "program", "memory", "graph", "base"],
    "tests": ["cli", "cuda", "report", "fit", "eager", "program", "pt2", "memory", "graph", "base"],
}

# A library's headers, by how they begin, and the only folder, or folders, that may include them.
LIBRARIES = {
    "onnx/": "estimator/graph/",
    "google/protobuf/": "estimator/graph/",
    "zlib.h": ("estimator/pt2/", "tests/"),
    "rapidjson/": "estimator/pt2/",
    "nlohmann/": "estimator/report/",
    "CLI/": "cli/",
    "toml++/": "cli/",
    "doctest/": "tests/",
    "cuda": "benchmarks/cuda/",
    "cub": "benchmarks/cuda/",
    "nv": "benchmarks/cuda/",
}

# Files that the build writes, and the only folder that may include them.
GENERATED = {"onnx_schema_rows.inc": "estimator/graph/"}

SOURCES = {".cc", ".h", ".cu", ".cuh", ".inc"}
HEADERS = {".h", ".cuh"}
LONG_FILE = 400  # lines; longer is a note: which second idea has moved in?

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def room_of(path):
    """'graph' of 'estimator/graph/loader.h', 'cuda' of 'benchmarks/cuda/stamps.cu', 'cli' of
    'cli/main.cc', '' of anything else."""
    parts = path.split("/")
    if parts[0] == "estimator" and len(parts) > 2:
        return parts[1]
    if parts[:2] == ["benchmarks", "cuda"] and len(parts) > 2:
        return "cuda"
    return parts[0] if parts[0] in ("cli", "benchmarks", "tests") and len(parts) > 1 else ""


def library_violation(path, header):
    for table in (LIBRARIES, GENERATED):
        for beginning, folders in table.items():
            folders = (folders,) if isinstance(folders, str) else folders
            if header.startswith(beginning) and not path.startswith(folders):
                return f"only {' and '.join(folders)} may include <{header}>"
    return ""


def include_violation(path, quote, header):
    """What is wrong with this include in this file, or ''."""
    if ".." in header.split("/"):
        return f'"{header}": write includes from the root of the repository, without ".."'
    room, target = room_of(path), room_of(header)
    if quote == "<" or (not target and header in GENERATED):
        return library_violation(path, header)
    if not target:
        return library_violation(path, header) or (
            f'"{header}": expected a path from the root of the repository, '
            f'such as "estimator/base/bytes.h"')
    if target not in ROOMS:
        return f"room '{target}' is not in the table of tests/check_architecture.py"
    if target != room and target not in ROOMS[room]:
        return f"room '{room}' may not include room '{target}'"
    return ""


def file_violations(path, text):
    room = room_of(path)
    if room not in ROOMS:
        yield 1, f"room '{room}' is not in the table of tests/check_architecture.py"
        return
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line)
        message = found and include_violation(path, *found.groups())
        if message:
            yield number, message
    if Path(path).suffix in HEADERS and "#pragma once" not in lines:
        yield 1, "a header without '#pragma once'"


def check(root):
    """All violations below `root` as 'FILE:LINE: text', and notes."""
    violations, notes = [], []
    folders = [root / name for name in ("estimator", "cli", "tests", "benchmarks")]
    files = sorted(f for folder in folders for f in folder.rglob("*") if f.suffix in SOURCES)
    for file in files:
        path, text = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
        violations += [f"{path}:{line}: {what}" for line, what in file_violations(path, text)]
        length = text.count("\n")
        if length > LONG_FILE:
            notes.append(f"note: {path}: {length} lines")
    return violations, notes, len(files)


# A file, its text, and the message that it must give ("" for none).
CASES = [
    ("estimator/graph/a.cc", '#include "estimator/base/bytes.h"', ""),
    ("estimator/graph/a.cc", '#include "estimator/graph/b.h"', ""),
    ("estimator/graph/a.cc", "#include <onnx/onnx_pb.h>", ""),
    ("estimator/graph/a.cc", '#include "onnx_schema_rows.inc"', ""),
    ("estimator/graph/a.cc", "#include <vector>", ""),
    ("estimator/graph/a.cc", '// #include "estimator/eager/b.h"', ""),
    ("estimator/graph/a.cc", '\n#include "estimator/eager/b.h"',
     "estimator/graph/a.cc:2: room 'graph' may not include room 'eager'"),
    ("estimator/base/a.cc", '#include "estimator/graph/b.h"',
     "estimator/base/a.cc:1: room 'base' may not include room 'graph'"),
    ("estimator/memory/a.cc", '# include "estimator/program/b.h"',
     "estimator/memory/a.cc:1: room 'memory' may not include room 'program'"),
    ("estimator/report/a.cc", '#include "cli/options.h"',
     "estimator/report/a.cc:1: room 'report' may not include room 'cli'"),
    ("estimator/fit/a.cc", "#include <onnx/onnx_pb.h>",
     "estimator/fit/a.cc:1: only estimator/graph/ may include <onnx/onnx_pb.h>"),
    ("estimator/fit/a.cc", '#include "onnx/onnx_pb.h"',
     "estimator/fit/a.cc:1: only estimator/graph/ may include <onnx/onnx_pb.h>"),
    ("estimator/program/a.cc", "#include <google/protobuf/message.h>",
     "estimator/program/a.cc:1: only estimator/graph/ may include <google/protobuf/message.h>"),
    ("cli/a.cc", "#include <nlohmann/json.hpp>",
     "cli/a.cc:1: only estimator/report/ may include <nlohmann/json.hpp>"),
    ("estimator/pt2/a.cc", "#include <rapidjson/document.h>\n#include <zlib.h>", ""),
    ("tests/a.cc", "#include <zlib.h>", ""),
    ("estimator/graph/a.cc", "#include <zlib.h>",
     "estimator/graph/a.cc:1: only estimator/pt2/ and tests/ may include <zlib.h>"),
    ("estimator/report/a.cc", "#include <rapidjson/document.h>",
     "estimator/report/a.cc:1: only estimator/pt2/ may include <rapidjson/document.h>"),
    ("estimator/pt2/a.cc", '#include "estimator/eager/b.h"',
     "estimator/pt2/a.cc:1: room 'pt2' may not include room 'eager'"),
    ("estimator/base/a.cc", "#include <CLI/CLI.hpp>",
     "estimator/base/a.cc:1: only cli/ may include <CLI/CLI.hpp>"),
    ("estimator/report/a.cc", "#include <toml++/toml.h>",
     "estimator/report/a.cc:1: only cli/ may include <toml++/toml.h>"),
    ("estimator/memory/a.cc", "#include <cuda_runtime.h>",
     "estimator/memory/a.cc:1: only benchmarks/cuda/ may include <cuda_runtime.h>"),
    ("benchmarks/cuda/a.cu", "#include <cuda_runtime.h>", ""),
    ("cli/a.cc", '#include "benchmarks/cuda/a.h"', ""),
    ("estimator/fit/a.cc", '#include "benchmarks/cuda/a.h"',
     "estimator/fit/a.cc:1: room 'fit' may not include room 'cuda'"),
    ("benchmarks/cuda/a.cc", '#include "estimator/fit/a.h"',
     "benchmarks/cuda/a.cc:1: room 'cuda' may not include room 'fit'"),
    ("estimator/eager/a.cc", '#include "onnx_schema_rows.inc"',
     "estimator/eager/a.cc:1: only estimator/graph/ may include <onnx_schema_rows.inc>"),
    ("estimator/graph/a.cc", '#include "../base/bytes.h"',
     "estimator/graph/a.cc:1: \"../base/bytes.h\": write includes from the root of the "
     'repository, without ".."'),
    ("estimator/graph/a.cc", '#include "b.h"',
     'estimator/graph/a.cc:1: "b.h": expected a path from the root of the repository, '
     'such as "estimator/base/bytes.h"'),
    ("estimator/attic/a.cc", "",
     "estimator/attic/a.cc:1: room 'attic' is not in the table of tests/check_architecture.py"),
    ("estimator/graph/a.h", "int x;",
     "estimator/graph/a.h:1: a header without '#pragma once'"),
    ("estimator/graph/a.h", "#pragma once", ""),
]


def self_test():
    seen = []
    for room, others in ROOMS.items():
        assert set(others) <= set(seen), f"{room} refers to a room below it"
        seen.append(room)
    for path, text, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, path)
            file.parent.mkdir(parents=True)
            file.write_text(text, encoding="utf-8")
            found = "\n".join(check(Path(folder))[0])
            assert found == expected, f"{path}: {text!r}\nexpected {expected!r}\nfound    {found!r}"
    print(f"architecture self-test: {len(CASES)} cases")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    violations, notes, files = check(root)
    print("\n".join(violations + notes + [f"architecture: {files} files, {len(violations)} wrong"]))
    return 1 if violations or not files else 0


if __name__ == "__main__":
    sys.exit(main())
