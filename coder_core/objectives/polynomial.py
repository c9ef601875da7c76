"""The polynomial loss of universal weighting. One direction; call it for both and add."""

from __future__ import annotations

import torch
from torch import Tensor

from coder_core.objectives.pairs import hardest_negatives
from coder_core.ops import full_precision

OF_POSITIVE = (0.5, -0.7, 0.2)
"""a_0, a_1, a_2 of the authors' program, for the positive's score."""
OF_NEGATIVE = (0.03, -0.4, 0.9)
"""b_0, b_1, b_2, for the hardest negative's."""
PERFECT = 1 - 1e-5
"""A positive that scores more has nothing left to gain, and its query is passed over (the program)."""


def polynomial_hardest(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, margin: float = 0.2
) -> Tensor:
    """[Σ a_p (S⁺)^p]₊ + [Σ b_q N^q]₊ with N the best-scoring negative, where it comes within the margin.

    Wei et al. 2020, Universal Weighting Metric Learning for Cross-Modal Matching, CVPR, the max form (MPL in Diao et
    al. 2024, table 3): the slope of the polynomials is a pair's weight, larger the worse the positive and the harder
    the negative. The paper states the form, the authors' program the coefficients and that a query counts only where
    margin + N > S⁺; they were chosen for Flickr30K.

    Args:
        scores: (Q, C) similarities.
        positive_scores: (Q,) similarity of each query to its positive.
        negatives: (Q, C) bool; a query without any loses nothing.
        margin: how far below its positive a negative still counts.

    Returns:
        (Q,) losses.

    >>> scores = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    >>> polynomial_hardest(scores, scores[:, 0], torch.tensor([[False, True, True, True]]), margin=0.2)
    tensor([0.3140])
    """
    hardest, _ = hardest_negatives(scores, negatives)
    positive = full_precision(positive_scores)
    counts = (hardest + margin > positive) & (positive < PERFECT)
    finite = torch.where(counts, hardest, 0.0)  # -inf without negatives
    return torch.where(
        counts, _relu_polynomial(positive, OF_POSITIVE) + _relu_polynomial(finite, OF_NEGATIVE), 0.0
    )


def _relu_polynomial(scores: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    return torch.relu(
        sum((c * scores**power for power, c in enumerate(coefficients)), torch.zeros_like(scores))
    )
