"""A hint that onnxfit prints is one that onnxfit accepts.

    hints_test.py --binary build/dev/onnxfit [-v]

Hints that the other tests expect, "(try: --dim seq=512)" in their strings: their flags are typed
before a file that is not there, so that flags are all that can be refused.  And models whose errors
give sizes to type: these are typed, with what the next errors give, until there is an answer; and the
flag that an answer gives for a size that it has taken at its most.
"""

import argparse
import ast
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')
WRITTEN = re.compile(r"\.hint = ([^;{}]*)")
HINT = re.compile(r"\(try: (.*)\)", re.DOTALL)
NOT_THERE = "not-there.onnx"
MOST = re.compile(r"\(--dim (\S+)=N says less\)")
FLAG = re.compile(r"(?:^|(?<=[\s(]))--?[a-z][a-z0-9-]*")
# What people put in for a placeholder of a hint.
# What else has to be typed for a flag to make sense, where the tests' command has it.
BESIDE = {"--galore": "-o galore", "--split-at": "--strategy pipeline --world 2"}
# Flags of a command without a file, or of another one.
ALONE = {"--params": "", "--heads": "--params 175e9 --layers 96 --hidden 12288",
         "--seq": "--params 175e9 --layers 96 --hidden 12288"}
OF_SEARCH = {"--all-gpus", "--max", "--solve"}
FILLED = {"N": "8", "NAME=N": "seq=8", "SIZE": "8GiB", "MODULE": "layer1", "RANK:NAME": "8:fc",
          "FILE": "log.txt", "REF": "main"}

# Each model with what is typed first.  y is what data decide.
BODIES = """then_branch = a () => (int64 t) {{ r = Relu(x) s = Neg(r) p = NonZero(s) t = Transpose(p) }},
    else_branch = b () => (int64 e) {{ {} }}"""
MODELS = {
    "free": ("g (int64[N, seq] ids, int64[K, '?'] past) => (int64[N, seq] y) "
             "{ y = Identity(ids) }", ""),
    "free_named": ("g (int64[N, 'batch-size'] ids) => (int64 y) { y = Identity(ids) }", ""),
    "past": ("g (int64[N, 1] ids, int64[N, 'past + 1'] mask, float[N, past] key) => (int64 y) "
             "{ y = Identity(ids) }", ""),
    "past_misspelt": ("g (int64[N, 1] ids, int64[N, 'past + 1'] mask, float[N, past] key) "
                      "=> (int64 y) { y = Identity(ids) }", "--dim passt=8"),
    "misspelt": ("g (int64[N, seq] ids) => (int64[N, seq] y) { y = Identity(ids) }",
                 "--dim sec=8"),
    "batch": ("g (int64[s10, 512] ids) => (int64 y) { y = Identity(ids) }", "--dim batch=4"),
    "fixed_batch": ("g (int64[2] x) => (int64[2] y) { y = Identity(x) }", "--dim N=8"),
    "shape": ("g (int64[N, seq] ids, int64[7] m) => (int64 y) { y = Identity(ids) }",
              "--shape id=2x3x8x8"),
    "shapeless": ("g (int64[] x) => (int64 y) { y = Identity(x) }", ""),
    "blank": ("g (int64['a b', 'c d'] x) => (int64 y) { y = Identity(x) }", ""),
    "if": ("g (float[N, 4] x, bool c) => (int64 y) { y = If<"
           + BODIES.format("e = Shape(x)").replace("{{", "{").replace("}}", "}") + ">(c) }", ""),
    "if_inside": ("g (float[N, 4] x, bool c) => (int64 y) { z = If<then_branch = o () => (int64 u) "
                  "{ u = If<" + BODIES.format("e = NonZero(x)").replace("{{", "{").replace("}}", "}")
                  + ">(c) }, else_branch = q () => (int64 v) { v = Shape(x) }>(c) "
                  "y = NonZero(z) }", ""),
    "if_taken": ("g (float[N, 4] x, bool c) => (int64 y) { p = Relu(x) [if] y = If<"
                 + BODIES.format("e = Shape(x)").replace("{{", "{").replace("}}", "}")
                 + ">(c) }", ""),
    "loop": ("g (float[N, 4] x) => (int64 y) <int64 trips = {3}, bool go = {1}> { [loop] y = Loop<"
             "body = s (int64 i, bool c, float v) => (bool d, int64 v2) { d = Identity(c) "
             "p = NonZero(v) v2 = Transpose(p) }>(trips, go, x) }", ""),
    "while": ("g (float[N, 4] x, bool go) => (float[A, B] last) { [until] last = Loop<body = s "
              "(int64 i, bool c, float v) => (bool c, float v2) { v2 = Neg(v) }>( , go, x) }", ""),
    "while_and_size": ("g (float[N, 4] x, bool go) => (int64 y) { last = Loop<body = s "
                       "(int64 i, bool c, float v) => (bool c, float v2) { v2 = Neg(v) }>( , go, x) "
                       "y = NonZero(last) }", ""),
    "function": ("<ir_version: 8, opset_import: ['' : 17, 'l' : 1]> g (float[N, 4] x) => (int64 y) "
                 "{ z = l.Places(x) y = Transpose(z) } <domain: 'l', opset_import: ['' : 17, "
                 "'l' : 1]> Places (a) => (b) { p = NonZero(a) b = Identity(p) }", ""),
    "most": ("g (float[N, 4] x) => (int64 y) { y = NonZero(x) }", ""),
    "range": ("g (int64 n) => (int64 y) <int64 k = {2}> { y = Range(k, n, k) }", ""),
    "rank": ("g (float[N, 4] x, int64[k] s) => (float y) { y = Reshape(x, s) }", "--dim k=2"),
    "channels": ("g (float[N, C] x) => (float y) <float[3, 4] w = {0,0,0,0,0,0,0,0,0,0,0,0}> "
                 "{ y = MatMul(x, w) }", "--dim C=5"),
    "lengths": ("g (float[N, a] x, float[N, b] z) => (float y) { y = Add(x, z) }",
                "--dim a=8 --dim b=4"),
    "fixed_size": ("g (float[1, 4] x) => (float y) <float[4, 4] w = "
                   "{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}> { y = MatMul(x, w) }", "--shape x=1x7"),
}
ROUNDS = 8


