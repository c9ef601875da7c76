"""The table of slices: recall of each with its interval, run beside run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.ask import Run, RunSummary, ask, slices
from app.choice import QUERIES, SLICE, Choice, put, slice_table, theme
from app.ui import cards, downloads, links
from app.ui.controls import MODALITIES, choose_one
from app.ui.glossary import tip
from app.ui.table import Column, rows_table

PICTURED = 12


def show_table(choice: Choice, runs: list[RunSummary]) -> None:
    """Slices by misses beyond the expected ones; a click makes one the slice of all pages."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        modality = choose_one("Queries", MODALITIES, "queries")
        at = int(choose_one("Answered within the first", {"1": "1", "5": "5", "10": "10"}, "at", tip("R@K")))
    beside = f" beside {' and '.join(run.name for run in runs[:-1])}" if len(runs) > 1 else ""
    cards.note(
        f"{runs[-1].name} is judged{beside}. Slices are ordered by one half of the images. All numbers except queries "
        "are of the other half, with 95% intervals over images, so the worst of many slices is not worst by chance."
    )
    counted = len(ask(slices.images_counted, choice.first, choice.split))
    images = ask(Run.count, choice.first, choice.split, "image")
    if counted < images:
        cards.note(f"The table counts the queries of {counted:,} of {images:,} images, drawn at random.")
    table = slice_table(runs, choice.split, QUERIES[modality], at)
    if not len(table):
        cards.empty(
            "No slice has enough queries.", "One is listed from 20 queries in either half of the images on."
        )
        return
    kinds = {"all": "All", **{kind: kind.capitalize() for kind in dict.fromkeys(table["kind"])}}
    kind = choose_one("Show", kinds, "kind")
    rows = np.flatnonzero(
        (table["kind"] == kind).to_numpy() if kind != "all" else np.ones(len(table), dtype=bool)
    )
    shown, columns = _columns(table.iloc[rows], runs, at)
    recalls = {
        run.name: table.iloc[rows[:PICTURED]][
            [f"recall_{number}", f"low_{number}", f"high_{number}"]
        ].to_numpy()
        for number, run in enumerate(runs)
    }
    figure = charts.slice_recalls(
        table["expression"].iloc[rows[:PICTURED]].tolist(), recalls, f"R@{at}, %", charts.tone(theme())
    )
    downloads.chart(figure, "slice-recalls", "recall of the first slices")
    current = np.flatnonzero((table["expression"] == choice.slice).to_numpy())
    rows_table(
        shown,
        columns,
        rows,
        f"slices-{modality}-{at}-{kind}",
        "slices",
        int(current[0]) if len(current) else -1,
        lambda row: put(SLICE, str(table["expression"].iloc[row])),
        height=560,
    )
    downloads.table(table.iloc[rows], f"slices-{choice.split}")
    if choice.slice:
        pages = {"Failures of this slice": "retrieval", "Its diversity": "diversity", "On the map": "joint"}
        st.html(cards.links_html([(label, links.address(page, choice)) for label, page in pages.items()]))


def _columns(table: pd.DataFrame, runs: list[RunSummary], at: int) -> tuple[pd.DataFrame, dict[str, Column]]:
    shown = table[["expression", "queries"]].assign(excess=table["excess"].round() + 0.0)  # no "-0"
    columns = {
        "expression": Column("slice", "", "slice"),
        "queries": Column("queries", ",d"),
        "excess": Column("excess misses", "+,.0f", "excess"),
    }
    for number, run in enumerate(runs):
        shown[f"recall_{number}"] = [
            f"{mean:.1f} [{low:.1f}, {high:.1f}]"
            for mean, low, high in table[[f"recall_{number}", f"low_{number}", f"high_{number}"]].itertuples(
                index=False
            )
        ]
        columns[f"recall_{number}"] = Column(f"R@{at} of {run.name}", "", "R@K")
    if len(runs) > 1:
        shown["gain"] = [
            f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
            for mean, low, high in table[["gain", "gain_low", "gain_high"]].itertuples(index=False)
        ]
        shown["noise"] = np.where(
            (table["gain_low"] > 0) | (table["gain_high"] < 0), "beyond noise", "may be noise"
        )
        columns["gain"] = Column(f"gain over {runs[0].name}", "", "slice gain")
        columns["noise"] = Column("is it noise?", "", "slice gain")
    return shown, columns
