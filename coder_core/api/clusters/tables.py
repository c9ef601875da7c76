"""Clusters of image-caption pairs: CODER's prototypes of a run that has them, or an offline k-means of any run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from coder_core.api.clusters.marking_words import Marking, marking_words
from coder_core.api.run import Run
from coder_core.api.sides import TILE_ELEMENTS, Array, Modality, slices
from coder_core.api.stored import StoredResult, read_stored
from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import clusters_folder, read_clusters

MOST_MATCHED = 2_000
_BOTH: tuple[Modality, Modality] = ("image", "text")
_PIECE = 16_384  # rows of attention in memory at once


@dataclass(frozen=True)
class Clusters:
    """K clusters of one run on one split.

    Args:
        origin: "prototypes" learned in training (CODER eq. 7), or "offline" k-means of the finished embeddings.
        centroids: (K, D) unit rows.
        pairs: (m,) the nearest centroid of every caption with its image; cosines: (m,) to it.
        images: (n,) and texts: (m,) the label of each alone: what PGC's classifier names, offline the nearest centroid.
        trained: (K,) pairs of the train split that belong to each; None offline.
    """

    origin: Literal["prototypes", "offline"]
    centroids: Array
    pairs: Array
    cosines: Array
    images: Array
    texts: Array
    trained: Array | None = None

    @property
    def count(self) -> int:
        """K."""
        return len(self.centroids)


def prototypes(run: Run, split: str) -> Clusters | None:
    """The prototypes a run learned; None for a run without any."""
    analysis = run.analysis(split)
    if "cluster_centroids" not in analysis.arrays:
        return None
    names = ("centroids", "pair_labels", "pair_cosines", "image_labels", "text_labels", "members")
    return Clusters("prototypes", *(np.asarray(analysis.array(f"cluster_{name}")) for name in names))


def offline_clusters(run: Run, split: str, settings: ClusterSettings) -> StoredResult[Clusters]:
    """Clusters that `python -m coder_core.cluster` computed."""
    stored_folder = clusters_folder(run.path, split, settings, run.analysis(split))

    def read() -> Clusters | None:
        stored = read_clusters(stored_folder)
        if stored is None:
            return None
        pairs, cosines = _nearest_of_pairs(run, split, stored.centroids)
        return Clusters("offline", stored.centroids, pairs, cosines, stored.image_labels, stored.text_labels)

    return read_stored(stored_folder.name, read)


def pair_tiles(run: Run, split: str, captions: Array) -> Array:
    """(k, D) unit rows of v + w of some captions with their images; CODER eq. 7."""
    v, w = run.embeddings(split)
    joined = w[captions] + v[run.image_of_text(split)[captions]]
    return np.asarray(joined / np.maximum(np.linalg.norm(joined, axis=1, keepdims=True), 1e-12))


def _nearest_of_pairs(run: Run, split: str, centroids: Array) -> tuple[Array, Array]:
    captions = np.arange(run.count(split, "text"))
    labels, cosines = np.empty(len(captions), dtype=np.int32), np.empty(len(captions), dtype=np.float32)
    for part in slices(len(captions), TILE_ELEMENTS // max(len(centroids), centroids.shape[1])):
        scores = pair_tiles(run, split, captions[part]) @ centroids.T
        labels[part], cosines[part] = scores.argmax(1), scores.max(1)
    return labels, cosines


def agreement(clusters: Clusters, owner: Array) -> Array:
    """(m,) bool: a caption and its image carry the same label."""
    return np.asarray(clusters.texts == clusters.images[owner])


def chance_agreement(clusters: Clusters, owner: Array) -> float:
    """Share of pairs that would agree if images were dealt out among the captions at random."""
    texts = np.bincount(clusters.texts, minlength=clusters.count) / len(owner)
    images = np.bincount(clusters.images[owner], minlength=clusters.count) / len(owner)
    return float((texts * images).sum())


def cluster_table(run: Run, split: str, clusters: Clusters, *, words: int = 6) -> pd.DataFrame:
    """One row a cluster that is not empty, the largest first.

    Returns:
        cluster, size (pairs), images (distinct), agreement (% of its pairs whose image and caption carry the same
        label), cohesion (mean cosine of its pairs to the centroid), words (those that mark it), and trained (pairs of
        the train split) for prototypes.
    """
    owner = run.image_of_text(split)
    agree = 100.0 * agreement(clusters, owner)
    pairs = pd.DataFrame(
        {"cluster": clusters.pairs, "image": owner, "agree": agree, "cosine": clusters.cosines}
    )
    table = pairs.groupby("cluster", as_index=False).agg(
        size=("image", "size"),
        images=("image", "nunique"),
        agreement=("agree", "mean"),
        cohesion=("cosine", "mean"),
    )
    marked = marking(run, split, clusters)
    table["words"] = [", ".join(marked.top(int(cluster), words)["word"]) for cluster in table["cluster"]]
    if clusters.trained is not None:
        table["trained"] = clusters.trained[table["cluster"].to_numpy()]
    return table.sort_values(["size", "cluster"], ascending=[False, True], ignore_index=True)


def marking(run: Run, split: str, clusters: Clusters) -> Marking:
    """The words that mark every cluster, from the captions of its pairs."""
    return marking_words(run.captions(split), clusters.pairs, clusters.count)


def marking_concepts(run: Run, split: str, clusters: Clusters, cluster: int, count: int = 8) -> pd.DataFrame:
    """The concepts that images and captions of a cluster read more than others do.

    Returns:
        word, kind, image and text (mean attention of its images and captions), elsewhere (mean over the split, both
        modalities), gain (mean of the first two minus elsewhere), largest first; no rows for a run without concepts.
    """
    tables = run.analysis(split).concepts
    if tables is None:
        return pd.DataFrame(columns=["word", "kind", "image", "text", "elsewhere", "gain"])
    captions = np.flatnonzero(clusters.pairs == cluster)
    images = np.unique(run.image_of_text(split)[captions])
    image, text = tables.attention("image", images).mean(0), tables.attention("text", captions).mean(0)
    means = []
    for modality, rows in zip(_BOTH, (len(clusters.images), len(clusters.texts)), strict=True):
        parts = (tables.attention(modality, part).sum(0, dtype=np.float64) for part in slices(rows, _PIECE))
        means.append(sum(parts, np.zeros(len(tables.words))) / rows)
    elsewhere = (means[0] + means[1]) / 2
    gain = (image + text) / 2 - elsewhere
    columns = {
        "word": tables.words,
        "kind": tables.kinds,
        "image": image,
        "text": text,
        "elsewhere": elsewhere,
    }
    table = pd.DataFrame(columns | {"gain": gain}).sort_values("gain", ascending=False, kind="stable")
    return table[table["gain"] > 0].head(count).reset_index(drop=True)


def members(run: Run, split: str, clusters: Clusters, cluster: int) -> pd.DataFrame:
    """The pairs of a cluster, nearest to its centre first: caption, image, cosine, image_label, text_label, agree."""
    owner = run.image_of_text(split)
    captions = np.flatnonzero(clusters.pairs == cluster)
    captions = captions[np.argsort(-clusters.cosines[captions], kind="stable")]
    images = owner[captions]
    return pd.DataFrame(
        {
            "caption": captions,
            "image": images,
            "cosine": clusters.cosines[captions],
            "image_label": clusters.images[images],
            "text_label": clusters.texts[captions],
            "agree": clusters.images[images] == clusters.texts[captions],
        }
    )


def nearest_clusters(clusters: Clusters, cluster: int, count: int = 5) -> pd.DataFrame:
    """The clusters whose centres are most like this one's, among those that are not empty: cluster, cosine, size."""
    sizes = np.bincount(clusters.pairs, minlength=clusters.count)
    others = np.flatnonzero(sizes)
    others = others[others != cluster]
    cosines = clusters.centroids[others] @ clusters.centroids[cluster]
    best = np.argsort(-cosines, kind="stable")[:count]
    return pd.DataFrame({"cluster": others[best], "cosine": cosines[best], "size": sizes[others[best]]})