def texts(source):
    """Strings of a C++ file, those behind one another joined as the compiler does."""
    end, joined = None, ""
    for found in LITERAL.finditer(source):
        if end is not None and source[end:found.start()].strip():
            yield joined
            joined = ""
        try:
            joined += ast.literal_eval(found.group())
        except (SyntaxError, ValueError):
            joined += found.group()[1:-1]
        end = found.end()
    yield joined


def hints_of_sources():
    """Those that are written as they are, without numbers or names to be filled in."""
    for room in ("estimator", "cli"):
        for path in sorted((TESTS.parent / room).rglob("*.cc")):
            for found in WRITTEN.finditer(path.read_text(encoding="utf-8")):
                for hint in texts(found.group(1)):
                    if hint and "{" not in hint and not hint.endswith((" ", "=")):
                        yield hint


def hints_of_suite():
    hints = set(hints_of_sources())
    for path in sorted(TESTS.glob("*_test.cc")):
        for text in texts(path.read_text(encoding="utf-8")):
            for line in text.splitlines() or [text]:
                found = HINT.search(line)
                if found:
                    hints.add(found.group(1))
    return sorted(hints)


def ways(hint):
    """The command lines in a hint: "--loss mse, or none, …" is one, "-o adam or adamw" two."""
    if hint.startswith(("torch.", "an export", "export it", "git ", "pip ", "zcat ", "program.")):
        return
    if hint.startswith("onnxfit "):
        yield None, shlex.split(re.split(r"[,;(]|\b(?:writes|without|which)\b", hint)[0])[1:]
        return
    plain = re.sub(r" \([^)]*\)", "", hint)
    for part in re.split(r", or |, (?=[a-z-])|; |: ", plain):
        if not FLAG.match(part):
            continue
        head, *others = re.split(r" or ", part)
        words = [FILLED.get(word, word) for word in shlex.split(head)]
        words = words[:last_of_flags(words)]
        yield words[0], words
        for other in others:
            again = shlex.split(other)
            yield words[0], again if again[0].startswith("-") else [words[0], *again[:1]]


