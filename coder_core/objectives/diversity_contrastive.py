"""DCL_I, DCL and M-DCL: contrastive learning whose temperature follows each anchor's diversity. CODER eq. 4-6.

Call it once per direction. The arguments select the loss: DCL_I without diversity, DCL with diversity over the batch,
M-DCL with candidates from the other modality's bank. (DCL is not "decoupled contrastive learning" here.)
"""

from typing import Any, Literal

import torch
from torch import Tensor

from coder_core.objectives.pairs import Negatives, as_list, check_shapes
from coder_core.ops import full_precision
from coder_core.ops.diversity_scaling import sharpness

PositiveScale = Literal["one", "temperature"]
PositiveClamp = Literal["clamp", "relu"]

LOWEST_COSINE = -1 + 1e-4  # lower limit of S⁺ in log(1 + S⁺), which is -inf at a cosine of -1


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
    """Compute μ·log(1 + Σ exp((S_ij − γ) / (μ·div_i))) − log(1 + S⁺_i) for each anchor i. CODER eq. 4 and 5.

    In plain terms: negatives push, and the further they exceed γ the more, so the hardest ones dominate; the positive
    pulls. A smaller diversity sharpens the transition at the margin: negatives gain weight if S_ij > γ and lose it if
    S_ij < γ.

    Args:
        scores: (Q, C) cosine similarities.
        positive_scores: (Q,) similarity of each anchor to its positive: the diagonal within a batch, the partner's
            momentum key of this step against a bank.
        negatives: (Q, C) bool, or `AllExcept`, which is faster against a large bank. The sum excludes the positive
            exactly; HAL and USER leave a term exp(−γ/μ) for it.
        diversity: (Q,) in (0.5, 1], detached unless it should be trained; None is 1 for every anchor.
        temperature: μ > 0.
        margin: γ, the similarity above which a negative weighs more than the 1 in the sum.
        positive_scale: "one" leaves the positive term unscaled, as HAL and USER do; "temperature" multiplies it by
            μ, as printed, which makes the pull ten times weaker than the push.
        positive_clamp: "clamp" is log(1 + max(S⁺, −1 + 1e-4)); "relu" is HAL's and USER's log(1 + max(S⁺, 0)),
            without a gradient for a negative cosine.

    Returns:
        (Q,) losses, differentiable once; an anchor without negatives keeps its positive term.

    Raises:
        ValueError: temperature is not positive, or `positive_scale` or `positive_clamp` is unknown.

    >>> from coder_core.objectives.diversity import diversity_std
    >>> scores = torch.tensor([[0.8, 0.4, 0.2], [0.3, 0.7, 0.3], [0.1, 0.5, 0.6]])
    >>> negatives = ~torch.eye(3, dtype=torch.bool)
    >>> diversity = diversity_std(scores, negatives)
    >>> diversity_contrastive(scores, scores.diagonal(), negatives, diversity=diversity)
    tensor([-0.4364, -0.4208, -0.2557])
    """
    check_shapes(scores, positive_scores, negatives)
    scores, exclusions = as_list(scores, negatives)
    if diversity is None:
        scale = scores.new_full((len(scores),), sharpness(1.0, temperature))
    else:
        scale = sharpness(diversity.to(scores.dtype), temperature)
    push: Tensor = _ScaledLogSum.apply(scores, scale, margin * scale, *exclusions)
    pull = _positive_term(positive_scores, positive_clamp)
    if positive_scale not in ("one", "temperature"):
        raise ValueError(f'positive_scale must be "one" or "temperature", got {positive_scale!r}')
    return temperature * push - (pull if positive_scale == "one" else temperature * pull)


def _positive_term(positive_scores: Tensor, clamp: PositiveClamp) -> Tensor:
    """Return log(1 + S⁺) of (Q,) scores, limited from below as `clamp` selects."""
    if clamp not in ("clamp", "relu"):
        raise ValueError(f'positive_clamp must be "clamp" or "relu", got {clamp!r}')
    scores = full_precision(positive_scores)
    return torch.log1p(scores.clamp_min(LOWEST_COSINE) if clamp == "clamp" else torch.relu(scores))


class _ScaledLogSum(torch.autograd.Function):
    """log(1 + Σ_j exp(S_ij · scale_i − shift_i)) over each row's negatives, (Q,), in few passes over the scores.

    With a bank of 4096 the score matrix is large, so only one matrix is kept for the backward pass: exp(x_ij −
    highest_i), whose rows divided by total_i are softmax weights. Scores must be finite; `rows` and `columns` list all
    entries that are not negatives.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, scale: Tensor, shift: Tensor, rows: Tensor, columns: Tensor
    ) -> Tensor:
        powers = scores * scale[:, None]
        powers[rows, columns] = float("-inf")
        # x = scores · scale − shift; the 1 in the sum is exp(0), so the maximum includes 0.
        highest = (powers.amax(dim=1) - shift).clamp_min(0)
        powers.sub_((shift + highest)[:, None]).exp_()
        of_negatives = powers.sum(dim=1)
        total = of_negatives + torch.exp(-highest)
        weighted_scores = None
        if ctx.needs_input_grad[1]:
            weighted_scores = torch.where(powers > 0, powers * scores, 0.0).sum(dim=1)
        ctx.save_for_backward(powers, scale, total, of_negatives, weighted_scores)
        return highest + total.log()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # once_differentiable would miss a gradient that reaches the scores alone
            raise RuntimeError("DCL has no second derivative: call backward() or grad() without create_graph")
        powers, scale, total, of_negatives, weighted_scores = ctx.saved_tensors
        share = grad / total
        to_scores = powers * (share * scale)[:, None] if ctx.needs_input_grad[0] else None
        to_scale = share * weighted_scores if ctx.needs_input_grad[1] else None
        to_shift = -share * of_negatives if ctx.needs_input_grad[2] else None
        return to_scores, to_scale, to_shift, None, None
