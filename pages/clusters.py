"""What was grouped together?"""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.backend import clusters
from app.backend import runs as backend
from app.backend.clusters import ClusterSettings, Found
from app.backend.runs import RunSummary
from app.ui import cards, embedded_runs, sidebar
from app.ui.controls import choose_one
from app.ui.glossary import tip
from app.ui.state import Choice, bound_number
from app.views import work as work_view
from app.views.clusters import open_one, overview

LEAST, MOST = 2, 2000
OFFLINE = (
    "Offline k-means of the finished embeddings (each caption joined with its image, as CODER’s prototypes): it shows "
    "what lies together, not what training was told."
)
LEARNED = (
    "Prototypes that training kept on the fly (CODER eq. 7); an image’s and a caption’s own label is the classifier’s."
)


def settings(choice: Choice) -> ClusterSettings | None:
    """Which clusters: None for the prototypes."""
    kind = "offline"
    if any(clusters.has_prototypes(run, choice.split) for run in choice.runs):
        kinds = {"learned": "Prototypes", "offline": "Offline k-means"}
        kind = choose_one("Clusters", kinds, "clusters-of", tip("prototype"))
    if kind == "learned":
        return None
    most = min(MOST, len(backend.open_summary(choice.first).captions(choice.split)))
    usual = min(ClusterSettings().clusters, most)
    count = int(st.number_input("How many", LEAST, most, usual, **bound_number("k"), width=130))
    return ClusterSettings(count, int(st.number_input("Seed", 0, 9999, 0, **bound_number("seed"), width=110)))


def numbers(choice: Choice, found: list[Found]) -> None:
    """How large, how much agreement, and how far two runs group alike."""
    last, run = found[-1].clusters, choice.runs[-1]
    assert last is not None
    table = clusters.table(run, choice.split, found[-1])
    shares = [
        clusters.agreement(r, choice.split, f.clusters) for r, f in zip(choice.runs, found, strict=True) if f.clusters
    ]
    beside = f"{shares[0][0]:.1f} % in {choice.first.name}" if len(shares) == 2 else f"{shares[-1][1]:.1f} % by chance"
    items = [
        cards.Tile("clusters", f"{len(table):,}", f"not empty, of {last.count:,}", ""),
        cards.Tile(
            "pairs in a cluster", f"{int(np.median(table['size']))}", f"median; largest {table['size'].max():,}"
        ),
        cards.Tile("agreement", f"{shares[-1][0]:.1f} %", beside, "agreement"),
    ]
    if len(found) == 2 and all(item.clusters is not None for item in found):
        same = clusters.same_grouping(choice.runs, choice.split, found)
        items.append(cards.Tile("both runs group alike", f"{same:.2f}", "0 by chance, 1 the same", "grouping"))
    cards.tiles(items)


def offer(missing: list[tuple[RunSummary, Found]], split: str, wanted: ClusterSettings) -> None:
    """To cluster all that are missing, in one piece of work."""
    runs, names = [run for run, _ in missing], " and ".join(run.name for run, _ in missing)
    have, kept = ("have", "each run") if len(runs) > 1 else ("has", "the run")
    work = work_view.Work(
        "-".join(one.name for _, one in missing), clusters.cluster_command(runs, split, wanted), f"Cluster {names}",
        f"{names} {have} no {wanted.clusters} clusters yet; it takes seconds, and is kept beside {kept}.",
    )  # fmt: skip
    work_view.show(work, " ".join(one.fault for _, one in missing if one.fault))


def show(chosen_runs: Choice) -> None:
    choice = embedded_runs.of(chosen_runs)
    if choice is None:
        return
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        chosen = settings(choice)
        names = [run.name for run in choice.runs]
        if chosen is None:
            names = [run.name for run in choice.runs if clusters.has_prototypes(run, choice.split)]
        name = (
            choose_one("Clusters of", {n: n for n in reversed(names)}, "clusters-run") if len(names) > 1 else names[0]
        )
    runs = [run for run in choice.runs if run.name in names]
    shown = Choice(runs[0], runs[1] if len(runs) > 1 else None, choice.split)
    alone = f" {names[0]} alone has them." if len(names) < len(choice.runs) else ""
    cards.note(LEARNED + alone if chosen is None else OFFLINE)
    found = [clusters.of_run(run, choice.split, chosen) for run in runs]
    missing = [(run, one) for run, one in zip(runs, found, strict=True) if one.clusters is None]
    if missing and chosen is not None:
        offer(missing, choice.split, chosen)
        return
    numbers(shown, found)
    run, one = next((run, one) for run, one in zip(runs, found, strict=True) if run.name == name)
    table = overview(run, choice, one)
    open_one(run, choice, one, table)


choice = sidebar.choose()
cards.question(
    "What was grouped together?",
    "A cluster holds image-caption pairs that look alike to the model. Where an image and its caption fall into "
    "different clusters, the model sees two things in them.",
)
sidebar.answer(choice, show)
