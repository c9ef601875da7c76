"""Which pairs does training listen to most?"""

from __future__ import annotations

from app import backend_weights, cards, sidebar, weights_view
from app.backend import RunSummary
from app.controls import choose_one
from app.state import Choice

WAY_OUT = (
    "Train with --sample-weights diversity, discrepancy or combined (on the Train page, set “sample weights”), or "
    "evaluate such a run on this split."
)


def absent(run: RunSummary) -> str:
    """What a run without weights lacks, in one sentence."""
    if run.imported:
        return f"{run.name} holds imported embeddings, which were trained elsewhere."
    return f"{run.name} was trained without sample weights."


def page(choice: Choice) -> None:
    runs = [run for run in choice.runs if backend_weights.has_weights(run, choice.split)]
    without = [run for run in choice.runs if run not in runs]
    if not runs:
        cards.empty(" ".join(absent(run) for run in without), WAY_OUT)
        return
    if without:
        cards.note(f"{absent(without[0])} {runs[0].name} is shown alone.")
    tables = {run.name: backend_weights.table(run, choice.split, "text") for run in runs}
    weights_view.distribution(runs, choice.split, tables)
    run = runs[-1]
    if len(runs) > 1:
        name = choose_one("Pairs and measures of", {one.name: one.name for one in reversed(runs)}, "weights-of")
        run = next(one for one in runs if one.name == name)
    weights_view.extremes(run, choice, tables[run.name])
    weights_view.all_pairs(run, choice, weights_view.measures(run, choice.split))


choice = sidebar.choose()
cards.question(
    "Which pairs does training listen to most?",
    "A pair with a larger weight counts more in the loss. Complementary samples have semantic neighbours that lie far "
    "apart in the joint space: image and text say different things about one idea.",
)
sidebar.answer(choice, page)
