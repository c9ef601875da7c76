"""Which pairs does training listen to most?"""

from __future__ import annotations

from app.backend import sample_weights as backend_weights
from app.ui import cards, sidebar
from app.ui.controls import choose_one
from app.ui.lacking import those_with
from app.ui.state import Choice
from app.views import weights as weights_view

WAY_OUT = (
    "Train with --sample-weights diversity, discrepancy or combined (on the Train page, set “sample weights”), or "
    "evaluate such a run on this split."
)


def page(choice: Choice) -> None:
    runs = those_with(
        choice.runs, lambda run: backend_weights.has_weights(run, choice.split),
        trained="without sample weights", imported="which were trained elsewhere", way_out=WAY_OUT,
    )  # fmt: skip
    if not runs:
        return
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
