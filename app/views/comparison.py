"""Runs beside each other: gains, answers, separation of pairs."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from app import charts, questions
from app.ask import RunSummary, ask, ask_all, ask_both, comparable, joint_space, read_each, retrieval
from app.choice import QUERIES, Choice, tone
from app.components import cards, downloads, links
from app.components.controls import choose_one, side_by_side
from app.components.table import Column, plain_table
from app.components.words import gain_cell

Texts = Mapping[str, Sequence[str]]  # column → a text for every run
SEPARATION = {
    "run": Column("run"),
    "matching pairs": Column("matching pairs", ".3f", "mean similarity"),
    "other pairs": Column("other pairs", ".3f", "mean similarity"),
    "MD": Column("MD", ".3f", "mean distance"),
}


def show_gains(choice: Choice, recalls: Mapping[str, str], more: Texts | None = None) -> None:
    """Report whether gains over the first run are noise, on the slice if there is one: a sentence per recall (key of
    the metrics → its name as a column) for two runs, a table for more, with a text for every run in the columns of
    `more`."""
    first, *others = choice.runs
    split, captions = choice.split, choice.captions
    if not choice.between:
        for run in others:
            for recall in recalls:
                cards.note(ask_both(retrieval.gain_in_words, first, run, split, recall, captions))
        return
    cards.note(
        f"Gains over {first.name} in points, with 95% intervals of a paired bootstrap over images. One that holds zero "
        "may be noise: other images could undo it."
    )
    changes = [ask_both(retrieval.gains, first, run, split, captions) for run in others]
    table: dict[str, Sequence[str]] = {"run": [run.name for run in choice.runs], **(more or {})}
    for recall in recalls:
        gains = [change[recall] for change in changes]
        table[recall] = ["–", *(gain_cell(gain.mean, gain.low, gain.high) for gain in gains)]
    columns = {name: Column(recalls.get(name, name), right=name != "run") for name in table}
    plain_table(pd.DataFrame(table), columns, f"gains-{'-'.join(recalls)}", "runs")


def show_answers(runs: list[RunSummary], choice: Choice) -> None:
    """Queries that one run answers and another does not, for every two of them."""
    runs = [run for run in runs if choice.split in run.splits and comparable(choice.first, run, choice.split)]
    if len(runs) < 2:
        return
    cards.heading("Who answers what?")
    modality = choose_one("Direction", links.DIRECTIONS, "answers-of")
    right = ask_all(questions.answers, runs, choice.split, QUERIES[modality], 1, choice.samples(modality))
    alone = (right[:, None] & ~right[None]).sum(-1)  # of the row's run and not of the column's
    names = [run.name for run in runs]
    table = pd.DataFrame(alone, columns=names).astype(object).mask(np.eye(len(runs), dtype=bool), None)
    columns = {"run": Column("run"), "answered": Column("answered", ",d", "R@K")}
    columns |= {name: Column(f"not by {name}", ",d") for name in names}
    plain_table(table.assign(run=names, answered=right.sum(-1)), columns, "answers", "runs")
    every, none = int(right.all(0).sum()), int((~right.any(0)).sum())
    cards.note(f"Of {right.shape[1]:,} queries {every:,} are answered by all these runs, {none:,} by none.")


def show_separation(runs: Sequence[RunSummary], split: str) -> None:
    """Draw it for those of the runs that were evaluated on the split; damaged ones are named."""
    evaluated = [run for run in runs if split in run.splits]
    counted, faults = read_each(evaluated, lambda run: ask(joint_space.score_distributions, run, split))
    cards.faults(faults)
    if not counted:
        return
    sampled = max(counted.values(), key=lambda counts: counts.of_images - counts.images)
    note = ""
    if sampled.images < sampled.of_images:
        note = f" Counted over {sampled.images:,} of {sampled.of_images:,} images, drawn at random; the means are exact."
    cards.heading("How well are matching pairs separated from the others?", note=note)
    everything = [part for counts in counted.values() for part in (counts.positive, counts.negative)]
    for kind, label in side_by_side({"positive": "matching pairs", "negative": "all other pairs"}.items()):
        of_kind = {name: getattr(counts, kind) for name, counts in counted.items()}
        figure = charts.similarity_densities(of_kind, sampled.edges, everything, label, tone())
        downloads.chart(figure, f"densities-{kind}", f"similarities of {label}")
    means = [ask(joint_space.score_separation, run, split) for run in evaluated if run.name in counted]
    numbers = [(mean.positive, mean.negative, mean.mean_distance) for mean in means]
    table = pd.DataFrame(numbers, columns=list(SEPARATION)[1:])
    table.insert(0, "run", list(counted))
    plain_table(table, SEPARATION, "separation", "runs")
    downloads.table(table, f"separation-{split}", paper=True)
