"""Clusters page: groups of samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import streamlit as st

from app import jobs, questions
from app.ask import Run, RunSummary, StoredResult, ask, ask_now, clusters
from app.choice import Choice, bound_number
from app.components import cards
from app.components.controls import choose_one
from app.components.glossary import tip
from app.components.work import Work, show_work
from app.frame import sidebar
from app.frame import unavailable as missing
from app.views.clusters import overview, show_cluster

LEAST, MOST = 2, 2000
OFFLINE = (
    "Offline k-means of the finished embeddings, each caption joined with its image as for CODER’s prototypes. It "
    "shows which pairs lie together; training did not use it."
)
LEARNED = "Prototypes that training updates on the fly (CODER eq. 7). The classifier assigns images and captions alone."


def settings(choice: Choice) -> clusters.ClusterSettings | None:
    """Settings of the clusters; None for the prototypes."""
    kind = "offline"
    if any(ask(clusters.prototypes, run, choice.split) for run in choice.runs):
        kinds = {"learned": "Prototypes", "offline": "Offline k-means"}
        kind = choose_one("Clusters", kinds, "clusters-of", tip("prototype"))
    if kind == "learned":
        return None
    most = min(MOST, len(ask(Run.captions, choice.first, choice.split)))
    usual = min(clusters.ClusterSettings().clusters, most)
    count = int(st.number_input("Number of clusters", LEAST, most, usual, **bound_number("k"), width=150))
    return clusters.ClusterSettings(
        count, int(st.number_input("Seed", 0, 9999, 0, **bound_number("seed"), width=110))
    )


def numbers(choice: Choice, results: list[StoredResult[clusters.Clusters]]) -> None:
    """Sizes, agreement, and how similar the two runs' clusters are."""
    last = results[-1].value
    assert last is not None
    sizes = ask(clusters.cluster_table, choice.last, choice.split, last)["size"]
    shares = [
        ask(questions.agreement, run, choice.split, one.value)
        for run, one in zip(choice.runs, results, strict=True)
        if one.value
    ]
    note = (
        f"{choice.first.name} {shares[0][0]:.1f} %"
        if len(shares) == 2
        else f"{shares[-1][1]:.1f} % by chance"
    )
    items = [
        cards.Metric("clusters", f"{len(sizes):,}", f"not empty, of {last.count:,}"),
        cards.Metric("pairs per cluster", f"{int(np.median(sizes))}", f"median; largest {sizes.max():,}"),
        cards.Metric("agreement", f"{shares[-1][0]:.1f} %", note, "agreement"),
    ]
    if len(results) == 2 and results[0].value is not None:
        same = clusters.same_grouping(results[0].value, last)
        items.append(cards.Metric("AMI of the two runs", f"{same:.2f}", "0 chance, 1 same", "grouping"))
    cards.metrics(items)


def command(runs: list[RunSummary], split: str, wanted: clusters.ClusterSettings) -> tuple[str, ...]:
    """The command that computes these clusters of every run."""
    values = ["--split", split, "--clusters", str(wanted.clusters), "--seed", str(wanted.seed)]
    return jobs.module_command("coder_core.cluster", *(str(run.path) for run in runs), *values)


def offer(
    lacking: list[tuple[RunSummary, StoredResult[clusters.Clusters]]],
    split: str,
    wanted: clusters.ClusterSettings,
) -> None:
    """Compute everything that is missing, in one job."""
    runs, names = [run for run, _ in lacking], " and ".join(run.name for run, _ in lacking)
    verb, folder = ("have", "folders of the runs") if len(runs) > 1 else ("has", "folder of the run")
    work = Work(
        "-".join(result.name for _, result in lacking),
        command(runs, split, wanted),
        f"Cluster {names}",
        f"{names} {verb} no {wanted.clusters} clusters yet. This takes seconds; the result is stored in the {folder}.",
    )
    show_work(work, " ".join(result.fault for _, result in lacking if result.fault))


def show(chosen: Choice) -> None:
    choice = missing.embedded(chosen)
    if choice is None:
        return
    if ask(Run.count, choice.first, choice.split, "text") < LEAST:
        cards.empty(
            "This split has one pair.", f"Clusters need at least {LEAST}. Choose another split or run."
        )
        return
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        wanted = settings(choice)
        runs = [
            run for run in choice.runs if wanted is not None or ask(clusters.prototypes, run, choice.split)
        ]
        names = [run.name for run in runs]
        name = (
            choose_one("Show", {n: n for n in reversed(names)}, "clusters-run")
            if len(names) > 1
            else names[0]
        )
    only = f" Only {names[0]} has them." if len(names) < len(choice.runs) else ""
    cards.note(LEARNED + only if wanted is None else OFFLINE)
    results = [ask_now(questions.clusters_of, run, choice.split, wanted) for run in runs]
    lacking = [(run, result) for run, result in zip(runs, results, strict=True) if result.value is None]
    if lacking and wanted is not None:
        offer(lacking, choice.split, wanted)
        return
    numbers(replace(choice, first=runs[0], second=runs[1] if len(runs) > 1 else None), results)
    run, result = runs[names.index(name)], results[names.index(name)]
    show_cluster(run, choice, result, overview(run, choice, result))


sidebar.page(
    "Which samples form groups?",
    "A cluster holds image-caption pairs with similar embeddings. Where an image and its caption fall into different "
    "clusters, the model disagrees about what the pair shows.",
    show,
    of_two=True,
    whole="which clusters there are, their words, sizes and agreement",
)
