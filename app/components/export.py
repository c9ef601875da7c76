"""Tables as CSV, Parquet and LaTeX; figures as one HTML file."""

from __future__ import annotations

import io
import math
import re
from typing import Any

import pandas as pd
import plotly.graph_objects as go

_PERCENT = re.compile(r"R@|%|recall", re.IGNORECASE)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv(frame: pd.DataFrame) -> bytes:
    """UTF-8 CSV. An apostrophe precedes text that a spreadsheet would run as a formula."""
    safe = frame.map(
        lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell
    )
    return bytes(safe.to_csv(index=False).encode())


def parquet(frame: pd.DataFrame) -> bytes:
    """Parquet, with the columns' own types."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def latex(frame: pd.DataFrame) -> str:
    """A booktabs table; text is escaped, missing values are a dash, numbers have the `decimals` of their column."""
    table = frame.map(lambda cell: " ".join(cell.split()) if isinstance(cell, str) else cell).style
    formats: dict[Any, Any] = {
        name: f"{{:.{decimals(name, frame[name])}f}}" for name in frame.select_dtypes("number")
    }
    table = table.hide(axis="index").format(formats, na_rep="--", escape="latex")
    text = str(table.format_index(escape="latex", axis=1).to_latex(hrules=True))
    return text.replace("→", r"$\rightarrow$").replace("—", "---")


def decimals(name: object, numbers: pd.Series) -> int:
    """Decimals of a column of a paper's table: one for a recall or a percentage, none for whole numbers, and four
    significant digits of the largest number, at least one decimal, for everything else."""
    if _PERCENT.search(str(name)):
        return 1
    sizes = pd.to_numeric(numbers, errors="coerce").abs()
    sizes = sizes[sizes < float("inf")]
    if (sizes % 1 == 0).all():
        return 0
    return min(max(3 - math.floor(math.log10(sizes.max())), 1), 12)


def file_name(text: str) -> str:
    """Letters, digits and dashes: "recall of the runs" becomes "recall-of-the-runs"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "figure"


def page(figure: go.Figure, paper: str) -> bytes:
    """One HTML file that includes Plotly and needs nothing else. `paper` is the background colour."""
    opaque = go.Figure(figure).update_layout(paper_bgcolor=paper, plot_bgcolor=paper, height=None)
    options = {"displaylogo": False, "toImageButtonOptions": {"format": "svg"}}
    return str(opaque.to_html(include_plotlyjs=True, full_html=True, config=options)).encode()
