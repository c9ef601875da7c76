"""The sidebar and tabs of all pages: links to the pages, pickers of runs and split, and saved views."""

import html
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qs, urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import charts
from app.address import (
    FORMER_RUNS,
    MOST_RUNS,
    REVIEWER,
    RUNS,
    SLICE,
    followed,
    put,
    renamed,
    reviewer_link,
    set_values,
)
from app.ask import InputError, Run, Runs, RunSummary, all_runs, comparable, listing, saved_views
from app.choice import LONGEST_SLICE, Choice, default_split, named, plain_words, slice_mask, usual_slices
from app.components import cards, links, opened, unavailable
from app.components.controls import button
from app.components.copy_link import copy_link
from app.components.refusals import attempt
from app.components.theme import tone
from app.components.unavailable import Problem
from app.components.words import listed
from app.frame import PAGES, filters
from app.frame import pages as frame
from app.jobs import runs_root

VIEW_NAME = "view-name"
RUNS_HELP = f"Up to {MOST_RUNS} runs. The first is the baseline, the last the run in question: pages on two runs compare these."
Query = dict[str, str | list[str]]
ByName = Mapping[str, RunSummary]


def draw(page: st.Page, pages: Mapping[str, st.Page]) -> Choice | None:
    """Draw links to the pages and the pickers. The frame draws them instead of the page, because a page's widgets are
    forgotten on the next page, and with them the runs that a link names."""
    with st.sidebar:
        navigation = st.container(key="pages", gap="xsmall")
        query, choice, problems = _pick(st.container())
    if page.title == "Overview" and choice is not None:  # it shows what exists of them
        problems = [problem for problem in problems if problem.name not in choice.names]

    opened.begin(page.url_path, choice and choice.first.samples.get(choice.split))
    followed(REVIEWER, st.query_params.get(REVIEWER), "")
    query |= reviewer_link()
    without_value = [SLICE, REVIEWER, *FORMER_RUNS]
    if not st.session_state.get(RUNS):
        without_value.append(RUNS)

    set_values(query, without_value)
    st.session_state[frame.PROBLEMS] = problems
    with navigation:
        _entries(page, pages, query, choice)

    _tabs(page, query)
    names = listed([run.name for run in choice.runs]) if choice is not None and page.title != "Train" else ""
    st.set_page_config(page_title=" · ".join(part for part in (page.title, names, frame.APP_TITLE) if part))
    return choice


def _entries(page: st.Page, pages: Mapping[str, st.Page], query: Query, choice: Choice | None) -> None:
    """Draw links to the pages; those about weights and concepts only if a chosen run has them."""
    documents = {document for run in choice.runs for document in run.documents} if choice else set()
    for name, entry in PAGES.items():
        lacking = "needs" in entry and entry["needs"] not in documents and name != page.url_path
        if pages[name].visibility == "visible" and "tab_of" not in entry and not lacking:
            open_tab = PAGES.get(page.url_path, {}).get("tab_of") == name
            with st.container(key="open-entry") if open_tab else nullcontext():
                parameters = {**query, **links.followed(name)}
                st.page_link(pages[name], width="stretch", query_params=parameters)


def _tabs(page: st.Page, query: Query) -> None:
    """Draw links to the pages that share one entry of the sidebar, above the question of each."""
    first = PAGES.get(page.url_path, {}).get("tab_of", page.url_path)
    names = [name for name, entry in PAGES.items() if first in (name, entry.get("tab_of"))]
    if len(names) > 1:
        current = {page.url_path: ' aria-current="page"'}
        states = {n: html.escape(urlencode({**query, **links.followed(n)}, doseq=True)) for n in names}
        links_to = (f'<a href="{n}?{states[n]}"{current.get(n, "")}>{PAGES[n]["title"]}</a>' for n in names)
        st.html(f'<nav class="cl-tabs" aria-label="Tabs">{"".join(links_to)}</nav>')


