"""A report as one HTML page: no script, nothing loaded from elsewhere, readable in print."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
HERE = Path(__file__)  # the template and its style are beside it


@dataclass(frozen=True)
class Section:
    """A section of a report."""

    heading: str
    how: str  # how to read it, one paragraph
    # kind and content, from top to bottom. Kinds are the macros of the template: "facts" (a mapping),
    # "sentences", "subheading", "table" (a DataFrame, with its index if that has a name; a cell may be
    # mean, low and high), "bands" (queries of every direction by the band of their rank in the first run, rows
    # of `counts`, and in the last, columns), "examples" (captions as queries, with data URLs or "" for the
    # pictures), "histogram" (counts and the smallest value), "commands" (pairs of a name and a command)
    blocks: Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class Report:
    """A page."""

    question: str  # the heading
    title: str  # of the window
    short: Sequence[str]  # sentences, the findings first
    sections: Sequence[Section]
    versions: str  # of the programs


def render(report: Report) -> str:
    """Render the page. Every value is escaped; the only markup is the template's own."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template, style = (HERE.with_suffix(ending).read_text("utf-8") for ending in (".html", ".css"))
    return environment.from_string(template).render(
        report=report,
        style=f"\n{style}",
        policy=POLICY,
        cell=_cell,
        shade=_shade,
        numeric=lambda column: str not in set(map(type, column)),
    )


def _cell(value: Any) -> str:
    """Format a cell; (mean, low, high) becomes the mean with its interval below."""
    if isinstance(value, tuple):
        mean, low, high = value
        return Markup('{:.1f}<br><span class="interval">{:.1f} to {:.1f}</span>').format(mean, low, high)
    if isinstance(value, float | np.floating):
        return "–" if np.isnan(value) else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)


def _shade(count: int, most: int, row: int, column: int) -> str:
    """Return the background of a cell: green if the last run ranks higher, red if lower, grey on the diagonal."""
    share = 0.08 + 0.62 * (count / most) ** 0.5 if count and most else 0.0
    red, green, blue = (90, 105, 115) if row == column else (44, 138, 75) if row > column else (190, 70, 50)
    return f"rgba({red},{green},{blue},{share:.2f})"
