"""One query and its answers, run beside run; and tables of queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.backend import runs as backend
from app.backend.runs import RunSummary
from app.ui import cards, links
from app.ui.controls import picking_table, picture_urls
from app.ui.glossary import tip
from app.ui.state import Choice

ROWS_SHOWN = 50
RESULTS = 10
Search = Callable[[RunSummary], pd.DataFrame]


def side_by_side(choice: Choice, modality: str, search: Search, heads: Mapping[str, str] | None = None) -> None:
    """Every run's ten best candidates; `heads` adds words to a run's name."""
    for run, column in zip(choice.runs, st.columns(len(choice.runs), gap="large"), strict=True):
        with column:
            cards.label(run.name + (heads or {}).get(run.name, ""))
            try:
                found = search(run)
            except (backend.InputError, OSError, ImportError) as error:
                cards.empty("This run cannot answer this query.", str(error))
                continue
            results(choice, run, modality, found)


def results(choice: Choice, run: RunSummary, modality: str, found: pd.DataFrame) -> None:
    """Ranked candidates with where each of them can be looked at; `modality` is the query's."""
    captions = backend.open_summary(run).captions(choice.split)
    other = "image" if modality == "text" else "text"
    items = []
    for row in found.to_dict("records"):
        candidate, pictured = int(row["candidate"]), other == "image"
        picture = backend.thumbnail(run, choice.split, candidate, 160) if pictured else None
        caption = "" if pictured else captions[candidate]
        where = links.of_sample(choice, other, candidate)
        items.append(
            cards.Result(
                int(row["place"]), float(row["score"]), bool(row["match"]), caption, picture, pictured, links=where
            )
        )
    cards.results(items)


def rank_change(choice: Choice, direction: str, number: int) -> dict[str, str]:
    """Tiles of one query's ranks; returns what stands beside each run's name."""
    ranks = {run.name: int(backend.open_summary(run).ranks(choice.split)[direction][number]) for run in choice.runs}
    heads = {name: " · match at rank " + ("–" if rank < 0 else f"{rank + 1:,}") for name, rank in ranks.items()}
    if choice.second is None or min(ranks.values()) < 0:
        return heads
    first, second = ranks.values()
    changes = backend.changes(choice.first, choice.second, choice.split, 1)
    moves = changes["change"].to_numpy()[(changes["direction"] == direction).to_numpy()]
    further = int((np.abs(moves) >= abs(first - second)).sum())
    moved = "the same rank" if first == second else f"{further:,} of {len(moves):,} moved as far"
    good = None if first == second else second < first
    cards.tiles(
        [
            cards.Tile(f"rank in {choice.first.name}", f"{first + 1:,}", "1 is the best", "1st run"),
            cards.Tile(f"rank in {choice.second.name}", f"{second + 1:,}", "1 is the best", "2nd run"),
            cards.Tile("gain", f"{first - second:+,}", moved, "gain", good),
        ]
    )
    return heads


def sample_columns(
    choice: Choice, modality: str, numbers: np.ndarray, width: int
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Samples of the last run as the first columns of a table: a caption with its image, or an image with its first
    caption. Returns the columns "picture" and "caption", and how they are shown; `width` is the caption's."""
    run = choice.runs[-1]
    opened = backend.open_summary(run)
    images = opened.image_of_text(choice.split)[numbers] if modality == "text" else numbers
    texts = numbers if modality == "text" else opened.first_captions(choice.split)[numbers]
    captions = opened.captions(choice.split)
    table = pd.DataFrame(
        {
            "picture": picture_urls(backend.thumbnails(run, choice.split, images, 72)),
            "caption": [captions[i] if i >= 0 else "" for i in texts.tolist()],
        }
    )
    return table, {
        "picture": st.column_config.ImageColumn("", width=64),
        "caption": st.column_config.TextColumn("caption" if modality == "text" else "its first caption", width=width),
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
    cards.note(f"{len(rows):,} of {len(table):,} shown. A click on a row opens the query.")
    key = f"queries-{modality}-{'-'.join(columns)}"
    picking_table(shown, numbers, f"query-{modality}", key, config, 360)
