"""Who answers what: several runs' answers to the same queries."""

from __future__ import annotations

import pandas as pd

from app import questions
from app.ask import Direction, RunSummary, ask_all, comparable
from app.choice import Choice
from app.ui import cards
from app.ui.controls import choose_one
from app.ui.table import Column, plain_table

WAYS: dict[Direction, str] = {"t2i": "Caption → images", "i2t": "Image → captions"}


def show_answers(runs: list[RunSummary], choice: Choice) -> None:
    """Who answers what: queries that one run answers and another does not, for every two of them."""
    runs = [run for run in runs if choice.split in run.splits and comparable(choice.first, run, choice.split)]
    if len(runs) < 2:
        return
    cards.heading(
        "Who answers what?",
        "Queries answered within the first result: by the run of the row and not by that of the column.",
    )
    way = choose_one("Direction", WAYS, "answers-of")
    queries = choice.members("text" if way == "t2i" else "image") if choice.slice else None
    right = ask_all(questions.answers, runs, choice.split, way, 1, queries)
    rows = [
        {
            "run": run.name,
            **{
                other.name: None if other is run else int((own & ~theirs).sum())
                for other, theirs in zip(runs, right, strict=True)
            },
            "answered": int(own.sum()),
        }
        for run, own in zip(runs, right, strict=True)
    ]
    columns = {run.name: Column(f"not by {run.name}", ",d") for run in runs}
    plain_table(
        pd.DataFrame(rows),
        {"run": Column("run"), "answered": Column("answered", ",d", "R@K"), **columns},
        "answers",
        "runs",
    )
    every, none = int(right.all(0).sum()), int((~right.any(0)).sum())
    cards.note(
        f"Of {right.shape[1]:,} queries {every:,} are answered by all of these runs, {none:,} by none."
    )