def _pick(search: DeltaGenerator) -> tuple[Query, Choice | None, list[Problem]]:
    """Draw the pickers, with that of a slice in `search`. Return their values as query parameters, the runs to show,
    and the problems of the others that are named."""
    runs = {run.name: run for run in all_runs(st.query_params.get_all(RUNS))}
    usable = [run for run in runs.values() if run.usable]
    address = named({key: st.query_params.get_all(key) for key in st.query_params}, usable)
    if not usable:
        return {}, None, [unavailable.run(name, runs.get(name)) for name in address.in_address]

    names = followed(RUNS, address.in_address or None, address.usual)
    above = st.container()
    problems = [unavailable.run(name, runs.get(name)) for name in names if runs.get(name) not in usable]
    query: Query = {} if address.may_leave_out(names) else {RUNS: names}
    sound = [runs[name] for name in names if runs.get(name) in usable]
    first = sound[0] if sound and sound[0].name == names[0] else None
    split = st.query_params.get("split", "")
    if first is not None:
        split = followed("split", split or None, default_split(sound))
        splits = dict.fromkeys([*(split for run in sound for split in run.splits), split])
        st.selectbox("Split", splits, help=cards.tip("split"), key="split")
    with above:
        _pick_runs(runs, names, first, split)
    if first is None:
        return query | ({"split": split} if split else {}), None, problems

    shown, faults = _shown(sound, split)
    if shown is not None:
        retained = {run.name for run in runs.values() if run in shown.runs or _waits(run, first, split)}
        shown = replace(shown, names=tuple(name for name in names if name in retained))
    with search:
        expression = _search(shown)
        if shown is not None:
            filters.draw(shown, expression)
        if shown is not None and expression:
            query[SLICE] = expression
            shown = _sliced(shown, expression)

    return query | {"split": split}, shown, [*problems, *faults]


def _search(shown: Choice | None) -> str:
    """Draw the field for a slice, which the browser completes from the usual slices (history.js). Return the slice
    without surrounding spaces."""
    in_url = st.query_params.get(SLICE, "")[:LONGEST_SLICE].strip()
    expression = followed(SLICE, in_url, "", str.strip)
    st.text_input(
        "Search or slice",
        key=SLICE,
        disabled=shown is None,
        placeholder="dog frisbee, or length > 15",
        help=cards.tip("slice"),
    )
    with suppress(InputError):  # the page reports it
        slices = usual_slices(shown.last, shown.split) if shown is not None else []
        options = "".join(f'<option value="{html.escape(text, quote=True)}"></option>' for text in slices)
        st.html(f'<datalist id="usual-slices">{options}</datalist>')
    return expression


def _pick_runs(runs: ByName, names: list[str], first: RunSummary | None, split: str) -> None:
    """Draw the picker of runs: those on the same samples as the first run come first; names in the address stay even if
    no such run exists."""
    known = [name for name, run in runs.items() if run.usable or (first and _waits(run, first, split))]
    same = [name for name in known if first is None or _same_data(runs[name], first, split)]
    elsewhere = [name for name in known if name not in same]
    options = dict.fromkeys([*same, *elsewhere, *names])
    note = f" On other samples of {split}, so not comparable with the first: {', '.join(elsewhere)}."
    help_text = RUNS_HELP + note if elsewhere else RUNS_HELP
    st.multiselect(
        "Runs",
        options,
        key=RUNS,
        help=cards.literal(help_text),
        max_selections=MOST_RUNS,
        placeholder="Choose a run",
    )
    colours = [charts.run_colour(position, len(names), tone()) for position in range(len(names))]
    dots = (
        f".st-key-{RUNS} [data-tag]:nth-of-type({position}) {{ --cl-tag: {colour} }}"
        for position, colour in enumerate(colours, start=1)
    )
    st.html(f"<style>{' '.join(dots)}</style>")
    if len(names) > 1:
        swapped = [names[1], names[0], *names[2:]]
        tip = "The second run becomes the baseline."
        swap = partial(put, RUNS, swapped)
        button("Swap the first two", "swap-runs", "swap_vert", swap, type="tertiary", help=tip)


def _same_data(run: RunSummary, first: RunSummary, split: str) -> bool:
    """True if a run was evaluated, or will be, on the same samples as `first`."""
    same = split in run.samples and run.samples[split] == first.samples.get(split)
    return same or (split not in run.samples and _waits(run, first, split))


