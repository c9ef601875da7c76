"""InfoNCE, SigLIP's sigmoid and CMPM: losses over all candidates of a query. Each covers one direction; add both.

Scores, positives, negatives and the result are those of `triplet_sum`.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from coder_core.objectives.pairs import check_shapes, log_shares
from coder_core.ops import full_precision, log1p_sum_exp

SMALLEST_SHARE = 1e-8  # ε of CMPM's eq. 4, instead of the zero share of a pair that does not match


def info_nce(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, temperature: float | Tensor
) -> Tensor:
    """Compute the negative log-probability of each query's positive. van den Oord et al. 2018, eq. 4, arXiv:1807.03748.

    −log( exp(S⁺/τ) / (exp(S⁺/τ) + Σ exp(S_ij/τ)) ), computed as log(1 + Σ exp((S_ij − S⁺)/τ)).

    Args:
        temperature: > 0; a smaller one is sharper.

    Raises:
        ValueError: temperature is not positive.

    >>> scores = torch.tensor([[0.6, 0.6]])  # a negative as similar as the positive: probability 1/2
    >>> info_nce(scores, scores[:, 0], torch.tensor([[False, True]]), temperature=0.05)
    tensor([0.6931])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    check_shapes(scores, positive_scores, negatives)
    lead = full_precision(scores) - full_precision(positive_scores)[:, None]
    return log1p_sum_exp(lead / temperature, negatives)


def pairwise_sigmoid(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, scale: float | Tensor, bias: float | Tensor
) -> Tensor:
    """Compute −log σ(s·S⁺ + b) − Σ_j log σ(−(s·S_ij + b)). Zhai et al. 2023 (SigLIP), eq. 2, arXiv:2303.15343.

    Every pair is classified as a match or not, independently of the others. The paper divides the sum over all pairs by
    the number of images, so its loss is the mean over the queries of ONE direction; the sum of both directions counts
    every pair twice. Other captions of the same image, negatives in the paper, are left out, as in all losses here. A
    query without negatives keeps the term of its positive.

    Args:
        scale: s > 0, the paper's exp(t'); it starts at 10.
        bias: b, which keeps the many negatives from dominating the first steps; it starts at −10.

    >>> scores = torch.tensor([[0.8, 0.8]])  # logits of 0: a match with probability 1/2
    >>> pairwise_sigmoid(scores, scores[:, 0], torch.tensor([[False, True]]), scale=10.0, bias=-8.0)
    tensor([1.3863])
    """
    check_shapes(scores, positive_scores, negatives)
    finite = torch.where(negatives, full_precision(scores), 0.0)
    push = torch.where(negatives, softplus(scale * finite + bias), 0.0).sum(dim=1)
    return softplus(-(scale * full_precision(positive_scores) + bias)) + push


def projection_matching(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, temperature: float | Tensor = 0.1
) -> Tensor:
    """Compute Σ_j p_ij log(p_ij / (q_ij + ε)), predicted against true shares. Zhang and Lu 2018 (ECCV), eq. 2-5.

    p_i is the softmax of x_iᵀ z_j over the candidates, q_ij is 1 for the partner and 0 for a negative. The paper
    normalises only z_j, so that the model can set the sharpness of the softmax by the length of x_i. Cosine scores lack
    that length, so a temperature divides them here. Other captions of the same image, matches in the paper, are left
    out, as in all losses here.

    Relations: `distillation.reversed_self_distillation` with the truth as its teacher; `info_nce` is the reverse
    divergence, which does not punish a wrong candidate once its share is small.

    Raises:
        ValueError: temperature is not positive.

    >>> scores = torch.tensor([[0.9, 0.1], [0.1, 0.9]])  # both positives in column 0; the second query is wrong
    >>> projection_matching(scores, scores[:, 0], torch.tensor([[False, True]] * 2))
    tensor([3.1592e-03, 1.8411e+01])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    predicted = log_shares(scores, positive_scores, negatives, temperature)
    truth = torch.zeros_like(predicted)
    truth[:, 0] = 1
    return (predicted.exp() * (predicted - torch.log(truth + SMALLEST_SHARE))).sum(dim=1)
