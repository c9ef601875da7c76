"""Names of runs in their colours, as in the figures."""

import html

import streamlit as st

from app import charts
from app.ask import RunSummary
from app.choice import Choice
from app.components.theme import tone


def run_colour(choice: Choice, run: RunSummary) -> str:
    """Return the colour of a run in figures."""
    names = [one.name for one in choice.runs]
    return charts.run_colour(names.index(run.name), len(names), tone())


def name_html(choice: Choice, run: RunSummary) -> str:
    """Return a run's name after a dot in its colour."""
    name = html.escape(run.name, quote=True)
    dot = f'<span class="cl-dot" style="background: {run_colour(choice, run)}"></span>'
    return f'<span class="cl-run" title="{name}">{dot}{name}</span>'


def run_label(choice: Choice, run: RunSummary, note: str = "") -> None:
    """Draw a run's name in its colour, with a note beside it."""
    beside = f'<span class="cl-beside">{html.escape(note)}</span>' if note else ""
    st.html(f'<div class="cl-name">{name_html(choice, run)}{beside}</div>')
