"""Clusters of a run's pairs: prototypes or offline k-means, their tables, and the words that mark them."""

from coder_core.api.clusters.marking_words import Marking, marking_words
from coder_core.api.clusters.tables import (
    Clusters,
    agreement,
    between,
    chance_agreement,
    cluster_table,
    marking,
    marking_concepts,
    matched,
    members,
    nearest_clusters,
    offline_clusters,
    prototypes,
    same_grouping,
)
from coder_core.geometry.settings import ClusterSettings

__all__ = [
    "ClusterSettings",
    "Clusters",
    "Marking",
    "agreement",
    "between",
    "chance_agreement",
    "cluster_table",
    "marking",
    "marking_concepts",
    "marking_words",
    "matched",
    "members",
    "nearest_clusters",
    "offline_clusters",
    "prototypes",
    "same_grouping",
]
