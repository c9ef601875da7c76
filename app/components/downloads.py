"""Tables and figures as files, made when the download button is clicked: CSV, Parquet, LaTeX, HTML."""

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import charts
from app.address import followed, set_value
from app.components import cards
from app.components.table import Column, Table, rows_table
from app.components.theme import tone

Make = Callable[[], Any]  # bytes or text
FIGURES = "figures-on-the-page"
FORMAT = "figures"
FORMATS = ("PNG", "SVG")
VALUES = "values"
# kept for parts of a page that run alone, also if the page had no figure before
_OPTIONS = "options-of-figures"
_TRUTH = {"true": True, "false": False}
_PERCENT = re.compile(r"R@|%|recall|success|MRR|nDCG|MAP", re.IGNORECASE)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def table(frame: pd.DataFrame | Callable[[], pd.DataFrame], name: str, *, paper: bool = False) -> None:
    """Draw a control that offers a whole table as CSV, as Parquet and, for a paper, as LaTeX. `frame`: the table, or
    what makes it when a file is requested."""

    def made() -> pd.DataFrame:
        return frame if isinstance(frame, pd.DataFrame) else frame()

    kinds: dict[str, tuple[Make, str, str]] = {
        "CSV": (lambda: csv(made()), "csv", "text/csv"),
        "Parquet": (lambda: made().to_parquet(index=False), "parquet", "application/vnd.apache.parquet"),
    }
    if paper:
        kinds["LaTeX"] = (lambda: latex(made()), "tex", "text/plain")
    with st.popover("Download table", icon=":material/download:"):
        for label, (make, ending, kind) in kinds.items():
            offer(label, make, f"{name}.{ending}", kind, key=f"{name}-{ending}", width="stretch")


def offer(label: str, make: Make, name: str, kind: str, icon: str = "", **more: Any) -> bool:
    """Draw a button that makes a file of MIME type `kind` when clicked; `icon` names a Material symbol."""
    symbol = f":material/{icon}:" if icon else None
    return st.download_button(label, make, name, kind, icon=symbol, on_click="ignore", **more)


def chart(figure: go.Figure, key: str, alt: str, **arguments: Any) -> Any:
    """Draw a figure whose camera button saves the format chosen in the sidebar; `figures` offers it as HTML."""
    st.session_state.setdefault(FIGURES, {})[alt] = figure
    kind, with_values = st.session_state[_OPTIONS]
    camera = {"format": kind.lower(), "filename": file_name(alt), "scale": 2}
    drawn = st.plotly_chart(figure, key=key, alt=alt, config={"toImageButtonOptions": camera}, **arguments)
    if with_values:
        rows = charts.hover_texts(figure)
        columns = {"series": Column("series")} if any(rows["series"]) else {}
        columns["value"] = Column(alt)
        rows_table(Table(rows, columns, f"{key}-values", "values", height=300))
        if len(rows) == charts.MOST:
            cards.note(f"Only the first {len(rows):,} values are listed; the tables of this page have all.")
    return drawn


def offer_figure(make: Callable[[], go.Figure], alt: str) -> None:
    """Offer as HTML a figure that the page does not draw with Plotly; it is made when the file is requested."""
    st.session_state.setdefault(FIGURES, {})[alt] = make


def begin() -> None:
    """Forget the figures of the last script run, and keep the options for figures in the address on every page."""
    st.session_state[FIGURES] = {}
    named = st.query_params.get(FORMAT)
    kind = followed(FORMAT, named if named in FORMATS else None, FORMATS[0], _known_format)
    set_value(FORMAT, "" if kind == FORMATS[0] else kind)
    values = followed(VALUES, _TRUTH.get(st.query_params.get(VALUES, "")), False)
    set_value(VALUES, "true" if values else "")
    st.session_state[_OPTIONS] = kind, values


def _known_format(kind: str | None) -> str:
    """Return a format that the buttons offer. A browser may send none while it moves from page to page."""
    return kind if kind in FORMATS else FORMATS[0]


def figures() -> None:
    """Draw, in the sidebar after the page, options for values of figures, the camera's format, and HTML files."""
    shown: dict[str, go.Figure | Callable[[], go.Figure]] = st.session_state.get(FIGURES, {})
    if not shown:
        return
    st.sidebar.toggle("Values below figures", key=VALUES, help=cards.tip("values"))
    with st.sidebar.popover("Save figures", icon=":material/photo_camera:", width="stretch"):
        label = "The camera button saves"
        st.segmented_control(label, FORMATS, required=True, key=FORMAT)
        cards.note("Or save an interactive HTML file of a figure, which works without the app:")
        paper = tone().paper
        for name, figure in shown.items():
            label = cards.literal(name[:1].upper() + name[1:])
            make = partial(html_page, figure, paper)
            offer(label, make, f"{file_name(name)}.html", "text/html", "download", key=f"html-{name}")


def csv(frame: pd.DataFrame) -> bytes:
    """Write UTF-8 CSV. Text that a spreadsheet would run as a formula is preceded by an apostrophe."""

    def safe(cell: object) -> object:
        return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell

    return frame.map(safe).to_csv(index=False).encode()


def latex(frame: pd.DataFrame) -> str:
    """Write a booktabs table; text is escaped, missing values are a dash, numbers have their column's `decimals`."""
    table = frame.map(lambda cell: " ".join(cell.split()) if isinstance(cell, str) else cell).style
    numbers = frame.select_dtypes("number")
    formats: dict[Any, Any] = {name: f"{{:.{decimals(name, numbers[name])}f}}" for name in numbers}
    table = table.hide(axis="index").format(formats, na_rep="--", escape="latex")
    text = str(table.format_index(escape="latex", axis=1).to_latex(hrules=True))
    return text.replace("→", r"$\rightarrow$").replace("—", "---")


def decimals(name: object, numbers: pd.Series) -> int:
    """Return the decimals of a column of a paper's table: one for a recall or a percentage, none for whole numbers, and
    otherwise at least one, with four significant digits for the largest number."""
    if _PERCENT.search(str(name)):
        return 1
    sizes = pd.to_numeric(numbers, errors="coerce").abs()
    sizes = sizes[sizes < float("inf")]
    if (sizes % 1 == 0).all():
        return 0
    return min(max(3 - math.floor(math.log10(sizes.max())), 1), 12)


def file_name(text: str) -> str:
    """Convert to letters, digits and dashes: "recall of the runs" becomes "recall-of-the-runs"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "figure"


def html_page(figure: go.Figure | Callable[[], go.Figure], paper: str) -> bytes:
    """Write one HTML file that includes Plotly and needs nothing else. `figure`: a figure, or what makes it; `paper` is
    the background colour."""
    made = figure if isinstance(figure, go.Figure) else figure()
    opaque = go.Figure(made).update_layout(paper_bgcolor=paper, plot_bgcolor=paper, height=None)
    options = {"displaylogo": False, "toImageButtonOptions": {"format": "svg"}}
    return str(opaque.to_html(include_plotlyjs=True, full_html=True, config=options)).encode()
