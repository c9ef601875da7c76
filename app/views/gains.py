"""Is it noise? Gains of the runs over the first one, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from app.ask import ask_both, retrieval
from app.choice import Choice
from app.ui import cards
from app.ui.table import Column, plain_table
from app.ui.words import gain_cell


def show_gains(
    choice: Choice,
    recalls: Mapping[str, str],
    captions: np.ndarray | None = None,
    more: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Whether gains over the first run are noise: a sentence a recall for two runs, a table for more.

    Args:
        recalls: key of the metrics → its name as a column. captions: of the slice; None for all.
        more: further columns of the table: name → a text for every run.
    """
    if not choice.between:
        for run in choice.runs[1:]:
            for recall in recalls:
                cards.note(
                    ask_both(retrieval.gain_in_words, choice.first, run, choice.split, recall, captions)
                )
        return
    cards.note(
        f"Gains over {choice.first.name} in points, with 95% intervals of a paired bootstrap over images. One that "
        "holds zero may be noise: other images could undo it."
    )
    changes = [
        ask_both(retrieval.gains, choice.first, run, choice.split, captions) for run in choice.runs[1:]
    ]
    table: dict[str, Sequence[str]] = {"run": [run.name for run in choice.runs], **(more or {})}
    for recall in recalls:
        cells = [
            gain_cell(change[recall].mean, change[recall].low, change[recall].high) for change in changes
        ]
        table[recall] = ["–", *cells]
    columns = {name: Column(recalls.get(name, name), right=name != "run") for name in table}
    plain_table(pd.DataFrame(table), columns, f"gains-{'-'.join(recalls)}", "runs")
