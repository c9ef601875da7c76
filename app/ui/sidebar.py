"""Links to the pages, and pickers of runs and split, shared by all pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import streamlit as st

from app.backend.runs import InputError, RunSummary, all_runs, comparable, run_faults
from app.backend.slices import LONGEST_EXPRESSION, recalls_of, selected
from app.ui import cards, enlarged, frame, links, reviewing, unavailable
from app.ui.glossary import tip
from app.ui.state import NO_RUN, Choice, put, reviewer_in_link
from app.ui.unavailable import Problem

PROBLEMS = "problems-of-the-link"
SLICE = "slice"
OFFERED = 12  # runs listed where the one that a link names cannot be shown


def default_pair(names: Sequence[str]) -> tuple[str, str]:
    """The pair to show first: "x-baseline" and the run "coder-x" or "x"; else the first two runs."""
    for name in names:
        stem = name.removesuffix("-baseline")
        partners = [partner for partner in (f"coder-{stem}", stem) if partner in names and partner != name]
        if stem != name and partners:
            return name, partners[0]
    return names[0], names[1] if len(names) > 1 else NO_RUN


def default_split(runs: Sequence[RunSummary]) -> str:
    """The first run's first split that every run has, else its first; "" where it has none."""
    shared = [split for split in runs[0].splits if all(split in run.splits for run in runs)]
    return (shared or [*runs[0].splits, ""])[0]


def choice() -> Choice | None:
    """The chosen runs and split; None when there is no run to show. Every page asks this first."""
    frame.require()
    chosen: Choice | None = st.session_state.get(frame.CHOSEN)
    return chosen


def draw(page: st.Page, pages: Sequence[st.Page]) -> Choice | None:
    """Draw links to the pages and the pickers. The frame does this and not the page: widgets belong to a page, and the
    runs that a link names would be forgotten on the way to the next one."""
    with st.sidebar:
        navigation = st.container(key="pages", gap="xsmall")
        query, chosen, problems = _pick()
    query |= reviewer_in_link()
    if any(st.query_params.get_all(key) != [value] for key, value in query.items()):
        st.query_params.update(query)
    if SLICE in st.query_params and SLICE not in query:
        del st.query_params[SLICE]
    st.session_state[PROBLEMS] = problems
    with navigation:
        for other in pages:
            if other.visibility == "visible":
                st.page_link(other, width="stretch", query_params=query)
    names = " and ".join(run.name for run in chosen.runs) if chosen is not None and page.title != "Train" else ""
    st.set_page_config(page_title=" · ".join(part for part in (page.title, names, frame.APP_TITLE) if part))
    return chosen


def _pick() -> tuple[dict[str, str], Choice | None, list[Problem]]:
    """The pickers; what they hold as query parameters, the runs to show, and why others that are named cannot be."""
    runs = {run.name: run for run in all_runs()}
    names = [name for name, run in runs.items() if run.usable]
    if not names:
        return {}, None, [unavailable.run(name, runs.get(name)) for name in st.query_params.get_all("run")]
    linked = "run" in st.query_params or "run" in st.session_state
    first_name, second_name = default_pair(names)
    first = _picker("Run", "run", names, first_name, "Usually the baseline.")
    second = _picker(
        "Compared with", "versus", [NO_RUN, *names], NO_RUN if linked else second_name,
        f"Shown beside the first run on every page; {NO_RUN} shows the first run alone.",
    )  # fmt: skip
    problems = [unavailable.run(name, runs.get(name)) for name in (first, second) if name not in (*names, NO_RUN)]
    chosen = [runs[name] for name in dict.fromkeys((first, second)) if name in names]
    query = {"run": first, "versus": second}
    if first not in names:
        split = st.query_params.get("split", "")
        return query | ({"split": split} if split else {}), None, problems
    split = _picker("Split", "split", chosen[0].splits, default_split(chosen), tip("split"))
    shown, faults = _shown(chosen, split)
    expression = _slice(shown)
    if shown is not None and expression:
        query[SLICE] = expression
        shown = replace(shown, slice=_described(shown, expression), slice_run=shown.runs[-1])
    return query | {"split": split}, shown, [*problems, *faults]


