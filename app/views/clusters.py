"""Sections of the clusters.Clusters page: all clusters; one cluster with its words, members and nearest clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.ask import Run, RunSummary, StoredResult, ask, clusters
from app.choice import Choice, bound, put, theme
from app.components import cards, downloads, links, words
from app.components.controls import choose_one, step_through
from app.components.selection import selected_points
from app.components.table import Column, picking_table, plain_table
from app.views.samples import sample_card

TARGET, CHART = "cluster", "cluster-map"
CARDS_SHOWN, WORDS_SHOWN = 15, 12


def overview(run: RunSummary, choice: Choice, result: StoredResult[clusters.Clusters]) -> pd.DataFrame:
    """All clusters, as a figure and as a table; returns the table."""
    assert result.value is not None
    table = ask(clusters.cluster_table, run, choice.split, result.value)
    if choice.slice:
        inside = np.bincount(result.value.pairs[choice.members("text")], minlength=result.value.count)
        table = table.assign(inside=inside[table["cluster"]]).drop(columns="images")
        table = table.sort_values("inside", ascending=False, kind="stable", ignore_index=True)
    number = str(st.session_state.get(TARGET, st.query_params.get(TARGET, table["cluster"].iloc[0])))
    selected = int(number) if number.isdecimal() else None
    left, right = st.columns([3, 7], gap="medium")
    with left:
        cards.heading(
            "Size and agreement", "Each dot is a cluster. In low ones images and captions fall apart."
        )
        figure = charts.cluster_map(table, selected, charts.tone(theme()))
        downloads.chart(figure, CHART, "clusters by size", on_select=_pick, selection_mode="points")
    with right:
        first = "those with most pairs of the slice" if choice.slice else "largest"
        cards.heading(
            "All clusters", f"{len(table):,} not empty, {first} first. Click on a row to open a cluster."
        )
        columns = {
            "cluster": Column("cluster", "d"),
            "words": Column("marking words"),
            "size": Column("pairs", ",d"),
            "inside": Column("of the slice", ",d", "slice"),
            "images": Column("images", ",d"),
            "agreement": Column("agree", ".0f", "agreement", " %"),
            "cohesion": Column("cohesion", ".2f", "cohesion"),
            "trained": Column("in training", ",d", "in training"),
        }
        columns = {name: column for name, column in columns.items() if name in table}
        picking_table(
            table, columns, table["cluster"].to_numpy(), TARGET, "clusters-table", "clusters", height=330
        )
    downloads.table(table, f"clusters-{choice.split}")
    return table


def _pick() -> None:
    numbers = selected_points(st.session_state.get(CHART))
    if numbers:
        put(TARGET, numbers[0])


def show_cluster(
    run: RunSummary, choice: Choice, result: StoredResult[clusters.Clusters], table: pd.DataFrame
) -> None:
    """Everything about one cluster."""
    assert result.value is not None
    cards.heading("One cluster in detail")
    help_text = "The number of the cluster; Next follows the table above."
    number = step_through("Cluster", TARGET, table["cluster"].to_numpy(), result.value.count, help_text)
    if number not in table["cluster"].to_numpy():
        cards.empty(
            f"Cluster {number} contains no pair of this split.", "Choose another cluster in the table."
        )
        return
    near = clusters.nearest_clusters(result.value, number)
    words_of = dict(zip(table["cluster"], table["words"], strict=True))
    left, right = st.columns(2, gap="large")
    with left:
        cards.label("Marking words")
        marking = ask(clusters.marking, run, choice.split, result.value).top(number, WORDS_SHOWN)
        if len(marking):
            downloads.chart(
                charts.word_bars(marking, charts.tone(theme())), "words", "words that mark the cluster"
            )
        else:
            cards.note("No word is more frequent here than elsewhere.")
    with right:
        if len(near):
            cards.label("Nearest clusters")
            columns = {
                "cluster": Column("cluster", "d"),
                "cosine": Column("cosine", ".2f"),
                "size": Column("pairs", ",d"),
                "words": Column("marking words"),
            }
            rows = near.assign(words=[words_of.get(c, "") for c in near["cluster"]])
            picking_table(
                rows, columns, near["cluster"].to_numpy(), TARGET, "near-table", "clusters nearby", height=250
            )
        _concepts(ask(clusters.marking_concepts, run, choice.split, result.value, number))
    _members(run, choice, result.value, number)
    if len(near):
        _between(run, choice, result.value, number, near, words_of)


def _concepts(table: pd.DataFrame) -> None:
    """The concepts that mark a cluster; nothing for a run without a concept branch."""
    if not len(table):
        return
    cards.label("Marking concepts, by attention")
    percent = {"image": "its images", "text": "its captions", "elsewhere": "everywhere"}
    columns = {name: Column(name) for name in table.columns if name not in (*percent, "gain")}
    columns |= {name: Column(label, ".1f", "attention", " %") for name, label in percent.items()}
    plain_table(table.assign(**100 * table[list(percent)]), columns, "marking-concepts", "concepts")


def _members(run: RunSummary, choice: Choice, all_clusters: clusters.Clusters, number: int) -> None:
    pairs = ask(clusters.members, run, choice.split, all_clusters, number)
    pairs = pairs[choice.inside("text", pairs["caption"])]
    kinds = {
        "centre": "Nearest to the centroid",
        "edge": "Furthest from it",
        "apart": "Image and caption disagree",
    }
    kind = choose_one("Members", kinds, "members")
    if kind == "apart":
        pairs = pairs[~pairs["agree"]]
    elif kind == "edge":
        pairs = pairs.iloc[::-1]
    if not len(pairs) and choice.slice:
        cards.empty(
            "The slice holds no such pair of this cluster.", "Show other members, or clear the slice."
        )
        return
    if not len(pairs):
        cards.empty("All images and captions of this cluster agree.", "Show the other members.")
        return
    images = pairs["image"].nunique()
    cards.note(
        f"{words.count(len(pairs), 'pair')} of {words.count(images, 'image')}, {min(CARDS_SHOWN, images):,} shown: the "
        "image’s number, its captions here with the cosine of the pair to the centroid, and, where they differ, the "
        "clusters of image and caption."
    )
    notes = [
        "" if row.agree else f" (image in {row.image_label}, caption in {row.text_label})"
        for row in pairs.itertuples()
    ]
    _cards(run, choice, pairs, "cosine", notes)


def _between(
    run: RunSummary,
    choice: Choice,
    all_clusters: clusters.Clusters,
    number: int,
    near: pd.DataFrame,
    words_of: dict[int, str],
) -> None:
    cards.heading("Between two clusters", "Pairs about equally close to both centroids, the most even first.")
    names = {str(c): f"{c}: {words_of.get(c, '')}" for c in near["cluster"].tolist()}
    other = int(
        st.selectbox(
            "Other cluster", list(names), format_func=names.__getitem__, width=420, **bound("other-cluster")
        )
        or 0
    )
    pairs = ask(clusters.between, run, choice.split, all_clusters, number, other, within=choice.captions)
    if not len(pairs):
        cards.empty("The slice holds no such pair.", "Choose another cluster, or clear the slice.")
        return
    _cards(run, choice, pairs, "to_one", [f" ({value:.3f} to {other})" for value in pairs["to_other"]])


def _cards(run: RunSummary, choice: Choice, pairs: pd.DataFrame, score: str, notes: Sequence[str]) -> None:
    """The images of these pairs, each once with its captions, in the order of their first pairs."""
    captions = ask(Run.captions, run, choice.split)
    items = []
    annotated = pairs.assign(note=notes)
    for image in pd.unique(pairs["image"].to_numpy())[:CARDS_SHOWN].tolist():
        own = annotated[annotated["image"] == image]
        best = own.iloc[0]
        lines = [
            f"{row[score]:.3f} · {captions[row['caption']]}{row['note']}" for row in own.to_dict("records")
        ]
        card = sample_card(
            run,
            choice.split,
            "image",
            image,
            image,
            float(best[score]),
            links=links.of_sample(choice, "text", int(best["caption"])),
        )
        items.append(replace(card, caption="\n".join(lines), hover=captions[int(best["caption"])]))
    cards.results(items)
