"""How diverse the negatives of an anchor are: CODER eq. 3 (standard deviation) and supplement eq. 16 (entropy).

    spread -> squash -> raw in [1, 2) -> (average of batch and bank) -> divide by the largest -> (0.5, 1]

Low spread is low diversity: the negatives look alike to this anchor, so its temperature falls. One section of the
supplement calls ambiguous samples "high diversity"; its formula says the opposite, and the formula is what runs here.
The supplement's E[S] − E[S]² is no variance (negative for a negative mean); the main text's E[S²] − E[S]² is used.

The result can carry a gradient; CODER treats it as a weight, so detach it before use unless you want one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from coder_core.ops import full_precision, masked_std

LARGEST_EXPONENT = 100.0
"""exp(-100) is lost beside 1 in float32 and float64 alike."""


def diversity_std(scores: Tensor, negatives: Tensor, *, epsilon: float = 0.1, normalise: bool = True) -> Tensor:
    """Diversity from the population standard deviation of each anchor's negatives. CODER eq. 3.

    Args:
        scores: (Q, C) similarities.
        negatives: (Q, C) bool; nothing else enters the statistics.
        epsilon: > 0, the spread at which the squashing turns.
        normalise: divide by the largest value over the anchors.

    Returns:
        (Q,) in (0.5, 1] with the largest exactly 1; in [1, 2) when not normalised.
    """
    raw = raw_diversity_std(scores, negatives, epsilon=epsilon)
    return normalise_by_largest(raw) if normalise else raw


def diversity_entropy(
    scores: Tensor, negatives: Tensor, *, epsilon: float = 0.1, temperature: float = 1.0, normalise: bool = True
) -> Tensor:
    """Diversity from the entropy of each anchor's negatives. CODER supplement eq. 16.

    It ranks anchors in the opposite order to `diversity_std`: equal similarities have the smallest deviation and the
    largest entropy. With the printed temperature of 1 and cosines it varies in the fourth digit only.

    Args:
        scores: (Q, C) similarities.
        negatives: (Q, C) bool; nothing else enters the statistics.
        epsilon: > 0, the entropy in bits at which the squashing turns.
        temperature: > 0, of the softmax over the negatives.
        normalise: divide by the largest value over the anchors.

    Returns:
        (Q,) in (0.5, 1] with the largest exactly 1; in [1, 2) when not normalised.
    """
    raw = raw_diversity_entropy(scores, negatives, epsilon=epsilon, temperature=temperature)
    return normalise_by_largest(raw) if normalise else raw


def raw_diversity_std(scores: Tensor, negatives: Tensor, *, epsilon: float = 0.1) -> Tensor:
    """`diversity_std` before the division by the largest: (Q,) in [1, 2)."""
    return squash(masked_std(scores, negatives), epsilon)


def raw_diversity_entropy(
    scores: Tensor, negatives: Tensor, *, epsilon: float = 0.1, temperature: float = 1.0
) -> Tensor:
    """`diversity_entropy` before the division by the largest: (Q,) in [1, 2)."""
    return squash(entropy(scores, negatives, temperature=temperature), epsilon)


def entropy(scores: Tensor, negatives: Tensor, *, temperature: float = 1.0) -> Tensor:
    """−Σ P log2 P in bits, P the softmax of S/temperature over the negatives; 0 for an anchor without any.

    Args:
        scores: (Q, C) similarities.
        negatives: (Q, C) bool.
        temperature: > 0.

    Raises:
        ValueError: temperature is not positive.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    # The lowest finite number instead of -inf keeps a row without negatives free of NaN.
    logits = full_precision(scores) / temperature
    logits = torch.where(negatives, logits, torch.finfo(logits.dtype).min)
    log_share = torch.log_softmax(logits, dim=1)
    terms = torch.where(negatives, log_share.exp() * log_share, 0.0)
    return -terms.sum(dim=1) / math.log(2)


def squash(spread: Tensor, epsilon: float) -> Tensor:
    """1 / sigmoid(ε / spread) = 1 + exp(−ε / spread): 1 for no spread, towards 2 for a large one.

    Args:
        spread: (Q,) >= 0, a standard deviation or an entropy.
        epsilon: > 0.

    Returns:
        (Q,) in [1, 2); where the spread is zero the gradient is zero, its limit.

    Raises:
        ValueError: epsilon is not positive.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon must be > 0, got {epsilon}")
    vanishes = spread <= epsilon / LARGEST_EXPONENT
    exponent = -epsilon / torch.where(vanishes, epsilon, spread)
    return 1.0 + torch.where(vanishes, 0.0, exponent.exp())


def blend_raw(
    batch_raw: Tensor, bank_raw: Tensor, *, has_bank: Tensor | bool = True, bank_share: float = 0.5
) -> Tensor:
    """Average the raw diversity of the batch and of the bank; divide by the largest only afterwards.

    Args:
        batch_raw: (Q,) raw diversity over the batch's negatives.
        bank_raw: (Q,) raw diversity over the bank's negatives.
        has_bank: (Q,) bool, or one bool: False where the bank holds no negative; the batch then stands alone.
        bank_share: in [0, 1], the weight of the bank; 0.5 is the paper's average.

    Returns:
        (Q,) raw diversity in [1, 2).

    Raises:
        ValueError: bank_share is outside [0, 1].
    """
    if not 0 <= bank_share <= 1:
        raise ValueError(f"bank_share must be in [0, 1], got {bank_share}")
    share = bank_share * torch.as_tensor(has_bank, device=batch_raw.device).to(batch_raw.dtype)
    return batch_raw + share * (bank_raw - batch_raw)


def normalise_by_largest(raw: Tensor, largest: Tensor | None = None) -> Tensor:
    """Divide by the largest raw diversity over the anchors of one modality (the paper's index Q is a slip).

    Args:
        raw: (Q,) in [1, 2).
        largest: the maximum over the anchors of ALL processes when there are several; default: over `raw`.

    Returns:
        (Q,) in (0.5, 1].
    """
    return raw / (raw.amax() if largest is None else largest)
