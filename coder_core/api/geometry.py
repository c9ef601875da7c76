"""The joint space in numbers: the gap between the modalities, how alike pairs and strangers are, all samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from coder_core.api.diversity import Array, Modality
from coder_core.api.hubs import occurrences
from coder_core.api.run import Run
from coder_core.api.sampling import SCORES_AT_MOST, Sample

TILE_ELEMENTS = 4_194_304
PAIRS_AT_MOST = 20_000_000  # similarities counted exactly; of larger splits a random part of the images
BINS = 120


@dataclass(frozen=True)
class Gap:
    """Where the two modalities stand to each other; exact for what is looked at.

    Args:
        gap: distance between the mean image and the mean caption. Liang et al. 2022, "Mind the gap", section 2.
        positive: mean similarity of matching pairs. negative: of all other pairs.
    """

    gap: float
    positive: float
    negative: float

    @property
    def mean_distance(self) -> float:
        """Mean similarity of matching pairs minus that of all others: MD of Deep Boosting Learning, section 4."""
        return self.positive - self.negative


@dataclass(frozen=True)
class Distributions:
    """How often each similarity occurs.

    Args:
        edges: (BINS + 1,) of the bins. positive, negative: (BINS,) counts of matching and of other pairs.
        images, of_images: how many images the counts are over, and how many there are; always with all captions, of
            the split or of the sample that is looked at.
    """

    edges: Array
    positive: Array
    negative: Array
    images: int
    of_images: int


def gap(run: Run, split: str, *, sample: Sample | None = None) -> Gap:
    """The modality gap and the mean similarities of a split, or of a sample of it, from the sums of its embeddings."""
    part = run.part(split, sample)
    v, w, owner = part.images, part.texts, part.owner
    own = own_similarity(v, w, owner)
    sum_v, sum_w = _total(v), _total(w)
    others = len(v) * len(w) - len(own)
    negative = (float(sum_v @ sum_w) - float(own.sum())) / others if others else float("nan")
    distance = float(np.linalg.norm(sum_v / len(v) - sum_w / len(w)))
    return Gap(distance, float(own.mean()), negative)


def own_similarity(v: Array, w: Array, owner: Array) -> Array:
    """(m,) float64 similarity of every caption to its image."""
    found = np.empty(len(w))
    rows = max(1, TILE_ELEMENTS // v.shape[1])
    for start in range(0, len(w), rows):
        part = slice(start, start + rows)
        found[part] = np.einsum("md,md->m", v[owner[part]], w[part], dtype=np.float64)
    return found


def _total(rows: Array) -> Array:
    total = np.zeros(rows.shape[1])
    step = max(1, TILE_ELEMENTS // rows.shape[1])
    for start in range(0, len(rows), step):
        total += rows[start : start + step].sum(0, dtype=np.float64)
    return total


def distributions(
    run: Run, split: str, *, pairs: int = PAIRS_AT_MOST, seed: int = 0, sample: Sample | None = None
) -> Distributions:
    """Histograms of the similarities of matching and of other pairs, over −1 to 1, tile by tile.

    Args:
        pairs: at most so many similarities are looked at; beyond, those of random images to all captions.
        sample: only its images and captions.
    """
    part = run.part(split, sample)
    v, w, owner = part.images, part.texts, part.owner
    count = min(len(v), max(1, pairs // len(w)))
    chosen = np.arange(len(v))
    if count < len(v):
        chosen = np.sort(np.random.default_rng(seed).choice(len(v), count, replace=False))
    everything = np.zeros(BINS, dtype=np.int64)
    step = max(1, TILE_ELEMENTS // len(w))
    for start in range(0, count, step):
        everything += _counted(v[chosen[start : start + step]] @ w.T)
    taken = np.isin(owner, chosen)
    positive = _counted(own_similarity(v, w, owner)[taken])
    return Distributions(np.linspace(-1, 1, BINS + 1), positive, np.maximum(everything - positive, 0), count, len(v))


def _counted(scores: Array) -> Array:
    place = ((np.asarray(scores, dtype=np.float32) + np.float32(1)) * np.float32(BINS / 2)).astype(np.int16)
    return np.bincount(np.clip(place, 0, BINS - 1).ravel(), minlength=BINS)


def samples(run: Run, split: str, *, sample: Sample | None = None) -> pd.DataFrame:
    """Every sample of a split, images first, in the order of the points of a layout.

    Args:
        sample: from `Run.points_sample`: only its rows are read; hubness then counts its queries, diversity is taken
            over its candidates, and ranks are those in the whole split.

    Returns:
        One row a sample: modality ("image", "caption"), number (row in its modality), image, text (the caption; of an
        image its first one), rank (of the best true match, from 1), similarity (to its match, of an image the best),
        hubness (among the first ten results of so many queries), words (of the caption), and diversity (with the
        run's ε) where the split, or the sample, is small enough to look at whole.
    """
    part = run.part(split, sample)
    n, m, owner = len(part.images), len(part.texts), part.owner
    everything = run.captions(split)
    captions = [everything[j] for j in part.text_rows.tolist()]
    own = own_similarity(part.images, part.texts, owner)
    best = np.full(n, np.nan)
    np.fmax.at(best, owner, own)
    first = np.full(n, -1, dtype=np.int64)
    first[owner[::-1]] = np.arange(m)[::-1]  # of equal places the last one written stays: the first
    ranks = run.ranks(split)
    rank = np.concatenate([ranks["i2t"][part.image_rows], ranks["t2i"][part.text_rows]]) + 1.0
    hubs = [occurrences(run, split, direction, sample=sample)["count"].to_numpy() for direction in ("t2i", "i2t")]
    lengths = np.array([caption.count(" ") + 1.0 for caption in captions])
    table = pd.DataFrame(
        {
            "modality": np.repeat(np.array(["image", "caption"], dtype=object), [n, m]),
            "number": np.concatenate([part.image_rows, part.text_rows]),
            "image": np.concatenate([part.image_rows, part.image_rows[owner]]),
            "text": [captions[j] if j >= 0 else "" for j in first.tolist()] + captions,
            "rank": np.where(rank < 1, np.nan, rank),
            "similarity": np.concatenate([best, own]),
            "hubness": np.concatenate(hubs),
            "words": np.concatenate([np.where(first >= 0, lengths[first], np.nan), lengths]),
        }
    )
    if n * m <= SCORES_AT_MOST:
        epsilon = run.loss.epsilon
        both: tuple[Modality, Modality] = ("image", "text")
        table["diversity"] = np.concatenate(
            [
                run.diversity(split, modality=modality, epsilon=epsilon, sample=sample)["diversity"].to_numpy()
                for modality in both
            ]
        )
    return table
