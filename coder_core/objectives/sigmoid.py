"""The sigmoid loss of SigLIP: every pair of the batch is a question of its own. One direction; call it for both and
add."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from coder_core.ops import full_precision


def pairwise_sigmoid(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, scale: float | Tensor, bias: float | Tensor
) -> Tensor:
    """−log σ(s·S⁺ + b) − Σ_j log σ(−(s·S_ij + b)): is a pair a match? Zhai et al. 2023, eq. 2, arXiv:2303.15343.

    No softmax: a pair's term reads no other pair. The paper divides the sum over all pairs by the number of images, so
    the mean over the queries of ONE direction is its loss; both directions together, as everywhere here, count every
    pair twice. Other captions of the same image, negatives in the paper, are left out as everywhere here.

    Args:
        scores: (Q, C) cosine similarities.
        positive_scores: (Q,) similarity of each query to its positive.
        negatives: (Q, C) bool; a query without any keeps the term of its positive.
        scale: s > 0, the paper's exp(t'); it starts at 10.
        bias: b, without which the many negatives would drown the start; it starts at −10.

    Returns:
        (Q,) losses.

    >>> scores = torch.tensor([[0.8, 0.8]])  # logits of 0: a match with probability 1/2
    >>> pairwise_sigmoid(scores, scores[:, 0], torch.tensor([[False, True]]), scale=10.0, bias=-8.0)
    tensor([1.3863])
    """
    others = torch.where(negatives, full_precision(scores), 0.0)
    push = torch.where(negatives, softplus(scale * others + bias), 0.0).sum(dim=1)
    return softplus(-(scale * full_precision(positive_scores) + bias)) + push
