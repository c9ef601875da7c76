"""Losses of a branch: CODER's diversity-sensitive losses, in the batch and against the banks (eq. 4-6), and all others
(triplet, n-pairs, InfoNCE, sigmoid, CMPM, polynomial), for the pairs of this process among those of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from coder_core.config.objective import ObjectiveConfig
from coder_core.config.schema import Config
from coder_core.model.scoring import CosineScorer, Scorer
from coder_core.objectives.contrastive import info_nce, pairwise_sigmoid, projection_matching
from coder_core.objectives.diversity import anchor_diversity
from coder_core.objectives.diversity_contrastive import diversity_contrastive
from coder_core.objectives.memory import CoupledBank
from coder_core.objectives.pairs import AllExcept, Direction, all_except_same_image, in_batch_direction
from coder_core.objectives.triplet import npairs_hinge, polynomial_hardest, triplet_hardest, triplet_sum
from coder_core.ops import mean_of_parts, parallel


class Lengths(NamedTuple):
    """Numbers of regions and words of each pair."""

    images: Tensor  # (B,)
    texts: Tensor  # (B,)


@dataclass(frozen=True)
class Anchors:
    """This process's pairs and their candidates. Samples have the scorer's shape (`…`)."""

    images: Tensor  # (B, …, D) with gradient
    texts: Tensor  # (B, …, D) with gradient
    all_images: Tensor  # (world · B, …, D) with gradient
    all_texts: Tensor  # (world · B, …, D) with gradient
    image_ids: Tensor  # (B,) equal for pairs that are not negatives of one another
    all_image_ids: Tensor  # (world · B,)
    offset: int  # of this process's pairs among all
    scorer: Scorer
    lengths: Lengths | None = None  # of this process's pairs; read by a local scorer
    all_lengths: Lengths | None = None  # of all


class Keys(NamedTuple):
    """Momentum keys of this process's pairs, and the bank of earlier ones."""

    images: Tensor  # (B, D)
    texts: Tensor  # (B, D)
    bank: CoupledBank


def gather_anchors(
    images: Tensor,
    texts: Tensor,
    image_ids: Tensor,
    scorer: Scorer | None = None,
    lengths: Lengths | None = None,
) -> Anchors:
    """Gather the samples of all processes under one branch.

    Args:
        images, texts: (B, …, D).
        image_ids: (B,) the batch's `image_groups`.
        scorer: of the pairs; None is the cosine.
        lengths: of the pairs, for a local scorer.
    """
    all_images, all_texts, all_ids = _gather(images), _gather(texts), parallel.gather_rows(image_ids)
    all_lengths = None if lengths is None else Lengths(*(parallel.gather_rows(counts) for counts in lengths))
    ids, offset, scorer = (image_ids, all_ids), parallel.rank() * len(image_ids), scorer or CosineScorer()
    return Anchors(images, texts, all_images, all_texts, *ids, offset, scorer, lengths, all_lengths)


def _gather(samples: Tensor) -> Tensor:
    """Gather samples; local features are padded to the longest of all processes."""
    if samples.ndim == 3 and parallel.world_size() > 1:
        longest = int(parallel.largest(torch.tensor([float(samples.shape[1])], device=samples.device)))
        samples = torch.nn.functional.pad(samples, (0, 0, 0, longest - samples.shape[1]))
    return parallel.gather_with_gradient(samples)


def batch_scores(anchors: Anchors) -> tuple[Tensor, Tensor]:
    """Return (B, world · B) scores of this process's images with all texts, and of its texts with all images."""
    lengths, all_lengths = anchors.lengths or (None, None), anchors.all_lengths or (None, None)
    forward = anchors.scorer(anchors.images, anchors.all_texts, lengths[0], all_lengths[1])
    if parallel.world_size() == 1:
        return forward, forward.T
    return forward, anchors.scorer(anchors.all_images, anchors.texts, all_lengths[0], lengths[1]).T


def batch_directions(anchors: Anchors, *, keep_same_image: bool) -> Iterator[Direction]:
    """Yield this process's images against all texts, then its texts against all images, with their negatives."""
    ids, offset = (anchors.image_ids, anchors.all_image_ids), anchors.offset
    for scores in batch_scores(anchors):
        yield in_batch_direction(scores, *ids, keep_same_image=keep_same_image, positive_offset=offset)


def mean_vectors(anchors: Anchors) -> Anchors:
    """Return the pairs with one vector a sample: the mean of its parts if the scorer reads several."""
    local = anchors.scorer.local
    here = anchors.lengths if local and anchors.lengths is not None else (None, None)
    everywhere = anchors.all_lengths if local and anchors.all_lengths is not None else (None, None)
    images, texts = mean_of_parts(anchors.images, here[0]), mean_of_parts(anchors.texts, here[1])
    all_images = mean_of_parts(anchors.all_images, everywhere[0])
    all_texts = mean_of_parts(anchors.all_texts, everywhere[1])
    return replace(anchors, images=images, texts=texts, all_images=all_images, all_texts=all_texts)


