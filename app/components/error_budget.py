"""The error budget: the causes of every run's misses as bars, and what would fix those of the last run."""

from dataclasses import replace

import pandas as pd
import streamlit as st

from app import charts, judging, questions
from app.address import value_of
from app.ask import RunSummary, ask, ask_all, causes
from app.choice import QUERIES, Choice
from app.components import cards, downloads, events, links
from app.components.controls import FIRST, choose_one, row
from app.components.table import Column, columns_of, plain_table
from app.components.theme import tone
from app.components.words import count, gain_cell

BUDGET = "budget"
OPENED_CAUSE = "opened-cause"


def runs_with_causes(choice: Choice) -> list[RunSummary]:
    """Return the chosen runs whose misses have known causes."""
    return [run for run in choice.runs if ask(causes.has_causes, run, choice.split)]


def show_causes(choice: Choice) -> None:
    """Draw the causes of every run's misses as one bar, and what would fix those of the last run; for a run without the
    evidence, say why. A click on a cause, or its link, lists its queries on the Retrieval page."""
    reasons = choice.ask_each(causes.why_no_causes)
    for reason in filter(None, reasons.values()):
        cards.note(reason)
    runs = runs_with_causes(choice)
    if runs:
        _show_budgets(choice.of(runs))


def _show_budgets(choice: Choice) -> None:
    _open_cause(choice)
    left, right = st.columns(2, gap="large")
    with right, row():
        tip = cards.tip("cause")
        modality = choose_one("Misses of", links.DIRECTIONS, "misses-of", hidden=True)
        at = int(choose_one("Missed by the first", FIRST, "misses-at", tip, hidden=True))
    direction = QUERIES[modality]
    within = choice.samples(modality)
    asked = {run.name: judging.asked(run, choice.split, direction, at, within) for run in choice.runs}
    budgets = {}
    for run in choice.runs:
        known = judging.known_about(run, choice.split)
        budgets[run.name] = ask(questions.cause_shares, run, choice.split, asked[run.name].question, known)
    last = choice.last
    of_last = budgets[last.name]
    missed = int(of_last["count"].sum())
    if not missed:
        with left:
            cards.heading(f"{last.name} misses no query among the first {at}")
        return
    compared = [last] if choice.second is None else [choice.first, last]
    known = judging.known_about(last, choice.split)
    fixes = ask_all(questions.cause_fixes, compared, choice.split, asked[last.name].question, known)
    with left:
        cards.heading(causes.gain_sentence(fixes, at))
        if last.sampled.get(choice.split):
            cards.note(cards.HOW_TO_READ["causes of a sample"])
        downloads.chart(charts.error_budgets(budgets, tone()), BUDGET, "causes of the misses")
        found = of_last[of_last["count"] > 0]
        named = zip(found["cause"], found["count"], strict=True)
        addresses = [(f"{cause} {number:,}", _cause_address(choice, last, cause)) for cause, number in named]
        st.html(cards.links_html(addresses))
    with right:
        _fix_table(last, fixes, at)
        how = cards.HOW_TO_READ["error budget"].format(missed=count(missed, "miss", "misses"), last=last.name)
        cards.note(f"{how} {_close(last, asked[last.name])}")

    def open_bar(bar: tuple[int, int]) -> None:
        st.session_state[OPENED_CAUSE] = causes.CAUSES[bar[0]], choice.runs[bar[1]].name

    events.on_cell([BUDGET], (len(causes.CAUSES), len(budgets)), open_bar)


def _fix_table(run: RunSummary, fixes: pd.DataFrame, at: int) -> None:
    changes = fixes[["change", "change_low", "change_high"]].itertuples(index=False, name=None)
    shown = fixes.assign(
        recall=fixes.apply("{0[recall]:.1f} [{0[low]:.1f}, {0[high]:.1f}]".format, axis=1),
        change=[gain_cell(change, low, high) for change, low, high in changes],
    )
    columns = columns_of("fixes")
    columns["recall"] = replace(columns["recall"], label=f"R@{at}", right=True)
    plain_table(shown, {"fix": Column(run.name)} | columns, "fixes", "fixes")


def _close(run: RunSummary, asked: judging.Asked) -> str:
    """Say which margins count as close, and why."""
    other = asked.other_seed
    if other is None:
        return cards.HOW_TO_READ["close usual"].format(run=run.name)
    return cards.HOW_TO_READ["close measured"].format(noise=asked.question.noise, other=other.name)


def _cause_values(cause: str, run: str) -> dict[str, str]:
    """Return the parameters of the Retrieval page that list the queries a run misses for a cause."""
    shown = value_of("misses-of", "text")  # the widget's value, or its label in the address
    direction = links.DIRECTIONS["image" if shown in ("image", links.DIRECTIONS["image"]) else "text"]
    return {"direction": direction, "at": value_of("misses-at", "1"), "cause": cause, "cause-of": run}


def _cause_address(choice: Choice, run: RunSummary, cause: str) -> str:
    return links.address("retrieval", choice, **_cause_values(cause, run.name))


def _open_cause(choice: Choice) -> None:
    """Go to the queries of the cause whose bar was clicked, if one was."""
    clicked = st.session_state.pop(OPENED_CAUSE, None)
    if clicked is not None:
        cause, run = clicked
        links.go("retrieval", choice, **_cause_values(cause, run))