def between(
    run: Run,
    split: str,
    clusters: Clusters,
    first: int,
    second: int,
    count: int = 10,
    within: Array | None = None,
) -> pd.DataFrame:
    """Pairs of either cluster (of the captions `within`) that lie most evenly between the two centres.

    Returns:
        caption, image, cluster (the one it belongs to), to_one, to_other (cosines to the first and the second), margin
        (their distance), smallest first.
    """
    captions = np.flatnonzero(np.isin(clusters.pairs, (first, second)))
    captions = captions if within is None else np.intersect1d(captions, within)
    cosines = pair_tiles(run, split, captions) @ clusters.centroids[[first, second]].T
    margin = np.abs(cosines[:, 0] - cosines[:, 1])
    best = np.argsort(margin, kind="stable")[:count]
    rows = captions[best]
    return pd.DataFrame(
        {
            "caption": rows,
            "image": run.image_of_text(split)[rows],
            "cluster": clusters.pairs[rows],
            "to_one": cosines[best, 0],
            "to_other": cosines[best, 1],
            "margin": margin[best],
        }
    )


def matched(labels: Array, others: Array, most: int = MOST_MATCHED) -> Array:
    """Rename `others` to the labels they share most samples with, each name once (Hungarian method).

    Args:
        labels, others: (N,) clusters of the same samples. most: with more clusters than this nothing is renamed.

    Returns:
        (N,) labels; groups without a partner get numbers above all of `labels`.
    """
    count, other_count = int(labels.max(initial=0)) + 1, int(others.max(initial=0)) + 1
    if max(count, other_count) > most:
        return others
    from scipy.optimize import linear_sum_assignment

    shared = np.zeros((other_count, count))
    np.add.at(shared, (others, labels), 1)
    rows, columns = linear_sum_assignment(-shared)
    names = count + np.arange(other_count)
    names[rows] = np.where(shared[rows, columns] > 0, columns, names[rows])
    return np.asarray(names[others])


def same_grouping(first: Clusters, second: Clusters) -> float:
    """Adjusted mutual information of two clusterings of the same pairs: 0 by chance, 1 for the same groups."""
    from sklearn.metrics import adjusted_mutual_info_score  # a second to import

    return float(adjusted_mutual_info_score(first.pairs, second.pairs))
