"""Sections of the Weights page: distribution and statistics, extreme pairs, measures, all pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.ask import RunSummary, ask, sample_weights
from app.choice import Choice, bound, opened, theme
from app.components import cards, downloads, links
from app.components.controls import MODALITIES, choose_one, step_through
from app.components.glossary import tip
from app.components.table import Column, plain_table
from app.views.samples import NO_WORDS, holding, sample_card, sample_table, search_words, show_sample

EXTREMES = 5
TARGET = "weighed"
NAMES = {
    sample_weights.WEIGHT: "weight",
    sample_weights.DIVERSITY: "DIVERSITY",
    sample_weights.DISCREPANCY: "DISCREPANCY",
    sample_weights.CODER: "CODER’s SD",
}
TERMS = {
    sample_weights.WEIGHT: "sample weight",
    sample_weights.DIVERSITY: "DIVERSITY",
    sample_weights.DISCREPANCY: "DISCREPANCY",
    sample_weights.CODER: "SD",
}
DIGITS = {
    sample_weights.WEIGHT: ".3f",
    sample_weights.DIVERSITY: ".4f",
    sample_weights.DISCREPANCY: ".4f",
    sample_weights.CODER: ".4f",
}


def distribution(
    runs: Sequence[RunSummary], split: str, tables: Mapping[str, pd.DataFrame], captions: np.ndarray | None
) -> None:
    """Distribution of the weights of these captions (None: all pairs), and statistics of the raw scores of all."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        mean = "Their mean is 1" if captions is None else "Their mean over all pairs is 1"
        cards.heading("How unequal are the weights?", f"{mean}. In a narrow peak all pairs count alike.")
        values = {
            name: pairs_of(table, captions)[sample_weights.WEIGHT].to_numpy()
            for name, table in tables.items()
        }
        figure = charts.histogram(values, "weight of a pair", "pairs", charts.tone(theme()))
        downloads.chart(figure, "weights", "weights of the pairs")
    with right:
        cards.heading(
            "Statistics of the scores", "Mean μ and standard deviation σ over all pairs and both modalities."
        )
        weightings = {run.name: ask(sample_weights.weighting, run, split) for run in runs}
        rows = []
        for name, weighting in weightings.items():
            weights = tables[name][sample_weights.WEIGHT]
            rows.append({"run": name, "of": "weight", "μ": weights.mean(), "σ": weights.std(ddof=0)})
            for row in weighting.statistics.itertuples():
                rows.append({"run": name, "of": row.measure, "μ": row.mean, "σ": row.std})
        statistics = pd.DataFrame(rows)
        columns = {"run": Column("run"), "of": Column("of")}
        columns |= {name: Column(name, ".4f", "raw scores") for name in ("μ", "σ")}
        if len(runs) == 1:
            del columns["run"]
        plain_table(statistics, columns, "weight-statistics", "rows")
        cards.note(" ".join(describe(name, weighting) for name, weighting in weightings.items()))
        downloads.table(statistics, f"weight-statistics-{split}", paper=True)


def pairs_of(table: pd.DataFrame, captions: np.ndarray | None) -> pd.DataFrame:
    """The rows of these captions, or all of them for None."""
    return table if captions is None else table.iloc[captions]


def describe(name: str, weighting: sample_weights.Weighting) -> str:
    """A run's weighting in a sentence."""
    text = f"{name}: {weighting.kind}, the weights of a batch sum to λ = {weighting.total:g}"
    if weighting.neighbours:
        text += f", {weighting.neighbours} neighbours by {weighting.text_space}"
    return f"{text}."


