"""What was grouped together: CODER's prototypes of a run that has them, or an offline k-means of any run's pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from coder_core.api.clusters.words import Marking, marking_words
from coder_core.api.run import Run
from coder_core.api.sides import Array, Modality
from coder_core.console.faults import InputError
from coder_core.geometry.kmeans import ClusterSettings
from coder_core.runs.derived.compute import clusters_folder, read_clusters

__all__ = [
    "ClusterSettings", "Clusters", "Found", "between", "chance_agreement", "cluster_table", "marking",
    "marking_concepts", "matched", "members", "nearest_clusters", "offline_clusters", "prototypes", "same_grouping",
]  # fmt: skip
TILE_ELEMENTS = 4_194_304
MOST_MATCHED = 2_000
_BOTH: tuple[Modality, Modality] = ("image", "text")
_PIECE = 16_384  # rows of attention looked at together
Origin = Literal["prototypes", "offline"]


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

    origin: Origin
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


@dataclass(frozen=True)
class Found:
    """What was found beside a run. state: "there", "missing" or "damaged"; name: of the result and of its job."""

    state: Literal["there", "missing", "damaged"]
    name: str
    clusters: Clusters | None = None
    fault: str = ""


def prototypes(run: Run, split: str) -> Clusters | None:
    """The prototypes a run learned; None for a run without any."""
    analysis = run.analysis(split)
    if "cluster_centroids" not in analysis.arrays:
        return None
    read = {name: np.asarray(analysis.array(f"cluster_{name}")) for name in
            ("centroids", "pair_labels", "pair_cosines", "image_labels", "text_labels", "members")}  # fmt: skip
    return Clusters(
        "prototypes", read["centroids"], read["pair_labels"], read["pair_cosines"], read["image_labels"],
        read["text_labels"], read["members"],
    )  # fmt: skip


def offline_clusters(run: Run, split: str, settings: ClusterSettings) -> Found:
    """Clusters that `python -m coder_core.cluster` computed."""
    place = clusters_folder(run.path, split, settings, run.analysis(split))
    try:
        kept = read_clusters(place)
    except InputError as error:
        return Found("damaged", place.name, fault=str(error))
    if kept is None:
        return Found("missing", place.name)
    pairs, cosines = _nearest_of_pairs(run, split, kept.centroids)
    return Found(
        "there", place.name, Clusters("offline", kept.centroids, pairs, cosines, kept.image_labels, kept.text_labels)
    )


def pair_tiles(run: Run, split: str, captions: Array) -> Array:
    """(k, D) unit rows of v + w of some captions with their images; CODER eq. 7."""
    v, w = run.embeddings(split)
    joined = w[captions] + v[run.image_of_text(split)[captions]]
    return np.asarray(joined / np.maximum(np.linalg.norm(joined, axis=1, keepdims=True), 1e-12))


def _nearest_of_pairs(run: Run, split: str, centroids: Array) -> tuple[Array, Array]:
    count = len(run.image_of_text(split))
    labels, cosines = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.float32)
    step = max(1, TILE_ELEMENTS // max(len(centroids), centroids.shape[1]))
    for start in range(0, count, step):
        rows = np.arange(start, min(start + step, count))
        scores = pair_tiles(run, split, rows) @ centroids.T
        labels[rows] = scores.argmax(1)
        cosines[rows] = scores.max(1)
    return labels, cosines


def agreement(found: Clusters, owner: Array) -> Array:
    """(m,) bool: a caption and its image carry the same label."""
    return np.asarray(found.texts == found.images[owner])


def chance_agreement(found: Clusters, owner: Array) -> float:
    """Share of pairs that would agree if images were dealt out among the captions at random."""
    texts = np.bincount(found.texts, minlength=found.count) / len(owner)
    images = np.bincount(found.images[owner], minlength=found.count) / len(owner)
    return float((texts * images).sum())


def cluster_table(run: Run, split: str, found: Clusters, *, words: int = 6) -> pd.DataFrame:
    """One row a cluster that is not empty, the largest first.

    Returns:
        cluster, size (pairs), images (distinct), agreement (% of its pairs whose image and caption carry the same
        label), cohesion (mean cosine of its pairs to the centroid), words (those that mark it), and trained (pairs of
        the train split) for prototypes.
    """
    owner = run.image_of_text(split)
    frame = pd.DataFrame(
        {"cluster": found.pairs, "image": owner, "agree": 100.0 * agreement(found, owner), "cosine": found.cosines}
    )
    grouped = frame.groupby("cluster")
    table = pd.DataFrame(
        {
            "size": grouped.size(),
            "images": grouped["image"].nunique(),
            "agreement": grouped["agree"].mean(),
            "cohesion": grouped["cosine"].mean(),
        }
    ).reset_index()
    marked = marking(run, split, found)
    table["words"] = [", ".join(marked.top(int(cluster), words)["word"]) for cluster in table["cluster"]]
    if found.trained is not None:
        table["trained"] = found.trained[table["cluster"].to_numpy()]
    return table.sort_values(["size", "cluster"], ascending=[False, True], ignore_index=True)


def marking(run: Run, split: str, found: Clusters) -> Marking:
    """The words that mark every cluster, from the captions of its pairs."""
    return marking_words(run.captions(split), found.pairs, found.count)


def marking_concepts(run: Run, split: str, found: Clusters, cluster: int, count: int = 8) -> pd.DataFrame:
    """The concepts that images and captions of a cluster read more than others do.

    Returns:
        word, kind, image and text (mean attention of its images and captions), elsewhere (mean over the split, both
        modalities), gain (mean of the first two minus elsewhere), largest first; no rows for a run without concepts.
    """
    tables = run.analysis(split).concepts
    names = ["word", "kind", "image", "text", "elsewhere", "gain"]
    if tables is None:
        return pd.DataFrame({name: [] for name in names})
    captions = np.flatnonzero(found.pairs == cluster)
    images = np.unique(run.image_of_text(split)[captions])
    image, text = tables.attention("image", images).mean(0), tables.attention("text", captions).mean(0)
    means = []
    for modality, rows in zip(_BOTH, (len(found.images), len(found.texts)), strict=True):
        total = np.zeros(len(tables.words))
        for start in range(0, rows, _PIECE):
            total += tables.attention(modality, slice(start, start + _PIECE)).sum(0, dtype=np.float64)
        means.append(total / rows)
    elsewhere = (means[0] + means[1]) / 2
    gain = (image + text) / 2 - elsewhere
    best = np.argsort(-gain, kind="stable")[:count]
    best = best[gain[best] > 0]
    columns = (
        [tables.words[c] for c in best], [tables.kinds[c] for c in best], image[best], text[best], elsewhere[best],
        gain[best],
    )  # fmt: skip
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def members(run: Run, split: str, found: Clusters, cluster: int) -> pd.DataFrame:
    """The pairs of a cluster, nearest to its centre first: caption, image, cosine, image_label, text_label, agree."""
    owner = run.image_of_text(split)
    captions = np.flatnonzero(found.pairs == cluster)
    captions = captions[np.argsort(-found.cosines[captions], kind="stable")]
    images = owner[captions]
    return pd.DataFrame(
        {
            "caption": captions,
            "image": images,
            "cosine": found.cosines[captions],
            "image_label": found.images[images],
            "text_label": found.texts[captions],
            "agree": found.images[images] == found.texts[captions],
        }
    )


def nearest_clusters(found: Clusters, cluster: int, count: int = 5) -> pd.DataFrame:
    """The clusters whose centres are most like this one's, among those that are not empty: cluster, cosine, size."""
    sizes = np.bincount(found.pairs, minlength=found.count)
    others = np.flatnonzero(sizes)
    others = others[others != cluster]
    cosines = found.centroids[others] @ found.centroids[cluster]
    best = np.argsort(-cosines, kind="stable")[:count]
    return pd.DataFrame({"cluster": others[best], "cosine": cosines[best], "size": sizes[others[best]]})


