"""The joint space of a run: modality gap, similarity distributions, maps, and a table of all samples."""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy.cluster.vq import kmeans2

from coder_core.api.clusters import marking_words
from coder_core.api.retrieval.results import occurrences
from coder_core.api.run import Run
from coder_core.api.sides import BOTH, Array, Direction
from coder_core.api.stored_run import StoredResult, read_stored
from coder_core.data.words import tokenise
from coder_core.evaluation import separation as pairs_apart
from coder_core.evaluation.separation import Distributions, Separation
from coder_core.evaluation.sources import EmbeddingPair
from coder_core.geometry import gap
from coder_core.geometry import points as clouds
from coder_core.geometry.layout import FEWEST, PlaneLayout, lay_out, layout_seconds
from coder_core.geometry.settings import LayoutSettings, Method, Modalities
from coder_core.runs.derived.compute import layout_folder, read_layout

Quantity = Literal["rank", "similarity", "hubness", "words", "diversity"]
HUBS: tuple[Direction, ...] = ("t2i", "i2t")  # whose results are the images, and the captions
MOST_LABELS = 16
MOST_LABELLED = 20_000
FEWEST_LABELLED = 12  # captions for one label
WORDS_OF_LABEL = 2
_NUMBERED = re.compile(r"(?:(image|caption)\s*)?#?(\d{1,9})")


def stored_layout(
    run: Run, split: str, settings: LayoutSettings, reference: Run | None = None
) -> StoredResult[PlaneLayout]:
    """Return the layout that `coder-lab project` computed, aligned to `reference` if given. InputError: the
    analysis of a run is missing or damaged."""
    other = reference.analysis(split) if reference else None
    folder = layout_folder(run.path, split, settings, run.analysis(split), other)
    return read_stored(folder.name, lambda: read_layout(folder))


def principal_layout(
    run: Run, split: str, reference: PlaneLayout | None = None, *, modalities: Modalities = "both"
) -> PlaneLayout:
    """Compute the PCA layout of a split, aligned to `reference` if given."""
    settings = LayoutSettings("pca", modalities=modalities)
    plane = None if reference is None else reference.plane
    return lay_out(clouds.Points(*run.embeddings(split)), settings, reference=plane)


def draw_points(images: int, captions: int, most: int) -> Array:
    """Choose the points to draw: all, or `most` at random with images and captions in proportion; ascending."""
    return clouds.stratified((images, captions), most, seed=0)


def modality_gap(run: Run, split: str) -> float:
    """Return the distance between the mean image and the mean caption of a split."""
    return gap.centroid_distance(*run.embeddings(split))


def distribution_distance(run: Run, split: str) -> float:
    """Return the energy distance between the distributions of images and captions of a split, of at most 1,000 each."""
    return gap.energy_distance(*run.embeddings(split))


def score_separation(run: Run, split: str) -> Separation:
    """Return the mean scores of matching and of other pairs of a split, with both branches of a run that has two."""
    sources = run.analysis(split).sources
    own = pairs_apart.own_similarity(sources, run.image_of_text(split))
    return pairs_apart.separation(sources, own)


def score_distributions(run: Run, split: str) -> Distributions:
    """Return histograms of the scores by which the run ranks."""
    return pairs_apart.distributions(run.analysis(split).sources, run.image_of_text(split))


def auroc(counts: Distributions) -> float:
    """Return the probability that a matching pair scores higher than another pair, the area under the ROC curve, from
    histograms; pairs in one bin count half. It does not depend on the scale of the scores. NaN without other pairs.

    >>> counts = Distributions(np.linspace(-1, 1, 4), np.array([0, 1, 3]), np.array([4, 4, 0]), 2, 2)
    >>> auroc(counts)
    0.9375
    """
    others = int(counts.negative.sum())
    matching = int(counts.positive.sum())
    if not others or not matching:
        return float("nan")
    below = np.cumsum(counts.negative) - counts.negative
    higher = (counts.positive * (below + counts.negative / 2)).sum()
    return float(higher / (matching * others))


def quantity(run: Run, split: str, name: Quantity) -> Array:
    """Return (n + m,) float64 one quantity of every image and then of every caption; NaN where a sample has none.

    Args:
        name: "rank" of the best true match, from 1; "similarity" to the match, of an image the best; "hubness", the
            number of queries that have the sample among their first ten results; "words" of the caption, of an image of
            its first; "diversity" with the run's ε, of a split too large to compute whole only for a random sample,
            over the candidates in it (`Run.points_sample`).
    """
    if name == "rank":
        ranks = run.ranks(split)
        rank = np.concatenate([ranks["i2t"], ranks["t2i"]]) + 1.0
        return np.where(rank < 1, np.nan, rank)
    if name == "similarity":
        part = run.part(split)
        return _similarity(part.images, part.texts, part.owner)
    if name == "hubness":
        counts = [occurrences(run, split, way)["count"].to_numpy() for way in HUBS]
        return np.concatenate(counts).astype(np.float64)
    if name == "words":
        lengths = np.array([float(len(tokenise(caption))) for caption in run.captions(split)])
        first = run.first_captions(split)
        return np.concatenate([np.where(first >= 0, lengths[first], np.nan), lengths])

    sample = run.points_sample(split)
    values = np.full(run.count(split, "image") + run.count(split, "text"), np.nan)
    for side, start in zip(BOTH, (0, run.count(split, "image")), strict=True):
        table = run.diversity(split, epsilon=run.loss.epsilon, sample=sample, modality=side)
        values[start + table["anchor"].to_numpy()] = table["diversity"].to_numpy()

    return values


