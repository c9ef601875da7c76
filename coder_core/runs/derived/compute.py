"""From analyses to layouts and clusters: computed once, kept beside the run, computed again when damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Tell, silent, within
from coder_core.geometry.kmeans import Clustering, ClusterSettings, cluster_pairs
from coder_core.geometry.layout import Layout, LayoutSettings, lay_out
from coder_core.geometry.points import Points
from coder_core.runs.analysis.read import Analysis, open_analysis
from coder_core.runs.derived.store import Ticket, read_derived, ticket, write_derived

LAYOUT, CLUSTERS = "layout", "clusters"


def layout_ticket(
    run: Path, split: str, settings: LayoutSettings, own: Analysis, reference: Analysis | None = None
) -> Ticket:
    """Where a run's layout is kept; beside a reference the key holds both runs' numbers."""
    return ticket(run, split, LAYOUT, settings.parameters(), [own] if reference is None else [own, reference])


def cluster_ticket(run: Path, split: str, settings: ClusterSettings, own: Analysis) -> Ticket:
    """Where a run's offline clusters are kept."""
    return ticket(run, split, CLUSTERS, settings.parameters(), [own])


def read_layout(place: Ticket) -> Layout | None:
    """A kept layout; None when there is none.

    Raises:
        InputError: it is damaged.
    """
    found = read_derived(place)
    if found is None:
        return None
    shares = found.facts.get("shares")
    return Layout(
        found.arrays["plane"], found.notes, found.facts.get("disparity"), (shares[0], shares[1]) if shares else None
    )


def read_clusters(place: Ticket) -> Clustering | None:
    """Kept clusters; None when there are none.

    Raises:
        InputError: they are damaged.
    """
    found = read_derived(place)
    if found is None:
        return None
    return Clustering(found.arrays["centroids"], found.arrays["image_labels"], found.arrays["text_labels"])


def make_layouts(
    runs: list[Path], split: str, settings: LayoutSettings, *, tell: Tell = silent
) -> list[tuple[Ticket, Layout]]:
    """The layout of the first run, and of a second one aligned to it; what is kept already is not computed again.

    Raises:
        InputError: an analysis is missing or damaged, the two hold different samples, or nothing can be laid out.
    """
    tell(0.0, "reading the embeddings")
    analyses = [open_analysis(run, split, verify=True) for run in runs]
    check_same_samples(runs, analyses)
    made: list[tuple[Ticket, Layout]] = []
    for position, (run, own) in enumerate(zip(runs, analyses, strict=True)):
        part = within(tell, position / len(runs), (position + 1) / len(runs))
        place = layout_ticket(run, split, settings, own, analyses[0] if position else None)
        kept = _kept_layout(place)
        if kept is None:
            points = Points(own.image_embeddings, own.text_embeddings)
            reference = made[0][1].plane if made else None
            named = _named(part, run) if len(runs) > 1 else part
            kept = lay_out(points, settings, reference=reference, tell=named)
            facts = {"disparity": kept.disparity, "shares": list(kept.shares) if kept.shares else None}
            write_derived(place, {"plane": kept.plane}, notes=kept.notes, facts=facts)
        made.append((place, kept))
    tell(1.0, "finished")
    return made


def make_clusters(
    run: Path, split: str, settings: ClusterSettings, *, tell: Tell = silent
) -> tuple[Ticket, Clustering]:
    """Offline clusters of a run; kept ones are not computed again.

    Raises:
        InputError: the analysis is missing or damaged, or there are more clusters than pairs.
    """
    tell(0.0, "reading the embeddings")
    own = open_analysis(run, split, verify=True)
    place = cluster_ticket(run, split, settings, own)
    kept = _kept_clusters(place)
    if kept is None:
        kept = cluster_pairs(own.image_embeddings, own.text_embeddings, own.image_of_text, settings, tell=tell)
        arrays = {"centroids": kept.centroids, "image_labels": kept.image_labels, "text_labels": kept.text_labels}
        write_derived(place, arrays)
    tell(1.0, "finished")
    return place, kept


def check_same_samples(runs: list[Path], analyses: list[Analysis]) -> None:
    """Two runs can be laid over each other only when point p is the same sample in both.

    Raises:
        InputError: they were evaluated on different samples.
    """
    for run, analysis in zip(runs[1:], analyses[1:], strict=True):
        same = np.array_equal(analysis.image_of_text, analyses[0].image_of_text)
        if not same or analysis.captions != analyses[0].captions:
            found = f"was evaluated on other samples than {runs[0].name}"
            raise InputError(Fault(f"run {run.name}", found, "two runs evaluated on the same data"))


def _kept_layout(place: Ticket) -> Layout | None:
    try:
        return read_layout(place)
    except InputError:  # damaged: it is computed again and replaced
        return None


def _kept_clusters(place: Ticket) -> Clustering | None:
    try:
        return read_clusters(place)
    except InputError:
        return None


def _named(tell: Tell, run: Path) -> Tell:
    return lambda fraction, phase: tell(fraction, f"{run.name}: {phase}")
