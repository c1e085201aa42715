"""How far a run's measurements lie apart, and how far estimates are from all of them.

    repeats.py    # of answers.csv; no GPU, nothing is estimated

repeats.csv has a repeat per row: the run's path in runs.csv, whose answer was the limit of memory
that the repeat ran under (xMem's authors tried each estimator's answer so), that limit, what the
card took then, and whether it ran out.  Where the limit lies well above both figures, it changed
nothing, and the second is a measurement like the first.
"""

import csv
import statistics
from pathlib import Path
from typing import Callable, Iterable, NamedTuple

import real_cards
from real_cards import Answer, cells, measured_bytes, other_answers, source_of

PATH = Path(__file__).resolve().parent / "repeats.csv"
ROOM = 1.03  # from here on a limit is not felt
# Whose limit tells in which process the repeat ran: README.md has the source.
WHERE = {"dnnmem": "in a new process", "xmem": "in the same process",
         "schedtune": "with PyTorch 2.3.1 and cuDNN 8", "llmem": "with software not told"}
SAME_SOFTWARE = ("dnnmem", "xmem")


class Repeat(NamedTuple):
    path: str
    limit_of: str
    limit: int
    bytes: int  # 0 where it ran out of memory


def repeat_of(row: dict[str, str]) -> Repeat:
    return Repeat(row["path"], row["limit_of"], int(row["limit"]), int(row["bytes"] or 0))


def read(path: Path = PATH) -> list[Repeat]:
    with path.open(newline="") as file:
        return [repeat_of(row) for row in csv.DictReader(file)]


def is_free(repeat: Repeat, first: float) -> bool:
    return repeat.bytes > 0 and repeat.limit >= ROOM * max(first, repeat.bytes)


def free_of(repeats: Iterable[Repeat], path: str, first: float) -> list[Repeat]:
    """Those of a run that no limit changed."""
    return [repeat for repeat in repeats if repeat.path == path and is_free(repeat, first)]


def measured(first: float, repeats: Iterable[Repeat]) -> list[float]:
    """What was measured with the same software, the first figure first."""
    return [first, *(repeat.bytes for repeat in repeats if repeat.limit_of in SAME_SOFTWARE)]


def from_first(answer: float, figures: list[float]) -> float:
    return answer / figures[0] - 1


def from_median(answer: float, figures: list[float]) -> float:
    return answer / statistics.median(figures) - 1


def from_nearest(answer: float, figures: list[float]) -> float:
    return min((answer / figure - 1 for figure in figures), key=abs)


FROM: dict[str, Callable[[float, list[float]], float]] = {
    "the first": from_first, "the median": from_median, "the nearest": from_nearest}


def apart(answers: Iterable[Answer], repeats: list[Repeat]) -> dict[str, list[float]]:
    """How far repeats are from the first measurement, by source, kind, and where they ran."""
    found: dict[str, list[float]] = {}
    for answer in answers:
        first = measured_bytes(answer.run)
        for repeat in free_of(repeats, answer.run["path"], first):
            name = f"{source_of(answer)}: {WHERE[repeat.limit_of]}"
            found.setdefault(name, []).append(repeat.bytes / first - 1)
    return dict(sorted(found.items()))


def bytes_said(answer: Answer, estimator: str) -> float:
    """0 where the estimator named none."""
    if estimator == "onnxfit":
        return float(answer.answer)
    said, _ = other_answers(answer.run).get(estimator, (None, False))
    return said or 0


def beside(answers: Iterable[Answer], repeats: list[Repeat],
           estimator: str) -> dict[str, list[float]]:
    """Errors of an estimator where a run was measured again."""
    found: dict[str, list[float]] = {name: [] for name in FROM}
    for answer in answers:
        first = measured_bytes(answer.run)
        figures = measured(first, free_of(repeats, answer.run["path"], first))
        said = bytes_said(answer, estimator)
        if len(figures) == 1 or not said:
            continue
        for name, error in FROM.items():
            found[name].append(error(said, figures))
    return found


def main() -> None:
    repeats = read()
    paths = {repeat.path for repeat in repeats}
    runs = [run for run in real_cards.read_runs() if run["path"] in paths]
    answers = [answer for answer in real_cards.committed_answers(runs) if answer.off is not None]
    print(f"| measured again, less the first time | {real_cards.HEAD}")
    for name, errors in apart(answers, repeats).items():
        print(f"| {name} | {cells(errors)} |")
    print(f"\n| source and kind, estimator, from which measurement | {real_cards.HEAD}")
    for group, some in real_cards.groups_of(answers, source_of).items():
        for estimator in ("onnxfit", "xmem"):
            for name, errors in beside(some, repeats, estimator).items():
                print(f"| {group}: {estimator}, from {name} | {cells(errors)} |")


if __name__ == "__main__":
    main()
