"""python -m onnxfit measure: what a dozen networks take on the card at hand, beside estimates."""

from __future__ import annotations

import argparse
import base64
import json
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from onnxfit import _command, _export, _networks, targets
from onnxfit.errors import OnnxfitError

_DESCRIPTION = """Trains a dozen networks for three steps each on the card at hand, with random
weights and data, and writes what PyTorch's allocator and the device counted beside what onnxfit
says of the same runs.  Takes about ten minutes and a card that nothing else uses; torchvision and
transformers are taken where they are installed.  FILE can be contributed: it holds figures, the
networks' programs without weights and the versions of libraries, nothing of you or your machine."""

_FORMAT = 1
_PRECISIONS = ("fp32", "amp-bf16")
_VERIFIED = ("resnet50", "convolutions")  # whose convolutions cuDNN is asked of, the first there is
_MINUTES = 60.0
_MOST_SECONDS = 10 * _MINUTES  # of one run; what takes longer has hung


class Run(NamedTuple):
    """A row of the file.  `flags` are those of the estimate."""

    network: str
    batch: int
    precision: str
    flags: List[str]
    measured: Dict[str, Any]
    estimated: Dict[str, Any]


# --- Processes ----------------------------------------------------------------------------------


def _in_own_process(*words: str) -> Dict[str, Any]:
    """What _card_run answers; {"error": …} where it does not."""
    try:
        done = subprocess.run([sys.executable, "-m", "onnxfit._card_run", *words],
                              capture_output=True, text=True, timeout=_MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer after {_MOST_SECONDS / _MINUTES:.0f} minutes"}
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    if done.returncode != 0:
        return {"error": lines[-1] if lines else f"ended with {done.returncode}"}
    found: Dict[str, Any] = json.loads(lines[-1])
    return found


def _card() -> Dict[str, Any]:
    found = _in_own_process("card")
    if "error" in found:
        raise OnnxfitError(f"expected a CUDA card that torch can use, found {found['error']}",
                           "nvidia-smi; python -c 'import torch; torch.cuda.init()'")
    return {**found, "driver": _driver()}


def _driver() -> str:
    """"" where there is no nvidia-smi."""
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=_MINUTES)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.strip().splitlines()[0] if said.stdout.strip() else ""


# --- Estimates ----------------------------------------------------------------------------------


def _write_program(name: str, folder: str) -> str:
    """The network as a program without weights."""
    import torch
    network = _networks.find(name)
    target = targets.Target(name, targets.on_meta(network.build), list(network.inputs),
                            network.by_name)
    path = str(Path(folder, f"{name}.pt2"))
    _export.export(target, path, "train", torch.float32)
    return path


def _estimate(path: str, flags: List[str]) -> Dict[str, Any]:
    try:
        peak = _command.ask(["estimate", path, *flags, "--calibration", "none"]).data["peak"]
    except OnnxfitError as error:
        return {"error": str(error)}
    names = ("exact_bytes", "allocated_bytes", "reserved_bytes", "device_bytes")
    return {name: peak[name] for name in names}


def _card_flags(name: str) -> List[str]:
    """Those that name the card; none where the command has no row of it."""
    try:
        known = _command.ask(["gpus", name]).data
    except OnnxfitError:
        known = []
    return ["--gpu", name] if known else []


def _runs_of(name: str, path: str, batch: Optional[int], card: List[str]) -> Iterator[Run]:
    size = batch or _networks.find(name).batch
    for precision in _PRECISIONS:
        flags = ["-b", str(size), "-p", precision, "-o", "adamw", *card]
        measured = _in_own_process(name, str(size), precision)
        yield Run(name, size, precision, flags, measured, _estimate(path, flags))


def _verified(path: str, folder: str) -> Dict[str, Any]:
    """What `onnxfit verify --save` says and measures there: its report and its calibration, or why
    there is none, such as a build without CUDA."""
    saved = Path(folder, "calibration.json")
    flags = ["-b", "32", "-p", "fp32", "-o", "adamw", "--save", "--calibration", str(saved)]
    try:
        report = json.loads(_command.page(["verify", path, *flags, "--format", "json"], [folder]))
    except OnnxfitError as error:
        return {"error": str(error)}
    calibration = json.loads(saved.read_text()) if saved.exists() else {}
    return {"report": report, "calibration": calibration}