def last_of_flags(words):
    """How many words are flags and their values; prose follows: "--strategy fsdp shares all"."""
    count = 0
    while count < len(words) and words[count].startswith("-"):
        has_value = count + 1 < len(words) and not words[count + 1].startswith("-")
        count += 2 if has_value and "=" not in words[count] else 1
    return count


def run(binary, words, folder):
    return subprocess.run([binary, *words], capture_output=True, text=True, check=False,
                          cwd=folder, stdin=subprocess.DEVNULL)


def refusal(binary, words, folder):
    """What onnxfit says against these flags, "" where it looks for the file."""
    if words[0] in ALONE:
        done = run(binary, ["estimate", *words, *shlex.split(ALONE[words[0]])], folder)
        return done.stderr.strip() if done.returncode == 2 else ""
    command = "max-batch" if OF_SEARCH & set(words) else "estimate"
    beside = shlex.split(BESIDE.get(words[0], ""))
    said = run(binary, [command, NOT_THERE, *words, *beside], folder).stderr
    return "" if NOT_THERE in said.split(": ")[1:2] else said.strip()


def check_suite(binary, folder, verbose):
    wrong, count = [], 0
    for hint in hints_of_suite():
        for flag, words in ways(hint):
            count += 1
            if flag is None:
                known = run(binary, [words[0], "--help"], folder).returncode == 0 if words else True
                said = "" if known or words[0].endswith(".onnx") else "no such command"
            else:
                said = refusal(binary, words, folder)
            if verbose:
                print(f"{'no ' if said else 'ok '} {' '.join(words)}   of: {hint[:70]}")
            if said:
                wrong.append(f"(try: {hint}): {' '.join(words)}: {said}")
    if count < 40:
        wrong.append(f"expected 40 hints with flags at least, found {count}")
    return wrong


def merged(words, hint):
    """The command line with what the hint gives in place of what it corrects."""
    given = shlex.split(re.split(r", or ", hint)[0])
    pairs = list(zip(given[::2], given[1::2]))
    names = {(flag, value.split("=")[0]) for flag, value in pairs}
    kept = [(flag, value) for flag, value in zip(words[::2], words[1::2])
            if (flag, value.split("=")[0]) not in names]
    return [word for pair in kept + pairs for word in pair]


def without_refused(words, said):
    """Without the flag that the error is about: "--shape id: no input has this name"."""
    about = said.split(" (try:")[0]
    return [word for flag, value in zip(words[::2], words[1::2])
            if f"{flag} {value.split('=')[0]}:" not in about and f"{flag} {value}:" not in about
            for word in (flag, value)]


def check_models(binary, folder, verbose):
    wrong = []
    for name, (text, flags) in MODELS.items():
        file = f"{name}.onnxtxt"
        (Path(folder) / file).write_text(text.replace("'", '"'), encoding="utf-8")
        words, typed = shlex.split(flags), []
        for _ in range(ROUNDS):
            said = run(binary, ["estimate", file, "--mode", "eval", *words], folder)
            if said.returncode != 2:
                break
            hint = HINT.search(said.stderr)
            typed.append(said.stderr.strip())
            if not hint or not hint.group(1).startswith("--"):
                break
            words = merged(without_refused(words, said.stderr), hint.group(1))
        most = MOST.search(" ".join(said.stdout.split()))
        if most and not typed:
            typed.append(most[0])
            words += ["--dim", *shlex.split(f"{most[1]}=2")]
            said = run(binary, ["estimate", file, "--mode", "eval", *words], folder)
        if verbose:
            print(f"{name}: {' '.join(words)}")
        if said.returncode == 2 or not typed:
            wrong.append(f"{name}: {typed[-1] if typed else 'no hint'} after {' '.join(words)}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("-v", action="store_true", dest="verbose")
    options = parser.parse_args()
    binary = str(Path(options.binary).resolve())
    with tempfile.TemporaryDirectory() as folder:
        wrong = check_suite(binary, folder, options.verbose)
        wrong += check_models(binary, folder, options.verbose)
    for line in wrong:
        print(line)
    print(f"hints: {len(wrong)} that are not accepted")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
