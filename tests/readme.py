"""Runs the commands that README files and docs/ show, and holds them to what comes out; their
links lead to files that are there.

    readme.py --check  --binary build/release/onnxfit   # exit 1 where they differ
    readme.py --update --binary build/release/onnxfit   # writes what comes out
    readme.py --self-test

A block that is run looks like this; its command begins with onnxfit, from the root of the
repository, and what follows is the command's output, standard error included:

    <!-- run -->
    ```text
    $ onnxfit models/linear.onnxtxt
    …
    ```

One of "run with torch" is run where there is --with-torch alone; "python" in it is the Python that
runs this file.

A table is what a script of the repository prints:

    <!-- run python3 benchmarks/accuracy/accuracy.py --summary --committed -->
    | … |
    <!-- end -->

Python is typed at a prompt.  What needs PyTorch is run by the Python that runs this file where
there is --with-torch, else with tests/torch_stand_in.py in its place; "run with torch itself" is
run there alone:

    <!-- run -->                    or    <!-- run with torch -->
    ```python
    >>> import onnxfit
    >>> print(onnxfit.estimate("models/linear.onnxtxt").headline)
    …
    ```
"""

import argparse
import difflib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- run( with torch)? -->\n```text\n\$ (onnxfit\b.*)\n(?:.*\n)*?```$", re.MULTILINE)

TABLE = re.compile(r"(?<=<!-- run )python3 (.*) -->\n(?:.*\n)*?<!-- end -->$", re.MULTILINE)

PYTHON = re.compile(r"<!-- run( with torch(?: itself)?)? -->\n```python\n((?:>>> |\.\.\. ).*\n(?:.*\n)*?)```$",
                    re.MULTILINE)

# Types each statement, then lets it print.
PROMPT = """
import json, sys
names = {}
if sys.argv[2:]:
    sys.path.insert(0, sys.argv[2])
    import torch_stand_in
    torch_stand_in.install()
for typed in json.loads(sys.argv[1]):
    print(*typed, sep="\\n", flush=True)
    exec(compile("\\n".join(line[4:] for line in typed) + "\\n", "README", "single"), names)
    sys.stdout.flush()
"""


def statements(block):
    """The lines at the prompt of a block, statement by statement."""
    typed = []
    for line in block.splitlines():
        if line.startswith(">>> "):
            typed.append([line])
        elif line.startswith("... "):
            typed[-1].append(line)
    return typed


def run_script(command):
    words = [sys.executable, "-B", *shlex.split(command)]
    return subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=60, check=True,
                          encoding="utf-8", stdout=subprocess.PIPE).stdout


def output_of(words, **environment):
    """What a command writes in the root, without settings of whoever runs this."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ONNXFIT_")}
    plain |= {"LC_ALL": "C.UTF-8", "NO_COLOR": "1", **environment}
    result = subprocess.run(words, cwd=ROOT, env=plain, stdin=subprocess.DEVNULL, timeout=60,
                            encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return result.stdout


def run_binary(binary, command):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return output_of([binary, *shlex.split(command)[1:]], PATH=path)


def run_python(binary, block, stands_in=False):
    words = [sys.executable, "-B", "-c", PROMPT, json.dumps(statements(block)),
             *([str(ROOT / "tests")] if stands_in else [])]
    return output_of(words, ONNXFIT_BINARY=binary, PYTHONPATH=str(ROOT / "python"))


def renewed(text, run, run_table=run_script, type_in=None, has_torch=True):
    """`text` with the output of every block that is run, and how many there are.  `run` and `type_in`
    are told whether a block is of torch; what `run` has no output for stays as it is."""
    def block(found):
        output = run(found[2], bool(found[1]))
        if output is None:
            return found[0]
        return f"<!-- run{found[1] or ''} -->\n```text\n$ {found[2]}\n{output.rstrip()}\n```"

    def table(found):
        return f"python3 {found[1]} -->\n{run_table(found[1])}<!-- end -->"

    def prompt(found):
        if (found[1] or "").endswith("itself") and not has_torch:
            return found[0]
        shown = type_in(found[2], bool(found[1])).rstrip()
        return f"<!-- run{found[1] or ''} -->\n```python\n{shown}\n```"
    text, blocks = BLOCK.subn(block, text)
    text, tables = TABLE.subn(table, text)
    text, prompts = PYTHON.subn(prompt, text)
    return text, blocks + tables + prompts


def difference(name, old, new):
    return "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True),
                                        f"{name} (as it is)", f"{name} (as it comes out)"))


def pages():
    patterns = ["README.md", "*/README.md", "benchmarks/*/README.md", "docs/*.md", "docs/*/*.md"]
    return [file for pattern in patterns for file in sorted(ROOT.glob(pattern))]


def headings(text):
    """As links name them: "# On an H200" is on-an-h200."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def broken_links(folder, text):
    """Of links to files and their headings."""
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        name, _, heading = link.partition("#")
        file = folder / name if name else None
        of = text if file is None else (
            file.read_text(encoding="utf-8") if file.suffix == ".md" and file.exists() else "")
        if (file is not None and not file.exists()) or (heading and heading not in headings(of)):
            yield link


