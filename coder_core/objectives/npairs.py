"""The n-pairs hinge loss of the complementary-samples paper. One direction; call it for both and add."""

from __future__ import annotations

from torch import Tensor

from coder_core.objectives.triplet import triplet_sum


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
        scores: (Q, C) similarities, C = N over all processes.
        positive_scores: (Q,) similarity of each query to its positive.
        negatives: (Q, C) bool; a query without any loses nothing.
        margin: m, 0.1 in the paper.

    Returns:
        (Q,) losses.

    >>> scores = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    >>> npairs_hinge(scores, scores[:, 0], torch.tensor([[False, True, True, True]]), margin=0.2)
    tensor([0.0500])
    """
    return triplet_sum(scores, positive_scores, negatives, margin=margin) / (2 * scores.shape[1])
