"""One cluster opened: its words, its neighbours, its members as cards, and what stands between it and another one."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import charts
from app.backend import clusters
from app.backend import runs as backend
from app.backend.runs import RunSummary
from app.ui import cards, downloads, links
from app.ui.controls import choose_one, picking_table, step_through
from app.ui.glossary import tip
from app.ui.state import Choice, bound, put, theme

TARGET = "cluster"
CARDS_SHOWN, WORDS_SHOWN = 15, 12
CHART = "cluster-map"


def overview(run: RunSummary, choice: Choice, found: clusters.Found) -> pd.DataFrame:
    """All clusters, as a picture and as a table; returns the table."""
    table = clusters.table(run, choice.split, found)
    number = str(st.session_state.get(TARGET, st.query_params.get(TARGET, table["cluster"].iloc[0])))
    last = int(number) if number.isdecimal() else None
    left, right = st.columns([2, 3], gap="large")
    with left:
        cards.heading("Size and agreement", "Each dot is a cluster. Low dots: images and captions were grouped apart.")
        figure = charts.cluster_map(table, last, charts.tone(theme()))
        downloads.chart(figure, CHART, "clusters by size", on_select=_picked, selection_mode="points")
    with right:
        cards.heading("All clusters", f"{len(table):,} that are not empty, largest first; a click on a row opens one.")
        config = {
            "cluster": st.column_config.NumberColumn("cluster", format="%d", width=70),
            "size": st.column_config.NumberColumn("pairs", format="%d", width=70),
            "images": st.column_config.NumberColumn("images", format="%d", width=75),
            "agreement": st.column_config.NumberColumn("agree", format="%.0f %%", help=tip("agreement"), width=75),
            "cohesion": st.column_config.NumberColumn("cohesion", format="%.2f", help=tip("cohesion"), width=85),
            "words": st.column_config.TextColumn("marking words", width=260),
            "trained": st.column_config.NumberColumn("in training", format="%d", help=tip("in training")),
        }
        picking_table(table, table["cluster"].to_numpy(), TARGET, "clusters-table", config, 330, row_height=36)
    downloads.table(table, f"clusters-{choice.split}")
    return table


def _picked() -> None:
    points = st.session_state.get(CHART, {}).get("selection", {}).get("points", [])
    number = points[0].get("customdata") if points else None
    number = number[0] if isinstance(number, list) and number else number
    if isinstance(number, int):
        put(TARGET, number)


def open_one(run: RunSummary, choice: Choice, found: clusters.Found, table: pd.DataFrame) -> None:
    """Everything about one cluster."""
    assert found.clusters is not None
    order = table["cluster"].to_numpy()
    cards.heading("One cluster, opened", "Its members stand nearest to its centre first.")
    number = step_through("Cluster", TARGET, order, found.clusters.count, "Its number; larger clusters come first.")
    row = table[table["cluster"] == number]
    if not len(row):
        cards.empty(f"Cluster {number} holds nothing of this split.", "Choose another one in the table.")
        return
    left, right = st.columns(2, gap="large")
    with left:
        cards.label("Words that mark it")
        words = clusters.marking(run, choice.split, found).top(number, WORDS_SHOWN)
        if len(words):
            downloads.chart(charts.word_bars(words, charts.tone(theme())), "words", "words that mark the cluster")
        else:
            cards.note("No word is more frequent here than elsewhere.")
    near = clusters.nearest(found.clusters, number)
    with right:
        cards.label("Nearest clusters")
        told = dict(zip(table["cluster"], table["words"], strict=True))
        shown = near.assign(words=[told.get(c, "") for c in near["cluster"]])
        config = {
            "cluster": st.column_config.NumberColumn("cluster", format="%d", width=70),
            "cosine": st.column_config.NumberColumn("cosine", format="%.2f", width=75),
            "size": st.column_config.NumberColumn("pairs", format="%d", width=70),
            "words": st.column_config.TextColumn("marking words", width=240),
        }
        if len(near):
            picking_table(shown, near["cluster"].to_numpy(), TARGET, "near-table", config, 250, row_height=36)
        _concepts(clusters.concepts(run, choice.split, found.clusters, number))
    _members(run, choice, found.clusters, number)
    if len(near):
        _between(run, choice, found.clusters, number, near, told)


def _concepts(found: pd.DataFrame) -> None:
    """The concepts that mark a cluster; nothing for a run without a concept branch."""
    if not len(found):
        return
    cards.label("Concepts that mark it")
    percent = {name: st.column_config.NumberColumn(label, format="percent") for name, label in
               (("image", "its images"), ("text", "its captions"), ("elsewhere", "everywhere"))}  # fmt: skip
    st.dataframe(found.drop(columns="gain"), hide_index=True, height=250, column_config=percent)


def _members(run: RunSummary, choice: Choice, found: clusters.Clusters, number: int) -> None:
    everything = clusters.members(run, choice.split, found, number)
    kinds = {"centre": "Nearest to the centre", "edge": "Furthest from it", "apart": "Image and caption disagree"}
    which = choose_one("Members", kinds, "members")
    kept = everything[~everything["agree"]] if which == "apart" else everything
    kept = kept.iloc[::-1] if which == "edge" else kept
    shown = kept.head(CARDS_SHOWN)
    cards.note(
        f"{len(shown):,} of {len(kept):,} shown: the caption’s number, its cosine to the centre, and, where the two "
        "disagree, the clusters of the image and of the caption."
    )
    if not len(shown):
        cards.empty("All images and captions of this cluster agree.", "Look at the other members.")
        return
    captions = backend.open_summary(run).captions(choice.split)
    cards.results([
        cards.Result(
            int(row["caption"]), float(row["cosine"]), False, captions[int(row["caption"])],
            backend.thumbnail(run, choice.split, int(row["image"]), 160), True,
            () if row["agree"] else (f"image {row['image_label']}, caption {row['text_label']}",),
            links.of_sample(choice, "text", int(row["caption"])),
        )
        for row in shown.to_dict("records")
    ])  # fmt: skip


def _between(
    run: RunSummary, choice: Choice, found: clusters.Clusters, number: int, near: pd.DataFrame, told: dict[int, str]
) -> None:
    cards.heading("Between two clusters", "Pairs that could as well belong to the other one, the most even first.")
    names = {str(c): f"{c}: {told.get(c, '')}" for c in near["cluster"].tolist()}
    other = int(st.selectbox("The other cluster", list(names), format_func=names.__getitem__, width=420,
                             **bound("other-cluster")) or 0)  # fmt: skip
    captions = backend.open_summary(run).captions(choice.split)
    rows = clusters.between(run, choice.split, found, number, other)
    cards.results([
        cards.Result(
            int(row["caption"]), float(row["to_one"]), False, captions[int(row["caption"])],
            backend.thumbnail(run, choice.split, int(row["image"]), 160), True,
            (f"to {other}: {row['to_other']:.3f}",), links.of_sample(choice, "text", int(row["caption"])),
        )
        for row in rows.to_dict("records")
    ])  # fmt: skip