def nearest_points(run: Run, split: str, point: int, count: int) -> tuple[Array, Array]:
    """Find the images and captions whose embeddings are most similar to those of one, without itself, nearest first.

    Returns:
        (k,) int64 points, images first, and (k,) float32 their cosines; k is `count` or all others.
    """
    points = clouds.Points(*run.embeddings(split))
    [query] = points.take(np.array([point]))
    cosines = np.empty(len(points), dtype=np.float32)
    for rows, tile in points.tiles():
        np.matmul(tile, query, out=cosines[rows])
    cosines[point] = -np.inf
    kept = min(count, len(points) - 1)
    best = np.argpartition(-cosines, kept - 1)[:kept] if kept else np.zeros(0, dtype=np.int64)
    best = best[np.argsort(-cosines[best], kind="stable")]
    return best, cosines[best]


@dataclass(frozen=True)
class AreaLabel:
    """Words that distinguish the captions in a part of a map, and the middle of the part."""

    words: tuple[str, ...]
    x: float
    y: float


def area_labels(run: Run, split: str, plane: Array, first: int) -> list[AreaLabel]:
    """Label the parts of a map, the largest first: k-means of the places of its captions (of at most 20,000, drawn at
    random; of a map of images their first captions), and the words that distinguish the captions of each part.

    Args:
        plane: (N, 2) places of the points from `first` on among all points of the split.
    """
    images = run.count(split, "image")
    points = first + np.arange(len(plane))
    captions = np.where(points < images, -1, points - images)
    if first + len(plane) <= images:
        captions = run.first_captions(split)[points]

    labelled = np.flatnonzero(captions >= 0)
    if len(labelled) < FEWEST_LABELLED:
        return []

    drawn = labelled[clouds.stratified((len(labelled),), MOST_LABELLED, seed=0)]
    places = plane[drawn].astype(np.float64)
    count = min(MOST_LABELS, len(drawn) // FEWEST_LABELLED + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a part may be empty
        _, groups = kmeans2(places, count, minit="++", rng=0)

    texts = run.captions(split)
    marked = marking_words([texts[row] for row in captions[drawn].tolist()], groups, count)
    labels = []
    for group in np.argsort(-np.bincount(groups, minlength=count), kind="stable").tolist():
        inside = groups == group
        words = tuple(marked.top(group, WORDS_OF_LABEL)["word"])
        if words:
            x, y = np.median(places[inside], axis=0).tolist()
            labels.append(AreaLabel(words, x, y))

    return labels


@dataclass(frozen=True)
class SearchedTexts:
    """Captions and names of images in lower case, to search in: Arrow arrays of texts, and (m,) the image of each
    caption."""

    captions: pa.Array
    names: pa.Array
    owner: Array

    def points(self, query: str) -> Array:
        """Return the points that match a search, ascending, images first. "image 12", "caption 7" and "12" are numbers
        of samples. Other text matches an image by its name, and a caption with its image by all of its words."""
        words = query.strip().casefold()
        images = len(self.names)
        if not words:
            return np.zeros(0, dtype=np.int64)

        if numbered := _NUMBERED.fullmatch(words):
            number = int(numbered[2])
            found: list[int] = []
            if numbered[1] != "caption" and number < images:
                found.append(number)
            if numbered[1] != "image" and number < len(self.captions):
                found.append(images + number)
            return np.array(found, dtype=np.int64)

        holds = np.ones(len(self.captions), dtype=bool)
        for word in words.split():
            holds &= pc.match_substring(self.captions, word).to_numpy(zero_copy_only=False)

        named = pc.match_substring(self.names, words).to_numpy(zero_copy_only=False)
        named = np.array(named, dtype=bool)
        named[self.owner[holds]] = True
        return np.concatenate([np.flatnonzero(named), images + np.flatnonzero(holds)])


def searched_texts(run: Run, split: str) -> SearchedTexts:
    """Return what a search on the map looks through."""
    captions = _folded(run.captions(split))
    names = _folded(run.image_names(split))
    return SearchedTexts(captions, names, run.image_of_text(split))


def _folded(texts: Sequence[str]) -> pa.Array:
    return pa.array([text.casefold() for text in texts], pa.large_string())


def _similarity(images: Array, texts: Array, owner: Array) -> Array:
    """Return (n + m,) the similarity of every image to its best caption, and of every caption to its image."""
    similarity = pairs_apart.own_similarity([EmbeddingPair(images, texts)], owner)
    best = np.full(len(images), np.nan)
    np.fmax.at(best, owner, similarity)
    return np.concatenate([best, similarity])


def samples(run: Run, split: str) -> pd.DataFrame:
    """Describe the position of every sample in the joint space: images first, in the order of a layout's points.

    Returns:
        One row per sample: modality ("image", "caption"), number (row in its modality), image, text (the caption; of an
        image its first one), and every `quantity`; diversity only if the split is small enough to compute whole.
    """
    owner = run.image_of_text(split)
    captions = run.captions(split)
    n = run.count(split, "image")
    m = len(owner)
    first = run.first_captions(split)
    columns = {
        "modality": np.repeat(np.array(["image", "caption"], dtype=object), [n, m]),
        "number": np.concatenate([np.arange(n), np.arange(m)]),
        "image": np.concatenate([np.arange(n), owner]),
        "text": [captions[j] if j >= 0 else "" for j in first.tolist()] + list(captions),
        "rank": quantity(run, split, "rank"),
        "similarity": quantity(run, split, "similarity"),
        "hubness": quantity(run, split, "hubness").astype(np.int64),
        "words": quantity(run, split, "words"),
    }
    table = pd.DataFrame(columns)
    if run.points_sample(split) is None:
        table["diversity"] = quantity(run, split, "diversity")

    return table
