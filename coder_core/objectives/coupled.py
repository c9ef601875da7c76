"""CODER's losses of a batch of pairs: DCL in the batch and M-DCL against the banks, both directions (eq. 4-6, 8)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from coder_core.objectives.anchors import Anchors, Keys, batch_scores
from coder_core.objectives.diversity import Measure, anchor_diversity
from coder_core.objectives.diversity_contrastive import PositiveClamp, PositiveScale, diversity_contrastive
from coder_core.objectives.pairs import AllExcept, all_except_same_image
from coder_core.ops import parallel


@dataclass(frozen=True)
class DclSettings:
    """Settings of `coupled_dcl`; see `diversity_contrastive` and `anchor_diversity` for those of one direction."""

    temperature: float = 0.1
    margin: float = 0.3
    positive_scale: PositiveScale = "one"
    positive_clamp: PositiveClamp = "clamp"
    diversity: Measure | None = "std"  # None: DCL_I, without diversity
    epsilon: float = 0.1
    entropy_temperature: float = 1.0
    diversity_gradient: bool = False
    diversity_from_bank: bool = True  # average the batch's and the bank's diversity
    same_image_negatives: bool = False  # other captions of the anchor's image are negatives
    weight_batch: float = 3.0
    weight_bank: float = 1.0
    bank_anchors: bool = False  # use the bank's entries as anchors too

    def __post_init__(self) -> None:
        scores = torch.zeros(1, 1)
        nowhere = torch.zeros(0, dtype=torch.int64)
        example = Candidates(scores, scores[0], *[AllExcept(nowhere, nowhere)] * 2)
        diversity = _diversity(example, None, self, torch.amax)  # refuses bad settings, as `_dcl` does
        if not bool(_dcl(example, diversity, self).isfinite()):
            raise ValueError(f"margin must be finite, got {self.margin}")


class Candidates(NamedTuple):
    """Candidates of one direction: the batch, or the other modality's bank."""

    scores: Tensor  # (B, C)
    positive_scores: Tensor  # (B,)
    negatives: AllExcept  # for the loss
    other_images: AllExcept  # negatives for the diversity, which never include the anchor's own image


class CoupledDcl(NamedTuple):
    """Losses of a batch, summed over both directions."""

    per_pair: Tensor  # (B,) weighted sum of the terms
    in_batch: Tensor  # (B,) L_DCL, unweighted
    in_bank: Tensor | None  # (B,) L_M_DCL, unweighted
    of_entries: Tensor | None  # () L_M_DCL with the bank's entries as anchors, unweighted
    diversity: Tensor | None  # (2 · B,) of the images, then of the captions


def coupled_dcl(
    anchors: Anchors, keys: Keys | None, settings: DclSettings, *, weights: Tensor | None = None
) -> CoupledDcl:
    """Compute 3·L_DCL^I + L_M_DCL^I (eq. 8), in both directions.

    Args:
        keys: momentum keys and bank; None without a memory.
        weights: (B,) of this process's pairs, or None; they multiply a pair's loss in the batch and against the banks.

    >>> from coder_core.objectives.anchors import gather_anchors
    >>> anchors = gather_anchors(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
    >>> coupled_dcl(anchors, None, DclSettings()).in_batch
    tensor([-1.3766, -1.3766])
    """
    bank_loss = settings.weight_bank > 0
    reads_bank = bank_loss or (settings.diversity_from_bank and settings.diversity is not None)
    # Compute all large products before the small operations: they evict each other's code from the processor's cache.
    from_batch = list(_batch_candidates(anchors, settings))
    from_bank = list[Candidates | None]((None, None))
    if reads_bank and keys is not None and keys.bank.count > 0:
        from_bank = list(_bank_candidates(anchors, keys, settings))

    batch_terms = []
    bank_terms = []
    diversities = []
    for in_batch, in_bank in zip(from_batch, from_bank, strict=True):
        diversity = _diversity(in_batch, in_bank if settings.diversity_from_bank else None, settings)
        if diversity is not None:
            diversities.append(diversity.detach())
        batch_terms.append(_dcl(in_batch, diversity, settings))
        if in_bank is not None and bank_loss:
            bank_terms.append(_dcl(in_bank, diversity, settings))

    in_batch_loss = batch_terms[0] + batch_terms[1]
    per_pair = settings.weight_batch * in_batch_loss
    in_bank_loss = None
    of_entries = None
    if bank_terms:
        in_bank_loss = bank_terms[0] + bank_terms[1]
        per_pair = per_pair + settings.weight_bank * in_bank_loss
    if weights is not None:
        per_pair = per_pair * weights
    if bank_terms and keys is not None and settings.bank_anchors:
        of_entries = _bank_anchors(anchors, keys, settings)
        per_pair = per_pair + settings.weight_bank * of_entries
    diversity = torch.cat(diversities) if diversities else None
    return CoupledDcl(per_pair, in_batch_loss, in_bank_loss, of_entries, diversity)