def _waits(run: RunSummary, first: RunSummary, split: str) -> bool:
    """True if a run has the data of `first` and is not evaluated on the split yet."""
    evaluated = split in run.splits or split in run.damaged
    return not run.fault and not evaluated and listing.facts(run)["data"] == listing.facts(first)["data"]


def _sliced(shown: Choice, expression: str) -> Choice:
    """Report the slice's size and recall below the field. Return the choice narrowed to it, unless it is invalid."""
    run = shown.last
    split = shown.split
    try:
        inside = slice_mask(run, split, expression)
    except InputError as error:
        cards.note(f"{str(error)[:1].upper()}{str(error)[1:]}. Nothing is filtered.")
        return shown

    captions = inside.nonzero()[0]
    answered = {}
    for name, ranks in shown.ask_each(Run.ranks).items():
        of_slice = ranks["t2i"][captions]
        answered[name] = of_slice[of_slice >= 0] < 1

    recalls = " · ".join(f"{name} {100 * hits.mean():.1f} %" for name, hits in answered.items() if len(hits))
    words = plain_words(run, split, expression)
    size = f"{f'With {words}: ' if words else ''}{len(captions):,} of {len(inside):,} captions"
    cards.note(f"{size} on every page. Text→image R@1: {recalls}." if len(captions) else f"{size}.")
    button("Clear slice", "clear-slice", "close", partial(put, SLICE, ""))
    return replace(shown, slice=expression, slice_run=shown.last, mask=inside)


def _shown(runs: Runs, split: str) -> tuple[Choice | None, list[Problem]]:
    """Return the chosen runs that can be shown on the split, and the problems of the others."""
    sound = list[RunSummary]()
    problems = list[Problem]()
    for run in runs:
        problem = unavailable.split(run, split)
        if problem is None and sound and not comparable(sound[0], run, split):
            fact = f"{sound[0].name} and {run.name} were evaluated on different samples of {split}"
            fix = f"Their ranks cannot be compared. Choose {run.name} alone to see it."
            problem = Problem(run.name, fact, fix)
        if problem is None:
            sound.append(run)
        else:
            problems.append(problem)

    damaged = runs[0] not in sound and split in runs[0].splits  # no other run replaces it
    if not sound or damaged:
        return None, problems

    second = sound[-1] if len(sound) > 1 else None
    return Choice(sound[0], second, split, between=tuple(sound[1:-1])), problems


def saved_views_menu(page: str) -> None:
    """Draw a button that copies the link to the current view, and the menu to save it under a name, and to open or
    remove saved ones. `page` is its path."""
    with st.sidebar:
        copy_link()

    with st.sidebar.popover("Saved views", icon=":material/bookmark:", width="stretch"):
        with st.form("view", border=False):
            st.text_input("Save this view as", key=VIEW_NAME, max_chars=saved_views.LONGEST_NAME)
            save = ("The view was not saved.", _save_view, page)
            st.form_submit_button("Save", key="save-view", on_click=attempt, args=save)
        try:
            views = saved_views.saved_views(runs_root())
        except InputError as error:
            cards.note(str(error))
            return
        for number, (name, address) in enumerate(views.items()):
            page_of_view, _, query = address.partition("?")
            values = renamed(page_of_view, parse_qs(query, keep_blank_values=True))
            present = f"{page_of_view}?{urlencode(values, doseq=True)}"
            with st.container(horizontal=True, vertical_alignment="center"):
                st.html(cards.links_html([(name, present)]))
                failure = "The view was not removed."
                remove = partial(attempt, failure, saved_views.remove_view, runs_root(), name)
                button("Remove", f"remove-view-{number}", "", remove)


def _save_view(page: str) -> None:
    values = [(key, value) for key in st.query_params for value in st.query_params.get_all(key)]
    name = str(st.session_state.get(VIEW_NAME, "")).strip()
    saved_views.save_view(runs_root(), name, f"{page}?{urlencode(values)}")
    st.session_state[VIEW_NAME] = ""
