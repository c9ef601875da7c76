"""Run and split pickers, chosen once for all pages."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from app.backend import runs as backend
from app.backend.runs import RunSummary
from app.ui import cards, frame
from app.ui.glossary import tip
from app.ui.state import NO_RUN, Choice, bound


def default_pair(names: list[str]) -> tuple[str, str]:
    """The pair a visitor wants to see first: a baseline and the run of the same name; else the first two."""
    for name in names:
        partner = name.removesuffix("-baseline")
        if partner != name and partner in names:
            return name, partner
    return names[0], names[1] if len(names) > 1 else NO_RUN


def shared_splits(runs: list[RunSummary]) -> list[str]:
    """Splits that every run has an analysis of, in the first run's order."""
    return [split for split in runs[0].splits if all(split in run.splits for run in runs)]


def choose() -> Choice | None:
    """What the pickers say; None when there is no run that can be looked at. Every page asks this first."""
    frame.need()
    found: Choice | None = st.session_state.get(frame.CHOSEN)
    return found


def draw() -> Choice | None:
    """Draw the pickers, in the frame and not in a page: a widget of a page is another widget on the next one, and the
    runs that a link names would be forgotten on the way."""
    usable = {run.name: run for run in backend.runs() if run.usable}
    if not usable:
        return None
    names = list(usable)
    first_name, second_name = default_pair(names)
    with st.sidebar:
        first = st.selectbox("Run", names, index=names.index(first_name), **bound("run"), help="The baseline, usually.")
        others = [NO_RUN, *names]
        second = st.selectbox(
            "Compared with", others, index=others.index(second_name), **bound("versus"),
            help=f"Shown beside the first one on every page; {NO_RUN} shows one run alone.",
        )  # fmt: skip
        chosen = [usable[first]] + ([usable[second]] if second in usable and second != first else [])
        splits = shared_splits(chosen)
        if not splits:
            st.html("<small>These two runs share no split; the first one is shown alone.</small>")
            chosen, splits = chosen[:1], list(chosen[0].splits)
        split = st.selectbox("Split", splits, **bound("split"), help=tip("split"))
        if len(chosen) > 1 and not backend.comparable(chosen[0], chosen[1], split):
            st.html("<small>These two runs were evaluated on other samples; the first one is shown alone.</small>")
            chosen = chosen[:1]
    return Choice(chosen[0], chosen[1] if len(chosen) > 1 else None, split)


def answer(choice: Choice | None, show: Callable[[Choice], None]) -> None:
    """What a page shows of the chosen runs; without any, where to get one."""
    if choice is not None:
        show(choice)
        return
    cards.empty(
        "There is no evaluated run yet.", "Train the demo pair on the start page, or evaluate a run of your own."
    )
    st.page_link("pages/start.py", label="Start page", icon=":material/play_circle:")
