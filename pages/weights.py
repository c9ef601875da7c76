"""Weights page: sample weights of pairs."""

from __future__ import annotations

from app.ask import ask, sample_weights
from app.choice import Choice
from app.components import cards
from app.components.controls import choose_one
from app.frame import sidebar
from app.frame.unavailable import runs_with
from app.views import weights as sections
from app.views.samples import say_slice

FIX = (
    "Train with --sample-weights diversity, discrepancy or combined (on the Train page, set “sample weights”), or "
    "evaluate such a run on this split."
)


def show(choice: Choice) -> None:
    runs = runs_with(
        choice,
        lambda run, split: ask(sample_weights.has_weights, run, split),
        trained="without sample weights",
        imported="which have no sample weights",
        fix=FIX,
    )
    if not runs:
        return
    captions = choice.captions
    if captions is not None:
        say_slice(choice, "text")
        if not len(captions):
            cards.empty("The slice holds no caption.", "Clear it, or write another one in the sidebar.")
            return
    tables = {run.name: ask(sample_weights.weight_table, run, choice.split, "text") for run in runs}
    sections.distribution(runs, choice.split, tables, captions)
    name = runs[-1].name
    if len(runs) > 1:
        name = choose_one(
            "Pairs and measures of", {run.name: run.name for run in reversed(runs)}, "weights-of"
        )
    run = next(run for run in runs if run.name == name)
    sections.extremes(run, choice, tables[name])
    sections.all_pairs(run, choice, sections.measures(run, choice.split, captions))


sidebar.page(
    "Which pairs count most in training?",
    "A pair with a larger weight counts more in the loss. Complementary samples have semantic neighbours that lie far "
    "apart in the joint space: their image and their text say different things about one idea.",
    show,
    of_two=True,
    whole="the statistics of the scores",
)
