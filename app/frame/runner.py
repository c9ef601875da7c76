"""Every page of the app: its question, the panel of the opened sample, and its sections."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pandas as pd
import streamlit as st

from app.address import RUNS
from app.ask import InputError, Run, all_runs, run_faults
from app.choice import Choice
from app.components import cards, enlarged, events, links, opened, reviewing, samples, unavailable
from app.components.answers import EMPTY_SLICE
from app.components.run_names import name_html
from app.components.table import columns_of, plain_table
from app.components.unavailable import Problem
from app.components.words import listed
from app.frame import PAGES
from app.frame import pages as frame

OFFERED = 12  # runs offered if the one that a link names cannot be shown


def run(name: str) -> None:
    """Draw a page: its question, the panel of the opened sample, and its sections."""
    frame.require()
    entry = PAGES[name]
    choice = st.session_state.get(frame.CHOSEN)
    view = import_module(f"app.views.{name}")
    question = view.question(choice) if hasattr(view, "question") else entry["question"]
    cards.begin_page(question, entry.get("how", ""))
    panel = st.container()
    cards.refusal()
    try:
        if "alone" not in entry:
            choice = _about(entry, choice)
            if choice is not None:
                cards.name_runs(name_html(choice, run) for run in choice.runs)
        if choice is not None or "alone" in entry:
            view.show(choice)
        if choice is not None:
            if not opened.state().drawn:  # the page has no place for it
                samples.show_opened(choice, panel)
            reviewing.record_clicked(choice)
            enlarged.open_clicked(choice)
            events.listen()
            reviewing.show_toast()
    except InputError as error:
        cards.missing("The rest of this page cannot be shown", "the reason is below", str(error))


def _about(entry: Mapping[str, Any], choice: Choice | None) -> Choice | None:
    """Return the runs that a page shows, after naming those that it cannot; None, after an explanation, for none."""
    problems: list[Problem] = st.session_state.get(frame.PROBLEMS, [])
    verb = "is" if choice and choice.second is None else "are"
    only = f" Only {listed([run.name for run in choice.runs])} {verb} shown." if choice else ""
    if choice is None:
        _offer_others(problems)
        return None
    for problem in problems:
        cards.empty(f"{problem.fact}.", problem.fix + only)
    if "embedded" in entry:
        choice = unavailable.embedded(choice)
        if choice is None:
            return None

    others = choice.ask(Run.uncounted_queries)
    if others is not None:
        _explain_search_log(others)
    if "of_two" in entry and choice.between:
        pair = listed([choice.first.name, choice.last.name])
        cards.note(f"This page compares two runs: the first and the last of {len(choice.runs)}, {pair}.")
        choice = choice.ends()
    if "narrowed" in entry and choice.mask is not None and not choice.mask.any():
        cards.answer(EMPTY_SLICE)
        return None
    if choice.slice and "whole" in entry:
        cards.note(f"The slice does not narrow {entry['whole']}.")

    return choice


def _explain_search_log(others: pd.DataFrame) -> None:
    """Say what is right in a split that is a search log, and list the queries that do not count."""
    cards.note(
        "This split is a search log: its queries belong to no picture, and judges say which results are right. "
        "Where a page shows a query's own picture, it is the one judged best."
    )
    if len(others):
        with st.expander(f"{len(others):,} queries that are not counted"):
            plain_table(others, columns_of("uncounted"), "uncounted", "queries")


def _offer_others(problems: Sequence[Problem]) -> None:
    """Say why the chosen runs cannot be shown, and draw links to others, each before the chosen runs without problems;
    if there are none, explain how to get one."""
    named = [problem.name for problem in problems]
    runs = [run for run in all_runs() if run.usable and run.name not in named]
    for problem in problems:
        cards.missing(
            problem.fact, "choose another run" if runs else "see what is wrong with it", problem.fix
        )

    if runs:
        cards.label("Runs that can be shown:" if len(runs) <= OFFERED else f"{OFFERED} of {len(runs)} runs:")
        others = [name for name in st.session_state.get(RUNS, []) if name not in named]
        split = st.session_state.get("split")
        addresses = []
        for run in runs[:OFFERED]:
            names = tuple(dict.fromkeys([run.name, *others]))
            choice = Choice(run, None, split if split in run.splits else run.splits[0], names=names)
            addresses.append((run.name, links.address("", choice)))
        st.html(cards.links_html(addresses))
        return

    fix = "train the demo on the start page, or evaluate a run of your own"
    cards.missing("There is no evaluated run yet", fix)
    cards.faults(run_faults())
    links.page_link("start", "Start page")
