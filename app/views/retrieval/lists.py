"""Lists of queries with their controls and figures, the sections of the page."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from app.ask import Direction, Modality
from app.choice import QUERIES, Choice
from app.components import cards, downloads
from app.components.samples import SampleList, of_run, sample_table
from app.components.table import Column, Columns

NO_MATCH = "No query matches."


@dataclass(frozen=True)
class Queries:
    """The queries of one modality in a section; a query is hit by a true match among the first `at` results."""

    choice: Choice
    modality: Modality
    at: int

    @property
    def direction(self) -> Direction:
        return QUERIES[self.modality]

    def columns(self, quantity: str, digits: str, names: dict[str, str], term: str = "") -> dict[str, Column]:
        """Return a column for each of these runs; `names` maps names of runs to names of columns."""
        runs = [run for run in self.choice.runs if run.name in names]
        labels = {names[run.name]: of_run(self.choice, quantity, run) for run in runs}
        return {name: Column(label, digits, term or quantity) for name, label in labels.items()}

    def table(
        self,
        rows: pd.DataFrame,
        columns: Columns,
        words: str,
        file: str,
        *,
        fact: str = NO_MATCH,
        height: int = 560,
    ) -> np.ndarray:
        """Draw the queries that contain the words as a table; return their order. `fact`: the notice if none does."""
        if not len(rows):
            cards.empty(fact, "Show others, or choose another number of results.")
            return np.zeros(0, dtype=np.int64)
        numbers = rows["query"].to_numpy()
        values = rows.drop(columns="query")
        target = f"query-{self.modality}"
        listed = SampleList(self.modality, numbers, values, columns, words, target, file, height)
        return sample_table(self.choice, listed)

    def file(self, kind: str, name: str) -> str:
        return f"{kind}-{self.choice.split}-{self.direction}-{downloads.file_name(name)}"


@dataclass(frozen=True)
class Section:
    """A list of queries with its controls, and the figures that explain it. `draw_list` returns the queries in the
    order shown; it is drawn again when a query is opened, and the figures are not."""

    draw_list: Callable[[], np.ndarray]
    draw_figures: Callable[[], None]
