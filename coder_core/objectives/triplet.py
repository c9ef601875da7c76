"""Hinge losses: BTR, the n-pairs hinge and the polynomial loss. Each covers one direction; add both.

Scores, positives, negatives and the result of every loss are those of `triplet_sum`. BTR, the bidirectional triplet
ranking loss, is CODER eq. 1, Faghri et al. 2018 (VSE++), arXiv:1707.05612.
"""

import torch
from torch import Tensor

from coder_core.objectives.pairs import check_shapes, hardest_negatives
from coder_core.ops import full_precision

OF_POSITIVE = (0.5, -0.7, 0.2)  # a_0, a_1, a_2 of the authors' program, for the positive's score
OF_NEGATIVE = (0.03, -0.4, 0.9)  # b_0, b_1, b_2, for the hardest negative's score
PERFECT = 1 - 1e-5
"""A query whose positive scores higher has nothing left to gain and is skipped, as in the authors' program."""


def triplet_sum(scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, margin: float = 0.2) -> Tensor:
    """Compute Σ over the negatives of [margin + S_ij − S⁺_i]₊.

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
    check_shapes(scores, positive_scores, negatives)
    hinge = _hinge(full_precision(scores), full_precision(positive_scores)[:, None], margin)
    return torch.where(negatives, hinge, 0.0).sum(dim=1)


def triplet_hardest(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, margin: float = 0.2
) -> Tensor:
    """Compute [margin + S_ij − S⁺_i]₊ at only the best-scoring negative j.

    It trains badly from random weights, when all anchors share the same few hardest candidates. The code that CODER
    builds on first trains one epoch with `triplet_sum`.

    Args:
        margin: how far below its positive the negative should stay, in units of the score.

    >>> scores = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    >>> triplet_hardest(scores, scores[:, 0], torch.tensor([[False, True, True, True]]), margin=0.2)
    tensor([0.3000])
    """
    check_shapes(scores, positive_scores, negatives)
    hardest, _ = hardest_negatives(scores, negatives)
    return _hinge(hardest, full_precision(positive_scores), margin)


def npairs_hinge(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, margin: float = 0.1
) -> Tensor:
    """Compute 1/(2N) Σ over the negatives of [margin + S_ij − S⁺_i]₊ for N candidates in the batch. Its mean over the N
    anchors is eq. 1 of Thomas and Kovashka 2022, with its 1/(2N²); sample weights multiply each anchor's value.

    Relations: `triplet_sum` divided by 2N. That loss is summed over the batch and this one averaged, so it is 2N² times
    smaller (33,000 at a batch of 128). Adam normalises gradients, so the learning rate need not change. But the gradient
    norm stays far below a clip norm of 2, so clipping, which bounds every step of the summed losses, never acts, and an
    additional term (boosting, M-DCL) weighs more here than next to the sum. λ above the batch size scales the loss up.

    Args:
        scores: (Q, N) similarities to the candidates of all processes.
        margin: m, 0.1 in the paper.

    >>> scores = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    >>> npairs_hinge(scores, scores[:, 0], torch.tensor([[False, True, True, True]]), margin=0.2)
    tensor([0.0500])
    """
    return triplet_sum(scores, positive_scores, negatives, margin=margin) / (2 * scores.shape[1])


def polynomial_hardest(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, margin: float = 0.2
) -> Tensor:
    """Compute [Σ a_p (S⁺)^p]₊ + [Σ b_q N^q]₊, N the best-scoring negative's score, if it is within the margin.

    Wei et al. 2020, Universal Weighting Metric Learning for Cross-Modal Matching, CVPR, the max form (MPL in Diao et
    al. 2024, table 3): the slope of the polynomials is a pair's weight, larger for worse positives and for harder
    negatives. The form is from the paper; the coefficients, chosen for Flickr30K, and the condition that a query counts
    only if margin + N > S⁺ are from the authors' program.

    Args:
        margin: how far below its positive a negative still counts.

    >>> scores = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    >>> polynomial_hardest(scores, scores[:, 0], torch.tensor([[False, True, True, True]]), margin=0.2)
    tensor([0.3140])
    """
    check_shapes(scores, positive_scores, negatives)
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
