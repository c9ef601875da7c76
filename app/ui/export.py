"""Tables as files: CSV, Parquet, and LaTeX for a paper. Figures as one HTML file."""

from __future__ import annotations

import io
import re

import pandas as pd
import plotly.graph_objects as go

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "→": r"$\rightarrow$", "—": "---",
}  # fmt: skip
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv(frame: pd.DataFrame) -> bytes:
    """UTF-8 CSV. Text that a spreadsheet would run as a formula is preceded by an apostrophe."""
    safe = frame.map(lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell)
    return bytes(safe.to_csv(index=False).encode())


def parquet(frame: pd.DataFrame) -> bytes:
    """Parquet, with the columns' own types."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def file_name(text: str) -> str:
    """Letters, digits and dashes: "recall of the runs" becomes "recall-of-the-runs"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "figure"


def page(figure: go.Figure, paper: str) -> bytes:
    """One HTML file that needs nothing else: the drawing program is inside. `paper` is the ground's colour."""
    grounded = go.Figure(figure).update_layout(paper_bgcolor=paper, plot_bgcolor=paper, height=None)
    options = {"displaylogo": False, "toImageButtonOptions": {"format": "svg"}}
    return str(grounded.to_html(include_plotlyjs=True, full_html=True, config=options)).encode()


def latex(frame: pd.DataFrame, digits: int = 1) -> str:
    """A booktabs table; text is escaped, numbers have `digits` decimals, missing values are a dash."""
    align = "".join("r" if pd.api.types.is_numeric_dtype(frame[column]) else "l" for column in frame)
    head = " & ".join(latex_text(str(column)) for column in frame)
    rows = [" & ".join(_cell(value, digits) for value in row) + r" \\" for row in frame.itertuples(index=False)]
    lines = [rf"\begin{{tabular}}{{{align}}}", r"\toprule", head + r" \\", r"\midrule", *rows, r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}", ""])


def latex_text(text: str) -> str:
    """Text with LaTeX's special characters escaped, on one line."""
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))


def _cell(value: object, digits: int) -> str:
    if value is None or value is pd.NaT or (isinstance(value, float) and value != value):
        return "--"
    if isinstance(value, float):
        return f"{value:.{digits}f}"
    return latex_text(str(value))