@dataclass(frozen=True)
class Losses:
    """Total loss of a step and its parts."""

    total: Tensor  # () the loss for the backward pass
    per_pair: Tensor  # (B,) each pair's share of the total, to name a sample that is not finite
    parts: dict[str, Tensor] = field(default_factory=dict)  # mean of each term over the anchors, unweighted
    diversity: Tensor | None = None  # (2 · B,) of this process's anchors, both modalities

    def plus(self, name: str, per_pair: Tensor, weight: float) -> Losses:
        """Add one term: (B,) a value for each pair, averaged, times its weight."""
        term = Losses(weight * per_pair.mean(), weight * per_pair.detach(), {name: per_pair.mean().detach()})
        return self._add(term, term.parts)

    def plus_branch(self, name: str, other: Losses) -> Losses:
        """Add the losses of another branch; its parts are named after it."""
        return self._add(other, {f"{name} {part}": value for part, value in other.parts.items()})

    def _add(self, other: Losses, parts: dict[str, Tensor]) -> Losses:
        per_pair = self.per_pair + other.per_pair
        return Losses(self.total + other.total, per_pair, {**self.parts, **parts}, self.diversity)


class Scale(NamedTuple):
    """Scale and bias of the logits: scale · S + bias."""

    scale: Tensor  # () above 0
    bias: Tensor | None = None  # ()

    def detached(self) -> Scale:
        """Return the same values without gradient."""
        return Scale(self.scale.detach(), None if self.bias is None else self.bias.detach())


class Candidates(NamedTuple):
    """Candidates of one direction: the batch, or the other modality's bank."""

    scores: Tensor  # (B, C)
    positive_scores: Tensor  # (B,)
    negatives: AllExcept  # of the loss
    other_images: AllExcept  # negatives of the diversity: never of the anchor's own image


def instance_dcl(
    anchors: Anchors, keys: Keys | None, config: Config, epoch: float, weights: Tensor | None = None
) -> Losses:
    """Compute 3·L_DCL^I + L_M_DCL^I (eq. 8), both directions.

    Args:
        keys: None without a memory.
        epoch: epochs done, with fraction; the bank's loss may wait.
        weights: (B,) of this process's pairs, or None; they multiply a pair's loss in the batch and against the banks.
    """
    objective = config.objective
    bank_loss = objective.weight_memory > 0 and epoch >= config.memory.bank_start_epoch
    reads_bank = bank_loss or (objective.diversity_from_bank and objective.loss == "dcl")
    # All large products before the small operations: they evict each other's code from the processor's cache.
    from_batch, from_bank = list(_batch_candidates(anchors, objective)), list[Candidates | None]((None, None))
    if reads_bank and keys is not None and keys.bank.count > 0:
        from_bank = list(_bank_candidates(anchors, keys, objective))

    batch_terms, bank_terms, diversities = [], [], []
    for in_batch, in_bank in zip(from_batch, from_bank, strict=True):
        diversity = None
        if objective.loss == "dcl":
            diversity = _diversity(in_batch, in_bank if objective.diversity_from_bank else None, objective)
            diversities.append(diversity.detach())
        batch_terms.append(_dcl(in_batch, diversity, objective))
        if in_bank is not None and bank_loss:
            bank_terms.append(_dcl(in_bank, diversity, objective))

    in_batch_loss = batch_terms[0] + batch_terms[1]
    per_pair = objective.weight_instance * in_batch_loss
    parts: dict[str, Tensor] = {objective.loss: in_batch_loss.mean().detach()}
    if bank_terms:
        in_bank_loss = bank_terms[0] + bank_terms[1]
        per_pair = per_pair + objective.weight_memory * in_bank_loss
        parts["m-dcl"] = in_bank_loss.mean().detach()
    if weights is not None:
        per_pair = per_pair * weights
    if bank_terms and keys is not None and config.memory.bank_anchors:
        of_entries = _bank_anchors(anchors, keys, objective)
        per_pair = per_pair + objective.weight_memory * of_entries
        parts["m-dcl-entries"] = of_entries.detach()
    return Losses(per_pair.mean(), per_pair.detach(), parts, torch.cat(diversities) if diversities else None)


def concept_dcl(anchors: Anchors, objective: ObjectiveConfig) -> Tensor:
    """Return (B,) L_DCL^C (section 3.3): a symmetric DCL on (V^C, W^C) with batch-level diversity, whatever the loss of
    the instance branch; DCL_I where that is dcl-i."""
    out, back = (
        _dcl(way, None if objective.loss == "dcl-i" else _diversity(way, None, objective), objective)
        for way in _batch_candidates(anchors, objective)
    )
    return out + back


def _batch_candidates(anchors: Anchors, objective: ObjectiveConfig) -> Iterator[Candidates]:
    """Yield the batch's candidates per direction; both share the negatives: row i and column i are one pair."""
    negatives = _negatives(anchors.image_ids, anchors.all_image_ids, objective, anchors.offset)
    for scores in batch_scores(anchors):
        yield Candidates(scores, scores.diagonal(anchors.offset), *negatives)


