"""The sections of the Diversity page: distributions, the two measures, what changed, the ranked table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.backend import runs as backend
from app.ui import cards, downloads
from app.ui.controls import choose_one, picking_table
from app.ui.glossary import tip
from app.ui.selection import found_by_tenth, matching, most_moved
from app.ui.state import Choice, bound, theme
from app.views.query import sample_columns

ROWS_SHOWN = 50
FOUND_AT = 10
Tables = Mapping[str, pd.DataFrame]


def distributions(tables: Tables, unit: str) -> None:
    """How diverse, and whether ambiguity goes with being missed."""
    colours = charts.tone(theme())
    left, right = st.columns([3, 2], gap="large")
    with left:
        cards.heading("How diverse are the anchors?", "Further left is more ambiguous; dashed lines are the medians.")
        names = {"diversity": "Diversity", "SD": "Standard deviation", "entropy": "Entropy"}
        shown = choose_one("Histogram of", names, "shown", tip("raw"))
        values = {name: table[shown].to_numpy() for name, table in tables.items()}
        figure = charts.histogram(values, names[shown].lower(), unit, colours)
        downloads.chart(figure, "histogram", f"{names[shown].lower()} histogram")
    with right:
        told = " · ".join(
            f"{name} {backend.rank_correlation(table['diversity'], table['rank']):+.2f}"
            for name, table in tables.items()
        )
        cards.heading(
            "Does ambiguity cost recall?",
            "A rising line: low-diversity anchors are missed more often. Spearman’s ρ of diversity and rank (below 0: "
            f"ambiguous anchors rank worse): {told}.",
        )
        shares = {}
        for name, table in tables.items():
            asked = table[table["rank"].notna()]
            shares[name] = found_by_tenth(asked["diversity"].to_numpy(), asked["rank"].to_numpy() - 1, FOUND_AT)
        downloads.chart(charts.found_by_diversity(shares, FOUND_AT, colours), "tenths", "recall by diversity")


def two_measures(name: str, table: pd.DataFrame, unit: str) -> None:
    """Standard deviation beside entropy; they rank in opposite order."""
    rho = backend.rank_correlation(table["SD"], table["entropy"])
    cards.heading(
        "The two measures",
        f"They rank in opposite order (Spearman’s ρ {rho:+.2f} in {name}): an ambiguous anchor has a small standard "
        "deviation and a large entropy. CODER squashes both alike, so by entropy the ambiguous ones count as diverse.",
    )
    figure = charts.density(
        table["SD"].to_numpy(), table["entropy"].to_numpy(), "standard deviation", "entropy, bits", unit,
        charts.tone(theme()),
    )  # fmt: skip
    downloads.chart(figure, "measures", "standard deviation and entropy")


def what_changed(choice: Choice, changes: pd.DataFrame, unit: str) -> None:
    """The same anchors in both runs."""
    assert choice.second is not None
    rho = backend.rank_correlation(changes["place_a"], changes["place_b"])
    lowest = [set(changes.index[changes[place] <= 10]) for place in ("place_a", "place_b")]
    kept = 100 * len(lowest[0] & lowest[1]) / max(len(lowest[0]), 1)
    cards.heading(
        "What changed",
        "An anchor’s place is the percent of anchors that are more ambiguous; below the dotted line it is relatively "
        f"more ambiguous to {choice.second.name} than to {choice.first.name}. Their orders agree "
        f"with ρ {rho:+.2f}; {kept:.0f} % of the most ambiguous tenth are the same in both.",
    )
    figure = charts.density(
        changes["place_a"].to_numpy(), changes["place_b"].to_numpy(),
        f"place in {charts.plain(choice.first.name)}", f"place in {charts.plain(choice.second.name)}", unit,
        charts.tone(theme()), diagonal=True,
    )  # fmt: skip
    downloads.chart(figure, "changes", "places in both runs")


def ranked(choice: Choice, tables: Tables, changes: pd.DataFrame | None, modality: str, target: str) -> np.ndarray:
    """The ranked table; returns the order of all anchors in it."""
    last = choice.runs[-1]
    captions = backend.open_summary(last).captions(choice.split)
    names = "captions" if modality == "text" else "images"
    cards.heading(f"The most ambiguous {names}", "A click on a row opens it below.")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        orders = {
            "second": "Lowest in the 2nd run",
            "first": "Lowest in the 1st",
            "fell": "Fell most",
            "rose": "Rose most",
        }
        by = choose_one("Ranked by", orders, "ranked", tip("move")) if changes is not None else "second"
        words = ""
        if modality == "text":
            words = (
                st.text_input("Captions with these words", **bound("words"), placeholder="all captions", width=260)
                or ""
            )
    focus = tables[last.name]
    whole = _columns(choice, tables, changes)
    order = {
        "second": lambda: np.argsort(focus["diversity"].to_numpy(), kind="stable"),
        "first": lambda: np.argsort(tables[choice.first.name]["diversity"].to_numpy(), kind="stable"),
        "fell": lambda: most_moved(changes, -1),
        "rose": lambda: most_moved(changes, 1),
    }[by]()
    if words:
        order = order[np.isin(focus["anchor"].to_numpy()[order], matching(captions, words))]
    cards.note(f"{min(ROWS_SHOWN, len(order)):,} of {len(order):,} {names} shown.")
    if not len(order):
        cards.empty("No caption holds all of these words.", "Use fewer words, or clear the field.")
        return order
    top = order[:ROWS_SHOWN]
    rows = focus["anchor"].to_numpy()[top]
    table, config = sample_columns(choice, modality, rows, 220)
    for name, (label, digits, term) in LABELS.items():
        if name in whole:
            table[name] = whole[name].to_numpy()[top]
            config[name] = st.column_config.NumberColumn(label, format=digits, help=tip(term), width=74)
    picking_table(table, rows, target, f"table-{modality}", config, 420)
    downloads.table(whole.iloc[order], f"diversity-{choice.split}-{names}")
    return focus["anchor"].to_numpy()[order]


LABELS = {
    "diversity_b": ("diversity", "%.4f", "diversity"), "diversity_a": ("1st run", "%.4f", "diversity"),
    "move": ("move, %", "%+.1f", "move"), "SD": ("SD", "%.4f", "SD"), "entropy": ("entropy", "%.4f", "entropy"),
    "rank_b": ("rank", "%d", "rank"), "rank_a": ("1st rank", "%d", "1st run"),
}  # fmt: skip


def _columns(choice: Choice, tables: Tables, changes: pd.DataFrame | None) -> pd.DataFrame:
    """Every number of every anchor: the last run's, and the first's beside them."""
    last = tables[choice.runs[-1].name]
    found = {
        "anchor": last["anchor"], "image": last["image"], "diversity_b": last["diversity"], "SD": last["SD"],
        "entropy": last["entropy"], "rank_b": last["rank"],
    }  # fmt: skip
    if changes is not None:
        first = tables[choice.first.name]
        found |= {"diversity_a": first["diversity"], "move": changes["change"], "rank_a": first["rank"]}
    return pd.DataFrame(found)
