"""One step's losses: joins the model, its memory and the objectives. CODER eq. 4-6 and 8."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from coder_core.config import Config, ObjectiveConfig
from coder_core.data.batches import Batch
from coder_core.memory.bank import CoupledBank
from coder_core.memory.momentum import follow, slow_twin
from coder_core.model.coder import Coder, Embedded
from coder_core.objectives.contrastive import info_nce
from coder_core.objectives.fused import DclTerms, bank_candidates, batch_candidates, dcl_terms, same_image_pairs
from coder_core.objectives.pairs import Direction, in_batch_direction
from coder_core.objectives.triplet import triplet_hardest, triplet_sum
from coder_core.training import parallel
from coder_core.training.boosting import BoostingAnchor, boosting_losses
from coder_core.training.gathering import Anchors, batch_scores, gather_anchors
from coder_core.training.prototype_guide import PrototypeGuide

Embed = Callable[..., Embedded]


@dataclass
class Losses:
    """What a step came to.

    Args:
        total: the loss to run backward from.
        parts: each term's mean over this process's anchors, before its weight.
        per_pair: (B,) each pair's share of the total, to name a sample that is not finite.
        diversity: (2 · B,) of this process's anchors, both modalities; None without diversity.
    """

    total: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)
    per_pair: Tensor | None = None
    diversity: Tensor | None = None

    def plus(self, name: str, per_pair: Tensor, weight: float) -> Losses:
        """With one more term: (B,) a value for each pair, averaged, times its weight."""
        shown = {**self.parts, name: per_pair.mean().detach()}
        before = self.per_pair if self.per_pair is not None else torch.zeros_like(per_pair)
        total = self.total + weight * per_pair.mean()
        return Losses(total, shown, before + weight * per_pair.detach(), self.diversity)


class Memory(nn.Module):
    """The momentum twin and the banks, kept together so that they are saved together."""

    def __init__(self, model: Coder, bank_size: int, dimension: int, momentum: float) -> None:
        super().__init__()
        self.twin = slow_twin(model)
        self.bank = CoupledBank(bank_size, dimension)
        self.momentum = momentum
        self._pending: tuple[Tensor, Tensor, Tensor] | None = None

    @torch.no_grad()
    def keys(self, model: Coder, batch: Batch) -> tuple[Tensor, Tensor]:
        """Follow the model, then encode this process's pairs. The keys of all processes wait for `remember`."""
        follow(self.twin, model, self.momentum)
        # Keys are of the instance branch only (eq. 6): the twin follows in both but never reads the concepts.
        images = self.twin.encode_images(batch.regions, batch.region_lengths)
        texts = self.twin.encode_texts(batch.words, batch.word_lengths)
        everyone = (parallel.gather_rows(images), parallel.gather_rows(texts), parallel.gather_rows(batch.image_ids))
        self._pending = everyone
        return images, texts

    def remember(self) -> None:
        """Enqueue the waiting keys. After backward(): autograd still reads the slots before."""
        if self._pending is not None:
            self.bank.enqueue(*self._pending)
            self._pending = None


def make_memory(model: Coder, config: Config) -> Memory | None:
    """The memory a configuration asks for."""
    if config.memory.bank_size == 0:
        return None
    return Memory(model, config.memory.bank_size, config.model.dimension, config.memory.momentum)


