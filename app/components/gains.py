"""Gains in recall over the first run, and whether they may be noise."""

from collections.abc import Mapping, Sequence

import pandas as pd

from app.ask import ask_both, retrieval
from app.choice import Choice
from app.components import cards
from app.components.table import Column, plain_table
from app.components.words import gain_cell

Texts = Mapping[str, Sequence[str]]  # column → one text per run


def show_gains(choice: Choice, recalls: Mapping[str, str], more: Texts | None = None) -> None:
    """Report whether gains over the first run may be noise, on the slice if there is one: for two runs a sentence per
    recall (`recalls`: key of the metrics → name of the column), for more runs a table, with further columns from
    `more`."""
    first, *compared = choice.runs
    split = choice.split
    captions = choice.captions
    changes = [ask_both(retrieval.gains, first, run, split, captions) for run in compared]
    if not choice.between:
        for run, change in zip(compared, changes, strict=True):
            for recall in recalls:
                measured = recall if recall in change else next(iter(change))
                cards.note(retrieval.describe_gain(measured, change[measured], run.name, first.name))
        return

    cards.note(cards.HOW_TO_READ["gains over a run"].format(first=first.name))
    table: dict[str, Sequence[str]] = {"run": [run.name for run in choice.runs], **(more or {})}
    for recall in recalls:
        gains = [change.get(recall) for change in changes]
        cells = ["–" if gain is None else gain_cell(gain.mean, gain.low, gain.high) for gain in gains]
        table[recall] = ["–", *cells]
    columns = {name: Column(recalls.get(name, name), right=name != "run") for name in table}
    plain_table(pd.DataFrame(table), columns, f"gains-{'-'.join(recalls)}", "runs")
