"""Sections of the Weights page: distribution and statistics, extreme pairs, measures, all pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.backend import sample_weights
from app.backend.runs import RunSummary, open_summary, thumbnail
from app.backend.sample_weights import CODER, DISCREPANCY, DIVERSITY, WEIGHT, Weighting
from app.ui import cards, downloads, links
from app.ui.controls import choose_one, picking_table, step_through
from app.ui.glossary import tip
from app.ui.state import Choice, bound, theme
from app.views.anchor import show_sample
from app.views.query import sample_columns

EXTREMES, ROWS_SHOWN = 5, 100
TARGET = "weighed"
NAMES = {WEIGHT: "weight", DIVERSITY: "DIVERSITY", DISCREPANCY: "DISCREPANCY", CODER: "CODER’s SD"}
TERMS = {WEIGHT: "sample weight", DIVERSITY: "DIVERSITY", DISCREPANCY: "DISCREPANCY", CODER: "SD"}
DIGITS = {WEIGHT: "%.3f", DIVERSITY: "%.4f", DISCREPANCY: "%.4f", CODER: "%.4f"}


def distribution(runs: Sequence[RunSummary], split: str, tables: Mapping[str, pd.DataFrame]) -> None:
    """How unequal the weights are, and the statistics of the raw scores."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        cards.heading("How unequal are the weights?", "Their mean is 1. In a narrow peak all pairs count alike.")
        values = {name: table[WEIGHT].to_numpy() for name, table in tables.items()}
        figure = charts.histogram(values, "weight of a pair", "pairs", charts.tone(theme()))
        downloads.chart(figure, "weights", "weights of the pairs")
    with right:
        cards.heading("Statistics of the scores", "Mean μ and standard deviation σ over all pairs and both modalities.")
        weightings = {run.name: sample_weights.weighting(run, split) for run in runs}
        rows = []
        for name, weighting in weightings.items():
            weights = tables[name][WEIGHT]
            rows.append({"run": name, "of": "weight", "μ": weights.mean(), "σ": weights.std(ddof=0)})
            for row in weighting.statistics.itertuples():
                rows.append({"run": name, "of": row.measure, "μ": row.mean, "σ": row.std})
        statistics = pd.DataFrame(rows)
        number = st.column_config.NumberColumn(format="%.4f", help=tip("raw scores"), width=70)
        st.dataframe(
            statistics if len(runs) > 1 else statistics.drop(columns="run"), hide_index=True, height="content",
            column_config={"run": st.column_config.TextColumn(width=85), "of": st.column_config.TextColumn(width=100),
                           "μ": number, "σ": number},
        )  # fmt: skip
        cards.note(" ".join(describe(name, weighting) for name, weighting in weightings.items()))
        downloads.table(statistics, f"weight-statistics-{split}", paper=True)


def describe(name: str, weighting: Weighting) -> str:
    """A run's weighting in a sentence."""
    text = f"{name}: {weighting.kind}, the weights of a batch sum to λ = {weighting.total:g}"
    if weighting.neighbours:
        text += f", {weighting.neighbours} neighbours by {weighting.text_space}"
    return f"{text}."


def extremes(run: RunSummary, choice: Choice, table: pd.DataFrame) -> None:
    """The pairs with the highest and the lowest weight. Thomas and Kovashka, figure 4."""
    order = np.argsort(-table[WEIGHT].to_numpy(), kind="stable")
    captions = open_summary(run).captions(choice.split)
    for heading, rows in (("Highest weights", order), ("Lowest weights", order[::-1])):
        cards.heading(heading)
        cards.results([
            cards.Result(
                place, float(table[WEIGHT].iloc[row]), False, captions[row],
                thumbnail(run, choice.split, int(table["image"].iloc[row]), 160), True,
                links=links.of_sample(choice, "text", int(row)), term="sample weight",
            )
            for place, row in enumerate(rows[:EXTREMES], start=1)
        ])  # fmt: skip


def measures(run: RunSummary, split: str) -> pd.DataFrame:
    """Spearman's ρ of every two measures, and two of them as a figure; returns the table they are computed from."""
    cards.heading(
        "Do the measures agree?",
        f"Spearman’s ρ over the pairs of {run.name}: 1 is the same order, 0 unrelated, −1 the opposite order.",
    )
    side = choose_one("Measured on", {"text": "Captions", "image": "Images"}, "side", tip("side"))
    table = sample_weights.weight_table(run, split, side)
    correlations = sample_weights.correlations(table)
    left, right = st.columns([5, 4], gap="large")
    with left:
        shown = correlations.rename(index=NAMES, columns=NAMES).rename_axis("ρ").reset_index()
        config = {
            NAMES[name]: st.column_config.NumberColumn(
                format="%+.2f", help=tip(TERMS[name]), width=105 if name == DISCREPANCY else 80
            )
            for name in correlations.columns
        }
        st.dataframe(
            shown, hide_index=True, height="content",
            column_config={"ρ": st.column_config.TextColumn(width=100), **config},
        )  # fmt: skip
        downloads.table(shown, f"weight-correlations-{split}", paper=True)
    with right:
        pairs = {f"{NAMES[a]} and {NAMES[b]}": (a, b) for a, b in combinations(reversed(correlations.columns), 2)}
        a, b = pairs[str(st.selectbox("Figure of", list(pairs), **bound("drawn"), width=300))]
        figure = charts.density(
            table[a].to_numpy(), table[b].to_numpy(), NAMES[a], NAMES[b], "pairs", charts.tone(theme())
        )
        downloads.chart(figure, "measures-of-weights", f"{NAMES[a]} and {NAMES[b]}")
    return table


def all_pairs(run: RunSummary, choice: Choice, table: pd.DataFrame) -> None:
    """Every pair, ranked; one of them opened."""
    cards.heading("All pairs", "Click on a row to open the pair below. The files contain all pairs.")
    by = choose_one("Order", {"high": "Highest first", "low": "Lowest first"}, "ranked-weights")
    order = np.argsort(table[WEIGHT].to_numpy() * (-1 if by == "high" else 1), kind="stable")
    top = table.iloc[order[:ROWS_SHOWN]]
    alone = Choice(run, None, choice.split)
    names = [name for name in (WEIGHT, DIVERSITY, DISCREPANCY, CODER) if name in table]
    shown, config = sample_columns(alone, "text", top["text"].to_numpy(), 300)
    shown = shown.join(top[[*names, "rank"]].reset_index(drop=True))
    config["rank"] = st.column_config.NumberColumn("rank", format="%d", help=tip("rank"))
    for name in names:
        config[name] = st.column_config.NumberColumn(NAMES[name], format=DIGITS[name], help=tip(TERMS[name]))
    cards.note(f"{len(top):,} of {len(table):,} pairs shown.")
    picking_table(shown, top["text"].to_numpy(), TARGET, "weights-table", config, 360)
    downloads.table(table.iloc[order], f"weights-{choice.split}")
    number = step_through("Caption number", TARGET, order, len(table), "The row of the caption in its split.")
    row = table.iloc[number]
    rank = cards.Metric("rank", f"{int(row['rank'])}", f"of {len(set(table['image'])):,} images", "rank")
    cards.metrics([*(cards.Metric(NAMES[name], f"{row[name]:.4f}", "", TERMS[name]) for name in names), rank])
    show_sample(alone, "text", number)