# --- Shown --------------------------------------------------------------------------------------


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


def _head(card: Dict[str, Any]) -> str:
    versions = [f"{name} {version}" for name, version in card["versions"].items()]
    driver = [f"driver {card['driver']}"] if card["driver"] else []
    return (f"{card['name']}, {_mebibytes(card['total_bytes'])}; "
            + ", ".join([*driver, *versions]) + "\n"
            f"outside of the allocator before any step: {_mebibytes(card['outside_bytes'])}\n\n"
            f"{'network':20}{'batch':>5}  {'precision':10}{'reserved':>12}{'predicted':>12}"
            f"{'off':>9}{'outside':>12}")


def _row(run: Run) -> str:
    start = f"{run.network:20}{run.batch:5}  {run.precision:10}"
    for found in (run.measured, run.estimated):
        if "error" in found or "out_of_memory" in found:
            return start + "  " + str(found.get("error") or "out of memory")[:80]
    real, said = run.measured["reserved_bytes"], run.estimated["reserved_bytes"]
    return (f"{start}{_mebibytes(real):>12}{_mebibytes(said):>12}{said / real - 1:>+9.2%}"
            f"{_mebibytes(run.measured['outside_bytes']):>12}")


# --- All ----------------------------------------------------------------------------------------


class _File:
    """Written anew after each network, so that a session that is cut off has what there was."""

    def __init__(self, path: str, card: Dict[str, Any]) -> None:
        self.path = Path(path)
        self.content: Dict[str, Any] = {"measured": _FORMAT, "card": card, "verify": {},
                                        "programs": {}, "runs": []}

    def add(self, name: str, program: str, runs: List[Run]) -> None:
        packed = lzma.compress(Path(program).read_bytes(), preset=9)
        self.content["programs"][name] = base64.b85encode(packed).decode()
        self.content["runs"] += [run._asdict() for run in runs]
        self.write()

    def write(self) -> None:
        self.path.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")


def _measure_network(name: str, folder: str, batch: Optional[int], file: _File) -> str:
    """The path of its program; prints a row for each run."""
    program = _write_program(name, folder)
    runs = []
    card = _card_flags(file.content["card"]["name"])
    for run in _runs_of(name, program, batch, card):
        print(_row(run), flush=True)
        runs.append(run)
    file.add(name, program, runs)
    return program


def _measure_all(names: List[str], batch: Optional[int], file: _File) -> None:
    programs: Dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="onnxfit") as folder:
        for name in names:
            try:
                programs[name] = _measure_network(name, folder, batch, file)
            except OnnxfitError as error:
                print(f"{name}: {error}", flush=True)
        for name in [name for name in _VERIFIED if name in programs][:1]:
            file.content["verify"] = _verified(programs[name], folder)
            file.write()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m onnxfit measure", description=_DESCRIPTION)
    parser.add_argument("file", metavar="FILE", nargs="?", default="onnxfit.measured.json",
                        help="[onnxfit.measured.json]")
    parser.add_argument("--only", action="append", default=[], metavar="NETWORK",
                        help=f"of {', '.join(_networks.NETWORKS)}; may be given several times")
    parser.add_argument("-b", "--batch", type=int, metavar="N",
                        help="of each network [its own, for cards of 8 GiB and more]")
    return parser


def main(words: List[str]) -> None:
    options = _parser().parse_args(words)
    names = options.only or list(_networks.NETWORKS)
    for name in names:
        _networks.find(name)
    targets.library("torch")
    _command.binary()
    card = _card()
    print(_head(card), flush=True)
    file = _File(options.file, card)
    _measure_all(names, options.batch, file)
    said = file.content["verify"].get("error")
    print(f"\nnot verified: {said}" if said else "", f"written to {options.file}", sep="\n")
