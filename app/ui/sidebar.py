"""Run and split pickers, shared by all pages."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from app.backend.runs import InputError, RunSummary, all_runs, comparable
from app.ui import cards, enlarged, frame
from app.ui.glossary import tip
from app.ui.state import NO_RUN, Choice, bound


def default_pair(names: list[str]) -> tuple[str, str]:
    """The pair to show first: "x-baseline" and the run "coder-x" or "x"; else the first two runs."""
    for name in names:
        stem = name.removesuffix("-baseline")
        partners = [partner for partner in (f"coder-{stem}", stem) if partner in names and partner != name]
        if stem != name and partners:
            return name, partners[0]
    return names[0], names[1] if len(names) > 1 else NO_RUN


def shared_splits(runs: list[RunSummary]) -> list[str]:
    """Splits for which every run has an analysis, in the first run's order."""
    return [split for split in runs[0].splits if all(split in run.splits for run in runs)]


def choice() -> Choice | None:
    """The chosen runs and split; None when there is no run to show. Every page asks this first."""
    frame.require()
    chosen: Choice | None = st.session_state.get(frame.CHOSEN)
    return chosen


def draw() -> Choice | None:
    """Draw the pickers. The frame does this and not the page: widgets belong to a page, and the runs that a link names
    would be forgotten on the way to the next one."""
    usable = {run.name: run for run in all_runs() if run.usable}
    if not usable:
        return None
    names = list(usable)
    first_name, second_name = default_pair(names)
    with st.sidebar:
        first = st.selectbox("Run", names, index=names.index(first_name), **bound("run"), help="Usually the baseline.")
        others = [NO_RUN, *names]
        second = st.selectbox(
            "Compared with", others, index=others.index(second_name), **bound("versus"),
            help=f"Shown beside the first run on every page; {NO_RUN} shows the first run alone.",
        )  # fmt: skip
        chosen = [usable[first]] + ([usable[second]] if second in usable and second != first else [])
        splits = shared_splits(chosen)
        if not splits:
            st.html("<small>These runs have no split in common. Only the first one is shown.</small>")
            chosen, splits = chosen[:1], list(chosen[0].splits)
        split = st.selectbox("Split", splits, **bound("split"), help=tip("split"))
        if len(chosen) > 1 and not comparable(chosen[0], chosen[1], split):
            st.html("<small>These runs were evaluated on different samples. Only the first one is shown.</small>")
            chosen = chosen[:1]
    return Choice(chosen[0], chosen[1] if len(chosen) > 1 else None, split)


def page(title: str, how: str, show: Callable[[Choice], None]) -> None:
    """A page about the chosen runs: its question, how to read it, and `show`; without a run, how to get one.

    A run that turns out to be damaged is named where `show` came to it.
    """
    chosen = choice()
    cards.question(title, how)
    if chosen is not None:
        try:
            show(chosen)
            enlarged.listen(chosen)
        except InputError as error:
            cards.empty("The rest of this page cannot be shown.", str(error))
        return
    broken = [(run.name, run.fault) for run in all_runs() if run.fault]
    if broken:
        cards.faults(broken)
    cards.empty("There is no evaluated run yet.", "Train the demo on the start page, or evaluate a run of your own.")
    st.page_link("pages/start.py", label="Start page", icon=":material/play_circle:")
