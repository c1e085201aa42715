"""Holds the estimates of models/ to the expectations in their comments (models/README.md).

    models.py --binary build/release/onnxfit

saved_bytes is not in the report: the tests in C++ look at it.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPECTATION = re.compile(r"^# ([a-z0-9_]+): ([a-z0-9_+*() ]+)$", re.MULTILINE)
KEYS = ["parameters", "parameter_bytes", "buffer_bytes", "adamw_state_bytes", "saved_bytes"]


def expectations(text):
    """Every key of a model's comments with its value."""
    values = {}
    for key, expression in EXPECTATION.findall(text):
        values[key] = eval(expression, {"__builtins__": {}}, values)  # integers, + and *
    return values


def estimate(binary, path):
    command = [binary, str(path.relative_to(ROOT)), "-b", "16", "-o", "adamw", "--format", "json"]
    result = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, text=True, timeout=60,
                            capture_output=True)
    assert result.returncode == 0, f"exit {result.returncode}: {result.stderr}"
    return json.loads(result.stdout)


def check_sum(report):
    total = sum(row["bytes"] for row in report["breakdown"])
    device = report["peak"]["device_bytes"]
    assert total == device, f"expected kinds that add up to {device}, found {total}"


def check_expectations(report, expected):
    missing = [key for key in KEYS if key not in expected]
    assert not missing, f"expected comments with {missing}"
    found = {**report["model"], "adamw_state_bytes": report["optimizer_state_bytes"]}
    for key in KEYS[:-1]:
        assert found[key] == expected[key], f"{key}: expected {expected[key]}, found {found[key]}"


def check(binary, path):
    report = estimate(binary, path)
    check_sum(report)
    if path.suffix == ".onnxtxt":
        check_expectations(report, expectations(path.read_text(encoding="utf-8")))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    binary = str(Path(parser.parse_args().binary).resolve())
    paths = sorted((ROOT / "models").glob("*.onnx*"))
    wrong = 0
    for path in paths:
        try:
            check(binary, path)
        except (AssertionError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
            wrong += 1
            print(f"models/{path.name}: {error!r}")
    print(f"models: {len(paths)} estimated, {wrong} wrong")
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
