"""Diversity of an anchor over its negatives: CODER eq. 3 (standard deviation) and supplement eq. 16 (entropy).

    spread -> squash -> raw in [1, 2) -> (average of batch and bank) -> divide by the largest -> (0.5, 1]

Low spread is low diversity: the negatives look alike to this anchor, so its temperature falls. One section of the
supplement calls ambiguous samples "high diversity"; its formula implies the opposite, and the code follows the formula.
The supplement's E[S] − E[S]² is not a variance (negative for a negative mean), so the main text's E[S²] − E[S]² is used,
computed as E[(S − E[S])²] to avoid cancellation.

The result can carry a gradient; CODER treats it as a weight, so detach it before use unless you want one.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from coder_core.objectives.pairs import Negatives, as_list
from coder_core.ops import diversity_scaling
from coder_core.ops.diversity_scaling import Measure as Measure
from coder_core.ops.diversity_scaling import normalise_by_largest as normalise_by_largest
from coder_core.ops.diversity_scaling import spread
from coder_core.ops.diversity_scaling import squash as squash


def diversity_std(
    scores: Tensor, negatives: Negatives, *, epsilon: float = 0.1, normalise: bool = True
) -> Tensor:
    """Measure diversity by the standard deviation of each anchor's scores over its negatives. CODER eq. 3.

    In plain terms: 1. take the deviation of the anchor's similarities to its negatives; 2. squash it to
    1 / sigmoid(ε / deviation), between 1 and 2; 3. divide by the largest over all anchors.

    Args:
        scores: (Q, C) similarities.
        negatives: (Q, C) bool, or `AllExcept`; only these entries enter the statistics.
        epsilon: > 0, the scale of the squashing: the raw value is 1 + 1/e where the spread equals it.
        normalise: divide by the largest value over the anchors.

    Returns:
        (Q,) in (0.5, 1] with the largest exactly 1; in [1, 2) when not normalised.

    >>> scores = torch.tensor([[0.1, 0.3], [0.5, 0.5]])  # the second anchor's negatives look alike to it
    >>> diversity_std(scores, torch.ones(2, 2, dtype=torch.bool))
    tensor([1.0000, 0.7311])
    """
    raw = squash(deviation(scores, negatives), epsilon)
    return normalise_by_largest(raw) if normalise else raw


def diversity_entropy(
    scores: Tensor,
    negatives: Negatives,
    *,
    epsilon: float = 0.1,
    temperature: float = 1.0,
    normalise: bool = True,
) -> Tensor:
    """Measure diversity by the entropy of each anchor's softmax over its negatives. CODER supplement eq. 16.

    It ranks anchors in the opposite order to `diversity_std`: equal similarities have the smallest deviation and the
    largest entropy. For cosines and the printed temperature of 1 it varies only in the fourth digit.

    Other arguments and the result are those of `diversity_std`.

    Args:
        epsilon: > 0, the scale of the squashing, in bits.
        temperature: > 0, of the softmax over the negatives.

    >>> scores = torch.tensor([[0.1, 0.9], [0.5, 0.5]])
    >>> diversity_entropy(scores, torch.ones(2, 2, dtype=torch.bool), temperature=0.1)
    tensor([0.5250, 1.0000])
    """
    raw = squash(entropy(scores, negatives, temperature=temperature), epsilon)
    return normalise_by_largest(raw) if normalise else raw


def anchor_diversity(
    batch: tuple[Tensor, Negatives],
    bank: tuple[Tensor, Negatives] | None = None,
    *,
    measure: Measure = "std",
    epsilon: float = 0.1,
    entropy_temperature: float = 1.0,
    bank_share: float = 0.5,
    gradient: bool = False,
    largest: Callable[[Tensor], Tensor] = torch.amax,
) -> Tensor:
    """Measure the diversity of one modality's anchors over batch and bank, as used in training. CODER section 3.3.

    Args:
        batch: (Q, C) scores and negatives within the batch.
        bank: scores and negatives in the other modality's bank; an anchor without negatives there keeps its batch value.
        measure: `diversity_std` or `diversity_entropy`.
        epsilon: of the squashing.
        entropy_temperature: of the entropy's softmax.
        bank_share: weight of the bank's raw value; the batch's has 1 − bank_share.
        gradient: let gradients flow through the diversity, including the maximum that normalises it.
        largest: (Q,) raw values -> their maximum over the anchors of all processes, differentiable.

    Returns:
        (Q,) in (0.5, 1].

    Raises:
        ValueError: an unknown measure.

    >>> two, three = torch.ones(2, 2, dtype=torch.bool), torch.tensor([[True, True, True], [False, False, False]])
    >>> anchor_diversity((torch.tensor([[0.1, 0.3], [0.5, 0.5]]), two), (torch.zeros(2, 3), three))
    tensor([1.0000, 0.8446])
    """

    def raw(scores: Tensor, negatives: Negatives) -> Tensor:
        scores, excluded = as_list(scores, negatives)
        return squash(spread(scores, excluded, measure, entropy_temperature), epsilon)

    with torch.set_grad_enabled(gradient and torch.is_grad_enabled()):
        blended = raw(*batch)
        if bank is not None and bank_share > 0:
            scores, negatives = as_list(*bank)
            few_left_out = len(negatives.rows) < scores.shape[1]  # too few to exclude a whole row
            has_bank = few_left_out or negatives.counts(scores) > 0
            blended = blend_raw(blended, raw(scores, negatives), has_bank=has_bank, bank_share=bank_share)
        return normalise_by_largest(blended, largest(blended))


def deviation(scores: Tensor, negatives: Negatives) -> Tensor:
    """Return (Q,) sqrt(E[(S − E[S])²]) over each anchor's negatives; 0, with a zero gradient, without negatives.

    >>> deviation(torch.tensor([[0.1, 0.3, 0.9]]), torch.tensor([[True, True, False]]))
    tensor([0.1000])
    """
    return diversity_scaling.deviation(*as_list(scores, negatives))


def entropy(scores: Tensor, negatives: Negatives, *, temperature: float = 1.0) -> Tensor:
    """Return (Q,) −Σ P log2 P in bits, where P is the softmax of S/temperature over the negatives; 0 without any.

    Raises:
        ValueError: temperature is not positive.

    >>> entropy(torch.zeros(1, 4), torch.ones(1, 4, dtype=torch.bool))
    tensor([2.])
    """
    scores, excluded = as_list(scores, negatives)
    return diversity_scaling.entropy(scores, excluded, temperature)


def blend_raw(
    batch_raw: Tensor, bank_raw: Tensor, *, has_bank: Tensor | bool = True, bank_share: float = 0.5
) -> Tensor:
    """Average the (Q,) raw diversities over the batch's and over the bank's negatives; normalise only afterwards.

    Args:
        has_bank: (Q,) bool, or one bool: False where the bank holds no negative and only the batch counts.
        bank_share: in [0, 1], the weight of the bank; 0.5 is the paper's average.

    Raises:
        ValueError: bank_share is outside [0, 1].

    >>> blend_raw(torch.tensor([1.2, 1.4]), torch.tensor([1.8, 1.8]), has_bank=torch.tensor([True, False]))
    tensor([1.5000, 1.4000])
    """
    if not 0 <= bank_share <= 1:
        raise ValueError(f"bank_share must be in [0, 1], got {bank_share}")
    share = bank_share * torch.as_tensor(has_bank, device=batch_raw.device).to(batch_raw.dtype)
    return batch_raw + share * (bank_raw - batch_raw)
