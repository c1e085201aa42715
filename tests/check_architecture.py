"""Holds the includes to the rooms of docs/contributing/architecture.md: who may include whom, and
who alone may touch a library; and their names to one file: a room is compiled as one (a unity build).

    check_architecture.py [ROOT]      # one line a violation, exit 1 if there is one
    check_architecture.py --self-test # shows that each rule can fail
"""

import re
import sys
import tempfile
from collections import defaultdict
from itertools import combinations
from pathlib import Path

from top_level_names import top_level_names

# A room and the rooms that it may include, beside itself.  Each refers to rooms above it.
ROOMS = {
    "base": [],
    "memory": ["base"],
    "onnx": ["base"],
    "libraries": ["base"],
    "program": ["libraries", "base"],
    "writer": ["program", "libraries", "base"],
    "transforms": ["writer", "program", "libraries", "base"],
    "locals": ["program", "libraries", "base"],
    "observed": ["program", "base"],
    "names": ["locals", "observed", "program", "libraries", "base"],
    "pt2": ["names", "writer", "program", "libraries", "onnx", "base"],
    "exporters": ["program", "libraries", "onnx", "base"],
    "patterns": ["exporters", "program", "libraries", "onnx", "base"],
    "parameters": ["patterns", "exporters", "writer", "program", "libraries", "onnx", "base"],
    "lost": ["parameters", "patterns", "exporters", "writer", "program", "libraries", "onnx", "base"],
    "recover": ["lost", "parameters", "patterns", "exporters", "names", "writer", "program", "libraries", "onnx",
                "base"],
    "operators": ["program", "libraries", "base"],
    "workspaces": ["operators", "program", "base"],
    "eager": ["workspaces", "operators", "program", "libraries", "memory", "base"],
    "optimizers": ["eager", "workspaces", "operators", "transforms", "program", "libraries", "base"],
    "ranks": ["optimizers", "eager", "operators", "program", "libraries", "base"],
    "training": ["ranks", "optimizers", "eager", "operators", "transforms", "program", "libraries", "memory",
                 "base"],
    "fit": ["recover", "parameters", "exporters", "pt2", "training", "ranks", "optimizers", "eager", "workspaces",
            "operators", "transforms", "writer", "program", "memory", "onnx", "base"],
    "advise": ["fit", "optimizers", "operators", "memory", "onnx", "base"],
    "oom": ["fit", "memory", "onnx", "base"],
    "compare": ["fit", "memory", "base"],
    "snapshot": ["fit", "memory", "base"],
    "report": ["advise", "oom", "compare", "snapshot", "fit", "memory", "onnx", "base"],
    "picture": ["report", "advise", "compare", "fit", "memory", "onnx", "base"],
    "cuda": ["memory", "base"],
    "microbenchmark": ["cuda", "memory", "base"],
    "absent": ["base"],  # headers of it: the library needs libc alone
    "cli": ["absent", "microbenchmark", "cuda", "picture", "report", "advise", "oom", "compare", "snapshot", "fit",
            "training", "optimizers", "workspaces", "operators", "transforms", "program", "libraries", "memory",
            "onnx", "base"],
    "benchmarks": ["cli", "cuda", "report", "fit", "eager", "workspaces", "program", "memory", "onnx",
                   "base"],
    "tests": ["cli", "absent", "microbenchmark", "cuda", "picture", "report", "advise", "oom", "compare", "snapshot", "fit",
              "training", "ranks", "optimizers", "eager", "workspaces", "operators", "recover", "lost", "parameters",
              "patterns", "exporters", "pt2", "names", "observed", "locals",
              "transforms", "writer", "program", "libraries", "memory", "onnx", "base"],
}

# Whose files are compiled one by one: a name in two of them is two names.
FILE_BY_FILE = {"absent"}

