"""Answers as HTML, for notebooks: no script, no style sheet, no colour of its own."""

from __future__ import annotations

from html import escape
from typing import Iterable, Tuple

_BAR = ("display:inline-block;height:0.7em;background:currentColor;opacity:0.5;"
        "width:{width:.1f}em")
_LEFT = ' style="text-align:left"'


def size(number: int) -> str:
    """As the command writes sizes: 3.53 GiB, 336.6 MiB, 207.9 KiB, 4 B."""
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    digits = 0 if unit == "B" else 1 if value >= 100 else 2
    return f"{value:.{digits}f} {unit}"


def report(text: str) -> str:
    return f"<pre>{escape(text.rstrip())}</pre>"


def _row(kind: str, number: int, basis: str, total: int) -> str:
    share = number / total if total else 0.0
    bar = f'<span style="{_BAR.format(width=10 * share)}"></span>'
    return (f"<tr><td{_LEFT}>{escape(kind)}</td><td>{size(number)}</td><td>{share:.1%}</td>"
            f"<td{_LEFT}>{bar}</td><td{_LEFT}>{escape(basis)}</td></tr>")


def estimate(text: str, rows: Iterable[Tuple[str, int, str]], total: int) -> str:
    """The first line, a table of kinds, largest first, and the whole report to unfold."""
    headline = escape(text.split("\n", 1)[0])
    largest = sorted(rows, key=lambda row: -row[1])
    table = "".join(_row(*row, total) for row in largest)
    return (f"<p><b>{headline}</b></p><table>{table}</table>"
            f"<details><summary>report</summary>{report(text)}</details>")
