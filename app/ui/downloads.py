"""Tables and figures as files. Nothing is made before somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import charts
from app.ui import export
from app.ui.state import bound, theme

DRAWN = "figures-drawn"
FORMAT = "figures"
FORMATS = ("PNG", "SVG")


def table(frame: pd.DataFrame, name: str, *, paper: bool = False) -> None:
    """Buttons for a whole table: CSV, Parquet, and LaTeX for a paper."""
    kinds: dict[str, tuple[Callable[[], bytes | str], str, str]] = {
        "CSV": (partial(export.csv, frame), "csv", "text/csv"),
        "Parquet": (partial(export.parquet, frame), "parquet", "application/vnd.apache.parquet"),
    }
    if paper:
        kinds["LaTeX"] = (partial(export.latex, frame), "tex", "text/plain")
    with st.container(horizontal=True):
        for label, (make, ending, kind) in kinds.items():
            st.download_button(
                label, make, f"{name}.{ending}", kind, icon=":material/download:", on_click="ignore",
                key=f"{name}-{ending}",
            )  # fmt: skip


def chart(figure: go.Figure, key: str, alt: str, **arguments: Any) -> Any:
    """A figure with its camera button, which saves as the format of the sidebar; `figures` offers it as HTML."""
    st.session_state.setdefault(DRAWN, {})[alt] = figure
    camera = {
        "format": str(st.session_state.get(FORMAT, FORMATS[0])).lower(),
        "filename": export.file_name(alt),
        "scale": 2,
    }
    return st.plotly_chart(figure, key=key, alt=alt, config={"toImageButtonOptions": camera}, **arguments)


def begin() -> None:
    """Forget the figures of the run before."""
    st.session_state[DRAWN] = {}


def figures() -> None:
    """In the sidebar, after the page: what the camera saves, and every figure as one HTML file that works offline."""
    drawn: dict[str, go.Figure] = st.session_state.get(DRAWN, {})
    if not drawn:
        return
    with st.sidebar.popover("Save figures", icon=":material/photo_camera:", width="stretch"):
        st.segmented_control(
            "The camera of a figure saves", FORMATS, default=FORMATS[0], required=True, **bound(FORMAT)
        )
        st.html(
            '<p class="cl-how cl-small">Or one HTML file, which can be zoomed and hovered over without the app:</p>'
        )
        paper = charts.tone(theme()).paper
        for name, figure in drawn.items():
            st.download_button(
                name[:1].upper() + name[1:], partial(export.page, figure, paper),
                f"{export.file_name(name)}.html", "text/html", icon=":material/download:", on_click="ignore",
                key=f"html-{name}",
            )  # fmt: skip