# A library's headers, by how they begin, and the only folder, or folders, that may include them.
LIBRARIES = {
    "onnx/": ("estimator/onnx/", "tests/fuzz/"),
    "google/protobuf/": ("estimator/onnx/", "tests/fuzz/"),
    "zlib.h": ("estimator/base/", "estimator/observed/", "estimator/pt2/", "tests/"),
    "rapidjson/": "estimator/pt2/",
    "nlohmann/": ("estimator/report/", "estimator/picture/", "tests/"),
    "CLI/": "cli/",
    "toml++/": "cli/",
    "doctest/": "tests/",
    "cuda": ("estimator/cuda/", "benchmarks/cuda/"),
    "cudnn": ("estimator/cuda/", "benchmarks/cuda/"),
    "cub": "estimator/cuda/",
    "nv": ("estimator/cuda/", "benchmarks/cuda/"),
}

# Files that the build writes, and the only folder that may include them.
GENERATED = {"onnx_schema_rows.inc": "estimator/onnx/"}

SOURCES = {".cc", ".h", ".cu", ".cuh", ".inc"}
HEADERS = {".h", ".cuh"}
LONG_FILE = 400  # lines; longer is a note: which second idea has moved in?

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
INCLUDE_LINES = re.compile(INCLUDE.pattern, re.MULTILINE)


def room_of(path):
    """'graph' of 'estimator/onnx/loader.h', 'microbenchmark' of 'benchmarks/cuda/stamps.cu',
    'cli' of 'cli/main.cc', '' of anything else."""
    parts = path.split("/")
    if parts[0] == "estimator" and len(parts) > 2:
        return parts[1]
    if parts[:2] == ["benchmarks", "cuda"] and len(parts) > 2:
        return "microbenchmark"
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


class File:
    def __init__(self, text):
        self.text = text
        self.names = top_level_names(text)
        self.includes = {found.group(2) for found in INCLUDE_LINES.finditer(text)}

    def uses(self, word):
        """Has it, and does not declare it itself."""
        return (all(name.text != word for name in self.names) and
                re.search(rf"\b{word}\b", self.text) is not None)


def same_kind(parameter):
    """What a call may pass for either of two parameters: literals are texts and numbers alike."""
    if re.fullmatch(r"(?:std::)?(?:string|string_view)|char\*|Json", parameter):
        return "a text"
    return re.sub(r"^(?:std::)?(?:u?int\d*_t|int|size_t|float|double)$", "a number", parameter)


def are_one(a, b):
    """Whether one file cannot have both, or a call of one may mean the other."""
    if a.alias and b.alias:
        return a.alias != b.alias
    if a.parameters is None or b.parameters is None:
        return True
    fewest = max(a.required, b.required)
    most = min(len(a.parameters), len(b.parameters))
    return any(all(same_kind(x) == same_kind(y)
                   for x, y in zip(a.parameters[:count], b.parameters[:count]))
               for count in range(fewest, most + 1))


def doubles(files):
    """What two files of a room have, by one name, and do not show to others."""
    named = defaultdict(list)
    for path, file in files.items():
        for name in file.names:
            if name.is_private and path.endswith(".cc"):
                named[room_of(path), name.scope, name.text].append((path, name))
    for same in named.values():
        for (path, a), (other, b) in combinations(same, 2):
            if path != other and are_one(a, b):
                yield other, b.line, f"'{b.text}' is in {path}:{a.line}, too"


def is_found_anyway(private, shown, aliases):
    """Whether a call means the function that a header shows, by the namespace of its arguments,
    whatever stands nearer."""
    if private.parameters is None or shown.parameters is None or are_one(private, shown):
        return False
    words = {word for part in shown.parameters for word in re.findall(r"(?<![\w:])[A-Z]\w+", part)}
    return bool(words - aliases - {"Json"})


def hidden(files):
    """Names that a file keeps to itself, before another of the room that reads a header with the
    same name and means that one."""
    aliases = {name.text for file in files.values() for name in file.names if name.alias}
    privates = defaultdict(list)
    for path, file in files.items():
        for name in file.names if path.endswith(".cc") else []:
            if name.is_private:
                privates[room_of(path), name.scope, name.text].append((path, name))
    for reader, header in sorted((path, header) for path, file in files.items()
                                 for header in file.includes if header in files):
        for shown in files[header].names if reader.endswith(".cc") else []:
            for path, name in privates[room_of(reader), shown.scope, shown.text]:
                is_one = name.alias and name.alias == shown.alias
                if path != reader and not is_one and files[reader].uses(name.text) \
                        and not is_found_anyway(name, shown, aliases):
                    yield path, name.line, f"'{name.text}' hides that of {header} from {reader}"