def compute_losses(
    embed: Embed, model: Coder, memory: Memory | None, batch: Batch, config: Config, *, epoch: float,
    autocast: AbstractContextManager[None], guide: PrototypeGuide | None = None,
    boosting: BoostingAnchor | None = None,
) -> Losses:  # fmt: skip
    """Embed a batch and weigh every term of both branches (eq. 8).

    Args:
        embed: the model as it is trained (wrapped for several processes or compiled).
        model: the bare model, which the momentum twin follows.
        memory: twin and banks, or None.
        batch: this process's pairs.
        config: of the run.
        epoch: epochs done, with fraction.
        autocast: around everything but the losses.
        guide: the prototypes and their classifier, or None.
        boosting: the anchor of Deep Boosting Learning, or None.
    """
    with autocast:
        embedded = embed(batch.regions, batch.region_lengths, batch.words, batch.word_lengths)
        keys = memory.keys(model, batch) if memory is not None else None
        surpassed = boosting.encode(batch) if boosting is not None else None
    anchors = gather_anchors(embedded.images, embedded.texts, batch.image_ids)
    if config.objective.loss in ("dcl", "dcl-i"):
        losses = _dcl(anchors, memory, keys, config, epoch)
    else:
        losses = _plain(anchors, config.objective, epoch)
    if surpassed is not None:
        losses = _boosted(losses, anchors, surpassed, config.objective)
    if embedded.concept_images is not None and embedded.concept_texts is not None:
        # With weight 0 it is still computed: several processes wait for a gradient of every parameter.
        concepts = gather_anchors(embedded.concept_images, embedded.concept_texts, batch.image_ids)
        per_pair = _concept_dcl(concepts, config.objective)
        losses = losses.plus("dcl-concept", per_pair, config.objective.weight_concept)
    return losses if guide is None else _with_prototypes(losses, guide, embedded, batch, config.objective)


def _boosted(losses: Losses, target: Anchors, surpassed: tuple[Tensor, Tensor], objective: ObjectiveConfig) -> Losses:
    """With DBL's loss of the instance branch. It is a sum over the batch, whatever the loss it stands beside."""
    per_pair = boosting_losses(target, surpassed, objective)
    pairs = len(per_pair) * parallel.world_size()  # several processes average their gradients
    return losses.plus(f"boosting-{objective.boosting}", per_pair, objective.boosting_weight * pairs)


def _with_prototypes(
    losses: Losses, guide: PrototypeGuide, embedded: Embedded, batch: Batch, objective: ObjectiveConfig
) -> Losses:
    """L_PGC (eq. 7): a pair's prototype, found in the instance branch, is what the concept branch has to name; without
    a concept branch the instance branch names it itself."""
    instance = embedded.images, embedded.texts
    named = instance
    if embedded.concept_images is not None and embedded.concept_texts is not None:
        named = embedded.concept_images, embedded.concept_texts
    per_pair = guide.losses(instance, named, batch.text_ids)
    return losses if per_pair is None else losses.plus("pgc", per_pair, objective.weight_prototypes)


def _plain(anchors: Anchors, objective: ObjectiveConfig, epoch: float) -> Losses:
    def loss(direction: Direction) -> Tensor:
        if objective.loss == "infonce":
            return info_nce(*direction, temperature=objective.temperature)
        if objective.loss == "btr-sum" or epoch < objective.warmup_epochs:
            return triplet_sum(*direction, margin=objective.margin)
        return triplet_hardest(*direction, margin=objective.margin)

    per_pair = torch.stack(
        [
            loss(
                in_batch_direction(
                    scores,
                    anchors.image_ids,
                    anchors.all_image_ids,
                    keep_same_image=objective.same_image_negatives,
                    positive_offset=anchors.offset,
                )
            )
            for scores in batch_scores(anchors)
        ]
    ).sum(0)
    # Triplet losses are summed over the batch (vsepp); with the clipped gradient this decides how they train.
    total = per_pair.mean() if objective.loss == "infonce" else per_pair.sum() * parallel.world_size()
    parts: dict[str, Tensor] = {objective.loss: per_pair.mean().detach()}
    return Losses(total * objective.weight_instance, parts, per_pair.detach())


def _dcl(
    anchors: Anchors, memory: Memory | None, keys: tuple[Tensor, Tensor] | None, config: Config, epoch: float
) -> Losses:
    """3·L_DCL^I + L_M_DCL^I (eq. 8), both directions. What the two directions share is computed once."""
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
    diversity = None
    if forward.diversity is not None and back.diversity is not None:
        diversity = torch.cat([forward.diversity, back.diversity]).detach()
    return Losses(per_pair.mean(), parts, per_pair.detach(), diversity)


def _concept_dcl(anchors: Anchors, objective: ObjectiveConfig) -> Tensor:
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
