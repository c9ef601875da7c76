"""CODER's losses from top to bottom: DCL_I, DCL and M-DCL, eq. 3 to 6 and 8, and their module.

    eq. 3       diversity of an anchor over its negatives       diversity_std, diversity_entropy (supplement eq. 16)
                the same over batch and bank (section 3.3)      anchor_diversity
    eq. 4, 5    loss of an anchor in one direction              diversity_contrastive
    eq. 5, 6    both directions, in the batch and against       CoderLoss.terms
    eq. 8       the banks, with their weights

The functions take one direction. Their arguments select the loss: DCL_I without diversity, DCL with diversity over the
batch, M-DCL with candidates from the other modality's bank. (DCL is not "decoupled contrastive learning" here.)

Diversity: spread -> squash -> raw in [1, 2) -> (average of batch and bank) -> divide by the largest -> (0.5, 1]. Low
spread is low diversity: the negatives look alike to this anchor, so its temperature falls. One section of the supplement
calls ambiguous samples "high diversity"; its formula implies the opposite, and the code follows the formula. The
supplement's E[S] − E[S]² is not a variance (negative for a negative mean), so the main text's E[S²] − E[S]² is used,
computed as E[(S − E[S])²] to avoid cancellation.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from coder_core.objectives.memory import CoupledBank
from coder_core.objectives.modules import PairLoss, Terms
from coder_core.objectives.pairs import (
    Anchors,
    Keys,
    batch_scores,
    check_shapes,
    check_width,
    pairs_of,
    same_image_negatives,
)
from coder_core.objectives.table import EPSILON, MARGIN, TEMPERATURE
from coder_core.ops import full_precision, log1p_sum_exp, parallel
from coder_core.ops.diversity_scaling import Measure, normalise_by_largest, sharpness, spread, squash

PositiveScale = Literal["one", "temperature"]
PositiveClamp = Literal["clamp", "relu"]

LOWEST_COSINE = -1 + 1e-4  # lower limit of S⁺ in log(1 + S⁺), which is -inf at a cosine of -1


def diversity_std(
    scores: Tensor, negatives: Tensor, *, epsilon: float = EPSILON, normalise: bool = True
) -> Tensor:
    """Measure diversity by the standard deviation of each anchor's scores over its negatives. CODER eq. 3.

    In plain terms: 1. take the deviation of the anchor's similarities to its negatives; 2. squash it to
    1 / sigmoid(ε / deviation), between 1 and 2; 3. divide by the largest over all anchors.

    Args:
        scores: (Q, C) similarities.
        negatives: (Q, C) bool; only these entries enter the statistics.
        epsilon: > 0, the scale of the squashing: the raw value is 1 + 1/e where the spread equals it.
        normalise: divide by the largest value over the anchors.

    Returns:
        (Q,) in (0.5, 1] with the largest exactly 1; in [1, 2) when not normalised.

    >>> scores = torch.tensor([[0.1, 0.3], [0.5, 0.5]])  # the second anchor's negatives look alike to it
    >>> diversity_std(scores, torch.ones(2, 2, dtype=torch.bool))
    tensor([1.0000, 0.7311])
    """
    raw = squash(negative_spread(scores, negatives), epsilon)
    return normalise_by_largest(raw) if normalise else raw


def diversity_entropy(
    scores: Tensor,
    negatives: Tensor,
    *,
    epsilon: float = EPSILON,
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
    raw = squash(negative_spread(scores, negatives, "entropy", temperature=temperature), epsilon)
    return normalise_by_largest(raw) if normalise else raw


def negative_spread(
    scores: Tensor, negatives: Tensor, measure: Measure = "std", *, temperature: float = 1.0
) -> Tensor:
    """Measure the spread of each anchor's scores over its negatives; 0 for an anchor without any.

    "std" is sqrt(E[(S − E[S])²]), with a zero gradient where it is 0; "entropy" is −Σ P log2 P in bits, where P is the
    softmax of S / temperature over the negatives. `ops.diversity_scaling.spread`, which the api uses too, computes both.

    Raises:
        ValueError: an unknown measure, or a temperature that is not positive.

    >>> negative_spread(torch.tensor([[0.1, 0.3, 0.9]]), torch.tensor([[True, True, False]]))
    tensor([0.1000])
    """
    check_shapes(scores, None, negatives)
    finite = torch.where(negatives, full_precision(scores), 0.0)
    if measure == "std" and scores.device.type != "cpu":  # a list of what is excluded would wait for the GPU
        return _masked_deviation(finite, negatives)
    rows, columns = (~negatives).nonzero(as_tuple=True)
    return spread(finite, (rows, columns), measure, temperature)


def _masked_deviation(scores: Tensor, negatives: Tensor) -> Tensor:
    """Return (Q,) the deviation of each row of (Q, C) scores, which are 0 where they are not of negatives."""
    count = negatives.sum(1).clamp_min(1).to(scores.dtype)
    mean = scores.sum(1) / count
    centred = torch.where(negatives, scores - mean[:, None], 0.0)
    return torch.linalg.vector_norm(centred, dim=1) / count.sqrt()


def anchor_diversity(
    batch: tuple[Tensor, Tensor],
    bank: tuple[Tensor, Tensor] | None = None,
    *,
    measure: Measure = "std",
    epsilon: float = EPSILON,
    entropy_temperature: float = 1.0,
    bank_share: float = 0.5,
    gradient: bool = False,
    largest: Callable[[Tensor], Tensor] = torch.amax,
) -> Tensor:
    """Measure the diversity of one modality's anchors over batch and bank, as used in training. CODER section 3.3.

    Args:
        batch: (Q, C) scores and (Q, C) negatives within the batch.
        bank: the same in the other modality's bank; an anchor without negatives there keeps its batch value.
        measure: `diversity_std` or `diversity_entropy`.
        epsilon: of the squashing.
        entropy_temperature: of the entropy's softmax.
        bank_share: weight of the bank's raw value, from 0 to 1; the batch's has 1 − bank_share.
        gradient: let gradients flow through the diversity, including the maximum that normalises it.
        largest: (Q,) raw values -> their maximum over the anchors of all processes, differentiable.

    Returns:
        (Q,) in (0.5, 1].

    Raises:
        ValueError: an unknown measure, or a bank_share outside [0, 1].

    >>> two, three = torch.ones(2, 2, dtype=torch.bool), torch.tensor([[True, True, True], [False, False, False]])
    >>> anchor_diversity((torch.tensor([[0.1, 0.3], [0.5, 0.5]]), two), (torch.zeros(2, 3), three))
    tensor([1.0000, 0.8446])
    """
    if not 0 <= bank_share <= 1:
        raise ValueError(f"bank_share must be in [0, 1], got {bank_share}")

    def raw(scores: Tensor, negatives: Tensor) -> Tensor:
        return squash(negative_spread(scores, negatives, measure, temperature=entropy_temperature), epsilon)

    with torch.set_grad_enabled(gradient and torch.is_grad_enabled()):
        scores, negatives = batch
        blended = raw(scores, negatives)
        if bank is not None and bank_share > 0:
            bank_scores, bank_negatives = bank
            has_bank = bank_negatives.any(1)
            difference = raw(bank_scores, bank_negatives) - blended
            blended = blended + torch.where(has_bank, bank_share * difference, 0.0)
        return normalise_by_largest(blended, largest(blended))


def diversity_contrastive(
    scores: Tensor,
    positive_scores: Tensor,
    negatives: Tensor,
    *,
    diversity: Tensor | None = None,
    temperature: float = TEMPERATURE,
    margin: float = MARGIN,
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
        negatives: (Q, C) bool. The sum excludes the positive exactly; HAL and USER leave a term exp(−γ/μ) for it.
        diversity: (Q,) in (0.5, 1], detached unless it should be trained; None is 1 for every anchor.
        temperature: μ > 0.
        margin: γ, the similarity above which a negative weighs more than the 1 in the sum.
        positive_scale: "one" leaves the positive term unscaled, as HAL and USER do; "temperature" multiplies it by
            μ, as printed, which makes the pull ten times weaker than the push.
        positive_clamp: "clamp" is log(1 + max(S⁺, −1 + 1e-4)); "relu" is HAL's and USER's log(1 + max(S⁺, 0)),
            without a gradient for a negative cosine.

    Returns:
        (Q,) losses; an anchor without negatives keeps its positive term.

    Raises:
        ValueError: temperature is not positive, or `positive_scale` or `positive_clamp` is unknown.

    >>> scores = torch.tensor([[0.8, 0.4, 0.2], [0.3, 0.7, 0.3], [0.1, 0.5, 0.6]])
    >>> negatives = ~torch.eye(3, dtype=torch.bool)
    >>> diversity = diversity_std(scores, negatives)
    >>> diversity_contrastive(scores, scores.diagonal(), negatives, diversity=diversity)
    tensor([-0.4364, -0.4208, -0.2557])
    """
    check_shapes(scores, positive_scores, negatives)
    # In place, because the scores of a bank are large; those that are not negatives become 0.
    exponents = torch.where(negatives, full_precision(scores), margin).sub_(margin)
    if diversity is None:
        exponents.mul_(sharpness(1.0, temperature))
    else:
        exponents.mul_(sharpness(diversity.to(exponents.dtype), temperature)[:, None])
    push = temperature * log1p_sum_exp(exponents, negatives)
    pull = _positive_term(positive_scores, positive_clamp)
    if positive_scale not in ("one", "temperature"):
        raise ValueError(f'positive_scale must be "one" or "temperature", got {positive_scale!r}')
    return push - (pull if positive_scale == "one" else temperature * pull)