def self_test():
    text = "a\n<!-- run -->\n```text\n$ onnxfit x -b 2\nold\n\nlines\n```\n```text\n$ onnxfit y\n```\n"
    expected = text.replace("old\n\nlines", "out of onnxfit x -b 2")
    for old in (text, expected):
        assert renewed(old, lambda command, _: f"out of {command}\n") == (expected, 1)
    torch = text.replace("run", "run with torch")
    assert renewed(torch, lambda *_: None) == (torch, 1)
    assert "\nout of True\n" in renewed(torch, lambda _, of_torch: f"out of {of_torch}")[0]
    text = "a\n<!-- run python3 x.py -->\n| old |\n<!-- end -->\nb\n"
    assert renewed(text, None, lambda command: f"| {command} |\n") == (
        text.replace("old", "x.py"), 1)
    text = "<!-- run -->\n```python\n>>> x = (1,\n...      2)\nold\n>>> x\n```\n"
    shown = text.replace("old\n", "").replace(">>> x\n", ">>> x\n(1, 2)\n")
    assert renewed(text, None, None, lambda block, _: run_python("", block)) == (shown, 1)
    torch = text.replace("run", "run with torch")
    alone = text.replace("run", "run with torch itself")
    assert renewed(alone, None, None, lambda _, of_torch: "", has_torch=False)[0] == alone
    assert renewed(torch, None, None, lambda _, of_torch: f"of torch: {of_torch}")[0] == (
        "<!-- run with torch -->\n```python\nof torch: True\n```\n")
    assert "+(1, 2)" in difference("README.md", text, shown)
    assert headings("# On an H200\n```\n# no\n```\n## `x`, y\n") == {"on-an-h200", "x-y"}
    assert list(broken_links(ROOT, "[a](README.md) [b](none.md) [c](#here) [d](https://e.f)\n")) == [
        "none.md", "#here"]
    print("readme self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    for option in ("--check", "--update", "--self-test"):
        what.add_argument(option, action="store_true")
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--with-torch", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        self_test()
        return 0
    binary, blocks, differ, wrong = str(Path(args.binary).resolve()), 0, 0, []
    for file in pages():
        old = file.read_text(encoding="utf-8")
        wrong += [f"{file.relative_to(ROOT)}: expected a file, found none at {link}"
                  for link in broken_links(file.parent, old)]
        new, count = renewed(old, lambda command, of_torch: run_binary(binary, command)
                             if args.with_torch or not of_torch else None,
                             type_in=lambda block, of_torch: run_python(
                                 binary, block, of_torch and not args.with_torch),
                             has_torch=args.with_torch)
        blocks += count
        if new == old:
            continue
        differ += 1
        if args.update:
            file.write_text(new, encoding="utf-8")
        else:
            wrong.append(difference(file.relative_to(ROOT), old, new))
    done = "brought up to date" if args.update else "differ"
    print("\n".join([*wrong, f"readme: {blocks} commands run, {differ} files {done}"]))
    if wrong:
        print("expected the files to show what comes out (try: tests/readme.py --update)")
    return 1 if wrong or not blocks else 0


if __name__ == "__main__":
    sys.exit(main())
