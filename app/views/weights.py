"""The sections of the Weights page: distribution and statistics, the extreme pairs, the measures, every pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.backend import runs as backend
from app.backend import sample_weights as weights
from app.backend.runs import RunSummary
from app.backend.sample_weights import CODER, DISCREPANCY, DIVERSITY, WEIGHT
from app.ui import cards, downloads, links
from app.ui.controls import choose_one, picking_table, picture_urls, step_through
from app.ui.glossary import tip
from app.ui.state import Choice, bound, theme
from app.views.anchor import show_sample

EXTREMES, ROWS_SHOWN = 5, 100
TARGET = "weighed"
NAMES = {WEIGHT: "weight", DIVERSITY: "DIVERSITY", DISCREPANCY: "DISCREPANCY", CODER: "CODER’s SD"}
TERMS = {WEIGHT: "sample weight", DIVERSITY: "DIVERSITY", DISCREPANCY: "DISCREPANCY", CODER: "SD"}
DIGITS = {WEIGHT: "%.3f", DIVERSITY: "%.4f", DISCREPANCY: "%.4f", CODER: "%.4f"}


def distribution(runs: Sequence[RunSummary], split: str, tables: Mapping[str, pd.DataFrame]) -> None:
    """How unequal the weights are, and what they come from."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        cards.heading("How unequal are the weights?", "Their mean is 1; a narrow heap weighs all pairs nearly alike.")
        values = {name: table[WEIGHT].to_numpy() for name, table in tables.items()}
        figure = charts.histogram(values, "weight of a pair", "pairs", charts.tone(theme()))
        downloads.chart(figure, "weights", "weights of the pairs")
    with right:
        cards.heading("What they come from", "Mean μ and standard deviation σ over all pairs and both modalities.")
        found = [(run.name, weights.weighting(run, split)) for run in runs]
        rows = []
        for name, one in found:
            spread = tables[name][WEIGHT]
            rows.append({"run": name, "of": "weight", "μ": spread.mean(), "σ": spread.std(ddof=0)})
            for row in one.statistics.itertuples():
                rows.append({"run": name, "of": row.measure, "μ": row.mean, "σ": row.std})
        statistics = pd.DataFrame(rows)
        number = st.column_config.NumberColumn(format="%.4f", help=tip("raw scores"), width=70)
        st.dataframe(
            statistics if len(runs) > 1 else statistics.drop(columns="run"), hide_index=True, height="content",
            column_config={"run": st.column_config.TextColumn(width=110), "of": st.column_config.TextColumn(width=110),
                           "μ": number, "σ": number},
        )  # fmt: skip
        cards.note(" ".join(told(name, one) for name, one in found))
        downloads.table(statistics, f"weight-statistics-{split}", paper=True)


def told(name: str, one: weights.Weighting) -> str:
    """A run's weighting in a sentence."""
    text = f"{name}: {one.kind}, the weights of a batch sum to λ = {one.total:g}"
    if one.neighbours:
        text += f", {one.neighbours} neighbours by {one.text_space}"
    return f"{text}."


def extremes(run: RunSummary, choice: Choice, table: pd.DataFrame) -> None:
    """The pairs with the highest and with the lowest weight. Figure 4 of the paper."""
    order = np.argsort(-table[WEIGHT].to_numpy(), kind="stable")
    for head, chosen in (("Highest weight", order), ("Lowest weight", order[::-1])):
        cards.heading(head)
        cards.results(
            [_card(run, choice, table, place, int(row)) for place, row in enumerate(chosen[:EXTREMES], start=1)]
        )


def _card(run: RunSummary, choice: Choice, table: pd.DataFrame, place: int, row: int) -> cards.Result:
    image = int(table["image"].iloc[row])
    return cards.Result(
        place, float(table[WEIGHT].iloc[row]), False, backend.open_summary(run).captions(choice.split)[row],
        backend.thumbnail(run, choice.split, image, 160), True, links=links.of_sample(choice, "text", row),
        term="sample weight",
    )  # fmt: skip


