"""The door to clusters: prototypes of a run, or offline k-means; kept by run, stamp and parameters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.jobs import module_command
from app.backend.runs import RunSummary, _opened, open_summary
from coder_core.api.clusters import tables as api
from coder_core.api.clusters.tables import Clusters, ClusterSettings, Found, matched
from coder_core.api.clusters.words import Marking

__all__ = [
    "ClusterSettings", "Clusters", "Found", "Marking", "agreement", "between", "cluster_command", "concepts",
    "has_prototypes", "labels", "marking", "matched", "members", "nearest", "of_run", "same_grouping", "table",
]  # fmt: skip


def has_prototypes(run: RunSummary, split: str) -> bool:
    """Whether the run learned prototypes."""
    return "cluster_centroids" in open_summary(run).analysis(split).arrays


def of_run(run: RunSummary, split: str, settings: ClusterSettings | None) -> Found:
    """Offline clusters with these settings, as they are kept now; None asks for the run's prototypes."""
    opened = open_summary(run)
    if settings is not None:
        return api.offline_clusters(opened, split, settings)
    found = api.prototypes(opened, split)
    return Found("missing" if found is None else "there", "", found)


def cluster_command(runs: list[RunSummary], split: str, settings: ClusterSettings) -> tuple[str, ...]:
    """The command that computes these clusters of every run."""
    values = ["--split", split, "--clusters", str(settings.clusters), "--seed", str(settings.seed)]
    return module_command("coder_core.cluster", *(str(run.path) for run in runs), *values)


@st.cache_resource(max_entries=16, show_spinner="Reading what was grouped together …")
def _kept(path: str, stamp: str, split: str, name: str, _found: Clusters) -> tuple[pd.DataFrame, Marking]:
    run = _opened(path, stamp)
    return api.cluster_table(run, split, _found), api.marking(run, split, _found)


def table(run: RunSummary, split: str, found: Found) -> pd.DataFrame:
    """`cluster_table`. Shared: not to be changed."""
    assert found.clusters is not None
    return _kept(str(run.path), run.stamp, split, found.name, found.clusters)[0]


def marking(run: RunSummary, split: str, found: Found) -> Marking:
    """The words that mark every cluster."""
    assert found.clusters is not None
    return _kept(str(run.path), run.stamp, split, found.name, found.clusters)[1]


def agreement(run: RunSummary, split: str, found: Clusters) -> tuple[float, float]:
    """Share (%) of pairs whose image and caption carry the same label, and what chance would give."""
    owner = open_summary(run).image_of_text(split)
    return 100 * float(api.agreement(found, owner).mean()), 100 * api.chance_agreement(found, owner)


def concepts(run: RunSummary, split: str, found: Clusters, cluster: int) -> pd.DataFrame:
    """`marking_concepts`: what its images and captions read more than others; empty without a concept branch."""
    return api.marking_concepts(open_summary(run), split, found, cluster)


def members(run: RunSummary, split: str, found: Clusters, cluster: int) -> pd.DataFrame:
    """`members`: the pairs of a cluster, nearest to its centre first."""
    return api.members(open_summary(run), split, found, cluster)


def nearest(found: Clusters, cluster: int) -> pd.DataFrame:
    """`nearest_clusters`."""
    return api.nearest_clusters(found, cluster)


def between(run: RunSummary, split: str, found: Clusters, one: int, other: int) -> pd.DataFrame:
    """`between`: pairs that stand most evenly between two centres."""
    return api.between(open_summary(run), split, found, one, other)


@st.cache_data(max_entries=16, show_spinner=False)
def _same(names: tuple[str, str], stamps: tuple[str, str], split: str, _one: Clusters, _other: Clusters) -> float:
    return api.same_grouping(_one, _other)


def same_grouping(runs: list[RunSummary], split: str, found: list[Found]) -> float:
    """Adjusted mutual information of two runs' clusters of the same pairs."""
    one, other = (item.clusters for item in found)
    assert one is not None
    assert other is not None
    names = tuple(f"{run.path}/{item.name}" for run, item in zip(runs, found, strict=True))
    return _same((names[0], names[1]), (runs[0].stamp, runs[1].stamp), split, one, other)


def labels(run: RunSummary, split: str) -> np.ndarray | None:
    """(n + m,) cluster of every sample: the run's prototypes, else its offline clusters of the usual kind; or None."""
    found = of_run(run, split, None if has_prototypes(run, split) else ClusterSettings()).clusters
    return None if found is None else np.concatenate([found.images, found.texts])