def _slice(shown: Choice | None) -> str:
    """The field of the slice; its value is in the URL while there is one."""
    seen = f"{SLICE}-of-the-url"
    asked = st.query_params.get(SLICE, "")[:LONGEST_EXPRESSION]
    if asked != st.session_state.get(seen, ""):
        st.session_state[SLICE] = asked
    st.text_input(
        "Slice", key=SLICE, max_chars=LONGEST_EXPRESSION, placeholder='length > 15 and "dog" in caption',
        help=tip("slice"), disabled=shown is None,
    )  # fmt: skip
    st.session_state[seen] = str(st.session_state.get(SLICE) or "").strip()
    return str(st.session_state[seen])


def _described(shown: Choice, expression: str) -> str:
    """Say below the field what the slice holds and how the runs do on it; "" where the expression is none."""
    try:
        inside = selected(shown.runs[-1], shown.split, expression)
    except InputError as error:
        cards.note(f"{str(error)[:1].upper()}{str(error)[1:]}. Nothing is filtered.")
        return ""
    captions = inside.nonzero()[0]
    recalls = " · ".join(f"{run.name} {recalls_of(run, shown.split, captions):.1f} %" for run in shown.runs)
    held = f"{len(captions):,} of {len(inside):,} captions"
    cards.note(f"{held} on every page. Text→image R@1: {recalls}." if len(captions) else f"{held}.")
    st.button("Clear slice", icon=":material/close:", on_click=lambda: put(SLICE, ""))
    return expression


def _picker(label: str, key: str, names: Sequence[str], default: str, help_text: str) -> str:
    """A picker whose value is in the URL, always; a name from the URL stays, also where there is nothing under it.

    No bound widget: Streamlit removes a value that is the default from the URL, and one that is none of the options.
    Of the URL and the picker, the one that has changed since the last script run is right.
    """
    seen = f"{key}-of-the-url"
    asked = (st.query_params.get_all(key) or [""])[-1]
    if asked and asked != st.session_state.get(seen):
        st.session_state[key] = asked
    value = str(st.session_state.setdefault(key, default))
    st.session_state[seen] = value
    st.selectbox(label, [*names, *([] if value in names else [value])], help=help_text, key=key)
    return value


def _shown(chosen: Sequence[RunSummary], split: str) -> tuple[Choice | None, list[Problem]]:
    """Those of the chosen runs that can be shown on the split, and why the others cannot."""
    problems = []
    for run in chosen:
        problem = unavailable.split(run, split) if split not in run.splits else unavailable.analysis(run, split)
        problems += [problem] if problem else []
    if problems and problems[0].name == chosen[0].name:
        return None, problems
    if len(chosen) == 2 and not problems and not comparable(chosen[0], chosen[1], split):
        problems = [unavailable.other_samples(chosen[0], chosen[1], split)]
    return Choice(chosen[0], chosen[1] if len(chosen) == 2 and not problems else None, split), problems


def page(title: str | Callable[[Choice], str], how: str, show: Callable[[Choice], None]) -> None:
    """A page about the chosen runs: its question, how to read it, and `show`; without a run, how to get one.

    What the link names and cannot be shown is said first. A run that turns out to be damaged is named where `show`
    came to it.

    Args:
        title: a question, or a function that puts the runs' names into it.
    """
    chosen = choice()
    cards.question(title if isinstance(title, str) else title(chosen) if chosen else "Which run?", how)
    problems: list[Problem] = st.session_state.get(PROBLEMS, [])
    for problem in problems:
        alone = f" Only {chosen.first.name} is shown." if chosen is not None else ""
        cards.empty(problem.fact, problem.way_out + alone)
    if chosen is not None:
        try:
            show(chosen)
            reviewing.listen(chosen)
            enlarged.listen(chosen)
        except InputError as error:
            cards.empty("The rest of this page cannot be shown.", str(error))
        return
    others = [run for run in all_runs() if run.usable and run.name not in [problem.name for problem in problems]]
    if others:
        offered = [(run.name, links.address("", Choice(run, None, run.splits[0]))) for run in others[:OFFERED]]
        cards.label("Runs that can be shown:" if len(others) <= OFFERED else f"{OFFERED} of {len(others)} runs:")
        st.html(cards.links_html(offered))
        return
    broken = run_faults()
    if broken:
        cards.faults(broken)
    cards.empty("There is no evaluated run yet.", "Train the demo on the start page, or evaluate a run of your own.")
    st.page_link("pages/start.py", label="Start page", icon=":material/play_circle:")
