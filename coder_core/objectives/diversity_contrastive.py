"""DCL_I, DCL and M-DCL: contrastive learning whose temperature follows each anchor's diversity. CODER eq. 4-6.

One direction; call it for both. Which of the three it is depends on what comes in: no diversity is DCL_I, diversity
over the batch is DCL, candidates from the other modality's bank are M-DCL. (Not "decoupled contrastive learning".)
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from coder_core.objectives._dcl_kernel import log1p_sum_exp_scaled
from coder_core.objectives.pairs import Negatives, as_list
from coder_core.ops import full_precision
from coder_core.ops.diversity_scaling import sharpness

PositiveScale = Literal["one", "temperature"]
PositiveClamp = Literal["clamp", "relu"]

LOWEST_COSINE = -1 + 1e-4
"""log(1 + S⁺) is cut here: at a cosine of -1 it has no value."""


def diversity_contrastive(
    scores: Tensor,
    positive_scores: Tensor,
    negatives: Negatives,
    *,
    diversity: Tensor | None = None,
    temperature: float = 0.1,
    margin: float = 0.3,
    positive_scale: PositiveScale = "one",
    positive_clamp: PositiveClamp = "clamp",
) -> Tensor:
    """μ·log(1 + Σ exp((S_ij − γ) / (μ·div_i))) − log(1 + S⁺_i) of each anchor i. CODER eq. 4 and 5.

    In plain terms: every negative pushes by how far it stands above γ, softly the most by the hardest; the positive
    pulls. A smaller diversity sharpens around the margin: a negative gains weight where S_ij > γ and loses it where
    S_ij < γ.

    Args:
        scores: (Q, C) cosine similarities.
        positive_scores: (Q,) similarity of each anchor to its positive: the diagonal within a batch, the partner's
            momentum key of this step against a bank.
        negatives: (Q, C) bool, or `AllExcept`, which is faster against a large bank. The positive is absent from the
            sum exactly; HAL and USER leave exp(−γ/μ) there.
        diversity: (Q,) in (0.5, 1], detached unless it is to be trained; None is 1 for every anchor.
        temperature: μ > 0.
        margin: γ, the similarity above which a negative weighs more than the 1 in the sum.
        positive_scale: "one" leaves the positive term unscaled, as HAL and USER do; "temperature" multiplies it by
            μ, as printed, which makes the pull ten times weaker than the push.
        positive_clamp: "clamp" is log(1 + max(S⁺, −1 + 1e-4)); "relu" is HAL's and USER's log(1 + max(S⁺, 0)),
            without a gradient for a negative cosine.

    Returns:
        (Q,) losses, differentiable once; an anchor without negatives keeps its positive term.

    Raises:
        ValueError: temperature is not positive, or a switch has an unknown value.

    >>> from coder_core.objectives.diversity import diversity_std
    >>> scores = torch.tensor([[0.8, 0.4, 0.2], [0.3, 0.7, 0.3], [0.1, 0.5, 0.6]])
    >>> negatives = ~torch.eye(3, dtype=torch.bool)
    >>> diversity = diversity_std(scores, negatives)
    >>> diversity_contrastive(scores, scores.diagonal(), negatives, diversity=diversity)
    tensor([-0.4364, -0.4208, -0.2557])
    """
    scores, listed = as_list(scores, negatives)
    if diversity is None:
        scale = scores.new_full((len(scores),), sharpness(1.0, temperature))
    else:
        scale = sharpness(diversity.to(scores.dtype), temperature)
    push = log1p_sum_exp_scaled(scores, scale, margin * scale, listed)
    return temperature * push - positive_term(
        positive_scores, temperature=temperature, positive_scale=positive_scale, positive_clamp=positive_clamp
    )


def positive_term(
    positive_scores: Tensor,
    *,
    temperature: float = 0.1,
    positive_scale: PositiveScale = "one",
    positive_clamp: PositiveClamp = "clamp",
) -> Tensor:
    """log(1 + S⁺), cut and scaled as the two switches of `diversity_contrastive` say: (Q,).

    >>> positive_term(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.6931])
    """
    positive_scores = full_precision(positive_scores)
    if positive_clamp == "clamp":
        pull = torch.log1p(positive_scores.clamp_min(LOWEST_COSINE))
    elif positive_clamp == "relu":
        pull = torch.log1p(torch.relu(positive_scores))
    else:
        raise ValueError(f'positive_clamp must be "clamp" or "relu", got {positive_clamp!r}')
    if positive_scale == "one":
        return pull
    if positive_scale == "temperature":
        return temperature * pull
    raise ValueError(f'positive_scale must be "one" or "temperature", got {positive_scale!r}')
