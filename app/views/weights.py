"""The Weights page: distribution and statistics, extreme pairs, measures, all pairs."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.ask import Runs, RunSummary, ask, sample_weights
from app.choice import Choice
from app.components import cards, downloads, opened
from app.components.controls import MODALITIES, choose_one, choose_run, pick, row, side_by_side
from app.components.samples import (
    SampleList,
    note_slice,
    sample_card,
    sample_table,
    search_words,
    step_samples,
)
from app.components.table import Column, columns_of, plain_table
from app.components.theme import tone
from app.components.unavailable import runs_with
from app.components.workplace import list_and_detail
from app.questions import Rows

EXTREMES = 5
TARGET = "weighed"
WEIGHT = sample_weights.WEIGHT
COLUMNS = columns_of("weights")
NAMES = {name: column.label for name, column in COLUMNS.items()}


def show(choice: Choice) -> None:
    lacking = cards.HOW_TO_READ["without sample weights"]
    runs = runs_with(choice, lambda run, split: ask(sample_weights.has_weights, run, split), lacking)
    if not runs:
        return

    captions = choice.captions
    note_slice(choice, "text")
    tables = {run.name: ask(sample_weights.weight_table, run, choice.split, "text") for run in runs}
    with row():
        run = choose_run("Pairs and measures of", runs, "weights-of")
        side = choose_one("Measured on", MODALITIES, "side", cards.tip("side"))

    cards.answer(answer(run, tables[run.name], alone=len(runs) == 1))
    measured = ask(sample_weights.weight_table, run, choice.split, side)
    all_pairs(choice.alone(run), measured)
    distribution(runs, choice.split, tables, captions)
    extremes(run, choice, tables[run.name])
    measures(run, choice.split, measured if captions is None else measured.iloc[captions])


def answer(run: RunSummary, table: pd.DataFrame, *, alone: bool) -> str:
    """Say how much of the weight the pairs that count most carry."""
    weights = np.sort(table[WEIGHT].to_numpy())[::-1]
    top = weights[: max(1, round(len(weights) / 10))].sum() / weights.sum()
    of = "" if alone else f" in {run.name}"
    return (
        f"The heaviest tenth of the pairs carries {100 * top:.0f}% of the weight{of}; "
        f"the highest is {weights[0] / weights[-1]:.1f} times the lowest"
    )


def distribution(runs: Runs, split: str, tables: Mapping[str, pd.DataFrame], captions: Rows) -> None:
    """Draw the distribution of the weights of `captions` (None: all pairs), and statistics of all raw scores."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        mean = "Their mean is 1" if captions is None else "Their mean over all pairs is 1"
        cards.heading("How unequal are the weights?", mean=mean)
        inside = np.arange(len(tables[runs[0].name])) if captions is None else captions
        weights = {name: table[WEIGHT].to_numpy()[inside] for name, table in tables.items()}
        figure = charts.histogram(weights, "weight of a pair", "pairs", tone())
        downloads.chart(figure, "weights", "weights of the pairs")

    with right:
        cards.heading("Statistics of the scores")
        weightings = {run.name: ask(sample_weights.weighting, run, split) for run in runs}
        rows = []
        for name, weighting in weightings.items():
            of_run = tables[name][WEIGHT]
            rows.append({"run": name, "of": "weight", "μ": of_run.mean(), "σ": of_run.std(ddof=0)})
            for score in weighting.statistics.itertuples():
                rows.append({"run": name, "of": score.measure, "μ": score.mean, "σ": score.std})
        statistics = pd.DataFrame(rows)
        columns = {"run": Column("run")} if len(runs) > 1 else {}
        columns |= {"of": Column("of")} | {name: Column(name, ".4f", "raw scores") for name in ("μ", "σ")}
        plain_table(statistics, columns, "weight-statistics", "rows")
        for name, used in weightings.items():
            near = f", {used.neighbours} neighbours by {used.text_space}" if used.neighbours else ""
            cards.note(f"{name}: {used.kind}, the weights of a batch sum to λ = {used.total:g}{near}.")
        downloads.table(statistics, f"weight-statistics-{split}", paper=True)


def extremes(run: RunSummary, choice: Choice, table: pd.DataFrame) -> None:
    weights = table[WEIGHT].to_numpy()  # Thomas and Kovashka, figure 4
    order = np.argsort(-weights, kind="stable")
    order = order[choice.inside("text", order)]
    for heading, numbers in side_by_side((("Highest weights", order), ("Lowest weights", order[::-1]))):
        cards.heading(heading)
        items = []
        for rank, number in enumerate(numbers[:EXTREMES].tolist(), start=1):
            score = float(weights[number])
            card = sample_card(choice, run, ("text", number), (rank, score))
            items.append(replace(card, term="sample weight"))
        cards.results(items)


def measures(run: RunSummary, split: str, inside: pd.DataFrame) -> None:
    """Draw Spearman's ρ of every two measures over the pairs `inside` the slice, and two as a figure."""
    cards.heading("Do the measures agree?", run=run.name)
    correlations = sample_weights.correlations(inside)
    names = list(correlations.columns)
    left, right = st.columns([5, 4], gap="large")
    with left:
        shown = correlations.rename(index=NAMES, columns=NAMES).rename_axis("ρ").reset_index()
        columns = {NAMES[name]: Column(NAMES[name], "+.2f", COLUMNS[name].term) for name in names}
        plain_table(shown, {"ρ": Column("ρ"), **columns}, "weight-correlations", "measures")
        downloads.table(shown, f"weight-correlations-{split}", paper=True)

    with right:
        pairs = {f"{NAMES[a]} and {NAMES[b]}": (a, b) for a, b in combinations(reversed(names), 2)}
        pair = pick("Figure of", pairs, "drawn", 300)
        a, b = pairs[pair]
        x = inside[a].to_numpy()
        y = inside[b].to_numpy()
        figure = charts.density(x, y, NAMES[a], NAMES[b], "pairs", tone())
        downloads.chart(figure, "measures-of-weights", pair)


def all_pairs(choice: Choice, table: pd.DataFrame) -> None:
    """Draw the list of all pairs beside the opened one with its measures."""
    measured = {name: column for name, column in COLUMNS.items() if name in table}

    def draw_list() -> np.ndarray:
        with row():
            by = choose_one("Order", {"high": "Highest first", "low": "Lowest first"}, "ranked-weights")
            words = search_words("weighed-words")
        order = np.argsort(table[WEIGHT].to_numpy() * (-1 if by == "high" else 1), kind="stable")
        columns = {**measured, "rank": Column("rank", ",d", "rank")}
        values = table.iloc[order].drop(columns=["text", "image"])
        listed = SampleList("text", order, values, columns, words, TARGET, f"weights-{choice.split}")
        return sample_table(choice, listed)

    def draw_detail(order: np.ndarray) -> None:
        if not opened.among(TARGET, order):
            return
        number = step_samples(choice, "text", TARGET, order)
        pair = table.iloc[number]
        shown = {**measured, "rank": Column(f"rank of {len(set(table['image'])):,}", ",d", "rank")}
        plain_table(pair.to_frame().T, shown, "weighed-pair", "pairs")

    list_and_detail(choice, draw_list, draw_detail)
