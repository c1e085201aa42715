"""Which operators of PyTorch's database networks use: what data/op_db_used.csv says.

    used_by_networks.py OUT.csv

An operator is used where its name is torch.nn.functional's, or the sources of torch.nn, or of a model
of torchvision, timm, transformers or diffusers, call it: torch.NAME (…), F.NAME (…), a method
x.NAME (…) of tensors that Python's own str, list, dict and set do not have, x.NAME of what is no method there, x[…] and the
operators of Python's grammar.  Families that are held out (README.md) are not read.
"""

import ast
import csv
import hashlib
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import torch

import zoo_op_db as zoo

SOURCES = {
    "torch": ["nn/modules/*.py", "nn/functional.py"],
    "torchvision": ["models/**/*.py", "ops/*.py"],
    "timm": ["models/**/*.py", "layers/*.py"],
    "transformers": ["models/*/modeling_*.py", "activations.py", "pytorch_utils.py",
                     "modeling_*.py", "integrations/sdpa_attention.py"],
    "diffusers": ["models/**/*.py"],
}
HELD_OUT = "0123"
# Names that a call x.NAME (…) of Python's own values has, too.
OF_PYTHON = {name for kind in (str, bytes, list, dict, set, tuple, int, float)
             for name in dir(kind) if not name.startswith("_")}
PROPERTIES = {"T", "H", "mT", "mH", "real", "imag"}  # of tensors
GRAMMAR = {
    ast.Add: ["add", "__radd__"], ast.Sub: ["sub", "__rsub__", "rsub"],
    ast.Mult: ["mul", "__rmul__"], ast.Div: ["div.no_rounding_mode", "__rdiv__", "true_divide"],
    ast.FloorDiv: ["floor_divide"], ast.Mod: ["remainder", "__rmod__"],
    ast.Pow: ["pow", "__rpow__"], ast.MatMult: ["matmul", "__rmatmul__"], ast.USub: ["neg"],
}


def is_held_out(library, path):
    """Of torchvision and timm a module is a family, of transformers and diffusers a folder."""
    parts = path.with_suffix("").parts
    if parts[0] != "models" or len(parts) < 2:
        return False
    family = f"{library}.models.{parts[1]}"
    return hashlib.sha256(family.encode()).hexdigest()[0] in HELD_OUT


def sources():
    for library, patterns in SOURCES.items():
        root = Path(importlib.util.find_spec(library).origin).parent
        for pattern in patterns:
            for path in sorted(root.glob(pattern)):
                if not is_held_out(library, path.relative_to(root)):
                    yield library, path


def dotted(node):
    """"torch.linalg.norm" of that expression, else ""."""
    if isinstance(node, ast.Name):
        return node.id
    front = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{front}.{node.attr}" if front else ""


class Names(ast.NodeVisitor):
    """Of what a source calls: "linalg.norm", "nn.functional.relu", "split"."""

    def __init__(self):
        self.found = set()

    def visit_Attribute(self, node):
        name = dotted(node)
        if name.startswith("F."):
            self.found.add(f"nn.functional.{node.attr}")
        elif name.startswith("torch."):
            self.found.add(name.removeprefix("torch."))
        elif node.attr in PROPERTIES and not name.startswith("self."):
            self.found.add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute) and node.func.attr not in OF_PYTHON \
                and hasattr(torch.Tensor, node.func.attr) \
                and not dotted(node.func).startswith(("torch.", "np.", "math.", "F.")):
            self.found.add(node.func.attr)
        self.generic_visit(node)

    def visit_BinOp(self, node):
        self.found.update(GRAMMAR.get(type(node.op), []))
        self.generic_visit(node)

    visit_UnaryOp = visit_BinOp
    visit_AugAssign = visit_BinOp

    def visit_Subscript(self, node):
        self.found.add("__getitem__")
        self.generic_visit(node)


def names_in_sources():
    """{name: the first library that calls it}"""
    found = {}
    for library, path in sources():
        names = Names()
        names.visit(ast.parse(path.read_text()))
        for name in names.found:
            found.setdefault(name, library)
    return found


def names_of(info):
    """All by which a call of the operator may go: its aliases, and in place."""
    names = [info.name, *(alias.name for alias in info.aliases)]
    return [*names, *(name + "_" for name in names), zoo.name_of(info)]


def user_of(info, found):
    if info.name.startswith("nn.functional."):
        return "torch"
    return next((found[name] for name in names_of(info) if name in found), "")


def main():
    found = names_in_sources()
    versions = ", ".join(f"{name} {importlib.metadata.version(name).split('+')[0]}"
                         for name in SOURCES)
    with open(sys.argv[1], "w", newline="") as file:
        file.write(f"# {versions}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["operator", "used_by"])
        for name, info in zoo.operators().items():
            if user := user_of(info, found):
                writer.writerow([name, user])


if __name__ == "__main__":
    main()
