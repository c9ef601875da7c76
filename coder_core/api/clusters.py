"""Clusters of image-caption pairs: CODER's prototypes of a run that has them, or an offline k-means of any run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy import sparse

from coder_core.api.run import Run
from coder_core.api.sides import BOTH, TILE_ELEMENTS, Array, slices
from coder_core.api.stored_run import StoredResult, read_stored
from coder_core.data.words import tokenise
from coder_core.geometry.settings import ClusterSettings
from coder_core.geometry.text_space import unit_rows
from coder_core.model.concepts.choosing import STOP_WORDS
from coder_core.runs.derived.compute import clusters_folder, read_clusters

MOST_MATCHED = 2_000  # clusters; with more, `matched` renames nothing
PIECE = 16_384  # rows of attention in memory at once
CONCEPTS_SHOWN = 8  # most concepts listed for a cluster
NEAREST = 5  # most similar clusters listed for a cluster
BETWEEN = 10  # most pairs listed between two clusters
WORDS_SHOWN = 6  # words per cluster in the table
PRIOR_WORDS = 100.0  # words of the prior α_0, distributed as in the whole split


@dataclass(frozen=True)
class Clusters:
    """K clusters of one run on one split."""

    # "prototypes" learned in training (CODER eq. 7), or "offline" k-means of the finished embeddings
    origin: Literal["prototypes", "offline"]
    centroids: Array  # (K, D) unit rows
    pairs: Array  # (m,) the nearest centroid of every pair, a caption with its image
    cosines: Array  # (m,) of every pair to its centroid
    # images, texts: (n,) and (m,) labels of each alone, by PGC's classifier; offline the nearest centroid
    images: Array
    texts: Array
    trained: Array | None = None  # (K,) pairs of the train split that belong to each; None offline

    @property
    def count(self) -> int:
        """Number K of clusters."""
        return len(self.centroids)


def prototypes(run: Run, split: str) -> Clusters | None:
    """Return the prototypes that a run learned; None for a run without any."""
    analysis = run.analysis(split)
    if "cluster_centroids" not in analysis.arrays:
        return None
    names = ("centroids", "pair_labels", "pair_cosines", "image_labels", "text_labels", "members")
    return Clusters("prototypes", *(np.asarray(analysis.array(f"cluster_{name}")) for name in names))


def offline_clusters(run: Run, split: str, settings: ClusterSettings) -> StoredResult[Clusters]:
    """Return the clusters that `coder-lab cluster` computed."""
    folder = clusters_folder(run.path, split, settings, run.analysis(split))

    def read() -> Clusters | None:
        stored = read_clusters(folder)
        if stored is None:
            return None
        captions = np.arange(run.count(split, "text"))
        labels = np.empty(len(captions), np.int32)
        cosines = np.empty(len(captions), np.float32)
        for part in slices(len(captions), TILE_ELEMENTS // max(stored.centroids.shape)):
            scores = pair_rows(run, split, captions[part]) @ stored.centroids.T
            labels[part] = scores.argmax(1)
            cosines[part] = scores.max(1)
        return Clusters("offline", stored.centroids, labels, cosines, stored.image_labels, stored.text_labels)

    return read_stored(folder.name, read)


def pair_rows(run: Run, split: str, captions: Array) -> Array:
    """Return (k, D) unit rows of v + w of some captions with their images; CODER eq. 7."""
    v, w = run.embeddings(split)
    return unit_rows(w[captions] + v[run.image_of_text(split)[captions]])


def labels_agree(clusters: Clusters, owner: Array) -> Array:
    """Return (m,) bool, True where a caption and its image have the same label."""
    return np.asarray(clusters.texts == clusters.images[owner])


def chance_agreement(clusters: Clusters, owner: Array) -> float:
    """Return the expected share of pairs that would agree if images were assigned to captions at random."""
    texts = np.bincount(clusters.texts, minlength=clusters.count) / len(owner)
    images = np.bincount(clusters.images[owner], minlength=clusters.count) / len(owner)
    return float((texts * images).sum())


def cluster_table(run: Run, split: str, clusters: Clusters) -> pd.DataFrame:
    """Describe every cluster that is not empty, largest first. Return cluster, size (pairs), images (distinct),
    agreement (% of its pairs whose image and caption have the same label), cohesion (mean cosine of its pairs to the
    centroid), words (that distinguish it), and, for prototypes, trained (pairs of the train split)."""
    owner = run.image_of_text(split)
    pairs = {"cluster": clusters.pairs, "image": owner, "cosine": clusters.cosines}
    grouped = pd.DataFrame(pairs | {"agree": 100.0 * labels_agree(clusters, owner)}).groupby("cluster")
    counts = {"size": grouped.size(), "images": grouped["image"].nunique()}
    means = {"agreement": grouped["agree"].mean(), "cohesion": grouped["cosine"].mean()}
    table = pd.DataFrame(counts | means).reset_index()
    marked = marking(run, split, clusters)
    tops = (marked.top(int(cluster), WORDS_SHOWN) for cluster in table["cluster"])
    table["words"] = [", ".join(top["word"]) for top in tops]
    if clusters.trained is not None:
        table["trained"] = clusters.trained[table["cluster"].to_numpy()]
    return table.sort_values(["size", "cluster"], ascending=[False, True], ignore_index=True)


def members(run: Run, split: str, clusters: Clusters, cluster: int) -> pd.DataFrame:
    """List a cluster's pairs, nearest to its centre first: caption, image, cosine, image_label, text_label, agree."""
    captions = np.flatnonzero(clusters.pairs == cluster)
    captions = captions[np.argsort(-clusters.cosines[captions], kind="stable")]
    images = run.image_of_text(split)[captions]
    columns = {
        "caption": captions,
        "image": images,
        "cosine": clusters.cosines[captions],
        "image_label": clusters.images[images],
        "text_label": clusters.texts[captions],
    }
    table = pd.DataFrame(columns)
    return table.assign(agree=table["image_label"] == table["text_label"])


