"""Holds the reports of `onnxfit check` in tests/golden/check/ to the formats that others
define: JUnit's XML, SARIF 2.1.0, GitLab's code quality, github-action-benchmark, workflow
commands of GitHub.

    check_schemas.py [ROOT]      # one line a violation, exit 1 if there is one
    check_schemas.py --self-test # shows that each rule can fail

The XML is held to Jenkins' own schema, tests/data/schemas/junit-10.xsd.  What SARIF's standard
(OASIS, 2.1.0) requires of the objects that we write is in the tables below.
"""

import copy
import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from small_xsd import Schema

# --- XML -----------------------------------------------------------------------------------


def junit_violations(text, schema):
    root = ET.fromstring(text)
    yield from schema.violations(root)
    for suite in root.iter("testsuite"):
        counts = {"tests": len(suite.findall("testcase"))}
        for element in ("failure", "error", "skipped"):
            attribute = element if element == "skipped" else element + "s"
            counts[attribute] = len(suite.findall(f"testcase/{element}"))
        for attribute, count in counts.items():
            if suite.get(attribute) != str(count):
                yield f"{attribute}={suite.get(attribute)}, there are {count}"


# --- JSON ----------------------------------------------------------------------------------

URI = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2})+")


def is_text(value):
    return isinstance(value, str) and value != ""


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_line(value):
    return is_count(value) and value >= 1


def is_flag(value):
    return isinstance(value, bool)


def is_web_uri(value):
    return is_text(value) and bool(URI.fullmatch(value)) and value.startswith("https://")


def is_relative_uri(value):
    """A path within the repository, or an absolute file: no other scheme, no backslash."""
    return is_text(value) and bool(URI.fullmatch(value)) and (
        value.startswith("file:///") or ":" not in value.split("/")[0])


def is_message(value):
    """Braces are placeholders unless they are doubled (3.11.5); we have no arguments."""
    return is_text(value) and not re.search(r"[{}]", value.replace("{{", "").replace("}}", ""))


def one_of(*values):
    return lambda value: value in values


def texts(value):
    return isinstance(value, dict) and all(is_text(v) for v in value.values())


# Of each object the properties that we may write: what each is (a name of another object, in a
# list where the standard has an array), and whether the standard or GitHub requires it.
LEVELS = one_of("none", "note", "warning", "error")
SARIF = {
    "log": {"$schema": (is_web_uri, False),
            "version": (one_of("2.1.0"), True), "runs": (["run"], True)},
    "run": {"tool": ("tool", True), "invocations": (["invocation"], False),
            "results": (["result"], True)},
    "tool": {"driver": ("driver", True)},
    "driver": {"name": (is_text, True), "version": (is_text, False), "rules": (["rule"], True)},
    "rule": {"id": (is_text, True), "shortDescription": ("text", True),
             "fullDescription": ("text", True), "help": ("text", True),
             "defaultConfiguration": ("configuration", False)},
    "configuration": {"level": (LEVELS, False)},
    "text": {"text": (is_text, True)},
    "invocation": {"executionSuccessful": (is_flag, True),
                   "toolExecutionNotifications": (["notification"], False)},
    "notification": {"level": (LEVELS, False), "message": ("message", True)},
    "message": {"text": (is_message, True)},
    "result": {"ruleId": (is_text, True), "ruleIndex": (is_count, False),
               "level": (one_of("warning", "error"), True), "message": ("message", True),
               "locations": (["location"], True), "partialFingerprints": (texts, True)},
    "location": {"physicalLocation": ("place", True), "logicalLocations": (["logical"], False)},
    "place": {"artifactLocation": ("artifact", True), "region": ("region", False)},
    "artifact": {"uri": (is_relative_uri, True)},
    "region": {"startLine": (is_line, True)},
    "logical": {"fullyQualifiedName": (is_text, True)},
}

# https://docs.gitlab.com/ci/testing/code_quality/
GITLAB = {
    "issue": {"description": (is_text, True), "check_name": (is_text, True),
              "fingerprint": (is_text, True),
              "severity": (one_of("info", "minor", "major", "critical", "blocker"), True),
              "location": ("location", True)},
    "location": {"path": (lambda v: is_text(v) and not v.startswith("./"), True),
                 "lines": ("lines", True)},
    "lines": {"begin": (is_line, True)},
}

# https://github.com/benchmark-action/github-action-benchmark
BENCH = {"entry": {"name": (is_text, True), "unit": (one_of("bytes"), True),
                   "value": (is_count, True), "extra": (is_text, False)}}