def _bank_candidates(anchors: Anchors, keys: Keys, objective: ObjectiveConfig) -> Iterator[Candidates]:
    """Yield the filled slots per direction, before this step's keys enter."""
    bank = keys.bank
    negatives = _negatives(anchors.image_ids, bank.image_ids[: bank.count], objective, None)
    ways = ((anchors.images, bank.texts, keys.texts), (anchors.texts, bank.images, keys.images))
    for queries, slots, partners in ways:
        yield Candidates(queries @ slots[: bank.count].T, (queries * partners).sum(1), *negatives)


def _bank_anchors(anchors: Anchors, keys: Keys, objective: ObjectiveConfig) -> Tensor:
    """Return L_M_DCL with the bank's entries as anchors against the pairs of all processes, both directions: the mean, ().

    Eq. 6 is an L_DCL of two sets, and eq. 5 sums both directions of one. An entry's positive is the other key of its
    own pair, which carries no gradient: only its negatives train.
    """
    bank, slots = keys.bank, slice(keys.bank.count)
    negatives = _negatives(bank.image_ids[slots], anchors.all_image_ids, objective, None)
    positive_scores = (bank.images[slots] * bank.texts[slots]).sum(1)
    total = positive_scores.new_zeros(())
    for entries, candidates in ((bank.images, anchors.all_texts), (bank.texts, anchors.all_images)):
        direction = Candidates(entries[slots] @ candidates.T, positive_scores, *negatives)
        # Every process has all entries and all candidates, so none has another largest diversity.
        diversity = _diversity(direction, None, objective, torch.amax) if objective.loss == "dcl" else None
        total = total + _dcl(direction, diversity, objective).mean()
    return total


def _negatives(
    query_ids: Tensor, candidate_ids: Tensor, objective: ObjectiveConfig, positive_offset: int | None
) -> tuple[AllExcept, AllExcept]:
    """Return the negatives of the loss and of the diversity."""
    other_images = all_except_same_image(query_ids, candidate_ids)
    if not objective.same_image_negatives:
        return other_images, other_images
    others = all_except_same_image(query_ids, candidate_ids, True, positive_offset=positive_offset)
    return others, other_images


def _diversity(
    in_batch: Candidates,
    in_bank: Candidates | None,
    objective: ObjectiveConfig,
    largest: Callable[[Tensor], Tensor] = parallel.largest_with_gradient,
) -> Tensor:
    return anchor_diversity(
        (in_batch.scores, in_batch.other_images),
        None if in_bank is None else (in_bank.scores, in_bank.other_images),
        measure=objective.diversity,
        epsilon=objective.epsilon,
        entropy_temperature=objective.entropy_temperature,
        gradient=objective.diversity_gradient,
        largest=largest,
    )


def _dcl(candidates: Candidates, diversity: Tensor | None, objective: ObjectiveConfig) -> Tensor:
    return diversity_contrastive(
        candidates.scores,
        candidates.positive_scores,
        candidates.negatives,
        diversity=diversity,
        temperature=objective.temperature,
        margin=objective.gamma,
        positive_scale=objective.positive_scale,
        positive_clamp=objective.positive_clamp,
    )


def plain_losses(
    anchors: Anchors,
    objective: ObjectiveConfig,
    epoch: float,
    weights: Tensor | None = None,
    scale: Scale | None = None,
) -> Losses:
    """Compute any loss except DCL, both directions; (B,) `weights` multiply a pair's loss in both. A learned `scale` of
    the logits takes the place of the configured one."""
    hardest = triplet_sum if epoch < objective.warmup_epochs else triplet_hardest
    temperature: float | Tensor = objective.temperature if scale is None else 1 / scale.scale
    bias: float | Tensor = objective.logit_bias if scale is None or scale.bias is None else scale.bias
    losses: dict[str, Callable[..., Tensor]] = {
        "infonce": partial(info_nce, temperature=temperature),
        "sigmoid": partial(pairwise_sigmoid, scale=1 / temperature, bias=bias),
        "cmpm": partial(projection_matching, temperature=temperature),
        "polynomial": partial(polynomial_hardest, margin=objective.margin),
        "npairs-hinge": partial(npairs_hinge, margin=objective.npairs_margin),
        "btr-sum": partial(triplet_sum, margin=objective.margin),
        "btr-hardest": partial(hardest, margin=objective.margin),
    }
    directions = batch_directions(anchors, keep_same_image=objective.same_image_negatives)
    per_pair = torch.stack([losses[objective.loss](*direction) for direction in directions]).sum(0)
    parts: dict[str, Tensor] = {objective.loss: per_pair.mean().detach()}
    if weights is not None:
        per_pair = per_pair * weights
    # Triplet losses are summed over the batch (vsepp); with the clipped gradient this decides how they train.
    summed = objective.loss.startswith("btr-")
    total = per_pair.sum() * parallel.world_size() if summed else per_pair.mean()
    return Losses(total * objective.weight_instance, per_pair.detach(), parts)