def between(run: Run, split: str, found: Clusters, one: int, other: int, count: int = 10) -> pd.DataFrame:
    """Pairs of either cluster that stand most evenly between the two centres.

    Returns:
        caption, image, cluster (the one it belongs to), to_one, to_other (cosines), margin (their distance), smallest
        first.
    """
    captions = np.flatnonzero((found.pairs == one) | (found.pairs == other))
    cosines = pair_tiles(run, split, captions) @ found.centroids[[one, other]].T
    margin = np.abs(cosines[:, 0] - cosines[:, 1])
    best = np.argsort(margin, kind="stable")[:count]
    return pd.DataFrame(
        {
            "caption": captions[best],
            "image": run.image_of_text(split)[captions[best]],
            "cluster": found.pairs[captions[best]],
            "to_one": cosines[best, 0],
            "to_other": cosines[best, 1],
            "margin": margin[best],
        }
    )


def matched(one: Array, other: Array, most: int = MOST_MATCHED) -> Array:
    """The other labels renamed to those of `one` they share most samples with, each name once (Hungarian method).

    Args:
        one, other: (N,) labels of the same samples. most: with more clusters than this nothing is renamed.

    Returns:
        (N,) labels; groups without a partner get numbers above all of `one`.
    """
    count, others = int(one.max(initial=0)) + 1, int(other.max(initial=0)) + 1
    if max(count, others) > most:
        return other
    from scipy.optimize import linear_sum_assignment

    shared = np.zeros((others, count))
    np.add.at(shared, (other, one), 1)
    rows, columns = linear_sum_assignment(-shared)
    names = count + np.arange(others)
    names[rows] = np.where(shared[rows, columns] > 0, columns, names[rows])
    return np.asarray(names[other])


def same_grouping(one: Clusters, other: Clusters) -> float:
    """How far two clusterings of the same pairs say the same: adjusted mutual information, 0 by chance, 1 the same."""
    from sklearn.metrics import adjusted_mutual_info_score  # a second to import

    return float(adjusted_mutual_info_score(one.pairs, other.pairs))
