"""Hinge losses: BTR, the n-pairs hinge and the polynomial loss. One direction; call one for both and add.

Scores, positives, negatives and the result of every loss are those of `triplet_sum`. BTR, the bidirectional triplet
ranking loss, is CODER eq. 1, Faghri et al. 2018 (VSE++), arXiv:1707.05612.
"""

import torch
from torch import Tensor

from coder_core.objectives.pairs import hardest_negatives
from coder_core.ops import full_precision

OF_POSITIVE = (0.5, -0.7, 0.2)  # a_0, a_1, a_2 of the authors' program, for the positive's score
OF_NEGATIVE = (0.03, -0.4, 0.9)  # b_0, b_1, b_2, for the hardest negative's
PERFECT = 1 - 1e-5
"""A positive that scores more has nothing left to gain, and its query is passed over (the program)."""


def triplet_sum(scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, margin: float = 0.2) -> Tensor:
    """Σ over the negatives of [margin + S_ij − S⁺_i]₊.

    Args:
        scores: (Q, C) similarities.
        positive_scores: (Q,) similarity of each query to its positive.
        negatives: (Q, C) bool; a query without any has a loss of 0.
        margin: how far below its positive a negative should stay, in units of the score.

    Returns:
        (Q,) losses.

    >>> scores = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    >>> triplet_sum(scores, scores[:, 0], torch.tensor([[False, True, True, True]]), margin=0.2)
    tensor([0.4000])
    """
    hinge = _hinge(full_precision(scores), full_precision(positive_scores)[:, None], margin)
    return torch.where(negatives, hinge, 0.0).sum(dim=1)


def triplet_hardest(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, margin: float = 0.2
) -> Tensor:
    """[margin + S_ij − S⁺_i]₊ at the best-scoring negative j only.

    Starts badly from random weights: every anchor then meets the same few candidates. The code CODER builds on trains
    one epoch with `triplet_sum` first.

    Args:
        margin: how far below its positive the negative should stay, in units of the score.

    >>> scores = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    >>> triplet_hardest(scores, scores[:, 0], torch.tensor([[False, True, True, True]]), margin=0.2)
    tensor([0.3000])
    """
    hardest, _ = hardest_negatives(scores, negatives)
    return _hinge(hardest, full_precision(positive_scores), margin)


def npairs_hinge(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, margin: float = 0.1
) -> Tensor:
    """1/(2N) Σ over the negatives of [margin + S_ij − S⁺_i]₊, N the candidates in the batch. Eq. 1 of Thomas and
    Kovashka 2022, whose 1/(2N²) is this averaged over the N anchors; the sample weights multiply each anchor's value.

    Relations: `triplet_sum` over 2N. Where that is summed over the batch, this is a mean: 2N² (33,000 at a batch of
    128) times smaller. Adam divides a gradient by its own size, so the learning rate need not follow; but the gradient
    norm stays far below a clip norm of 2, so clipping, which bounds every step of the summed losses, never acts, and a
    term beside it (boosting, M-DCL) weighs more than it would beside the sum. λ above the batch size scales it up.

    Args:
        scores: C = N over all processes.
        margin: m, 0.1 in the paper.

    >>> scores = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    >>> npairs_hinge(scores, scores[:, 0], torch.tensor([[False, True, True, True]]), margin=0.2)
    tensor([0.0500])
    """
    return triplet_sum(scores, positive_scores, negatives, margin=margin) / (2 * scores.shape[1])


def polynomial_hardest(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, margin: float = 0.2
) -> Tensor:
    """[Σ a_p (S⁺)^p]₊ + [Σ b_q N^q]₊ with N the best-scoring negative, where it comes within the margin.

    Wei et al. 2020, Universal Weighting Metric Learning for Cross-Modal Matching, CVPR, the max form (MPL in Diao et
    al. 2024, table 3): the slope of the polynomials is a pair's weight, larger the worse the positive and the harder
    the negative. The paper states the form, the authors' program the coefficients and that a query counts only where
    margin + N > S⁺; they were chosen for Flickr30K.

    Args:
        margin: how far below its positive a negative still counts.

    >>> scores = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    >>> polynomial_hardest(scores, scores[:, 0], torch.tensor([[False, True, True, True]]), margin=0.2)
    tensor([0.3140])
    """
    hardest, _ = hardest_negatives(scores, negatives)
    positive = full_precision(positive_scores)
    counts = (hardest + margin > positive) & (positive < PERFECT)
    finite = torch.where(counts, hardest, 0.0)  # -inf without negatives
    loss = _relu_polynomial(positive, OF_POSITIVE) + _relu_polynomial(finite, OF_NEGATIVE)
    return torch.where(counts, loss, 0.0)


def _relu_polynomial(scores: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    terms = (c * scores**power for power, c in enumerate(coefficients))
    return torch.relu(sum(terms, torch.zeros_like(scores)))


def _hinge(negative_scores: Tensor, positive_scores: Tensor, margin: float) -> Tensor:
    return torch.relu(margin + negative_scores - positive_scores)
