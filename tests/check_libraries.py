"""Says which rows of estimator/program/libraries.cc an installed release no longer has.

    check_libraries.py [FOLDER]     # a folder of installed packages; default: this Python's own

A row says of which library it knows something, in which version it was seen, in which file and by
which text.  Prints a line for each row whose text is not in that file of the installed release,
those of other versions marked, and exits with 1 where a row of the version that is installed is
gone.  Libraries that are not installed are named and passed over.
"""

import importlib.metadata
import re
import sys
import sysconfig
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "estimator/program/libraries.cc"
NAMES = re.compile(r'constexpr std::string_view (k\w+) = "([^"]*)";')
STRING = r'(?:"(?:[^"\\]|\\.)*"\s*)+'
ROW = re.compile(rf"\{{(k\w+|{STRING}),\s*(k\w+|{STRING}),\s*({STRING})\}}")


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


def main():
    default = sysconfig.get_paths()["purelib"]
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else default)
    is_wrong = False
    for line, is_wrong in check(folder, SOURCE.read_text(encoding="utf-8")):
        print(line)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