def _positive_term(positive_scores: Tensor, clamp: PositiveClamp) -> Tensor:
    """Return log(1 + S⁺) of (Q,) scores, limited from below as `clamp` selects."""
    if clamp not in ("clamp", "relu"):
        raise ValueError(f'positive_clamp must be "clamp" or "relu", got {clamp!r}')
    scores = full_precision(positive_scores)
    return torch.log1p(scores.clamp_min(LOWEST_COSINE) if clamp == "clamp" else torch.relu(scores))


class Candidates(NamedTuple):
    """Candidates of one direction: the batch, or the other modality's bank."""

    scores: Tensor  # (Q, C)
    positive_scores: Tensor  # (Q,)
    negatives: Tensor  # (Q, C) bool, for the loss
    other_images: Tensor  # (Q, C) bool, for the diversity: never of the anchor's own image


class CoderLoss(PairLoss):
    """CODER's diversity-sensitive contrastive loss: 3·DCL in the batch + M-DCL against a bank (eq. 8); without a bank
    DCL alone (eq. 5).

    Args:
        temperature, margin: μ and γ; 0.1 and 0.3 in the paper.
        diversity: "std" (eq. 3), "entropy" (supplement), or None for DCL_I, the loss without diversity.
        bank_size: number of earlier pairs used as further negatives, 4096 in the paper (Flickr30K); 0: no bank.
        dimension: D, required with a bank.
        weight_batch: weight of the loss in the batch; None: 3 with a bank, 1 without.
        weight_bank: weight of the bank's loss.
        bank_anchors: use the bank's entries as anchors too (eq. 6 read literally).
        diversity_from_bank: average the batch's and the bank's diversity.
        diversity_gradient: let gradients flow through the diversity.
        epsilon, entropy_temperature: see `anchor_diversity`.
        positive_scale, positive_clamp: see `diversity_contrastive`.
    """

    def __init__(
        self,
        temperature: float = TEMPERATURE,
        margin: float = MARGIN,
        diversity: Measure | None = "std",
        bank_size: int = 0,
        dimension: int | None = None,
        *,
        weight_batch: float | None = None,
        weight_bank: float = 1.0,
        bank_anchors: bool = False,
        diversity_from_bank: bool = True,
        diversity_gradient: bool = False,
        epsilon: float = EPSILON,
        entropy_temperature: float = 1.0,
        positive_scale: PositiveScale = "one",
        positive_clamp: PositiveClamp = "clamp",
        same_image_negatives: bool = False,
    ) -> None:
        super().__init__()
        if bank_size and dimension is None:
            raise ValueError(f"bank_size {bank_size} needs dimension, the size of an embedding")
        if weight_batch is None:
            weight_batch = 3.0 if bank_size else 1.0

        self.temperature = temperature
        self.margin = margin
        self.measure = diversity
        self.weight_batch = weight_batch
        self.weight_bank = weight_bank
        self.bank_anchors = bank_anchors
        self.diversity_from_bank = diversity_from_bank
        self.diversity_gradient = diversity_gradient
        self.epsilon = epsilon
        self.entropy_temperature = entropy_temperature
        self.positive_scale = positive_scale
        self.positive_clamp = positive_clamp
        self.same_image_negatives = same_image_negatives

        self.bank = CoupledBank(bank_size, dimension or 0) if bank_size else None
        self._refuse_bad_settings()

    def _refuse_bad_settings(self) -> None:
        """Compute the loss of an example, which raises ValueError for a bad setting."""
        scores = torch.zeros(1, 1)
        everything = torch.ones(1, 1, dtype=torch.bool)
        example = Candidates(scores, scores[0], everything, everything)
        diversity = self._diversity(example, None, torch.amax)
        if not bool(self._dcl(example, diversity).isfinite()):
            raise ValueError(f"margin must be finite, got {self.margin}")

    def terms(self, anchors: Anchors, weights: Tensor | None = None, keys: Keys | None = None) -> Terms:
        """Return 3·L_DCL^I + L_M_DCL^I (eq. 8) of this process's pairs, in both directions.

        Args:
            weights: (B,) or None; they multiply a pair's loss in the batch and against the banks.
            keys: momentum keys of the pairs and the bank of earlier ones; None without a bank.

        Returns:
            Terms; the others are "m-dcl", (B,), and "m-dcl-entries", (), with `bank_anchors`.
        """
        has_bank = keys is not None and keys.bank.count > 0
        bank_loss = has_bank and self.weight_bank > 0
        bank_diversity = has_bank and self.diversity_from_bank and self.measure is not None
        # Compute all large products before the small operations: they evict each other's code from the processor's cache.
        from_batch = list(self._in_batch(anchors))
        from_bank: list[Candidates | None] = [None, None]
        if keys is not None and (bank_loss or bank_diversity):
            from_bank = list(self._in_bank(anchors, keys))

        batch_terms = []
        bank_terms = []
        diversities = []
        for in_batch, in_bank in zip(from_batch, from_bank, strict=True):
            diversity = self._diversity(in_batch, in_bank if bank_diversity else None)
            if diversity is not None:
                diversities.append(diversity.detach())
            batch_terms.append(self._dcl(in_batch, diversity))
            if in_bank is not None and bank_loss:
                bank_terms.append(self._dcl(in_bank, diversity))

        loss_in_batch = batch_terms[0] + batch_terms[1]
        per_pair = self.weight_batch * loss_in_batch
        others = {}
        if bank_terms:
            others["m-dcl"] = bank_terms[0] + bank_terms[1]
            per_pair = per_pair + self.weight_bank * others["m-dcl"]
        if weights is not None:
            per_pair = per_pair * weights
        if keys is not None and bank_terms and self.bank_anchors:
            others["m-dcl-entries"] = self._of_entries(anchors, keys)
            per_pair = per_pair + self.weight_bank * others["m-dcl-entries"]
        return Terms(per_pair, loss_in_batch, others, torch.cat(diversities) if diversities else None)

    def _in_batch(self, anchors: Anchors) -> Iterator[Candidates]:
        """Yield the batch's candidates per direction; both share the negatives, because row i and column i are one
        pair."""
        negatives, other_images = self._negatives(anchors.image_ids, anchors.all_image_ids, anchors.offset)
        for scores in batch_scores(anchors):
            yield Candidates(scores, scores.diagonal(anchors.offset), negatives, other_images)

    def _in_bank(self, anchors: Anchors, keys: Keys) -> Iterator[Candidates]:
        """Yield the bank's filled slots as candidates of each direction, before this step's keys enter."""
        bank = keys.bank
        filled = slice(bank.count)
        negatives, other_images = self._negatives(anchors.image_ids, bank.image_ids[filled], None)
        for queries, slots, partners in (
            (anchors.images, bank.texts, keys.texts),
            (anchors.texts, bank.images, keys.images),
        ):
            positive_scores = (queries * partners).sum(1)
            yield Candidates(queries @ slots[filled].T, positive_scores, negatives, other_images)

    def _of_entries(self, anchors: Anchors, keys: Keys) -> Tensor:
        """Return the mean L_M_DCL, (), in both directions, with the bank's entries as anchors and all pairs as
        candidates.

        Eq. 6 is an L_DCL of two sets, and the L_DCL of eq. 5 sums both directions. An entry's positive is the other key
        of its own pair, which carries no gradient, so only its negatives train.
        """
        bank = keys.bank
        filled = slice(bank.count)
        negatives, other_images = self._negatives(bank.image_ids[filled], anchors.all_image_ids, None)
        positive_scores = (bank.images[filled] * bank.texts[filled]).sum(1)
        total = positive_scores.new_zeros(())
        for entries, candidates in ((bank.images, anchors.all_texts), (bank.texts, anchors.all_images)):
            direction = Candidates(entries[filled] @ candidates.T, positive_scores, negatives, other_images)
            # Every process has all entries and all candidates, so all find the same largest diversity.
            diversity = self._diversity(direction, None, torch.amax)
            total = total + self._dcl(direction, diversity).mean()
        return total

    def _negatives(
        self, query_ids: Tensor, candidate_ids: Tensor, positive_offset: int | None
    ) -> tuple[Tensor, Tensor]:
        """Return the (Q, C) negatives for the loss and those for the diversity."""
        other_images = same_image_negatives(query_ids, candidate_ids)
        if not self.same_image_negatives:
            return other_images, other_images
        literal = same_image_negatives(query_ids, candidate_ids, True, positive_offset=positive_offset)
        return literal, other_images

    def _diversity(
        self,
        in_batch: Candidates,
        in_bank: Candidates | None,
        largest: Callable[[Tensor], Tensor] = parallel.largest_with_gradient,
    ) -> Tensor | None:
        """Return the (Q,) diversities of the anchors of one direction; None for DCL_I."""
        if self.measure is None:
            return None
        return anchor_diversity(
            (in_batch.scores, in_batch.other_images),
            None if in_bank is None else (in_bank.scores, in_bank.other_images),
            measure=self.measure,
            epsilon=self.epsilon,
            entropy_temperature=self.entropy_temperature,
            gradient=self.diversity_gradient,
            largest=largest,
        )

    def _dcl(self, candidates: Candidates, diversity: Tensor | None) -> Tensor:
        """Return the (Q,) losses of one direction."""
        return diversity_contrastive(
            candidates.scores,
            candidates.positive_scores,
            candidates.negatives,
            diversity=diversity,
            temperature=self.temperature,
            margin=self.margin,
            positive_scale=self.positive_scale,
            positive_clamp=self.positive_clamp,
        )

    def new_id(self) -> int:
        """Return an id above those in the bank."""
        return 0 if self.bank is None else int(self.bank.image_ids.max()) + 1

    def per_pair(
        self,
        anchors: Anchors,
        weights: Tensor | None,
        *,
        image_keys: Tensor | None = None,
        text_keys: Tensor | None = None,
    ) -> Tensor:
        """Return (B,) losses, times their weights; in training mode this batch's keys enter the bank for later batches.

        Args:
            image_keys, text_keys: (B, D) keys of the same pairs from momentum encoders (`momentum_encoder`,
                `update_momentum`), as in the paper. None uses the embeddings themselves, as XBM does (Wang et al. 2020).
        """
        bank = self.bank
        if bank is None:
            if image_keys is not None or text_keys is not None:
                raise ValueError("image_keys and text_keys need a bank: give bank_size and dimension")
            return self.terms(anchors, weights).per_pair
        if (image_keys is None) != (text_keys is None):
            raise ValueError("give the keys of both modalities, or of neither")

        partners = anchors
        if image_keys is not None and text_keys is not None:
            partners = pairs_of(image_keys, text_keys, anchors.image_ids, names=("image_keys", "text_keys"))

        images = partners.images.detach()
        texts = partners.texts.detach()
        check_width(images, bank.images.shape[1])
        # A copy: backward() reads its slots, and the bank changes below.
        earlier = copy.deepcopy(bank).to(images.dtype)
        losses = self.terms(anchors, weights, Keys(images, texts, earlier)).per_pair
        if self.training:
            bank.enqueue(
                parallel.gather_rows(images),
                parallel.gather_rows(texts),
                parallel.gather_rows(anchors.image_ids),
            )

        return losses
