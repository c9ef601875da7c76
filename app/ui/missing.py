"""Pages about something that not every run has: which runs have it, and a sentence about those that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from app.backend.runs import RunSummary, has_embeddings
from app.ui import cards
from app.ui.state import Choice

OTHER_PAGES = "Overview, Diversity, Similarity and Retrieval work with such a run. Choose another run for this page."


def runs_with(
    runs: Sequence[RunSummary], has: Callable[[RunSummary], bool], *, trained: str, imported: str, way_out: str,
    preset: str = "",
) -> list[RunSummary]:  # fmt: skip
    """The runs that have it, after naming those that do not; where none has it, how to get one that does.

    Args:
        runs: the chosen ones, at least one. has: whether a run has it.
        trained: how a run without it was trained, for example "without a concept branch".
        imported: what imported embeddings lack, for example "which have no concept branch".
        way_out: how to get a run that has it. preset: one on the built-in pictures that has it, for the Train page.
    """
    matches = [run for run in runs if has(run)]
    without = [run for run in runs if run not in matches]

    def lack(run: RunSummary) -> str:
        reason = f"holds imported embeddings, {imported}" if run.imported else f"was trained {trained}"
        return f"{run.name} {reason}."

    if not matches:
        if len(without) == 2 and not any(run.imported for run in without):
            fact = f"{without[0].name} and {without[1].name} were trained {trained}."
        else:
            fact = " ".join(map(lack, without))
        cards.empty(fact, way_out)
        label = f"Open the Train page with {preset}" if preset else "Open the Train page"
        query = {"preset": preset} if preset else None
        st.page_link("pages/train.py", label=label, icon=":material/model_training:", query_params=query)
    elif without:
        cards.note(f"{lack(without[0])} Only {matches[0].name} is shown.")
    return matches


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
    return Choice(matches[0], None, choice.split)
