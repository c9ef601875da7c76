"""DCL and M-DCL of one direction as the trainer runs them: the definitions of `diversity` and
`diversity_contrastive`, in few passes over the scores.

A bank of 4096 makes the score matrix large, and each mask, `where` and concatenation costs a pass over it. Here the
few entries that are not negatives are a list of (row, column) pairs, the statistics and the sum are taken in place, and
the backward pass keeps nothing but the softmax weights. Values and gradients are those of the plain functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from coder_core.objectives.diversity import blend_raw, entropy, normalise_by_largest, squash
from coder_core.objectives.diversity_contrastive import (
    PositiveClamp,
    PositiveScale,
    anchor_sharpness,
    positive_term,
)
from coder_core.ops import full_precision

DiversityKind = Literal["none", "std", "entropy"]


class Pairs(NamedTuple):
    """Entries of a score matrix: (P,) rows and (P,) columns, each pair once."""

    rows: Tensor
    columns: Tensor


class Candidates(NamedTuple):
    """What one direction's anchors are scored against: the batch, or the other modality's bank."""

    scores: Tensor
    """(Q, C) similarities."""
    positive_scores: Tensor
    """(Q,) similarity of each anchor to its positive."""
    outside_sum: Pairs
    """Entries that are no negatives in the loss: the positive, the same image, empty slots."""
    outside_statistics: Pairs
    """Entries that the diversity never sees: the same image, also when the loss keeps it, and empty slots."""


class DclTerms(NamedTuple):
    """Losses of one direction, one value per anchor."""

    batch: Tensor
    """(Q,) DCL, or DCL_I without diversity."""
    bank: Tensor | None
    """(Q,) M-DCL; None without a bank or with its loss off."""
    diversity: Tensor | None
    """(Q,) in (0.5, 1]; None when the kind is "none"."""


def batch_candidates(
    scores: Tensor,
    query_ids: Tensor,
    candidate_ids: Tensor,
    *,
    keep_same_image: bool = False,
    positive_offset: int = 0,
    same_image: Pairs | None = None,
) -> Candidates:
    """The whole batch as candidates; the positive of row i is column i + positive_offset.

    Args:
        scores: (Q, C), C > Q when candidates were gathered from several processes.
        query_ids: (Q,) image ids of the anchors.
        candidate_ids: (C,) image ids of the candidates.
        keep_same_image: see `pairs.same_image_negatives`.
        positive_offset: where this process's samples begin among the candidates.
        same_image: `same_image_pairs` of these ids, when the other direction has already found them.
    """
    same_image = same_image or same_image_pairs(query_ids, candidate_ids)
    rows = torch.arange(len(query_ids), device=scores.device)
    positives = Pairs(rows, rows + positive_offset)
    return Candidates(
        scores, scores.diagonal(positive_offset), positives if keep_same_image else same_image, same_image
    )


def bank_candidates(
    scores: Tensor,
    positive_scores: Tensor,
    query_ids: Tensor,
    slot_ids: Tensor,
    *,
    keep_same_image: bool = False,
    same_image: Pairs | None = None,
) -> Candidates:
    """The slots of the other modality's bank as candidates.

    Args:
        scores: (Q, C) similarity to the keys in the bank before this step's keys enter. Leave empty slots out where
            you can: they are handled, but each costs a pair per anchor.
        positive_scores: (Q,) similarity to the partner's momentum key of this step.
        query_ids: (Q,) image ids of the anchors.
        slot_ids: (C,) image id of every slot; below zero is empty.
        keep_same_image: the literal reading: every filled slot is a negative.
        same_image: `same_image_pairs` of these ids, when the other direction has already found them.
    """
    same_image = same_image or same_image_pairs(query_ids, slot_ids)
    outside_sum = empty_pairs(len(query_ids), slot_ids) if keep_same_image else same_image
    return Candidates(scores, positive_scores, outside_sum, same_image)


def same_image_pairs(query_ids: Tensor, candidate_ids: Tensor) -> Pairs:
    """Every (query, candidate) of the same image, and every empty slot: the complement of `same_image_negatives`.

    The dense comparison runs only over the candidates that meet any query, which are few in a bank.
    """
    known = query_ids.sort().values
    nearest = known[torch.searchsorted(known, candidate_ids).clamp_max(len(known) - 1)]
    suspects = ((nearest == candidate_ids) | (candidate_ids < 0)).nonzero().squeeze(1)
    ids = candidate_ids[suspects]
    rows, found = ((query_ids[:, None] == ids) | (ids < 0)).nonzero(as_tuple=True)
    return Pairs(rows, suspects[found])


def empty_pairs(queries: int, slot_ids: Tensor) -> Pairs:
    """Every (query, empty slot)."""
    empty = (slot_ids < 0).nonzero().squeeze(1)
    rows = torch.arange(queries, device=slot_ids.device)
    return Pairs(rows.repeat_interleave(len(empty)), empty.repeat(queries))


def dcl_terms(
    batch: Candidates,
    bank: Candidates | None = None,
    *,
    diversity: DiversityKind = "std",
    epsilon: float = 0.1,
    entropy_temperature: float = 1.0,
    bank_share: float = 0.5,
    bank_loss: bool = True,
    diversity_gradient: bool = False,
    largest: Callable[[Tensor], Tensor] = torch.amax,
    temperature: float = 0.1,
    margin: float = 0.3,
    positive_scale: PositiveScale = "one",
    positive_clamp: PositiveClamp = "clamp",
) -> DclTerms:
    """DCL over the batch and M-DCL over the bank for the anchors of one modality. CODER eq. 3 to 6.

    Relations: `diversity_contrastive` with the diversity of `raw_diversity_std` or `raw_diversity_entropy`, blended by
    `blend_raw` and divided by `normalise_by_largest`; equal to them in values and gradients.

    Args:
        batch: the in-batch candidates.
        bank: the bank's candidates; its diversity counts even when its loss is off (CODER Table 3, row 3).
        diversity: "none" is DCL_I.
        epsilon: of the squashing.
        entropy_temperature: of the entropy's softmax.
        bank_share: weight of the bank's raw diversity against the batch's.
        bank_loss: compute M-DCL.
        diversity_gradient: let the loss train through the diversity.
        largest: (Q,) raw diversity -> its maximum over the anchors of all processes.
        temperature: μ.
        margin: γ.
        positive_scale: see `diversity_contrastive`.
        positive_clamp: see `diversity_contrastive`.
    """
    weight = None
    if diversity != "none":
        with torch.set_grad_enabled(diversity_gradient and torch.is_grad_enabled()):
            raw = _raw_diversity(batch, bank, diversity, epsilon, entropy_temperature, bank_share)
            weight = normalise_by_largest(raw, largest(raw))

    def loss(candidates: Candidates) -> Tensor:
        scores = full_precision(candidates.scores)
        sharpness = anchor_sharpness(scores, weight, temperature)
        push = log1p_sum_exp_scaled(scores, sharpness, margin * sharpness, candidates.outside_sum)
        return temperature * push - positive_term(
            candidates.positive_scores,
            temperature=temperature,
            positive_scale=positive_scale,
            positive_clamp=positive_clamp,
        )

    return DclTerms(loss(batch), loss(bank) if bank is not None and bank_loss else None, weight)


def log1p_sum_exp_scaled(scores: Tensor, scale: Tensor, shift: Tensor, excluded: Pairs) -> Tensor:
    """log(1 + Σ_j exp(S_ij · scale_i − shift_i)) over the entries that are not excluded.

    Args:
        scores: (Q, C) float32 or float64.
        scale: (Q,) >= 0.
        shift: (Q,).
        excluded: entries outside the sum.

    Returns:
        (Q,), differentiable once in scores, scale and shift.
    """
    return _ScaledLogSum.apply(scores, scale, shift, *excluded)


def spread_std(scores: Tensor, excluded: Pairs) -> Tensor:
    """Population standard deviation of each row's entries that are not excluded; 0 where there are none.

    Args:
        scores: (Q, C), finite everywhere.
        excluded: entries outside the statistics.

    Returns:
        (Q,), as `ops.masked_std` gives it.
    """
    scores = full_precision(scores)
    count = _rows_left(scores, excluded).clamp_min(1).to(scores.dtype)
    total = scores.sum(dim=1).index_add(0, excluded.rows, scores[excluded], alpha=-1)
    centred = scores - (total / count)[:, None]
    centred[excluded] = 0.0
    return torch.linalg.vector_norm(centred, dim=1) / count.sqrt()


def _raw_diversity(
    batch: Candidates,
    bank: Candidates | None,
    kind: DiversityKind,
    epsilon: float,
    entropy_temperature: float,
    bank_share: float,
) -> Tensor:
    def raw(candidates: Candidates) -> Tensor:
        if kind == "std":
            return squash(spread_std(candidates.scores, candidates.outside_statistics), epsilon)
        if kind == "entropy":
            negatives = torch.ones_like(candidates.scores, dtype=torch.bool)
            negatives[candidates.outside_statistics] = False
            return squash(entropy(candidates.scores, negatives, temperature=entropy_temperature), epsilon)
        raise ValueError(f'diversity must be "none", "std" or "entropy", got {kind!r}')

    if bank is None or bank_share == 0:
        return raw(batch)
    has_bank = _rows_left(bank.scores, bank.outside_statistics) > 0
    return blend_raw(raw(batch), raw(bank), has_bank=has_bank, bank_share=bank_share)


def _rows_left(scores: Tensor, excluded: Pairs) -> Tensor:
    return scores.shape[1] - torch.bincount(excluded.rows, minlength=scores.shape[0])


class _ScaledLogSum(torch.autograd.Function):
    """`log1p_sum_exp_scaled`. Keeps one matrix, exp(x_ij − highest_i), whose rows times 1/total_i are the weights."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, scale: Tensor, shift: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        powers = scores * scale[:, None]
        powers[rows, columns] = float("-inf")
        # x = scores · scale − shift; the 1 in the sum is exp(0), so 0 takes part in the maximum.
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
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        powers, scale, total, of_negatives, weighted_scores = ctx.saved_tensors
        share = grad / total
        to_scores = powers * (share * scale)[:, None] if ctx.needs_input_grad[0] else None
        to_scale = share * weighted_scores if ctx.needs_input_grad[1] else None
        to_shift = -share * of_negatives if ctx.needs_input_grad[2] else None
        return to_scores, to_scale, to_shift, None, None
