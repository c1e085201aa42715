"""Files of `python -m onnxfit measure` as rows of runs.csv: each run is two, what the allocator
reserved and what the device counted as used.  A file that is put into contributed/ (as it is, or
packed by xz) is part of the table; its programs without weights are in it."""

import base64
import json
import lzma
import shlex
from pathlib import Path
from typing import Any, Iterator

FOLDER = Path(__file__).resolve().parent / "contributed"
SOURCE = "contributed/onnxfit measure"
_FORMAT = 1
_KINDS = {"perceptron": "MLPs", "vit_b_16": "vision transformers",
          **dict.fromkeys(("gpt2", "bert", "t5", "llama"), "language models")}

Row = dict[str, str]
File = dict[str, Any]


def read(path: Path) -> File:
    packed = path.read_bytes()
    file = json.loads(lzma.decompress(packed) if path.suffix == ".xz" else packed)
    if file.get("measured") != _FORMAT:
        raise ValueError(f"{path}: expected a file of `python -m onnxfit measure` of format "
                         f"{_FORMAT}, found {file.get('measured')}")
    return file


def paths(folder: Path = FOLDER) -> list[Path]:
    return sorted(folder.glob("*.json*"))


def export_of(path: Path, network: str) -> str:
    return f"{path.name.split('.')[0]}.{network}.pt2"


def rows_of_run(path: Path, file: File, run: File) -> Iterator[Row]:
    card, measured = file["card"], run["measured"]
    versions = card["versions"]
    shared = {"source": SOURCE, "model": run["network"], "kind": _KINDS.get(run["network"], "convolutional networks"),
              "batch": str(run["batch"]), "input": "", "precision": run["precision"],
              "optimizer": "adamw", "framework": f"torch {versions['torch']}",
              "card": f"{card['name']}, driver {card['driver']}", "next_batch": "",
              "export": export_of(path, run["network"]), "target": "",
              "unit": "B", "note": "", "others": ""}
    flags = shlex.join([*run["flags"], "--framework", framework_of(versions["torch"])])
    used = measured["reserved_bytes"] + measured["outside_bytes"]
    yield {**shared, "path": f"{path.name}: reserved", "metric": "reserved", "flags": flags,
           "real": str(measured["reserved_bytes"])}
    yield {**shared, "path": f"{path.name}: device", "metric": "device", "real": str(used),
           "flags": flags}


def framework_of(version: str) -> str:
    """"pytorch-2.11" of 2.11.0+cu130."""
    return "pytorch-" + ".".join(version.split("+")[0].split(".")[:2])


def rows(folder: Path = FOLDER) -> list[Row]:
    """Of all files; runs that ended early are left out."""
    found = []
    for path in paths(folder):
        file = read(path)
        for run in file["runs"]:
            if "reserved_bytes" in run["measured"]:
                found += rows_of_run(path, file, run)
    return found


def unpack(to: str, folder: Path = FOLDER) -> None:
    """Writes every program to `to`, by the name that rows have."""
    for path in paths(folder):
        for network, packed in read(path)["programs"].items():
            program = lzma.decompress(base64.b85decode(packed))
            Path(to, export_of(path, network)).write_bytes(program)