def name_violations(files):
    """(path, line, text); `files` by path."""
    for path, line, text in [*doubles(files), *hidden(files)]:
        yield path, line, text + ": a room is compiled as one file"


def check(root):
    """All violations below `root` as 'FILE:LINE: text', and notes."""
    violations, notes = [], []
    folders = [root / name for name in ("estimator", "cli", "tests", "benchmarks")]
    files = sorted(f for folder in folders for f in folder.rglob("*") if f.suffix in SOURCES)
    known = {}
    for file in files:
        path, text = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
        violations += [f"{path}:{line}: {what}" for line, what in file_violations(path, text)]
        if file.suffix in (".cc", ".h") and room_of(path) not in FILE_BY_FILE:
            known[path] = File(text)
        length = text.count("\n")
        if length > LONG_FILE:
            notes.append(f"note: {path}: {length} lines")
    violations += [f"{path}:{line}: {what}" for path, line, what in name_violations(known)]
    return violations, notes, len(files)


# A file, its text, and the message that it must give ("" for none).
CASES = [
    ("estimator/onnx/a.cc", '#include "estimator/base/bytes.h"', ""),
    ("estimator/onnx/a.cc", '#include "estimator/onnx/b.h"', ""),
    ("estimator/onnx/a.cc", "#include <onnx/onnx_pb.h>", ""),
    ("estimator/onnx/a.cc", '#include "onnx_schema_rows.inc"', ""),
    ("estimator/onnx/a.cc", "#include <vector>", ""),
    ("estimator/onnx/a.cc", '// #include "estimator/eager/b.h"', ""),
    ("estimator/onnx/a.cc", '\n#include "estimator/eager/b.h"',
     "estimator/onnx/a.cc:2: room 'onnx' may not include room 'eager'"),
    ("estimator/base/a.cc", '#include "estimator/onnx/b.h"',
     "estimator/base/a.cc:1: room 'base' may not include room 'onnx'"),
    ("estimator/memory/a.cc", '# include "estimator/program/b.h"',
     "estimator/memory/a.cc:1: room 'memory' may not include room 'program'"),
    ("estimator/report/a.cc", '#include "estimator/advise/b.h"', ""),
    ("estimator/advise/a.cc", '#include "estimator/fit/b.h"', ""),
    ("estimator/fit/a.cc", '#include "estimator/advise/b.h"',
     "estimator/fit/a.cc:1: room 'fit' may not include room 'advise'"),
    ("estimator/oom/a.cc", '#include "estimator/compare/b.h"',
     "estimator/oom/a.cc:1: room 'oom' may not include room 'compare'"),
    ("estimator/report/a.cc", '#include "cli/options.h"',
     "estimator/report/a.cc:1: room 'report' may not include room 'cli'"),
    ("estimator/fit/a.cc", "#include <onnx/onnx_pb.h>",
     "estimator/fit/a.cc:1: only estimator/onnx/ and tests/fuzz/ may include <onnx/onnx_pb.h>"),
    ("estimator/fit/a.cc", '#include "onnx/onnx_pb.h"',
     "estimator/fit/a.cc:1: only estimator/onnx/ and tests/fuzz/ may include <onnx/onnx_pb.h>"),
    ("estimator/program/a.cc", "#include <google/protobuf/message.h>",
     "estimator/program/a.cc:1: only estimator/onnx/ and tests/fuzz/ may include "
     "<google/protobuf/message.h>"),
    ("tests/fuzz/a.cc", "#include <google/protobuf/message.h>", ""),
    ("cli/a.cc", "#include <nlohmann/json.hpp>",
     "cli/a.cc:1: only estimator/report/ and estimator/picture/ and tests/ may include "
     "<nlohmann/json.hpp>"),
    ("estimator/pt2/a.cc", "#include <rapidjson/document.h>\n#include <zlib.h>", ""),
    ("tests/a.cc", "#include <zlib.h>", ""),
    ("estimator/onnx/a.cc", "#include <zlib.h>",
     "estimator/onnx/a.cc:1: only estimator/base/ and estimator/observed/ and estimator/pt2/ and "
     "tests/ may include "
     "<zlib.h>"),
    ("estimator/report/a.cc", "#include <rapidjson/document.h>",
     "estimator/report/a.cc:1: only estimator/pt2/ may include <rapidjson/document.h>"),
    ("estimator/pt2/a.cc", '#include "estimator/eager/b.h"',
     "estimator/pt2/a.cc:1: room 'pt2' may not include room 'eager'"),
    ("estimator/base/a.cc", "#include <CLI/CLI.hpp>",
     "estimator/base/a.cc:1: only cli/ may include <CLI/CLI.hpp>"),
    ("estimator/report/a.cc", "#include <toml++/toml.h>",
     "estimator/report/a.cc:1: only cli/ may include <toml++/toml.h>"),
    ("estimator/memory/a.cc", "#include <cuda_runtime.h>",
     "estimator/memory/a.cc:1: only estimator/cuda/ and benchmarks/cuda/ may include "
     "<cuda_runtime.h>"),
    ("benchmarks/cuda/a.cu", "#include <cuda_runtime.h>", ""),
    ("estimator/cuda/a.cc", "#include <cuda_runtime.h>\n#include <cudnn.h>", ""),
    ("benchmarks/cuda/a.cc", "#include <cublas_v2.h>",
     "benchmarks/cuda/a.cc:1: only estimator/cuda/ may include <cublas_v2.h>"),
    ("cli/a.cc", '#include "benchmarks/cuda/a.h"\n#include "estimator/cuda/a.h"', ""),
    ("benchmarks/cuda/a.cc", '#include "estimator/cuda/a.h"', ""),
    ("estimator/program/a.cc", '#include "estimator/writer/b.h"',
     "estimator/program/a.cc:1: room 'program' may not include room 'writer'"),
    ("estimator/writer/a.cc", '#include "estimator/transforms/b.h"',
     "estimator/writer/a.cc:1: room 'writer' may not include room 'transforms'"),
    ("estimator/recover/a.cc", '#include "estimator/transforms/b.h"',
     "estimator/recover/a.cc:1: room 'recover' may not include room 'transforms'"),
    ("estimator/exporters/a.cc", '#include "estimator/patterns/b.h"',
     "estimator/exporters/a.cc:1: room 'exporters' may not include room 'patterns'"),
    ("estimator/patterns/a.cc", '#include "estimator/parameters/b.h"',
     "estimator/patterns/a.cc:1: room 'patterns' may not include room 'parameters'"),
    ("estimator/parameters/a.cc", '#include "estimator/lost/b.h"',
     "estimator/parameters/a.cc:1: room 'parameters' may not include room 'lost'"),
    ("estimator/lost/a.cc", '#include "estimator/recover/b.h"',
     "estimator/lost/a.cc:1: room 'lost' may not include room 'recover'"),
    ("estimator/locals/a.cc", '#include "estimator/names/b.h"',
     "estimator/locals/a.cc:1: room 'locals' may not include room 'names'"),
    ("estimator/recover/a.cc", '#include "estimator/locals/b.h"',
     "estimator/recover/a.cc:1: room 'recover' may not include room 'locals'"),
    ("estimator/lost/a.cc", '#include "estimator/names/b.h"',
     "estimator/lost/a.cc:1: room 'lost' may not include room 'names'"),
    ("estimator/program/a.cc", '#include "estimator/transforms/b.h"',
     "estimator/program/a.cc:1: room 'program' may not include room 'transforms'"),
    ("estimator/fit/a.cc", '#include "estimator/cuda/a.h"',
     "estimator/fit/a.cc:1: room 'fit' may not include room 'cuda'"),
    ("estimator/cuda/a.cc", '#include "estimator/fit/a.h"',
     "estimator/cuda/a.cc:1: room 'cuda' may not include room 'fit'"),
    ("estimator/absent/a.cc", '#include "estimator/onnx/b.h"',
     "estimator/absent/a.cc:1: room 'absent' may not include room 'onnx'"),
    ("estimator/eager/a.cc", '#include "estimator/operators/b.h"', ""),
    ("estimator/operators/a.cc", '#include "estimator/eager/b.h"',
     "estimator/operators/a.cc:1: room 'operators' may not include room 'eager'"),
    ("estimator/operators/a.cc", '#include "estimator/workspaces/b.h"',
     "estimator/operators/a.cc:1: room 'operators' may not include room 'workspaces'"),
    ("estimator/eager/a.cc", '#include "estimator/training/b.h"',
     "estimator/eager/a.cc:1: room 'eager' may not include room 'training'"),
    ("estimator/ranks/a.cc", '#include "estimator/training/b.h"',
     "estimator/ranks/a.cc:1: room 'ranks' may not include room 'training'"),
    ("estimator/optimizers/a.cc", '#include "estimator/ranks/b.h"',
     "estimator/optimizers/a.cc:1: room 'optimizers' may not include room 'ranks'"),
    ("estimator/eager/a.cc", '#include "estimator/optimizers/b.h"',
     "estimator/eager/a.cc:1: room 'eager' may not include room 'optimizers'"),
    ("estimator/eager/a.cc", '#include "onnx_schema_rows.inc"',
     "estimator/eager/a.cc:1: only estimator/onnx/ may include <onnx_schema_rows.inc>"),
    ("estimator/onnx/a.cc", '#include "../base/bytes.h"',
     "estimator/onnx/a.cc:1: \"../base/bytes.h\": write includes from the root of the "
     'repository, without ".."'),
    ("estimator/onnx/a.cc", '#include "b.h"',
     'estimator/onnx/a.cc:1: "b.h": expected a path from the root of the repository, '
     'such as "estimator/base/bytes.h"'),
    ("estimator/attic/a.cc", "",
     "estimator/attic/a.cc:1: room 'attic' is not in the table of tests/check_architecture.py"),
    ("estimator/onnx/a.h", "int x;",
     "estimator/onnx/a.h:1: a header without '#pragma once'"),
    ("estimator/onnx/a.h", "#pragma once", ""),
]