def extremes(run: RunSummary, choice: Choice, table: pd.DataFrame) -> None:
    """The pairs with the highest and the lowest weight. Thomas and Kovashka, figure 4."""
    order = np.argsort(-table[sample_weights.WEIGHT].to_numpy(), kind="stable")
    order = order[choice.inside("text", order)]
    for heading, rows in (("Highest weights", order), ("Lowest weights", order[::-1])):
        cards.heading(heading)
        cards.results(
            [
                sample_card(
                    run,
                    choice.split,
                    "text",
                    int(row),
                    place,
                    float(table[sample_weights.WEIGHT].iloc[row]),
                    term="sample weight",
                    links=links.of_sample(choice, "text", int(row)),
                )
                for place, row in enumerate(rows[:EXTREMES], start=1)
            ]
        )


def measures(run: RunSummary, split: str, captions: np.ndarray | None) -> pd.DataFrame:
    """Spearman's ρ of every two measures over all pairs or those of these captions, and two of them as a figure;
    returns the table of all pairs."""
    cards.heading(
        "Do the measures agree?",
        f"Spearman’s ρ over the pairs of {run.name}: 1 is the same order, 0 unrelated, −1 the opposite order.",
    )
    side = choose_one("Measured on", MODALITIES, "side", tip("side"))
    table = ask(sample_weights.weight_table, run, split, side)
    inside = pairs_of(table, captions)
    correlations = sample_weights.correlations(inside)
    left, right = st.columns([5, 4], gap="large")
    with left:
        shown = correlations.rename(index=NAMES, columns=NAMES).rename_axis("ρ").reset_index()
        columns = {"ρ": Column("ρ")}
        columns |= {NAMES[name]: Column(NAMES[name], "+.2f", TERMS[name]) for name in correlations.columns}
        plain_table(shown, columns, "weight-correlations", "measures")
        downloads.table(shown, f"weight-correlations-{split}", paper=True)
    with right:
        pairs = {
            f"{NAMES[a]} and {NAMES[b]}": (a, b) for a, b in combinations(reversed(correlations.columns), 2)
        }
        a, b = pairs[str(st.selectbox("Figure of", list(pairs), **bound("drawn"), width=300))]
        figure = charts.density(
            inside[a].to_numpy(), inside[b].to_numpy(), NAMES[a], NAMES[b], "pairs", charts.tone(theme())
        )
        downloads.chart(figure, "measures-of-weights", f"{NAMES[a]} and {NAMES[b]}")
    return table


def all_pairs(run: RunSummary, choice: Choice, table: pd.DataFrame) -> None:
    """Every pair, ranked; one of them opened."""
    cards.heading(
        "All pairs", "Click on a row to open the pair below. The files contain all numbers of these pairs."
    )
    alone = replace(choice, first=run, second=None)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        by = choose_one("Order", {"high": "Highest first", "low": "Lowest first"}, "ranked-weights")
        words = search_words("weighed-words")
    order = np.argsort(table[sample_weights.WEIGHT].to_numpy() * (-1 if by == "high" else 1), kind="stable")
    order = order[holding(alone, "text", order, words)]
    names = [
        name
        for name in (
            sample_weights.WEIGHT,
            sample_weights.DIVERSITY,
            sample_weights.DISCREPANCY,
            sample_weights.CODER,
        )
        if name in table
    ]
    if len(order):
        columns = {name: Column(NAMES[name], DIGITS[name], TERMS[name]) for name in names}
        columns["rank"] = Column("rank", ",d", "rank")
        values = table.iloc[order].drop(columns=["text", "image"])
        order = sample_table(
            alone,
            "text",
            order,
            values,
            columns,
            target=TARGET,
            key="weights-table",
            file=f"weights-{choice.split}",
        )
    else:
        cards.empty(*NO_WORDS)
    if not opened(TARGET, order):
        return
    number = step_through("Caption number", TARGET, order, len(table), "The row of the caption in its split.")
    row = table.iloc[number]
    rank = cards.Metric("rank", f"{int(row['rank'])}", f"of {len(set(table['image'])):,} images", "rank")
    cards.metrics([*(cards.Metric(NAMES[name], f"{row[name]:.4f}", "", TERMS[name]) for name in names), rank])
    show_sample(alone, "text", number)
