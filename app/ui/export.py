"""Tables as CSV, Parquet and LaTeX; figures as one HTML file."""

from __future__ import annotations

import io
import re

import pandas as pd
import plotly.graph_objects as go

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv(frame: pd.DataFrame) -> bytes:
    """UTF-8 CSV. An apostrophe precedes text that a spreadsheet would run as a formula."""
    safe = frame.map(lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell)
    return bytes(safe.to_csv(index=False).encode())


def parquet(frame: pd.DataFrame) -> bytes:
    """Parquet, with the columns' own types."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def latex(frame: pd.DataFrame, digits: int = 1) -> str:
    """A booktabs table; text is escaped, numbers have `digits` decimals, missing values are a dash."""
    table = frame.map(lambda cell: " ".join(cell.split()) if isinstance(cell, str) else cell).style
    table = table.hide(axis="index").format(precision=digits, na_rep="--", escape="latex")
    text = str(table.format_index(escape="latex", axis=1).to_latex(hrules=True))
    return text.replace("→", r"$\rightarrow$").replace("—", "---")


def file_name(text: str) -> str:
    """Letters, digits and dashes: "recall of the runs" becomes "recall-of-the-runs"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "figure"


def page(figure: go.Figure, paper: str) -> bytes:
    """One HTML file that includes Plotly and needs nothing else. `paper` is the background colour."""
    opaque = go.Figure(figure).update_layout(paper_bgcolor=paper, plot_bgcolor=paper, height=None)
    options = {"displaylogo": False, "toImageButtonOptions": {"format": "svg"}}
    return str(opaque.to_html(include_plotlyjs=True, full_html=True, config=options)).encode()
