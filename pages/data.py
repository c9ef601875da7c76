"""Data page: suspicious pairs, duplicates, bad pictures."""

from __future__ import annotations

import streamlit as st

from app.ask import RunSummary
from app.choice import Choice
from app.components.controls import choose_one
from app.frame import sidebar
from app.views import data_quality as sections

VIEWS = {
    "pairs": "Mismatched pairs",
    "pictures": "Duplicate pictures",
    "captions": "Duplicate captions",
    "bad": "Bad pictures",
    "empty": "Empty captions",
}
BOTH = "+"  # no run has this name


def show(choice: Choice) -> None:
    run: RunSummary = choice.last
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        view = choose_one("List", VIEWS, "list")
        chosen, pair = "", list[RunSummary]()
        if view in ("pairs", "empty") and choice.second is not None:
            names = {run.name: run.name for run in reversed(choice.runs)}
            pair = sections.halves(choice) if view == "pairs" else []
            if pair:
                names = {BOTH: " and ".join(run.name for run in pair), **names}
            chosen = choose_one("Judged by", names, "judge")
            run = next((run for run in choice.runs if run.name == chosen), run)
    if view == "pairs":
        sections.mismatched_pairs(choice, run, pair if chosen == BOTH else [])
    elif view == "empty":
        sections.empty_captions(choice, run)
    else:
        sections.findings(choice, run, view)


sidebar.page(
    "What is wrong with the data itself?",
    "Captions of other images, copies, leaks between splits, uninformative pictures and captions. Every "
    "list shows suspects, the strongest first: look before you remove anything.",
    show,
)
