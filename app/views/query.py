"""One query and its results, run beside run; and tables of queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.retrieval import rank_changes
from app.backend.runs import InputError, RunSummary, open_summary, thumbnail, thumbnails
from app.ui import cards, links
from app.ui.controls import picking_table, picture_urls
from app.ui.glossary import tip
from app.ui.state import Choice

ROWS_SHOWN = 50
RESULTS = 10
Search = Callable[[RunSummary], pd.DataFrame]


def side_by_side(choice: Choice, modality: str, search: Search, suffixes: Mapping[str, str] | None = None) -> None:
    """Every run's ten best candidates; `suffixes` adds words to a run's name."""
    for run, column in zip(choice.runs, st.columns(len(choice.runs), gap="large"), strict=True):
        with column:
            cards.label(run.name + (suffixes or {}).get(run.name, ""))
            try:
                candidates = search(run)
            except (InputError, OSError, ImportError) as error:
                cards.empty("This run cannot answer this query.", str(error))
                continue
            results(choice, run, modality, candidates)


def results(choice: Choice, run: RunSummary, modality: str, candidates: pd.DataFrame) -> None:
    """Ranked candidates with links to the other pages; `modality` is the query's."""
    captions = open_summary(run).captions(choice.split)
    pictured = modality == "text"
    other = "image" if pictured else "text"
    items = []
    for row in candidates.to_dict("records"):
        number = int(row["candidate"])
        picture = thumbnail(run, choice.split, number, 160) if pictured else None
        caption = "" if pictured else captions[number]
        pages = links.of_sample(choice, other, number)
        score, match = float(row["score"]), bool(row["match"])
        items.append(cards.Result(int(row["place"]), score, match, caption, picture, pictured, links=pages))
    cards.results(items)


def rank_change(choice: Choice, direction: str, number: int) -> dict[str, str]:
    """Metrics of one query's ranks; returns a suffix for each run's name."""
    ranks = {run.name: int(open_summary(run).ranks(choice.split)[direction][number]) for run in choice.runs}
    suffixes = {name: " · match at rank " + ("–" if rank < 0 else f"{rank + 1:,}") for name, rank in ranks.items()}
    if choice.second is None or min(ranks.values()) < 0:
        return suffixes
    first, second = ranks.values()
    changes = rank_changes(choice.first, choice.second, choice.split, 1)
    gains = changes["change"].to_numpy()[(changes["direction"] == direction).to_numpy()]
    as_large = int((np.abs(gains) >= abs(first - second)).sum())
    note = "same rank in both" if first == second else f"{as_large:,} of {len(gains):,} changed by as much"
    colour = "off" if first == second else "green" if second < first else "red"
    cards.metrics(
        [
            cards.Metric("rank in the 1st run", f"{first + 1:,}", "1 is best", "1st run"),
            cards.Metric("rank in the 2nd run", f"{second + 1:,}", "1 is best", "2nd run"),
            cards.Metric("gain", f"{first - second:+,}", "", "gain", note, colour, "off"),  # type: ignore[arg-type]
        ]
    )
    return suffixes


def sample_columns(
    choice: Choice, modality: str, numbers: np.ndarray, width: int
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Samples of the last run as the first columns of a table: a caption with its image, or an image with its first
    caption. Returns the columns "picture" and "caption", and their configuration; `width` is the caption's."""
    run = choice.runs[-1]
    opened = open_summary(run)
    images = opened.image_of_text(choice.split)[numbers] if modality == "text" else numbers
    texts = numbers if modality == "text" else opened.first_captions(choice.split)[numbers]
    captions = opened.captions(choice.split)
    table = pd.DataFrame(
        {
            "picture": picture_urls(thumbnails(run, choice.split, images, 72)),
            "caption": [captions[i] if i >= 0 else "" for i in texts.tolist()],
        }
    )
    return table, {
        "picture": st.column_config.ImageColumn("", width=64),
        "caption": st.column_config.TextColumn("caption" if modality == "text" else "first caption", width=width),
    }


def query_table(choice: Choice, modality: str, table: pd.DataFrame, columns: Mapping[str, tuple[str, str]]) -> None:
    """Queries with picture, caption and numbers; a click opens one.

    Args:
        table: the column "query", and those of `columns`: name → (label, printf format); a label is a glossary term.
    """
    rows = table.head(ROWS_SHOWN)
    numbers = rows["query"].to_numpy()
    shown, config = sample_columns(choice, modality, numbers, 190)
    for name, (label, digits) in columns.items():
        shown[name] = rows[name].to_numpy()
        config[name] = st.column_config.NumberColumn(label, format=digits, help=tip(label), width=72)
    cards.note(f"{len(rows):,} of {len(table):,} shown. Click on a row to open the query.")
    key = f"queries-{modality}-{'-'.join(columns)}"
    picking_table(shown, numbers, f"query-{modality}", key, config, 360)
