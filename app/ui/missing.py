"""Pages about something that not every run has: which runs have it, and a sentence about those that do not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import streamlit as st

from app.ask import InputError, RunSummary, all_runs, comparable, has_embeddings
from app.choice import NO_RUN, Choice, put
from app.ui import cards

OTHER_PAGES = (
    "Overview, Diversity, Similarity and Retrieval work with such a run. Choose another run for this page."
)


def runs_with(
    choice: Choice,
    has: Callable[[RunSummary, str], bool],
    *,
    trained: str,
    imported: str,
    way_out: str,
    preset: str = "",
) -> list[RunSummary]:
    """The chosen runs that have it, after naming those that do not; where none has it, a button to another run that
    does, and how to train one.

    Args:
        choice: runs and split. has: whether a run has it on a split.
        trained: how a run without it was trained, for example "without a concept branch".
        imported: what imported embeddings lack, for example "which have no concept branch".
        way_out: how to get a run that has it. preset: one on the built-in pictures that has it, for the Train page.
    """
    matches = [run for run in choice.runs if has(run, choice.split)]
    without = [run for run in choice.runs if run not in matches]

    def lack(run: RunSummary) -> str:
        reason = f"holds imported embeddings, {imported}" if run.imported else f"was trained {trained}"
        return f"{run.name} {reason}."

    if not matches:
        if len(without) == 2 and not any(run.imported for run in without):
            fact = f"{without[0].name} and {without[1].name} were trained {trained}."
        else:
            fact = " ".join(map(lack, without))
        cards.empty(fact, way_out)
        _offer_another(choice, has)
        label = f"Open the Train page with {preset}" if preset else "Open the Train page"
        query = {"preset": preset} if preset else None
        st.page_link("pages/train.py", label=label, icon=":material/model_training:", query_params=query)
    elif without:
        cards.note(f"{lack(without[0])} Only {matches[0].name} is shown.")
    return matches


def _offer_another(choice: Choice, has: Callable[[RunSummary, str], bool]) -> None:
    """A button that chooses another run that has it: beside the first one where both are of the same samples."""
    split = choice.split
    others = [run for run in all_runs() if run.usable and split in run.splits and run not in choice.runs]
    others.sort(key=lambda run: not comparable(choice.first, run, split))
    for run in others:
        with suppress(InputError):  # damaged: named on the Overview
            if has(run, split):
                break
    else:
        return
    beside = comparable(choice.first, run, split)
    first, second = (choice.first.name, run.name) if beside else (run.name, NO_RUN)
    label = (
        f"Compare {cards.literal(first)} with {cards.literal(second)}"
        if beside
        else f"Show {cards.literal(first)}"
    )
    st.button(label, type="primary", key="another-run", on_click=_choose, args=(first, second))


def _choose(first: str, second: str) -> None:
    put("run", first)
    put("versus", second)


def embedded(choice: Choice) -> Choice | None:
    """The runs with one embedding per sample, after naming those without; None where no run has them."""
    without = [run for run in choice.runs if not has_embeddings(run, choice.split)]
    if not without:
        return choice
    names, verb = " and ".join(run.name for run in without), "scores" if len(without) == 1 else "score"
    fact = f"{names} {verb} every image with every caption as a pair, so a sample has no single embedding."
    matches = [run for run in choice.runs if run not in without]
    if not matches:
        cards.empty(fact, OTHER_PAGES)
        return None
    cards.note(f"{fact} Only {matches[0].name} is shown.")
    return replace(choice, first=matches[0], second=None)
