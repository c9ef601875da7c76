"""Tables and figures as files, made when the download button is clicked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import charts
from app.choice import bound, theme
from app.components import cards, export
from app.components.glossary import tip
from app.components.table import Column, rows_table

FIGURES = "figures-on-the-page"
FORMAT = "figures"
FORMATS = ("PNG", "SVG")
VALUES = "values"


def table(frame: pd.DataFrame, name: str, *, paper: bool = False) -> None:
    """One control that offers a whole table as CSV, as Parquet, and for a paper as LaTeX."""
    kinds: dict[str, tuple[Callable[[], bytes | str], str, str]] = {
        "CSV": (partial(export.csv, frame), "csv", "text/csv"),
        "Parquet": (partial(export.parquet, frame), "parquet", "application/vnd.apache.parquet"),
    }
    if paper:
        kinds["LaTeX"] = (partial(export.latex, frame), "tex", "text/plain")
    with st.popover("Download table", icon=":material/download:"):
        for label, (make, ending, kind) in kinds.items():
            st.download_button(
                label,
                make,
                f"{name}.{ending}",
                kind,
                on_click="ignore",
                key=f"{name}-{ending}",
                width="stretch",
            )


def chart(figure: go.Figure, key: str, alt: str, **arguments: Any) -> Any:
    """A figure whose camera button saves the format chosen in the sidebar; `figures` offers it as HTML."""
    st.session_state.setdefault(FIGURES, {})[alt] = figure
    camera = {
        "format": str(st.session_state.get(FORMAT, FORMATS[0])).lower(),
        "filename": export.file_name(alt),
        "scale": 2,
    }
    drawn = st.plotly_chart(figure, key=key, alt=alt, config={"toImageButtonOptions": camera}, **arguments)
    if st.session_state.get(VALUES, st.query_params.get(VALUES) == "true"):
        rows = charts.hover_texts(figure)
        columns = (
            {"series": Column("series"), "value": Column(alt)}
            if any(rows["series"])
            else {"value": Column(alt)}
        )
        rows_table(rows, columns, np.arange(len(rows)), f"{key}-values", "values", None, None, height=300)
        if len(rows) == charts.MOST:
            cards.note(f"The first {len(rows):,} values of the figure; the tables of this page have all.")
    return drawn


def begin() -> None:
    """Forget the figures of the last script run."""
    st.session_state[FIGURES] = {}


def figures() -> None:
    """In the sidebar, after the page: the figures' values as tables, the format of the camera button, and every figure
    as one offline HTML file."""
    shown: dict[str, go.Figure] = st.session_state.get(FIGURES, {})
    if not shown:
        return
    st.sidebar.toggle("Values below figures", **bound(VALUES), help=tip("values"))
    with st.sidebar.popover("Save figures", icon=":material/photo_camera:", width="stretch"):
        st.segmented_control(
            "The camera button saves", FORMATS, default=FORMATS[0], required=True, **bound(FORMAT)
        )
        cards.note("Or one HTML file per figure, which zooms and hovers without the app:")
        paper = charts.tone(theme()).paper
        for name, figure in shown.items():
            st.download_button(
                cards.literal(name[:1].upper() + name[1:]),
                partial(export.page, figure, paper),
                f"{export.file_name(name)}.html",
                "text/html",
                icon=":material/download:",
                on_click="ignore",
                key=f"html-{name}",
            )
