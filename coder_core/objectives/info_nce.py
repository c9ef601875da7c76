"""InfoNCE, the contrastive loss without diversity. One direction; call it for both and add."""

from __future__ import annotations

from torch import Tensor

from coder_core.ops import full_precision, log1p_sum_exp


def info_nce(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, temperature: float | Tensor
) -> Tensor:
    """Negative log-probability of each query's positive. van den Oord et al. 2018, eq. 4, arXiv:1807.03748.

    −log( exp(S⁺/τ) / (exp(S⁺/τ) + Σ exp(S_ij/τ)) ), computed as log(1 + Σ exp((S_ij − S⁺)/τ)).

    Args:
        scores: (Q, C) cosine similarities.
        positive_scores: (Q,) similarity of each query to its positive.
        negatives: (Q, C) bool, True where the candidate is a negative.
        temperature: > 0; smaller is sharper.

    Returns:
        (Q,) losses.

    Raises:
        ValueError: temperature is not positive.

    >>> scores = torch.tensor([[0.6, 0.6]])  # a negative as similar as the positive: probability 1/2
    >>> info_nce(scores, scores[:, 0], torch.tensor([[False, True]]), temperature=0.05)
    tensor([0.6931])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    lead = full_precision(scores) - full_precision(positive_scores)[:, None]
    return log1p_sum_exp(lead / temperature, negatives)
