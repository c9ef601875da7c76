"""One step's losses: joins the model, its memory and the objectives. CODER eq. 8."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from torch import Tensor

from coder_core.config.schema import Config, ObjectiveConfig
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder, Embedded
from coder_core.training.boosting_losses import boosted, cohort_losses
from coder_core.training.dcl_losses import concept_dcl, instance_dcl
from coder_core.training.gathering import Anchors, Lengths, gather_anchors, mean_vectors
from coder_core.training.losses import Losses
from coder_core.training.parts.boosting import Boosting
from coder_core.training.parts.memory import Memory
from coder_core.training.parts.neighbourhoods import Neighbourhoods
from coder_core.training.parts.prototypes import PrototypeGuide
from coder_core.training.plain_losses import plain_losses
from coder_core.training.sample_weights import sample_weights
from coder_core.training.within_modality import with_neighbours

Embed = Callable[..., Embedded]


def compute_losses(
    embed: Embed, model: Coder, memory: Memory | None, batch: Batch, config: Config, *, epoch: float,
    autocast: AbstractContextManager[None], guide: PrototypeGuide | None = None,
    boosting: Boosting | None = None, neighbourhoods: Neighbourhoods | None = None,
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
        boosting: the other branches of Deep Boosting Learning, or None.
        neighbourhoods: what knows every pair's neighbours, or None.
    """
    with autocast:
        embedded = embed(batch.regions, batch.region_lengths, batch.words, batch.word_lengths)
        keys = memory.keys(model, batch) if memory is not None else None
        counts = boosting is not None and epoch >= config.boosting.boosting_start_epoch
        others = boosting.encode(batch) if boosting is not None and counts else None
    lengths = Lengths(batch.region_lengths, batch.word_lengths)
    anchors = gather_anchors(embedded.images, embedded.texts, batch.image_ids, model.scorer, lengths)
    weights = sample_weights(anchors, batch.text_ids, config, neighbourhoods)

    def raw(
        branch: Anchors, memory: Memory | None = None, keys: tuple[Tensor, Tensor] | None = None
    ) -> Losses:  # fmt: skip
        if config.objective.loss in ("dcl", "dcl-i"):
            bank = memory.bank if memory is not None else None
            return instance_dcl(branch, bank, keys, config, epoch, weights)
        return plain_losses(branch, config.objective, epoch, weights)

    losses = raw(anchors, memory, keys)
    if neighbourhoods is not None:
        single = mean_vectors(anchors)
        losses = with_neighbours(losses, single, batch.text_ids, config, neighbourhoods)
        neighbourhoods.notice(single, batch.text_ids)
    if boosting is not None and others is not None:
        losses = boosted(losses, anchors, others, config)
        if boosting.learned():
            losses = cohort_losses(losses, anchors, others, config, raw)
    if embedded.concept_images is not None and embedded.concept_texts is not None:
        # With weight 0 it is still computed: several processes wait for a gradient of every parameter.
        concepts = gather_anchors(embedded.concept_images, embedded.concept_texts, batch.image_ids)
        per_pair = concept_dcl(concepts, config.objective)
        losses = losses.plus("dcl-concept", per_pair, config.objective.weight_concept)
    return losses if guide is None else _with_prototypes(losses, guide, embedded, batch, config.objective)


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
