"""Says which rows of estimator/libraries/*.cc an installed release no longer has.

    check_libraries.py [FOLDER]      # a folder of installed packages; default: this Python's own
    check_libraries.py --self-test   # shows that it can fail

A row says of which library it knows something, in which version it was seen, in which file and by
which text.  Prints a line for each row whose text is not in that file of the installed release,
those of other versions marked, and exits with 1 where a row of the version that is installed is
gone.  Libraries that are not installed are named and passed over.
"""

import importlib.metadata
import re
import sys
import sysconfig
import tempfile
from pathlib import Path

TABLES = Path(__file__).parent.parent / "estimator/libraries"
NAMES = re.compile(r'constexpr std::string_view (k\w+) = "([^"]*)";')
STRING = r'(?:"(?:[^"\\]|\\.)*"\s*)+'
ROW = re.compile(rf"\{{(k\w+|{STRING}),\s*(k\w+|{STRING}),\s*({STRING})\}}")


def own_tables():
    """The text of rows.h, which names the releases, and of the tables beside it."""
    files = [TABLES / "rows.h", *sorted(TABLES.glob("*.cc"))]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def text_of(token, names):
    """What a C++ string literal says, or the constant of that name."""
    if not token.startswith('"'):
        return names[token]
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"', token)
    return "".join(parts).replace('\\"', '"').replace("\\n", "\n")


def rows(source):
    """(library, version, file, text) of each row that says where it was seen."""
    names = dict(NAMES.findall(source))
    for tokens in ROW.findall(source):
        if any(not token.startswith('"') and token not in names for token in tokens):
            continue
        library, file, text = (text_of(token.strip(), names) for token in tokens)
        found = re.fullmatch(r"(\w+) ([\d.]+)", library)
        if found:
            yield found.group(1), found.group(2), file, text


def installed_version(library, folder):
    for distribution in importlib.metadata.distributions(path=[str(folder)]):
        if distribution.metadata["Name"].lower() == library:
            return distribution.version.split("+")[0]
    return ""


def check(folder, source):
    """Lines to print, and whether a row of the installed version is gone."""
    versions, is_wrong, count = {}, False, 0
    for library, seen, file, text in rows(source):
        version = versions.setdefault(library, installed_version(library, folder))
        if not version:
            continue
        count += 1
        path = folder / library / file
        if path.exists() and text in path.read_text(encoding="utf-8", errors="replace"):
            continue
        is_wrong |= version == seen
        where = "" if version == seen else f" (seen in {seen})"
        yield f"{library} {version}{where}: {file} has no {text!r}", is_wrong
    missing = sorted(library for library, version in versions.items() if not version)
    told = f"; not installed: {', '.join(missing)}" if missing else ""
    yield f"libraries: {count} rows checked{told}", is_wrong


ROWS = '''
constexpr std::string_view kOther = "other 1.2";
constexpr SeenIn kSeen = {kOther, "a.py", "class "
                                          "Is(\\"there\\")"};
    {"gone", true, {kOther, "a.py", "x = 1\\ny = 3"}},
    {"newer", true, {"newer 3.0", "b.py", "z"}},
    {"absent", true, {"absent 1.0", "c.py", "z"}},
'''


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        there = 'class Is("there"): x = 1\ny = 2'
        for library, version, file, text in [("other", "1.2", "a.py", there),
                                             ("newer", "4.0", "b.py", "")]:
            path = Path(folder, library, file)
            path.parent.mkdir()
            path.write_text(text, encoding="utf-8")
            info = Path(folder, f"{library}-{version}.dist-info")
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\n"
                                           f"Version: {version}\n", encoding="utf-8")
        found = list(check(Path(folder), ROWS))
    expected = ["other 1.2: a.py has no 'x = 1\\ny = 3'",
                "newer 4.0 (seen in 3.0): b.py has no 'z'",
                "libraries: 3 rows checked; not installed: absent"]
    assert [line for line, _ in found] == expected, found
    assert found[-1][1]
    own = list(rows(own_tables()))
    assert len(own) > 80, f"{len(own)} rows below {TABLES}"
    print(f"libraries self-test: {len(own)} rows")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    default = sysconfig.get_paths()["purelib"]
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else default)
    is_wrong = False
    for line, is_wrong in check(folder, own_tables()):
        print(line)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