def batch_dcl(anchors: Anchors, settings: DclSettings) -> Tensor:
    """Return (B,) L_DCL, the sum of both directions over the batch alone, unweighted.

    >>> from coder_core.objectives.anchors import gather_anchors
    >>> batch_dcl(gather_anchors(torch.eye(2), torch.eye(2), torch.tensor([0, 1])), DclSettings())
    tensor([-1.3766, -1.3766])
    """
    ways = _batch_candidates(anchors, settings)
    out, back = (_dcl(way, _diversity(way, None, settings), settings) for way in ways)
    return out + back


def _batch_candidates(anchors: Anchors, settings: DclSettings) -> Iterator[Candidates]:
    """Yield the batch's candidates per direction; both share the negatives, because row i and column i are one pair."""
    negatives = _negatives(anchors.image_ids, anchors.all_image_ids, settings, anchors.offset)
    for scores in batch_scores(anchors):
        yield Candidates(scores, scores.diagonal(anchors.offset), *negatives)


def _bank_candidates(anchors: Anchors, keys: Keys, settings: DclSettings) -> Iterator[Candidates]:
    """Yield the bank's filled slots as candidates of each direction, before this step's keys enter."""
    bank = keys.bank
    negatives = _negatives(anchors.image_ids, bank.image_ids[: bank.count], settings, None)
    ways = ((anchors.images, bank.texts, keys.texts), (anchors.texts, bank.images, keys.images))
    for queries, slots, partners in ways:
        yield Candidates(queries @ slots[: bank.count].T, (queries * partners).sum(1), *negatives)


def _bank_anchors(anchors: Anchors, keys: Keys, settings: DclSettings) -> Tensor:
    """Return the mean L_M_DCL, (), in both directions, with the bank's entries as anchors and all pairs as candidates.

    Eq. 6 is an L_DCL of two sets, and the L_DCL of eq. 5 sums both directions. An entry's positive is the other key of
    its own pair, which carries no gradient, so only its negatives train.
    """
    bank = keys.bank
    slots = slice(keys.bank.count)
    negatives = _negatives(bank.image_ids[slots], anchors.all_image_ids, settings, None)
    positive_scores = (bank.images[slots] * bank.texts[slots]).sum(1)
    total = positive_scores.new_zeros(())
    for entries, candidates in ((bank.images, anchors.all_texts), (bank.texts, anchors.all_images)):
        direction = Candidates(entries[slots] @ candidates.T, positive_scores, *negatives)
        # Every process has all entries and all candidates, so all find the same largest diversity.
        diversity = _diversity(direction, None, settings, torch.amax)
        total = total + _dcl(direction, diversity, settings).mean()
    return total


def _negatives(
    query_ids: Tensor, candidate_ids: Tensor, settings: DclSettings, positive_offset: int | None
) -> tuple[AllExcept, AllExcept]:
    """Return the negatives for the loss and those for the diversity."""
    other_images = all_except_same_image(query_ids, candidate_ids)
    if not settings.same_image_negatives:
        return other_images, other_images
    others = all_except_same_image(query_ids, candidate_ids, True, positive_offset=positive_offset)
    return others, other_images


def _diversity(
    in_batch: Candidates,
    in_bank: Candidates | None,
    settings: DclSettings,
    largest: Callable[[Tensor], Tensor] = parallel.largest_with_gradient,
) -> Tensor | None:
    if settings.diversity is None:
        return None
    return anchor_diversity(
        (in_batch.scores, in_batch.other_images),
        None if in_bank is None else (in_bank.scores, in_bank.other_images),
        measure=settings.diversity,
        epsilon=settings.epsilon,
        entropy_temperature=settings.entropy_temperature,
        gradient=settings.diversity_gradient,
        largest=largest,
    )


def _dcl(candidates: Candidates, diversity: Tensor | None, settings: DclSettings) -> Tensor:
    return diversity_contrastive(
        candidates.scores,
        candidates.positive_scores,
        candidates.negatives,
        diversity=diversity,
        temperature=settings.temperature,
        margin=settings.margin,
        positive_scale=settings.positive_scale,
        positive_clamp=settings.positive_clamp,
    )
