"""Which of the chosen runs have one embedding of every sample: a page about a space cannot show the others."""

from __future__ import annotations

from app.backend import runs as backend
from app.backend.runs import RunSummary
from app.ui import cards
from app.ui.state import Choice

WAY_OUT = "Overview, Diversity, Similarity and Retrieval show such a run; choose another one here."


def absent(runs: list[RunSummary]) -> str:
    """Why there is nothing to show, in one sentence."""
    names = " and ".join(run.name for run in runs)
    verb = "scores" if len(runs) == 1 else "score"
    return f"{names} {verb} every image with every caption as a pair, so no sample has one place in a space."


def of(choice: Choice) -> Choice | None:
    """The runs with embeddings, and a sentence about those without; None when there are only such."""
    without = [run for run in choice.runs if not backend.has_embeddings(run, choice.split)]
    left = [run for run in choice.runs if run not in without]
    if not left:
        cards.empty(absent(without), WAY_OUT)
        return None
    if without:
        cards.note(f"{absent(without)} {left[0].name} is shown alone.")
    return Choice(left[0], left[1] if len(left) > 1 else None, choice.split)