def private(text):
    return f"namespace onnxfit {{\nnamespace {{\n\n{text}\n\n}}  // namespace\n}}  // namespace onnxfit\n"


def public(text):
    return f"#pragma once\nnamespace onnxfit {{\n{text}\n}}  // namespace onnxfit\n"


# What two files have in their anonymous namespaces, and the name that is there twice ("" for none).
DOUBLES = [
    ("int Least(int n) { return n; }", "int Least(int n) { return n; }", "Least"),
    ("int Least(int n) { return n; }", "int Most(int n) { return n; }", ""),
    ("int Least(int n) { return n; }", "int Least(const Dims& n) { return n; }", ""),
    ("int Least(int n) { return n; }", "int Least(int n, int k) { return n; }", ""),
    ("int Least(int n) { return n; }", "int Least(int n, int k = 1) { return n; }", "Least"),
    ("int Least(int n) { return n; }", "int Least(int64_t n) { return n; }", "Least"),
    ("int Least(std::string n) { return 1; }", "int Least(std::string_view) { return 1; }", "Least"),
    ("int Least(Dims n) { return 1; }", "int Least(const Dims& n) { return 1; }", "Least"),
    ("std::map<int, int (*)(int)> Least() {\n}", "[[noreturn]] void Least() {\n}", "Least"),
    ("template <typename T, size_t N = (1)> T Least(const T& n) {\n}",
     "template <typename T>\nT Least(const T& n) {\n}", "Least"),
    ("void A() {\n  const int least = 1;\n}", "void B() {\n  const int least = 1;\n}", ""),
    ("struct Row {\n  int n = 0;\n};", "struct Row {\n  int m = 0;\n};", "Row"),
    ("struct Row;\nstruct Rows {\n};", "struct Row;", ""),
    ("struct Row {\n};", "class Row final : public A<B> {\n};", "Row"),
    ("enum class Row { kA };", "int Row(int n) { return n; }", "Row"),
    ("using Row = std::vector<int>;", "using Row = std::vector<int>;", ""),
    ("using Row = std::vector<int>;", "using Row = std::vector<bool>;", "Row"),
    ("using Row = std::vector<int>;", "struct Row {\n};", "Row"),
    ("constexpr int kMost = 1;", "constexpr int64_t kMost = 2;", "kMost"),
    ('constexpr std::string_view kMost[] = {"{", "}"};', "const char kMost = '{';", "kMost"),
    ("const auto kMost = [](int n) {\n  return n;\n};", "std::atomic<int> kMost{1};", "kMost"),
    ("// int Least(int n) { return n; }", "int Least(int n) { return n; }", ""),
    ("const char* kText = R\"(int Least(int n) { )\";", "int Least(int n) { return n; }", ""),
    ("#define LEAST(n) \\\n  int Least(int n) {\nint kOne = 1'000;", "int Least(int n) { return n; }",
     ""),
    ("bool operator<(A a, A b) { return true; }", "bool operator<(A a, A b) { return true; }", ""),
    ("A::A(int n) : a_{n} {}\nint Least() { return 1; }", "int Least() { return 1; }", "Least"),
]

