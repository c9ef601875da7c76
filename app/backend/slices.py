"""Slices of a split: captions that an expression selects, and how often runs answer them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.reviews import file_of, load, reviewed_split
from app.backend.runs import BY_STAMP, InputError, RunSummary, open_summary
from coder_core.api import slices as api

__all__ = [
    "LONGEST_EXPRESSION",
    "images_counted",
    "metrics_of",
    "neighbours",
    "plain_words",
    "recalls_of",
    "selected",
    "slice_table",
]

LONGEST_EXPRESSION = api.LONGEST_EXPRESSION


@st.cache_resource(max_entries=4, show_spinner="Reading the captions …", hash_funcs=BY_STAMP)
def _columns(run: RunSummary, split: str, reviews: str) -> api.Columns:
    said = load(file_of(run)) if reviews else None
    return api.slice_columns(
        open_summary(run), split, tags=reviewed_split(run, split).tags(said) if said else None
    )


def _reviews(run: RunSummary) -> str:
    """What changes with the verdicts and tags on the data of a run; "" without any, or where they cannot be read."""
    try:
        lines = load(file_of(run)).lines
    except InputError:  # the Reviews page names it
        return ""
    return f"{file_of(run)} {len(lines)} {lines[-1].get('id')}" if lines else ""


def selected(run: RunSummary, split: str, expression: str) -> np.ndarray:
    """(m,) bool: the captions of a slice, by plain words or an expression. InputError where it is neither."""
    return _selected(run, split, expression, _reviews(run))


@st.cache_data(max_entries=64, show_spinner=False, hash_funcs=BY_STAMP)
def _selected(run: RunSummary, split: str, expression: str, reviews: str) -> np.ndarray:
    return api.search(expression, _columns(run, split, reviews))


def neighbours(run: RunSummary, split: str, modality: str, number: int) -> str:
    """The slice of the samples most similar to one; "" for a run that scores pair by pair and has none."""
    name = "neighbours" if modality == "text" else "image_neighbours"
    return f"{number} in {name}" if open_summary(run).scores(split) is None else ""


def plain_words(run: RunSummary, split: str, text: str) -> str:
    """The plain words that captions of the slice hold, as “dog” and “on the grass”; "" for an expression."""
    return str(api.plain_words(text, _columns(run, split, _reviews(run)).names) or "")


def images_counted(run: RunSummary, split: str) -> tuple[int, int]:
    """How many images the table of slices counts, and how many the split has."""
    return len(api.images_counted(open_summary(run), split)), open_summary(run).count(split, "image")


def recalls_of(run: RunSummary, split: str, captions: np.ndarray, at: int = 1) -> float:
    """Percent of these captions that find their image among the first `at`."""
    ranks = open_summary(run).ranks(split)["t2i"][captions]
    return 100 * float((ranks < at).mean()) if len(ranks) else float("nan")


def metrics_of(run: RunSummary, split: str, captions: np.ndarray) -> dict[str, float]:
    """`slice_metrics`: the metrics of a run over these captions, at least one, and their images."""
    return api.slice_metrics(open_summary(run), split, captions)


def slice_table(runs: Sequence[RunSummary], split: str, direction: str, at: int) -> pd.DataFrame:
    """`slice_table` of the usual slices; clusters, diversity and tags are those of the last run and its data."""
    return _slice_table(runs, split, direction, at, _reviews(runs[-1]))


@st.cache_data(max_entries=32, show_spinner="Comparing slices …", hash_funcs=BY_STAMP)
def _slice_table(
    runs: Sequence[RunSummary], split: str, direction: str, at: int, reviews: str
) -> pd.DataFrame:
    columns = _columns(runs[-1], split, reviews)
    opened = [open_summary(run) for run in runs]
    return api.slice_table(opened, split, direction, at, api.usual_slices(columns), columns)  # type: ignore[arg-type]