def nearest_clusters(clusters: Clusters, cluster: int) -> pd.DataFrame:
    """List the non-empty clusters whose centres are most similar to this one's: cluster, cosine, size."""
    sizes = np.bincount(clusters.pairs, minlength=clusters.count)
    rest = np.flatnonzero(sizes)
    rest = rest[rest != cluster]
    cosines = clusters.centroids[rest] @ clusters.centroids[cluster]
    table = pd.DataFrame({"cluster": rest, "cosine": cosines, "size": sizes[rest]})
    return table.sort_values("cosine", ascending=False, kind="stable", ignore_index=True).head(NEAREST)


def between(
    run: Run, split: str, clusters: Clusters, both: tuple[int, int], within: Array | None = None
) -> pd.DataFrame:
    """List the ten pairs of two clusters (only captions `within`) that are most nearly as close to one centre as to the
    other. Return caption, image, cluster (the one it belongs to), to_one, to_other (cosines to the first and the
    second), margin (absolute difference of these cosines), smallest first."""
    captions = np.flatnonzero(np.isin(clusters.pairs, both))
    captions = captions if within is None else np.intersect1d(captions, within)
    cosines = pair_rows(run, split, captions) @ clusters.centroids[list(both)].T
    columns = {
        "caption": captions,
        "image": run.image_of_text(split)[captions],
        "cluster": clusters.pairs[captions],
        "to_one": cosines[:, 0],
        "to_other": cosines[:, 1],
        "margin": np.abs(cosines[:, 0] - cosines[:, 1]),
    }
    return pd.DataFrame(columns).sort_values("margin", kind="stable", ignore_index=True).head(BETWEEN)


def matched(labels: Array, others: Array, most: int = MOST_MATCHED) -> Array:
    """Rename `others` (N,) to the labels (N,) they share most samples with, each name once (Hungarian method). Groups
    without a partner get numbers above all of `labels`; with more than `most` clusters nothing is renamed."""
    count = int(labels.max(initial=0)) + 1
    other_count = int(others.max(initial=0)) + 1
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
    """Return the adjusted mutual information of two clusterings of the same pairs: 0 by chance, 1 for equal groups."""
    from sklearn.metrics import adjusted_mutual_info_score  # a second to import

    return float(adjusted_mutual_info_score(first.pairs, second.pairs))