def shape_violations(shapes, kind, value, where):
    """What of `value` is not as `kind` says: a name in `shapes`, a list of one, a question."""
    if isinstance(kind, list):
        if not isinstance(value, list):
            return [f"{where}: not an array"]
        return [v for i, item in enumerate(value)
                for v in shape_violations(shapes, kind[0], item, f"{where}[{i}]")]
    if callable(kind):
        return [] if kind(value) else [f"{where}: {value!r}"]
    if not isinstance(value, dict):
        return [f"{where}: not an object"]
    found = [f"{where}: '{key}' is not known" for key in value if key not in shapes[kind]]
    for key, (inner, is_required) in shapes[kind].items():
        if key in value:
            found += shape_violations(shapes, inner, value[key], f"{where}.{key}")
        elif is_required:
            found.append(f"{where}: no '{key}'")
    return found


def repeated(values):
    seen = [json.dumps(value, sort_keys=True) for value in values]
    return sorted({value for value in seen if seen.count(value) > 1})


def sarif_violations(log):
    found = shape_violations(SARIF, "log", log, "sarif")
    if found:
        return found
    for run in log["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        found += [f"two rules {rule}" for rule in repeated(rules)]
        for result in run["results"]:
            if rules[result["ruleIndex"]:][:1] != [result["ruleId"]]:
                found.append(f"ruleIndex {result['ruleIndex']} is not {result['ruleId']}")
            if len(result["locations"]) != 1:
                found.append("a result is at one place: GitHub shows the first alone")
            for location in result["locations"]:
                nodes = location.get("logicalLocations", [])
                found += [f"twice {node}" for node in repeated(nodes)]
        prints = [result["partialFingerprints"] for result in run["results"]]
        found += [f"two results {value}" for value in repeated(prints)]
    return found


def gitlab_violations(issues):
    found = shape_violations(GITLAB, ["issue"], issues, "gitlab")
    if not found:
        found = [f"two issues {v}" for v in repeated([issue["fingerprint"] for issue in issues])]
    return found


def bench_violations(entries):
    found = shape_violations(BENCH, ["entry"], entries, "bench")
    if not found:
        found = [f"two entries {v}" for v in repeated([entry["name"] for entry in entries])]
    return found


# --- Lines of text -------------------------------------------------------------------------

COMMAND = re.compile(
    r"::(?:error|warning|notice) file=[^:,]+(?:,line=[1-9][0-9]*)?,title=[^:,]+::.+")


def github_violations(text):
    """The runner takes a line for a command that begins with "::" after spaces."""
    commands = [line for line in text.split("\n") if line.lstrip().startswith("::")]
    for line in commands:
        if not COMMAND.fullmatch(line):
            yield f"no command: {line}"
        if re.search(r"%(?!25|0D|0A|3A|2C)", line):
            yield f"a percent sign that escapes nothing: {line}"
    if len(commands) > 10:
        yield f"{len(commands)} commands, GitHub shows ten"


def markdown_violations(text):
    if text.split("\n")[0] != "<!-- onnxfit-check -->":
        yield "the first line is not the marker"
    if text.count("<details>") != text.count("</details>"):
        yield "<details> are not closed"
    if len(text) > 65536:
        yield f"{len(text)} characters, GitHub takes 65536"


# -------------------------------------------------------------------------------------------


def checks_of(schema):
    return {
        "junit.xml": lambda text: junit_violations(text, schema),
        "sarif.json": lambda text: sarif_violations(json.loads(text)),
        "gitlab.json": lambda text: gitlab_violations(json.loads(text)),
        "bench.json": lambda text: bench_violations(json.loads(text)),
        "github.txt": github_violations,
        "comment.md": markdown_violations,
    }


def violations(root):
    schema = Schema((root / "tests/data/schemas/junit-10.xsd").read_text(encoding="utf-8"))
    seen = 0
    for ending, check in checks_of(schema).items():
        for path in sorted((root / "tests/golden/check").glob(f"*.{ending}")):
            seen += 1
            text = path.read_bytes().decode("utf-8")
            yield from (f"{path.name}: {what}" for what in check(text))
            if not text.endswith("\n"):
                yield f"{path.name}: no newline at its end"
    if seen == 0:
        yield "tests/golden/check: no reports"


# --- Self test: each rule fails on something ------------------------------------------------

JUNIT = ('<testsuites><testsuite name="s" tests="1" failures="0" errors="0" skipped="0">'
         '<testcase name="t"><system-out>x</system-out></testcase></testsuite></testsuites>')
BROKEN_JUNIT = [  # what is replaced, by what, what is then said
    ('name="t"', "", "has no 'name'"),
    ('name="t"', 'name="t" bytes="1"', "may not have 'bytes'"),
    ("<system-out>", "loose<system-out>", "may not hold text"),
    ("<system-out>x</system-out>", "<error/><passed/>", "may not hold error;passed;"),
    ("<system-out>x</system-out>", "<failure/>", "failures=0, there are 1"),
    ('tests="1"', 'tests="2"', "tests=2, there are 1"),
    ('errors="0"', 'errors="0" time="0:1"', "is no SUREFIRE_TIME"),
    (">x<", "><b/><", "is text alone"),
    ("testsuites", "suites", "is not in the schema"),
]

TEXT = {"text": "t"}
LOG = {"version": "2.1.0", "runs": [{
    "tool": {"driver": {"name": "n", "rules": [
        {"id": "r", "shortDescription": TEXT, "fullDescription": TEXT, "help": TEXT}]}},
    "results": [{
        "ruleId": "r", "ruleIndex": 0, "level": "error", "message": {"text": "m"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": "a"},
                                            "region": {"startLine": 1}},
                       "logicalLocations": [{"fullyQualifiedName": "n"}]}],
        "partialFingerprints": {"f": "1"}}]}]}
