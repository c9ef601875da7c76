"""One anchor opened: its similarities to every negative, and what diversity does to their weights. CODER eq. 3, 4."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from coder_core.api.diversity.negatives import DiversitySettings, candidates_of, draw_for
from coder_core.api.diversity.table import Measure, masked_spread, shares
from coder_core.api.sampling import SplitPart
from coder_core.api.sides import Array, Modality, Sides
from coder_core.ops.diversity_scaling import sharpness, squash


@dataclass(frozen=True)
class Loss:
    """The values of eq. 3 and 4 that an anchor is read with.

    Args:
        temperature: μ. gamma: γ. epsilon: ε.
        function: the measure of diversity, "std" or "entropy". entropy_temperature: τ of the softmax inside entropy.
        trained: False when the run was trained with another loss, so that these are only the paper's values.
    """

    temperature: float = 0.1
    gamma: float = 0.3
    epsilon: float = 0.1
    function: Measure = "std"
    entropy_temperature: float = 1.0
    trained: bool = False


@dataclass(frozen=True)
class Anchor:
    """Everything about one anchor.

    Args:
        modality: "image" or "text"; number: its row in the split.
        candidates: (N,) rows of its negatives in the other modality; similarities: (N,) cosines to them.
        positives: (P,) similarities to its own candidates; positive_rows: (P,) which those are.
        spread: standard deviation (or entropy, bits) of the similarities; raw: 1 / sigmoid(ε / spread).
        diversity: raw over the largest raw of the modality, in (0.5, 1].
        temperature: the effective one, μ·div.
        plain, scaled: (N,) weight of every negative without and with diversity.
        loss: the values used.
    """

    modality: Modality
    number: int
    candidates: Array
    similarities: Array
    positives: Array
    positive_rows: Array
    spread: float
    raw: float
    diversity: float
    temperature: float
    plain: Array
    scaled: Array
    loss: Loss

    def nearest(self, count: int = 10) -> pd.DataFrame:
        """The negatives most similar to the anchor: candidate, similarity, weights without and with diversity."""
        count = min(count, len(self.similarities))
        rows = (
            np.argpartition(-self.similarities, count - 1)[:count] if count else np.zeros(0, dtype=np.int64)
        )
        rows = rows[np.argsort(-self.similarities[rows], kind="stable")]
        return pd.DataFrame(
            {
                "candidate": self.candidates[rows],
                "similarity": self.similarities[rows].astype(np.float64),
                "weight_plain": self.plain[rows],
                "weight_diversity": self.scaled[rows],
            }
        )


def negative_weights(similarities: Array, *, temperature: float, gamma: float) -> Array:
    """Share of the loss each negative carries, x = (S − γ) / temperature. CODER eq. 4.

    With the effective temperature μ·div a small diversity raises the exponent of negatives above γ and lowers that of
    those below.

    Raises:
        ValueError: temperature is not positive.
    """
    exponents = (np.asarray(similarities, dtype=np.float64) - gamma) * sharpness(1.0, temperature)
    return shares(exponents[None])[0]


def open_anchor(
    split: Sides,
    number: int,
    part: SplitPart,
    settings: DiversitySettings,
    spreads: Array,
    loss: Loss,
    epsilon: float,
) -> Anchor:
    """Everything about one anchor.

    An anchor outside the sample is compared with the sample's candidates, and its diversity is relative to the largest
    of the sample (at most 1).

    Args:
        split: all anchors and candidates. number: the anchor's row among them.
        part: the split or a sample of it. settings, spreads: its diversities. loss, epsilon: μ, γ and ε to use.
    """
    rows = part.image_rows if settings.modality == "image" else part.text_rows
    position = int(np.searchsorted(rows, number))
    if position == len(rows) or rows[position] != number:
        position = -1
    draw = draw_for(part, settings)
    own = split.candidate_images == split.anchor_images[number]
    candidates = candidates_of(part, settings, position, draw)  # an image may stand there more than once
    candidates = candidates[~own[candidates]]
    similarities = split.row(number, candidates)
    positives = np.flatnonzero(own)
    if position >= 0:
        spread = float(spreads[position])
    else:
        negatives = np.ones((1, len(similarities)), bool)
        spread = float(
            masked_spread(similarities[None], negatives, settings.function, settings.temperature)[0]
        )
    raw = float(squash(np.array([spread]), epsilon)[0])
    others = spreads if draw is None else spreads[draw.batch_of == draw.batch_of[max(position, 0)]]
    diversity = min(raw / float(squash(others, epsilon).max()), 1.0)
    effective = loss.temperature * diversity
    return Anchor(
        modality=settings.modality,
        number=number,
        candidates=candidates,
        similarities=similarities,
        positives=split.row(number, positives),
        positive_rows=positives,
        spread=spread,
        raw=raw,
        diversity=diversity,
        temperature=effective,
        plain=negative_weights(similarities, temperature=loss.temperature, gamma=loss.gamma),
        scaled=negative_weights(similarities, temperature=effective, gamma=loss.gamma),
        loss=loss,
    )
