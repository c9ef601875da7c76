"""μ and γ to read a run with that was not trained by eq. 4, from its own similarities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from coder_core.api.diversity.anchor import Loss

if TYPE_CHECKING:
    from coder_core.api.run import Run

PAIRS_AT_MOST = 200_000
TOP_OF_NEGATIVES = 0.99
MEDIANS_TO_MU = 1 / 3  # puts μ at the paper's 0.1 where the two medians lie 0.3 apart, as on Flickr8k
LEAST_MU = 0.005


@dataclass(frozen=True)
class StartingValues:
    """μ and γ that fit a run's similarities, and what they follow from.

    Args:
        loss: γ is midway between `negatives_top` and `positives`; μ is a third of the distance between the medians,
            at least 0.005; both rounded to 0.005. ε is the paper's. Without negatives all are the paper's.
        negatives, negatives_top: median and 99th percentile of the similarities of other pairs; NaN without any.
        positives: median of those of matching pairs.
    """

    loss: Loss
    negatives: float
    negatives_top: float
    positives: float


def values_from_similarities(
    run: Run, split: str, *, pairs: int = PAIRS_AT_MOST, seed: int = 0
) -> StartingValues:
    """Take μ and γ from quantiles of a run's similarities, everything else from `run.loss`.

    Args:
        pairs: of a larger split, so many random pairs are looked at (`seed`).
    """
    loss = run.loss
    s = run.sides(split, "text")
    captions, images = len(s.anchors), len(s.candidates)
    positives = float(np.median(s.pairs(np.arange(captions), s.anchor_images)))
    every = captions * images
    cells = np.arange(every) if every <= pairs else np.random.default_rng(seed).integers(every, size=pairs)
    anchors, candidates = np.divmod(cells, images)
    other = s.anchor_images[anchors] != candidates
    if not other.any():
        return StartingValues(loss, float("nan"), float("nan"), positives)
    scores = s.pairs(anchors[other], candidates[other])
    middle, top = (float(value) for value in np.quantile(scores, [0.5, TOP_OF_NEGATIVES]))
    mu = max(_rounded(MEDIANS_TO_MU * (positives - middle)), LEAST_MU)
    return StartingValues(
        replace(loss, temperature=mu, gamma=_rounded((top + positives) / 2)), middle, top, positives
    )


def _rounded(value: float) -> float:
    return round(round(value / 0.005) * 0.005, 3)
