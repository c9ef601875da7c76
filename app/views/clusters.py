"""The Clusters page: all clusters; one cluster with its words, members and nearest clusters."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from app import charts, jobs, questions
from app.address import put, put_all, value_of
from app.ask import Run, RunSummary, StoredResult, ask, clusters, opened_run
from app.choice import Choice
from app.components import cards, downloads
from app.components.controls import (
    advanced,
    button,
    choose_one,
    choose_run,
    pick,
    row,
    show_work,
    step_through,
    whole_number,
)
from app.components.samples import sample_card
from app.components.selection import selected_points
from app.components.table import Column, Table, columns_of, picking_table, plain_table
from app.components.theme import tone
from app.components.words import count

SHARES = (6, 7)  # of the width: the list, and what is opened from it
LEAST = 2
MOST = 2000
FULL = 100.0  # percent of agreement
TARGET = "cluster"
MEMBERS = "members"
CHART = "cluster-map"
CARDS_SHOWN = 10
WORDS_SHOWN = 12
DOWNLOADED = ("images", "cohesion")  # columns for which the list has no room
KINDS = {"near": "Nearest to the centroid", "edge": "Furthest from it", "apart": "Image and caption disagree"}
KINDS |= {"between": "Close to another cluster"}
COLUMNS = columns_of("clusters")
NEAR = {name: COLUMNS.get(name, Column("cosine", ".2f")) for name in ("cluster", "cosine", "words")}
Clusters = clusters.Clusters
Result = StoredResult[Clusters]
Settings = clusters.ClusterSettings


def show(choice: Choice) -> None:
    split = choice.split
    if ask(Run.count, choice.first, split, "text") < LEAST:
        fix = f"clusters need at least {LEAST}; choose another split or run"
        cards.missing("This split has one pair", fix)
        return

    controls = row()
    with controls:
        settings = choose_settings(choice)
        runs = [run for run in choice.runs if settings or ask(clusters.prototypes, run, split)]
        run = choose_run("Show", runs, "clusters-run")

    results = {one.name: questions.clusters_of(opened_run(one), split, settings) for one in runs}
    lacking = [one for one in runs if results[one.name].value is None]
    if lacking and settings is not None:
        offer(lacking, [results[one.name] for one in lacking], split, settings)
        return

    stored_clusters = {name: stored.value for name, stored in results.items() if stored.value is not None}
    result = stored_clusters[run.name]
    with controls:
        offer_worst(ask(clusters.cluster_table, run, split, result))

    only = f" Only {runs[0].name} has them." if len(runs) < len(choice.runs) else ""
    how = cards.HOW_TO_READ[f"clusters {'offline' if settings else 'learned'}"] + only
    left, right = st.columns(SHARES, gap="medium")
    with left:
        table = overview(run, choice, result)
        numbers(runs, split, stored_clusters)
        cards.note(how)
    with right:
        show_cluster(run, choice, result, table)


def choose_settings(choice: Choice) -> Settings | None:
    """Draw the controls; return the settings of offline clusters, or None for the prototypes."""
    if any(ask(clusters.prototypes, run, choice.split) for run in choice.runs):
        kinds = {"learned": "Prototypes", "offline": "Offline k-means"}
        if choose_one("Clusters", kinds, "clusters-of", cards.tip("prototype")) == "learned":
            return None
    most = min(MOST, len(ask(Run.captions, choice.first, choice.split)))
    usual = min(Settings().clusters, most)
    number = whole_number("Number of clusters", (LEAST, most), usual, "cluster-count", 150)
    with advanced():
        return Settings(number, whole_number("Seed", (0, 9999), 0, "cluster-seed", 110))


def numbers(runs: Sequence[RunSummary], split: str, stored_clusters: dict[str, Clusters]) -> None:
    first = stored_clusters[runs[0].name]
    last = stored_clusters[runs[-1].name]
    sizes = ask(clusters.cluster_table, runs[-1], split, last)["size"]
    share, by_chance = ask(questions.agreement, runs[-1], split, last)
    note = f"{by_chance:.1f} % by chance"
    if len(runs) == 2:
        note = f"{runs[0].name} {ask(questions.agreement, runs[0], split, first)[0]:.1f} %"

    items = [
        cards.Metric("not empty", f"{len(sizes):,}", f"of {last.count:,} clusters"),
        cards.Metric("pairs per cluster", f"{int(np.median(sizes))}", f"median; largest {sizes.max():,}"),
        cards.Metric("agreement", f"{share:.1f} %", note, "agreement"),
    ]
    if len(runs) == 2:
        same = clusters.same_grouping(first, last)
        items.append(cards.Metric("AMI of the two runs", f"{same:.2f}", "0 chance, 1 same", "grouping"))

    cards.answer(
        f"Image and caption of {share:.0f}% of the pairs fall into the same cluster, {by_chance:.0f}% by chance"
    )
    cards.metrics(items)


def offer(runs: list[RunSummary], results: list[Result], split: str, settings: Settings) -> None:
    names = " and ".join(run.name for run in runs)
    verb, target = ("have", "folders of the runs") if len(runs) > 1 else ("has", "folder of the run")
    cards.answer(f"{names} {verb} no {settings.clusters} clusters yet: compute them below, in seconds")
    values = ["--split", split, "--clusters", str(settings.clusters), "--seed", str(settings.seed)]
    show_work(
        "-".join(result.name for result in results),
        jobs.module_command("coder_core.cluster", *(str(run.path) for run in runs), *values),
        f"Cluster {names}",
        f"{names} {verb} not been divided into {settings.clusters} clusters yet. This takes seconds and is kept in the {target}.",
        " ".join(result.fault for result in results if result.fault),
    )


def offer_worst(table: pd.DataFrame) -> None:
    """Draw a button to the cluster with the lowest agreement, the largest of equal ones, and its pairs that disagree."""
    agreement = table["agreement"].to_numpy()
    if len(table) > 1 and agreement.min() < FULL:
        worst = int(table["cluster"].to_numpy()[agreement.argmin()])
        show_worst = partial(put_all, {TARGET: worst, MEMBERS: "apart"})
        button("Lowest agreement", "lowest-agreement", "", show_worst, help=cards.tip("agreement"))


def overview(run: RunSummary, choice: Choice, result: clusters.Clusters) -> pd.DataFrame:
    table = ask(clusters.cluster_table, run, choice.split, result)
    if choice.slice:
        inside = np.bincount(result.pairs[choice.members("text")], minlength=result.count)
        table = table.assign(inside=inside[table["cluster"]]).drop(columns="images")
        table = table.sort_values("inside", ascending=False, kind="stable", ignore_index=True)
    number = value_of(TARGET, table["cluster"].iloc[0])
    columns = {name: column for name, column in COLUMNS.items() if name in table and name not in DOWNLOADED}
    ids = table["cluster"].to_numpy()
    picking_table(Table(table, columns, "clusters-table", "clusters", ids, height=430, narrow=True), TARGET)
    downloads.table(table, f"clusters-{choice.split}")
    cards.heading("Size and agreement")
    figure = charts.cluster_map(table, int(number) if number.isdecimal() else None, tone())
    downloads.chart(figure, CHART, "clusters by size", on_select=_pick, selection_mode="points")
    return table


def _pick() -> None:
    numbers = selected_points(st.session_state.get(CHART))
    if numbers:
        put(TARGET, numbers[0])


def show_cluster(run: RunSummary, choice: Choice, result: clusters.Clusters, table: pd.DataFrame) -> None:
    ids = table["cluster"].to_numpy()
    with st.container(key=cards.DETAIL):
        steps, choices = st.columns((9, 5), gap="small", vertical_alignment="bottom")
    with steps:
        number = step_through("Cluster", TARGET, ids, result.count)
    if number not in ids:
        fact = f"Cluster {number} contains no pair of this split."
        cards.empty(fact, "Choose another cluster in the table.")
        return

    near = clusters.nearest_clusters(result, number)
    words = dict(zip(table["cluster"], table["words"], strict=True))
    near = near.assign(words=[words.get(other, "") for other in near["cluster"]])
    marks = ask(clusters.marking_concepts, run, choice.split, result, number)
    with choices:
        kinds = KINDS if len(near) else {kind: KINDS[kind] for kind in ("near", "edge")}
        kind = pick("Members", kinds, MEMBERS, format_func=kinds.__getitem__)

    _members(run, choice, result, number, near, kind)
    left, middle = st.columns(2, gap="medium")
    with left:
        cards.label("Distinctive words")
        marking = ask(clusters.marking, run, choice.split, result).top(number, WORDS_SHOWN)
        if len(marking):
            downloads.chart(charts.word_bars(marking, tone()), "words", "distinctive words of the cluster")
        else:
            cards.note("No word is more frequent here than elsewhere.")

    with middle:
        if len(near):
            cards.label("Nearest clusters")
            ids = near["cluster"].to_numpy()
            picking_table(
                Table(near, NEAR, "near-table", "clusters nearby", ids, height=250, narrow=True), TARGET
            )

    if len(marks):
        _concepts(marks)


def _concepts(table: pd.DataFrame) -> None:
    """Draw the concepts that distinguish a cluster."""
    cards.label("Distinctive concepts, by attention")
    percent = {"image": "its images", "text": "its captions", "elsewhere": "everywhere"}
    columns = {name: Column(name) for name in table.columns if name not in (*percent, "gain")}
    columns |= {name: Column(label, ".1f", "attention", " %") for name, label in percent.items()}
    plain_table(table.assign(**100 * table[list(percent)]), columns, "marking-concepts", "concepts")


def _members(
    run: RunSummary, choice: Choice, result: Clusters, number: int, near: pd.DataFrame, kind: str
) -> None:
    """Draw the members of a cluster, in one of the orders of `KINDS`; `near`: its nearest clusters."""
    if kind == "between":
        names = {str(c): f"{c}: {words}" for c, words in zip(near["cluster"], near["words"], strict=True)}
        other = int(pick("Other cluster", names, "other-cluster", 420, format_func=names.__getitem__) or 0)
        pairs = ask(clusters.between, run, choice.split, result, (number, other), choice.captions)
        score = "to_one"
        notes = [f" ({value:.3f} to {other})" for value in pairs["to_other"]]
        order = ", and to that of the other cluster, smallest difference first"
    else:
        pairs = ask(clusters.members, run, choice.split, result, number)
        pairs = pairs[choice.inside("text", pairs["caption"]) & ~(pairs["agree"] & (kind == "apart"))]
        pairs = pairs.iloc[::-1] if kind == "edge" else pairs
        labels = zip(pairs["agree"], pairs["image_label"], pairs["text_label"], strict=True)
        score = "cosine"
        notes = ["" if agree else f" (image in {i}, caption in {t})" for agree, i, t in labels]
        order = ", and, where they differ, the clusters of image and caption"

    if not len(pairs):
        fact = "All images and captions of this cluster agree."
        fix = "Show other members."
        if choice.slice:
            fact = "The slice contains no such pair of this cluster."
            fix = "Clear it, or show other members."
        cards.empty(fact, fix)
        return

    images = pairs["image"].nunique()
    counts = {"pairs": count(len(pairs), "pair"), "images": count(images, "image")}
    shown = min(CARDS_SHOWN, images)
    _cards(run, choice, pairs, score, notes)
    cards.note(cards.HOW_TO_READ["members of a cluster"].format(**counts, shown=shown, order=order))


def _cards(run: RunSummary, choice: Choice, pairs: pd.DataFrame, score: str, notes: Sequence[str]) -> None:
    """Draw the images of these pairs, each once with its captions, in the order of their first pairs."""
    captions = ask(Run.captions, run, choice.split)
    texts = pairs["caption"].map(captions.__getitem__)
    lines = pairs[score].map("{:.3f} · ".format) + texts + pd.Series(notes, pairs.index, dtype=object)
    items = []
    for image in pd.unique(pairs["image"].to_numpy())[:CARDS_SHOWN].tolist():
        of_image = pairs["image"] == image
        best = pairs[of_image].iloc[0]
        caption = int(best["caption"])
        card = sample_card(choice, run, ("image", image), (image, float(best[score])))
        text = "\n".join(lines[of_image])
        items.append(replace(card, caption=text, hover=captions[caption], sample=("text", caption)))
    cards.results(items)
