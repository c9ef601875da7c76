"""Clusters of image-caption pairs: a run's prototypes, or offline k-means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.jobs import module_command
from app.backend.runs import BY_STAMP, RunSummary, open_summary
from coder_core.api.clusters import Clusters, ClusterSettings, Marking, matched, nearest_clusters, tables
from coder_core.api.stored import StoredResult

__all__ = [
    "ClusterSettings",
    "Clusters",
    "Marking",
    "StoredClusters",
    "agreement",
    "between",
    "cluster_command",
    "cluster_labels",
    "cluster_table",
    "clusters_of",
    "has_prototypes",
    "marking_concepts",
    "marking_words",
    "matched",
    "members",
    "nearest_clusters",
    "same_grouping",
]
StoredClusters = StoredResult[Clusters]
BY_NAME = BY_STAMP | {StoredResult: lambda result: result.name}


def has_prototypes(run: RunSummary, split: str) -> bool:
    """Whether the run learned prototypes."""
    return "cluster_centroids" in open_summary(run).analysis(split).arrays


def clusters_of(run: RunSummary, split: str, settings: ClusterSettings | None) -> StoredClusters:
    """Stored offline clusters with these settings; None asks for the run's prototypes."""
    if settings is not None:
        return tables.offline_clusters(open_summary(run), split, settings)
    prototypes = tables.prototypes(open_summary(run), split)
    return StoredClusters("missing" if prototypes is None else "there", "", prototypes)


def cluster_command(runs: Sequence[RunSummary], split: str, settings: ClusterSettings) -> tuple[str, ...]:
    """The command that computes these clusters of every run."""
    values = ["--split", split, "--clusters", str(settings.clusters), "--seed", str(settings.seed)]
    return module_command("coder_core.cluster", *(str(run.path) for run in runs), *values)


@st.cache_resource(max_entries=16, show_spinner="Reading the clusters …", hash_funcs=BY_NAME)
def cluster_table(run: RunSummary, split: str, result: StoredClusters) -> pd.DataFrame:
    """`cluster_table`. Shared: not to be changed."""
    assert result.value is not None
    return tables.cluster_table(open_summary(run), split, result.value)


@st.cache_resource(max_entries=16, show_spinner="Reading the clusters …", hash_funcs=BY_NAME)
def marking_words(run: RunSummary, split: str, result: StoredClusters) -> Marking:
    """The words that mark every cluster."""
    assert result.value is not None
    return tables.marking(open_summary(run), split, result.value)


def agreement(run: RunSummary, split: str, clusters: Clusters) -> tuple[float, float]:
    """Share (%) of pairs whose image and caption carry the same label, and what chance would give."""
    owner = open_summary(run).image_of_text(split)
    return 100 * float(tables.agreement(clusters, owner).mean()), 100 * tables.chance_agreement(
        clusters, owner
    )


def marking_concepts(run: RunSummary, split: str, clusters: Clusters, cluster: int) -> pd.DataFrame:
    """Concepts that a cluster's samples attend to more than others do; empty without a concept branch."""
    return tables.marking_concepts(open_summary(run), split, clusters, cluster)


def members(run: RunSummary, split: str, clusters: Clusters, cluster: int) -> pd.DataFrame:
    """The pairs of a cluster, nearest to its centre first."""
    return tables.members(open_summary(run), split, clusters, cluster)


def between(
    run: RunSummary, split: str, clusters: Clusters, first: int, second: int, within: np.ndarray | None = None
) -> pd.DataFrame:
    """The pairs (of the captions `within`) that lie most evenly between two centres."""
    return tables.between(open_summary(run), split, clusters, first, second, within=within)


@st.cache_data(max_entries=16, show_spinner=False, hash_funcs=BY_NAME)
def same_grouping(runs: Sequence[RunSummary], split: str, results: Sequence[StoredClusters]) -> float:
    """Adjusted mutual information of two runs' clusters of the same pairs."""
    first, second = (result.value for result in results)
    assert first is not None
    assert second is not None
    return tables.same_grouping(first, second)


def cluster_labels(run: RunSummary, split: str) -> np.ndarray | None:
    """(n + m,) cluster of every sample: the run's prototypes, else its offline clusters with default settings."""
    settings = None if has_prototypes(run, split) else ClusterSettings()
    clusters = clusters_of(run, split, settings).value
    return None if clusters is None else np.concatenate([clusters.images, clusters.texts])
