"""CODER's diversity-sensitive losses of both branches, in the batch and against the banks. CODER eq. 4-6."""

from __future__ import annotations

import torch
from torch import Tensor

from coder_core.config.schema import Config, ObjectiveConfig
from coder_core.objectives.fused import DclTerms, bank_candidates, batch_candidates, dcl_terms, same_image_pairs
from coder_core.training import parallel
from coder_core.training.gathering import Anchors, batch_scores
from coder_core.training.losses import Losses
from coder_core.training.parts.memory import Memory


def instance_dcl(
    anchors: Anchors, memory: Memory | None, keys: tuple[Tensor, Tensor] | None, config: Config, epoch: float,
    weights: Tensor | None = None,
) -> Losses:  # fmt: skip
    """3·L_DCL^I + L_M_DCL^I (eq. 8), both directions. What the two directions share is computed once.

    Args:
        anchors: the instance branch's pairs.
        memory: twin and banks, or None.
        keys: (B, D) image and text keys of this process's pairs; None without a memory.
        config: of the run.
        epoch: epochs done, with fraction; the bank's loss may wait.
        weights: (B,) of this process's pairs, or None; they multiply a pair's loss in the batch and against the banks.
    """
    objective = config.objective
    bank_loss = objective.weight_memory > 0 and epoch >= config.memory.bank_start_epoch
    bank = memory.bank if memory is not None and memory.bank.count > 0 else None
    if not (bank_loss or (objective.diversity_from_bank and objective.loss == "dcl")):
        bank = None
    filled = bank.count if bank is not None else 0
    batch_pairs = same_image_pairs(anchors.image_ids, anchors.all_image_ids)
    bank_pairs = same_image_pairs(anchors.image_ids, bank.image_ids[:filled]) if bank is not None else None

    def terms(scores: Tensor, queries: Tensor, slots: Tensor | None, partners: Tensor | None) -> DclTerms:
        in_batch = batch_candidates(
            scores, anchors.image_ids, anchors.all_image_ids, keep_same_image=objective.same_image_negatives,
            positive_offset=anchors.offset, same_image=batch_pairs,
        )  # fmt: skip
        in_bank = None
        if bank is not None and slots is not None and partners is not None:
            in_bank = bank_candidates(
                queries @ slots[:filled].T, (queries * partners).sum(1), anchors.image_ids, bank.image_ids[:filled],
                keep_same_image=objective.same_image_negatives, same_image=bank_pairs,
            )  # fmt: skip
        return dcl_terms(
            in_batch, in_bank, diversity=objective.diversity if objective.loss == "dcl" else "none",
            epsilon=objective.epsilon, entropy_temperature=objective.entropy_temperature,
            bank_share=0.5 if objective.diversity_from_bank else 0.0, bank_loss=bank_loss,
            diversity_gradient=objective.diversity_gradient, largest=parallel.largest,
            temperature=objective.temperature, margin=objective.gamma, positive_scale=objective.positive_scale,
            positive_clamp=objective.positive_clamp,
        )  # fmt: skip

    image_keys, text_keys = keys if keys is not None else (None, None)
    image_scores, text_scores = batch_scores(anchors)
    forward = terms(image_scores, anchors.images, bank.texts if bank is not None else None, text_keys)
    back = terms(text_scores, anchors.texts, bank.images if bank is not None else None, image_keys)
    in_batch = forward.batch + back.batch
    per_pair = objective.weight_instance * in_batch
    parts: dict[str, Tensor] = {objective.loss: in_batch.mean().detach()}
    if forward.bank is not None and back.bank is not None:
        in_bank = forward.bank + back.bank
        per_pair = per_pair + objective.weight_memory * in_bank
        parts["m-dcl"] = in_bank.mean().detach()
    if weights is not None:
        per_pair = per_pair * weights
    diversity = None
    if forward.diversity is not None and back.diversity is not None:
        diversity = torch.cat([forward.diversity, back.diversity]).detach()
    return Losses(per_pair.mean(), parts, per_pair.detach(), diversity)


def concept_dcl(anchors: Anchors, objective: ObjectiveConfig) -> Tensor:
    """L_DCL^C (section 3.3): one symmetric DCL on (V^C, W^C) with batch-level diversity, (B,), whatever the loss of the
    instance branch; DCL_I where that is dcl-i."""
    pairs = same_image_pairs(anchors.image_ids, anchors.all_image_ids)

    def terms(scores: Tensor) -> Tensor:
        in_batch = batch_candidates(
            scores, anchors.image_ids, anchors.all_image_ids, keep_same_image=objective.same_image_negatives,
            positive_offset=anchors.offset, same_image=pairs,
        )  # fmt: skip
        return dcl_terms(
            in_batch, diversity="none" if objective.loss == "dcl-i" else objective.diversity,
            epsilon=objective.epsilon, entropy_temperature=objective.entropy_temperature,
            diversity_gradient=objective.diversity_gradient, largest=parallel.largest,
            temperature=objective.temperature, margin=objective.gamma, positive_scale=objective.positive_scale,
            positive_clamp=objective.positive_clamp,
        ).batch  # fmt: skip

    image_scores, text_scores = batch_scores(anchors)
    return terms(image_scores) + terms(text_scores)