RESULT = ("runs", 0, "results", 0)
LOCATION = RESULT + ("locations", 0)
PLACE = LOCATION + ("physicalLocation",)
BROKEN_SARIF = [  # a place, what stands there (None: nothing), what is then said
    (("version",), "2.2", "version"),
    (("runs", 0, "tool"), None, "no 'tool'"),
    (("runs", 0, "results"), {}, "not an array"),
    (RESULT + ("color",), "red", "'color' is not known"),
    (RESULT + ("level",), "fatal", "level"),
    (RESULT + ("message",), None, "no 'message'"),
    (RESULT + ("message", "text"), "{0}", "text"),
    (RESULT + ("ruleIndex",), 1, "ruleIndex 1"),
    (RESULT + ("partialFingerprints", "f"), 1, "partialFingerprints"),
    (PLACE, None, "no 'physicalLocation'"),
    (PLACE + ("region", "startLine"), 0, "startLine"),
    (PLACE + ("artifactLocation", "uri"), "a b", "uri"),
    (PLACE + ("artifactLocation", "uri"), "a\\b", "uri"),
    (PLACE + ("artifactLocation", "uri"), "c:/b", "uri"),
    (LOCATION + ("logicalLocations",), [{"fullyQualifiedName": "n"}] * 2, "twice"),
    (RESULT[:-1], LOG["runs"][0]["results"] * 2, "two results"),
]
ISSUE = {"description": "d", "check_name": "c", "fingerprint": "f", "severity": "major",
         "location": {"path": "p", "lines": {"begin": 1}}}
BROKEN_GITLAB = [
    ((0, "severity"), "error", "severity"),
    ((0, "location", "path"), "./p", "path"),
    ((0, "location", "lines", "begin"), 0, "begin"),
    ((0, "fingerprint"), None, "no 'fingerprint'"),
    ((1,), ISSUE, "two issues"),
]
BROKEN_BENCH = [((0, "value"), "1", "value"), ((0, "unit"), "MiB", "unit"),
                ((0, "name"), None, "no 'name'")]
COMMANDS = "::error file=f,line=1,title=t::m\n"
BROKEN_GITHUB = [("::error file=f", "::error f", "no command"), ("::m", "::5%", "percent"),
                 ("::error", " ::debug", "no command"), (COMMANDS, COMMANDS * 11, "11 commands")]


def changed(value, where, to):
    value = copy.deepcopy(value)
    inner = value
    for key in where[:-1]:
        inner = inner[key]
    if to is None:
        del inner[where[-1]]
    elif isinstance(inner, list) and where[-1] == len(inner):
        inner.append(to)
    else:
        inner[where[-1]] = to
    return value


def self_test(root):
    schema = Schema((root / "tests/data/schemas/junit-10.xsd").read_text(encoding="utf-8"))
    cases = [(f"{a!r} -> {b!r}", junit_violations(JUNIT.replace(a, b), schema), says)
             for a, b, says in BROKEN_JUNIT]
    cases += [(f"{a!r} -> {b!r}", github_violations(COMMANDS.replace(a, b)), says)
              for a, b, says in BROKEN_GITHUB]
    entry = {"name": "n", "unit": "bytes", "value": 1}
    for check, good, table in ((sarif_violations, LOG, BROKEN_SARIF),
                               (gitlab_violations, [ISSUE], BROKEN_GITLAB),
                               (bench_violations, [entry], BROKEN_BENCH)):
        cases.append((check.__name__, check(good), ""))
        cases += [(f"{where} = {to!r}", check(changed(good, where, to)), says)
                  for where, to, says in table]
    cases.append(("junit", junit_violations(JUNIT, schema), ""))
    cases.append(("github", github_violations(COMMANDS), ""))
    cases.append(("no marker", markdown_violations("x"), "marker"))
    for name, found, says in cases:
        found = list(found)
        if bool(found) != bool(says) or (says and not any(says in what for what in found)):
            yield f"{name}: expected {says!r}, found {found}"


def main(arguments):
    is_self_test = "--self-test" in arguments
    roots = [a for a in arguments if a != "--self-test"]
    root = Path(roots[0] if roots else ".")
    found = list(self_test(root) if is_self_test else violations(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