def marking_concepts(run: Run, split: str, clusters: Clusters, cluster: int) -> pd.DataFrame:
    """List the concepts that a cluster's images and captions attend to more than the whole split does. Return word,
    kind, image and text (mean attention of its images and captions), elsewhere (mean over the split, both modalities),
    gain (mean of the first two minus elsewhere), largest first; no rows for a run without concepts."""
    tables = run.analysis(split).concepts
    if tables is None:
        return pd.DataFrame(columns=["word", "kind", "image", "text", "elsewhere", "gain"])

    captions = np.flatnonzero(clusters.pairs == cluster)
    images = np.unique(run.image_of_text(split)[captions])
    image = tables.attention("image", images).mean(0)
    text = tables.attention("text", captions).mean(0)
    means = []
    for modality in BOTH:
        rows = run.count(split, modality)
        sums = (tables.attention(modality, part).sum(0, dtype=np.float64) for part in slices(rows, PIECE))
        means.append(sum(sums, np.zeros(len(tables.words))) / rows)

    elsewhere = (means[0] + means[1]) / 2
    columns = {"word": tables.words, "kind": tables.kinds, "image": image, "text": text}
    table = pd.DataFrame(columns | {"elsewhere": elsewhere, "gain": (image + text) / 2 - elsewhere})
    table = table[table["gain"] > 0].sort_values("gain", ascending=False, kind="stable")
    return table.head(CONCEPTS_SHOWN).reset_index(drop=True)


@dataclass(frozen=True)
class Marking:
    """Scores for how well each word distinguishes each group of captions from the rest. Monroe et al. 2008, eq. 22."""

    words: tuple[str, ...]  # the vocabulary
    scores: sparse.csr_matrix  # (K, V) sparse z-scores of the log-odds, for words that occur in the group
    counts: sparse.csr_matrix  # (K, V) sparse number of occurrences of a word in a group

    def top(self, group: int, count: int = 10) -> pd.DataFrame:
        """List the words that distinguish a group most, if more frequent than elsewhere: word, score (z), count."""
        row = self.scores.getrow(group)
        order = np.argsort(-row.data, kind="stable")[:count]
        order = order[row.data[order] > 0]
        columns = row.indices[order]
        counts = np.asarray(self.counts[group].todense()).ravel()[columns]
        words = [self.words[column] for column in columns]
        return pd.DataFrame({"word": words, "score": row.data[order], "count": counts.astype(int)})


def marking(run: Run, split: str, clusters: Clusters) -> Marking:
    """Score the words that distinguish every cluster, from the captions of its pairs."""
    return marking_words(run.captions(split), clusters.pairs, clusters.count)


def marking_words(captions: Sequence[str], groups: Array, count: int) -> Marking:
    """Compute log-odds of words, except stop words, in a group against the rest, with an informative Dirichlet prior.

    For word w in group i against the rest j, with prior α_w proportional to the word's frequency everywhere:
    δ = log((y_wi + α_w) / (n_i + α_0 − y_wi − α_w)) − the same for j; z = δ / √(1 / (y_wi + α_w) + 1 / (y_wj + α_w)).
    """
    numbers: dict[str, int] = {}
    rows = []
    columns = []
    for group, caption in zip(np.asarray(groups).tolist(), captions, strict=True):
        for word in tokenise(caption):
            if word not in STOP_WORDS:
                rows.append(group)
                columns.append(numbers.setdefault(word, len(numbers)))

    shape = (count, max(len(numbers), 1))
    counts = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
    counts.sum_duplicates()

    total = np.asarray(counts.sum(0)).ravel()
    total_words = max(float(total.sum()), 1.0)
    entries = counts.tocoo()
    alpha = (PRIOR_WORDS * total / total_words)[entries.col]
    size = np.asarray(counts.sum(1)).ravel()[entries.row]

    in_group = entries.data + alpha
    elsewhere = total[entries.col] - entries.data + alpha
    odds = np.log(in_group / np.maximum(size + PRIOR_WORDS - in_group, 1e-9))
    odds -= np.log(elsewhere / np.maximum(total_words - size + PRIOR_WORDS - elsewhere, 1e-9))
    z = odds / np.sqrt(1 / in_group + 1 / elsewhere)
    return Marking(tuple(numbers), sparse.csr_matrix((z, (entries.row, entries.col)), shape=shape), counts)