# What a header shows, what one file has in its anonymous namespace, what another does behind it,
# and whether the second is in the way.
HIDDEN = [
    ("Dims Joined(const Dims& a);", "Dims Joined(Dims a) {\n}", "auto x = Joined({});", True),
    ("Dims Joined(const Dims& a);", "Dims Joined(int a) {\n}", "auto x = Joined({});", True),
    ("Dims Joined(const Dims& a);", "Dims Joined(int a) {\n}", "auto x = Other({});", False),
    ("Dims Joined(const Card& a);", "Dims Joined(int a) {\n}", "auto x = Joined(card);", False),
    ("Dims Joined(const Card& a);", "Dims Joined(Card a) {\n}", "auto x = Joined(card);", True),
    ("struct Joined {\n};", "Dims Joined(Card a) {\n}", "Joined x;", True),
    ("struct Joined {\n};", "using Joined = int;", "Joined::Joined() {\n}", True),
    ("using Joined = int;", "using Joined = int;", "Joined x;", False),
]


def found_in(files):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return "\n".join(check(Path(folder))[0])


def expect(files, expected):
    found = found_in(files)
    assert found == expected, f"{files}\nexpected {expected!r}\nfound    {found!r}"


def test_names():
    one = "a room is compiled as one file"
    for a, b, name in DOUBLES:
        files = {"estimator/onnx/a.cc": private(a), "estimator/onnx/b.cc": private(b)}
        place = 5 if "\n" in a and a.index(name or a) > a.index("\n") else 4
        expect(files, name and f"estimator/onnx/b.cc:4: '{name}' is in "
                               f"estimator/onnx/a.cc:{place}, too: {one}")
        expect({"estimator/onnx/a.cc": private(a), "estimator/fit/b.cc": private(b)}, "")
    for shown, kept, used, is_hidden in HIDDEN:
        files = {"estimator/base/h.h": public("using Dims = int;\n" + shown),
                 "estimator/onnx/a.cc": private(kept),
                 "estimator/onnx/b.cc": '#include "estimator/base/h.h"\n' + private(used)}
        expect(files, "" if not is_hidden else "estimator/onnx/a.cc:4: 'Joined' hides that of "
                                               f"estimator/base/h.h from estimator/onnx/b.cc: {one}")
    return len(DOUBLES) + len(HIDDEN)


def self_test():
    seen = []
    for room, others in ROOMS.items():
        assert set(others) <= set(seen), f"{room} refers to a room below it"
        seen.append(room)
    for path, text, expected in CASES:
        expect({path: text}, expected)
    print(f"architecture self-test: {len(CASES) + test_names()} cases")


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
