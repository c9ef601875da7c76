"""The modality gap, and the similarities of matching and of other pairs."""

from __future__ import annotations

from dataclasses import dataclass

from coder_core.api.run import Run
from coder_core.api.sampling import Sample
from coder_core.evaluation import separation as pairs_apart
from coder_core.evaluation.separation import PAIRS_AT_MOST, Distributions, Separation
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix, Source
from coder_core.geometry import points as clouds


@dataclass(frozen=True)
class ModalityGap(Separation):
    """The two modalities apart; exact for the samples taken.

    Args:
        positive, negative: as in `Separation`. gap: distance between the mean image and the mean caption.
    """

    gap: float


def modality_gap(run: Run, split: str, *, sample: Sample | None = None) -> ModalityGap:
    """The modality gap and the mean similarities of a split, or of a sample of it."""
    part = run.part(split, sample)
    means = pairs_apart.separation([EmbeddingPair(part.images, part.texts)], part.owner)
    gap = clouds.modality_gap(part.images, part.texts)
    return ModalityGap(means.positive, means.negative, gap)


def distributions(
    run: Run, split: str, *, pairs: int = PAIRS_AT_MOST, seed: int = 0, sample: Sample | None = None
) -> Distributions:
    """Histograms of the instance embeddings' similarities, of a split or a sample of it."""
    part = run.part(split, sample)
    return pairs_apart.distributions(
        [EmbeddingPair(part.images, part.texts)], part.owner, pairs=pairs, seed=seed
    )


def score_separation(run: Run, split: str) -> Separation:
    """The means of the scores by which the run ranks, of all pairs of a split: both branches where it has two."""
    return pairs_apart.separation([_scored(run, split)], run.image_of_text(split))


def score_distributions(run: Run, split: str, *, pairs: int = PAIRS_AT_MOST, seed: int = 0) -> Distributions:
    """Histograms of the scores by which the run ranks."""
    return pairs_apart.distributions([_scored(run, split)], run.image_of_text(split), pairs=pairs, seed=seed)


def _scored(run: Run, split: str) -> Source:
    scores = run.scores(split)
    return EmbeddingPair(*run.scoring(split)) if scores is None else ScoreMatrix(scores)
