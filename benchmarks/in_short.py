#!/usr/bin/env python3
"""How far off answers are, in a row for each kind of evidence, of the tables committed here.

Errors are the estimate less what PyTorch took, absolute, in percent of that; refused runs are left
out and counted by the tables of each folder.
"""

import csv
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in ("accuracy", "real_cards", "zoo"):
    sys.path.insert(0, str(HERE / folder))

import real_cards  # noqa: E402
from compare import quantile  # noqa: E402

LANGUAGE = "language models"


def errors_of(path, column, wanted=lambda row: True):
    with open(HERE / path, newline="", encoding="utf-8") as file:
        return [abs(float(row[column])) for row in csv.DictReader(file)
                if row[column] and wanted(row)]


def is_training(row):
    return row["run"].endswith("train")


def is_others_training(run):
    """A peak of training that somebody else measured."""
    return (run["metric"] in real_cards.MEASURED and run["metric"] != "forward"
            and "eval" not in run["flags"] and "onnxfit measure" not in run["source"])


def errors_on_cards(answers, is_language):
    return [100 * abs(answer.off) for answer in answers
            if answer.off is not None and is_others_training(answer.run)
            and (answer.run["kind"] == LANGUAGE) == is_language]


def right_verdicts(answers):
    said = [answer for answer in answers if answer.verdict]
    return sum(real_cards.is_right(answer.verdict, answer.run["metric"]) for answer in said), len(said)


def line(what, errors):
    ordered = sorted(errors)
    figures = " | ".join(f"{figure:.2f} %" for figure in (quantile(ordered, .5),
                                                         quantile(ordered, .95), ordered[-1]))
    return f"| {what} | {len(ordered)} | {figures} |"


def main():
    answers = real_cards.committed_answers(real_cards.jobs_of(real_cards.read_runs(), ""))
    zoo, onnx = "zoo/zoo.csv", ("dynamo-raw", "train")
    print("| training, peak | runs | median error | 95 % within | worst |\n|---|---|---|---|---|")
    print(line("language models on cards, measured by others", errors_on_cards(answers, True)))
    print(line("other networks on cards, measured by others", errors_on_cards(answers, False)))
    print(line("architectures of libraries on an H200, reserved",
               errors_of("zoo/card_h200.csv", "reserved", is_training)))
    print(line("architectures of libraries from Python or a `.pt2`",
               errors_of(zoo, "exact", lambda row: row["kind"] == "pt2-train" and is_training(row))))
    print(line("the same from ONNX files in training mode",
               errors_of(zoo, "exact", lambda row: row["kind"] in onnx and is_training(row))))
    print(line("under `torch.compile`", errors_of("compiled/estimates.csv", "inductor")))
    right, said = right_verdicts(answers)
    print(f"\nOf {said} runs that others saw fit or fail on a card, the verdict is right for {right}.")


if __name__ == "__main__":
    main()