def measures(run: RunSummary, split: str) -> pd.DataFrame:
    """Do the measures agree? Spearman's ρ of every two, and two of them as a picture; returns what they are of."""
    cards.heading(
        "Do the measures agree?",
        f"Spearman’s ρ over the pairs of {run.name}: 1 is the same order, 0 nothing in common, −1 the opposite order.",
    )
    side = choose_one("Measured on", {"text": "Captions", "image": "Images"}, "side", tip("side"))
    table = weights.table(run, split, side)
    found = weights.correlations(table)
    left, right = st.columns([5, 4], gap="large")
    with left:
        shown = found.rename(index=NAMES, columns=NAMES).rename_axis("ρ").reset_index()
        config = {
            NAMES[name]: st.column_config.NumberColumn(
                format="%+.2f", help=tip(TERMS[name]), width=105 if name == DISCREPANCY else 80
            )
            for name in found.columns
        }
        st.dataframe(
            shown, hide_index=True, height="content",
            column_config={"ρ": st.column_config.TextColumn(width=100), **config},
        )  # fmt: skip
        downloads.table(shown, f"weight-correlations-{split}", paper=True)
    with right:
        pairs = {f"{NAMES[a]} and {NAMES[b]}": (a, b) for a, b in combinations(reversed(found.columns), 2)}
        a, b = pairs[str(st.selectbox("Drawn", list(pairs), **bound("drawn"), width=300))]
        figure = charts.density(
            table[a].to_numpy(), table[b].to_numpy(), NAMES[a], NAMES[b], "pairs", charts.tone(theme())
        )
        downloads.chart(figure, "measures-of-weights", f"{NAMES[a]} and {NAMES[b]}")
    return table


def all_pairs(run: RunSummary, choice: Choice, table: pd.DataFrame) -> None:
    """Every pair, ranked; one of them opened."""
    ways = {"high": "Highest first", "low": "Lowest first"}
    cards.heading("Every pair", "A click on a row opens the pair below; the files hold all of them.")
    by = choose_one("Ranked", ways, "ranked-weights")
    order = np.argsort(table[WEIGHT].to_numpy() * (-1 if by == "high" else 1), kind="stable")
    top = table.iloc[order[:ROWS_SHOWN]]
    captions = backend.open_summary(run).captions(choice.split)
    names = [name for name in (WEIGHT, DIVERSITY, DISCREPANCY, CODER, "rank") if name in table]
    shown = pd.DataFrame(
        {
            "picture": picture_urls(backend.thumbnails(run, choice.split, top["image"].to_numpy(), 72)),
            "caption": [captions[j] for j in top["text"].tolist()],
        }
    ).join(top[names].reset_index(drop=True))
    config = {
        "picture": st.column_config.ImageColumn("", width=64),
        "caption": st.column_config.TextColumn("caption", width=300),
        "rank": st.column_config.NumberColumn("rank", format="%d", help=tip("rank")),
    } | {
        name: st.column_config.NumberColumn(NAMES[name], format=DIGITS[name], help=tip(TERMS[name]))
        for name in names if name in NAMES
    }  # fmt: skip
    cards.note(f"{len(top):,} of {len(table):,} pairs shown.")
    picking_table(shown, top["text"].to_numpy(), TARGET, "weights-table", config, 360)
    downloads.table(table.iloc[order], f"weights-{choice.split}")
    number = step_through("Number of the caption", TARGET, order, len(table), "The row of the caption in its split.")
    row = table.iloc[number]
    cards.tiles(
        [cards.Tile(NAMES[name], f"{row[name]:.4f}", "", TERMS[name]) for name in names if name in NAMES]
        + [cards.Tile("rank", f"{int(row['rank'])}", f"of {len(set(table['image'])):,} images", "rank")]
    )
    show_sample(Choice(run, None, choice.split), "text", number)
