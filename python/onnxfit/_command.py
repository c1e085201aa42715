"""Finds the command and runs it.  Every figure of this package comes from it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence

from onnxfit.errors import OnnxfitError

# What would send the answer elsewhere.
_NOT_OURS = ("ONNXFIT_OUTPUT", "ONNXFIT_FORMAT", "ONNXFIT_FORCE", "ONNXFIT_COLOR")


class Answer(NamedTuple):
    data: Any  # the JSON report
    text: str  # the same as text
    code: int  # 0: all holds, 1: a target or a budget does not, 2: no answer


def _folders() -> List[str]:
    """Where an installation puts scripts: of this Python, of --user, of --target."""
    folders = [sysconfig.get_path("scripts")]
    user = f"{os.name}_user"
    if user in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", user))
    folders.append(str(Path(__file__).resolve().parent.parent / "bin"))
    return folders


def binary() -> str:
    """The path of the command: $ONNXFIT_BINARY, else what was installed with this package, else
    what the PATH has."""
    chosen = os.environ.get("ONNXFIT_BINARY")
    if chosen:
        return chosen
    for path in [*_folders(), None]:
        found = shutil.which("onnxfit", path=path)
        if found:
            return found
    raise OnnxfitError("expected the command onnxfit beside Python or on the PATH, found none",
                       "pip install ., or ONNXFIT_BINARY=build/release/onnxfit")


def environment() -> Dict[str, str]:
    """Ours, without what would send an answer elsewhere."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_OURS}


def _start(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    command = binary()
    try:
        return subprocess.Popen([command, *arguments], env=environment(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise OnnxfitError(f"{command}: expected the command onnxfit, found none that runs "
                           f"({error.strerror})") from error


def _error_of(message: str, code: int) -> OnnxfitError:
    lines = [line for line in message.splitlines() if line]
    for line in lines:
        if line.startswith("error: "):
            return OnnxfitError(line[len("error: "):])
    said = lines[-1] if lines else "it said nothing"
    return OnnxfitError(f"expected an answer of onnxfit, found exit code {code}: {said}")


def _without(folders: Sequence[str], text: str) -> str:
    for folder in folders:
        text = text.replace(folder + os.sep, "")
    return text


def _finish(process: subprocess.Popen[bytes], hide: Sequence[str] = ()) -> str:
    """What it wrote, without the folders `hide`.  Raises where there is no answer."""
    out, said = (_without(hide, text.decode("utf-8", "replace"))
                 for text in process.communicate())
    if process.returncode not in (0, 1) and not out:
        raise _error_of(said, process.returncode)
    return out


def ask(arguments: Sequence[str], hide: Sequence[str] = ()) -> Answer:
    """Runs `arguments`, a command with its flags, for its JSON and, at the same time, its text.
    Neither shows the folders `hide`."""
    with _start([*arguments, "--format", "json"]) as as_json, \
            _start([*arguments, "--format", "text", "--color", "never"]) as as_text:
        try:
            data = _finish(as_json, hide)
            return Answer(json.loads(data), _finish(as_text, hide), as_json.returncode)
        finally:
            as_text.kill()  # where there is no JSON; nothing where it has ended


def ask_for_json(arguments: Sequence[str], hide: Sequence[str] = ()) -> Answer:
    """The same of a command whose JSON has its text, in one run."""
    with _start([*arguments, "--format", "json"]) as process:
        data = json.loads(_finish(process, hide))
    return Answer(data, data["text"], process.returncode)


def page(arguments: Sequence[str], hide: Sequence[str] = ()) -> str:
    """What a command that has one format alone writes."""
    with _start(arguments) as process:
        return _finish(process, hide)


def ask_once(arguments: Sequence[str], text_file: Path, hide: Sequence[str] = ()) -> Answer:
    """The same of a command that takes several formats in one run; the text goes by a file."""
    with _start([*arguments, "--format", "json", "--format", f"text={text_file}",
                 "--color", "never"]) as process:
        data = _finish(process, hide)
    text = _without(hide, text_file.read_text(encoding="utf-8"))
    return Answer(json.loads(data), text, process.returncode)
