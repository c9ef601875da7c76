"""The user's columns of samples: values for tables, downloads and colours, and the choice of those that a table shows."""

import numpy as np
import pandas as pd
import streamlit as st

from app.address import bound
from app.ask import Modality, Run, RunSummary, ask
from app.components import cards
from app.components.table import Column

NUMBERS = ",.10g"  # format of numbers in a table


def titles(run: RunSummary, split: str, modality: Modality) -> list[str]:
    """List the columns of a modality: a caption also has those of its image."""
    columns = ask(Run.columns, run, split)
    return [*columns.images, *(columns.captions if modality == "text" else ())]


def values(run: RunSummary, split: str, modality: Modality, numbers: np.ndarray) -> pd.DataFrame:
    """Return the user's columns of these samples, by title: numbers, dates, and all others as texts."""
    columns = ask(Run.columns, run, split)
    images = ask(Run.image_of_text, run, split)[numbers] if modality == "text" else np.asarray(numbers)
    parts = {title: column.take(images).series() for title, column in columns.images.items()}
    if modality == "text":
        parts |= {title: column.take(numbers).series() for title, column in columns.captions.items()}
    return pd.DataFrame(parts, index=range(len(numbers)))


def of_points(run: RunSummary, split: str, title: str, images: np.ndarray, captions: np.ndarray) -> pd.Series:
    """Return one of the user's columns for images and then for captions; images lack the columns of captions."""
    columns = ask(Run.columns, run, split)
    if title in columns.images:
        owner = ask(Run.image_of_text, run, split)[captions]
        column = columns.images[title]
        parts = [column.take(images).series(), column.take(owner).series()]
    else:
        of_captions = columns.captions[title].take(captions).series()
        parts = [of_captions.iloc[:0].reindex(range(len(images))), of_captions]
    return pd.concat(parts, ignore_index=True)


def written(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with dates as texts, days without a time."""
    dates = [str(name) for name in frame if frame[name].dtype.kind == "M"]
    return frame.assign(**{name: _written_dates(frame[name]) for name in dates})


def _written_dates(dates: pd.Series) -> pd.Series:
    texts = dates.dt.strftime("%Y-%m-%d %H:%M:%S").str.removesuffix(" 00:00:00")
    return texts.astype(object).where(dates.notna(), None)


def table_columns(frame: pd.DataFrame) -> dict[str, Column]:
    """Return the table columns of these values."""
    is_number = {str(title): frame[title].dtype.kind == "f" for title in frame}
    return {title: Column(title, NUMBERS if number else "") for title, number in is_number.items()}


def choose(run: RunSummary, split: str, modality: Modality, key: str) -> list[str]:
    """Draw the choice of the user's columns that a table shows besides its own; nothing if there are none."""
    options = titles(run, split, modality)
    if not options:
        return []
    literal = {title: cards.literal(title) for title in options}
    return st.multiselect(
        "Columns",
        options,
        format_func=lambda title: literal.get(title, title),
        placeholder="Add columns",
        label_visibility="collapsed",
        width=320,
        **bound(key),
    )
