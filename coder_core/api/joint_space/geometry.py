"""The joint space in numbers: the gap between the modalities, how alike pairs and strangers are, all samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from coder_core.api.retrieval.hubs import occurrences
from coder_core.api.run import Run
from coder_core.api.sampling import SCORES_AT_MOST, Sample
from coder_core.api.sides import Modality, first_captions
from coder_core.evaluation import separation as maths
from coder_core.evaluation.separation import Distributions, Separation
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix, Source, column_sums

__all__ = [
    "Distributions", "Gap", "Separation", "distributions", "gap", "samples", "score_distributions", "score_separation",
]  # fmt: skip


@dataclass(frozen=True)
class Gap(Separation):
    """Where the two modalities stand to each other; exact for what is looked at.

    Args:
        positive, negative: as in `Separation`.
        gap: distance between the mean image and the mean caption. Liang et al. 2022, "Mind the gap", section 2.
    """

    gap: float


def gap(run: Run, split: str, *, sample: Sample | None = None) -> Gap:
    """The modality gap and the mean similarities of a split, or of a sample of it, from the sums of its embeddings."""
    part = run.part(split, sample)
    v, w = part.images, part.texts
    found = maths.separation([EmbeddingPair(v, w)], part.owner)
    distance = float(np.linalg.norm(column_sums(v) / len(v) - column_sums(w) / len(w)))
    return Gap(found.positive, found.negative, distance)


def distributions(
    run: Run, split: str, *, pairs: int = maths.PAIRS_AT_MOST, seed: int = 0, sample: Sample | None = None
) -> Distributions:
    """How often each similarity of the instance embeddings occurs; see `evaluation.separation.distributions`.

    Args:
        sample: only its images and captions.
    """
    part = run.part(split, sample)
    return maths.distributions([EmbeddingPair(part.images, part.texts)], part.owner, pairs=pairs, seed=seed)


def score_separation(run: Run, split: str) -> Separation:
    """The means of the scores by which the run ranks, of all pairs of a split: both branches where it has two."""
    return maths.separation([_scored(run, split)], run.image_of_text(split))


def score_distributions(run: Run, split: str, *, pairs: int = maths.PAIRS_AT_MOST, seed: int = 0) -> Distributions:
    """How often each score by which the run ranks occurs."""
    return maths.distributions([_scored(run, split)], run.image_of_text(split), pairs=pairs, seed=seed)


def _scored(run: Run, split: str) -> Source:
    scores = run.scores(split)
    return EmbeddingPair(*run.scoring(split)) if scores is None else ScoreMatrix(scores)


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
    own = maths.own_similarity([EmbeddingPair(part.images, part.texts)], owner)
    best = np.full(n, np.nan)
    np.fmax.at(best, owner, own)
    first = first_captions(owner, n)
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
