"""Deep Boosting Learning: margins set by what a second branch, the anchor, says of the same pairs.

Diao et al. 2024, Deep Boosting Learning, arXiv:2404.18114, eq. 7-10 and 14-20. S^t are the scores of the target, which
is trained, S^a those of the anchor, which only sets margins and gets no gradient. One direction; call a form for both
and add. With fixed margins RM ≤ AM and RS ≤ AS (eq. 11-13).
"""

from __future__ import annotations

import torch
from torch import Tensor

from coder_core.ops import full_precision

LARGEST_COSINE = 1.0
"""d_y of eq. 19: a score lies in [-d_y, d_y]."""
LARGEST_DISTANCE = 2.0
"""d_x of eq. 17: the positive's score less a negative's lies in [-d_x, d_x]."""


def relative_sum(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, anchor_scores: Tensor, anchor_positive_scores: Tensor,
    *, margin: float = 0.2, soft: bool = False,
) -> Tensor:  # fmt: skip
    """RS, Σ over the negatives of [γ + (S^a⁺ − S^a_ij) − (S^t⁺ − S^t_ij)]₊ (eq. 7).

    Args:
        scores: (Q, C) S^t.
        positive_scores: (Q,) S^t of each query's positive.
        negatives: (Q, C) bool; a query without any loses nothing.
        anchor_scores: (Q, C) S^a of the same queries and candidates.
        anchor_positive_scores: (Q,) S^a of each query's positive.
        margin: γ >= 0, by how much the target's distance should exceed the anchor's.
        soft: shrink γ where the anchor's distance nears its largest possible value (eq. 17).

    Returns:
        (Q,) losses.
    """
    behind, above, anchor, anchor_positive = _against_anchor(
        scores, positive_scores, anchor_scores, anchor_positive_scores
    )
    hinge = _relative(behind[:, None], above, anchor, anchor_positive[:, None], margin, soft)
    return torch.where(negatives, hinge, 0.0).sum(dim=1)


def relative_max(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, anchor_scores: Tensor, anchor_positive_scores: Tensor,
    *, margin: float = 0.2, soft: bool = False,
) -> Tensor:  # fmt: skip
    """RM, the same at the one negative with the largest S^t − S^a (eq. 8, 18). Arguments as for `relative_sum`."""
    behind, above, anchor, anchor_positive = _against_anchor(
        scores, positive_scores, anchor_scores, anchor_positive_scores
    )
    above, anchor, met = _hardest(above, anchor, negatives)
    return torch.where(met, _relative(behind, above, anchor, anchor_positive, margin, soft), 0.0)


def absolute_sum(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, anchor_scores: Tensor, anchor_positive_scores: Tensor,
    *, margin: float = 0.2, split: float = 0.5, soft: bool = False,
) -> Tensor:  # fmt: skip
    """AS, Σ over the negatives of [γ₁ + S^a⁺ − S^t⁺]₊ + [γ₂ + S^t_ij − S^a_ij]₊ (eq. 9).

    The positive's hinge stands inside the sum: it counts once for every negative.

    Args:
        scores: (Q, C) S^t.
        positive_scores: (Q,) S^t of each query's positive.
        negatives: (Q, C) bool; a query without any loses nothing.
        anchor_scores: (Q, C) S^a of the same queries and candidates.
        anchor_positive_scores: (Q,) S^a of each query's positive.
        margin: γ >= 0, which γ₁ and γ₂ share.
        split: α in [0, 1]; γ₁ = α·γ of the positive, γ₂ = γ − α·γ of the negatives.
        soft: shrink γ₁ where the anchor's positive nears 1 and γ₂ where its negative nears −1 (eq. 19).

    Returns:
        (Q,) losses.
    """
    behind, above, anchor, anchor_positive = _against_anchor(
        scores, positive_scores, anchor_scores, anchor_positive_scores
    )
    pull = _pull(behind, anchor_positive, split * margin, soft)
    push = _push(above, anchor, margin - split * margin, soft)
    return torch.where(negatives, pull[:, None] + push, 0.0).sum(dim=1)


def absolute_max(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, anchor_scores: Tensor, anchor_positive_scores: Tensor,
    *, margin: float = 0.2, split: float = 0.5, soft: bool = False,
) -> Tensor:  # fmt: skip
    """AM, the same with the one negative of `relative_max`; the positive's hinge counts once (eq. 10, 20). Arguments as
    for `absolute_sum`."""
    behind, above, anchor, anchor_positive = _against_anchor(
        scores, positive_scores, anchor_scores, anchor_positive_scores
    )
    above, anchor, met = _hardest(above, anchor, negatives)
    pull = _pull(behind, anchor_positive, split * margin, soft)
    push = _push(above, anchor, margin - split * margin, soft)
    return torch.where(met, pull + push, 0.0)


def soft_margin(distances: Tensor, margin: float, largest: float) -> Tensor:
    """γ(x) = 2γ / (1 + exp((2/γ)(x − d))) − γ, falling from γ to 0 at x = d (eq. 17; γ₁ of eq. 19).

    Args:
        distances: x, what the anchor says; any shape.
        margin: γ >= 0.
        largest: d, the value no distance exceeds.
    """
    # The logistic function as a tanh: 2γ/(1 + e^u) − γ = −γ·tanh(u/2), which no u overflows.
    return -margin * torch.tanh((distances - largest) / margin) if margin > 0 else torch.zeros_like(distances)


def soft_negative_margin(negatives: Tensor, margin: float) -> Tensor:
    """γ₂(y) = 2γ₂ / (1 + exp(−(2/γ₂)(y + 1))) − γ₂, rising from 0 at y = −1 to γ₂.

    Eq. 19 prints the exponent without its minus sign, which would make every margin but that at −1 negative.
    """
    return soft_margin(-negatives, margin, LARGEST_COSINE)


def _against_anchor(
    scores: Tensor, positive_scores: Tensor, anchor_scores: Tensor, anchor_positive_scores: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """S^a⁺ − S^t⁺ (Q,), S^t − S^a (Q, C), and the anchor's scores without gradient."""
    anchor, anchor_positive = full_precision(anchor_scores).detach(), full_precision(anchor_positive_scores).detach()
    return anchor_positive - full_precision(positive_scores), full_precision(scores) - anchor, anchor, anchor_positive


def _hardest(above: Tensor, anchor: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """S^t − S^a and S^a of the negative where S^t − S^a is largest (Q,), and whether a query has a negative (Q,).

    Without one the first is -inf, at which every hinge is flat.
    """
    highest, column = torch.where(negatives, above, float("-inf")).max(dim=1, keepdim=True)
    return highest.squeeze(1), anchor.gather(1, column).squeeze(1), highest.squeeze(1) > float("-inf")


def _relative(
    behind: Tensor, above: Tensor, anchor: Tensor, anchor_positive: Tensor, margin: float, soft: bool
) -> Tensor:
    distances = anchor_positive - anchor
    return torch.relu((soft_margin(distances, margin, LARGEST_DISTANCE) if soft else margin) + behind + above)


def _pull(behind: Tensor, anchor_positive: Tensor, margin: float, soft: bool) -> Tensor:
    return torch.relu((soft_margin(anchor_positive, margin, LARGEST_COSINE) if soft else margin) + behind)


def _push(above: Tensor, anchor: Tensor, margin: float, soft: bool) -> Tensor:
    return torch.relu((soft_negative_margin(anchor, margin) if soft else margin) + above)
