"""Losses as modules for any training loop: embeddings in, a scalar out.

    loss = CoderLoss(temperature=0.05, bank_size=4096, dimension=512)
    loss(image_embeddings, text_embeddings, image_ids).backward()

    image_embeddings, text_embeddings  (B, D), row i of both is one pair; any length and any float type: rows are
                                       normalised here, in float32
    image_ids                          (B,) integers; rows with the same id show the same image and are not negatives of
                                       each other. None: every row shows a different image
    weights                            (B,) one per pair; None: all are equal
    result                             (), the mean over this process's pairs

A loss keeps its state (bank, learned scale, prototypes) in its `state_dict`; pass `loss.parameters()`, if it has any, to
the optimizer. Under torch.distributed every process calls the loss with the same number of rows. Candidates, bank and
prototypes are then those of all processes, and the average of their gradients, as DistributedDataParallel computes it,
is that of a single process; `coder_core.ops.parallel.average_gradients` averages those of the loss's parameters.

Every loss raises ValueError if shapes do not match, a value is not finite, or no row is a negative of another.
"""

import copy
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from coder_core.objectives.anchors import Anchors, Keys, batch_directions, batch_scores, gather_anchors
from coder_core.objectives.batch_weights import batch_weights
from coder_core.objectives.contrastive import info_nce, pairwise_sigmoid
from coder_core.objectives.coupled import DclSettings, coupled_dcl
from coder_core.objectives.memory import CoupledBank
from coder_core.objectives.prototype_guided import prototype_guided, prototype_logits
from coder_core.objectives.prototypes import Prototypes, pair_vectors
from coder_core.objectives.teachers import against_teachers, teacher_loss
from coder_core.objectives.triplet import triplet_hardest, triplet_sum
from coder_core.ops import full_precision, normalise, parallel

LARGEST_SCALE = 100.0  # of the logits; CLIP's training became unstable with a larger one

Forward = TypeVar("Forward", bound=Callable[..., Tensor])


def without_autocast(forward: Forward) -> Forward:
    """Compute a module's `forward` in the precision of its arguments: autocast would round the scores to bfloat16.

    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     without_autocast(lambda module, rows: rows @ rows.T)(nn.Identity(), torch.eye(1)).dtype
    torch.float32
    """

    @functools.wraps(forward)
    def wrapped(module: nn.Module, *args: Any, **named: Any) -> Tensor:
        devices = (value.device.type for value in (*args, *named.values()) if isinstance(value, Tensor))
        with torch.autocast(next(devices, "cpu"), enabled=False):
            return forward(module, *args, **named)

    return cast(Forward, wrapped)


class PairLoss(nn.Module):
    """A loss of both directions of a batch: image to text and text to image."""

    @without_autocast
    def forward(
        self,
        image_embeddings: Tensor,
        text_embeddings: Tensor,
        image_ids: Tensor | None = None,
        *,
        weights: Tensor | None = None,
        **named: Tensor | None,
    ) -> Tensor:
        """Return the mean loss of this process's pairs, (); `named`: further arguments of the loss's `per_pair`."""
        new_id = self.new_id() if image_ids is None else 0
        anchors = pairs_of(image_embeddings, text_embeddings, image_ids, new_id=new_id)
        pairs = len(anchors.images)
        if weights is not None:
            if weights.shape != (pairs,):
                raise ValueError(f"weights are {tuple(weights.shape)}: give {pairs}, one for every pair")
            _check_finite("weights", weights[:, None])
        return self.per_pair(anchors, weights, **named).mean()

    def new_id(self) -> int:
        """Return the first of the image ids that a batch without ids gets."""
        return 0

    def per_pair(self, anchors: Anchors, weights: Tensor | None) -> Tensor:
        """Return (B,) losses of this process's pairs, summed over both directions, times their weights."""
        ways = batch_directions(anchors, keep_same_image=False)
        losses = torch.stack([self.one_direction(*way) for way in ways]).sum(0)
        return losses if weights is None else losses * weights

    def one_direction(self, scores: Tensor, positive_scores: Tensor, negatives: Tensor) -> Tensor:
        """Return (Q,) losses of one direction."""
        raise NotImplementedError


class TripletLoss(PairLoss):
    """BTR, the bidirectional triplet ranking loss (CODER eq. 1; VSE++), at the hardest negative or over all of them.

    The hardest negative trains badly from random weights: train the first epoch with `hardest = False`. VSE++ sums over
    the batch; multiply the mean by the batch size to get its gradients.
    """

    def __init__(self, margin: float = 0.2, *, hardest: bool = True) -> None:
        super().__init__()
        if not margin >= 0:
            raise ValueError(f"margin must be >= 0, got {margin}")
        self.margin = margin
        self.hardest = hardest

    def one_direction(self, scores: Tensor, positive_scores: Tensor, negatives: Tensor) -> Tensor:
        """Return (Q,) losses by `triplet_hardest` or `triplet_sum`."""
        loss = triplet_hardest if self.hardest else triplet_sum
        return loss(scores, positive_scores, negatives, margin=self.margin)


class LogitScale(nn.Module):
    """Scale of the logits, exp(t): 1 / temperature, or a learned one that starts there and never exceeds 100 (CLIP:
    Radford et al. 2021). ValueError: temperature is not > 0, or a learned scale would start above 100."""

    def __init__(self, temperature: float, *, learn: bool) -> None:
        super().__init__()
        if not temperature > 0 or (learn and temperature < 1 / LARGEST_SCALE):
            least = f">= {1 / LARGEST_SCALE:g} if the scale is learned" if learn else "> 0"
            raise ValueError(f"temperature must be {least}, got {temperature}")
        start = torch.tensor(-math.log(temperature))
        self.log_scale = nn.Parameter(start) if learn else nn.Buffer(start, persistent=False)

    def forward(self) -> Tensor:
        """Return the scale, ()."""
        learned = self.log_scale.requires_grad
        return (self.log_scale.clamp(max=math.log(LARGEST_SCALE)) if learned else self.log_scale).exp()


class InfoNCELoss(PairLoss):
    """InfoNCE of both directions, which is twice CLIP's loss; `learn_scale` trains the scale 1 / temperature."""

    def __init__(self, temperature: float = 0.07, *, learn_scale: bool = False) -> None:
        super().__init__()
        self.scale = LogitScale(temperature, learn=learn_scale)

    def one_direction(self, scores: Tensor, positive_scores: Tensor, negatives: Tensor) -> Tensor:
        """Return (Q,) losses by `info_nce`."""
        return info_nce(scores, positive_scores, negatives, temperature=1 / self.scale())


class SigmoidLoss(PairLoss):
    """SigLIP's pairwise sigmoid loss with a learned scale and bias (Zhai et al. 2023). Both directions count every pair,
    so the value is twice the paper's."""

    def __init__(self, temperature: float = 0.1, bias: float = -10.0) -> None:
        super().__init__()
        self.scale = LogitScale(temperature, learn=True)
        self.bias = nn.Parameter(torch.tensor(bias))

    def one_direction(self, scores: Tensor, positive_scores: Tensor, negatives: Tensor) -> Tensor:
        """Return (Q,) losses by `pairwise_sigmoid`."""
        return pairwise_sigmoid(scores, positive_scores, negatives, scale=self.scale(), bias=self.bias)


class CoderLoss(PairLoss):
    """CODER's diversity-sensitive contrastive loss: 3·DCL in the batch + M-DCL against a bank (eq. 4-6, 8).

    Args:
        temperature, margin: μ and γ; 0.1 and 0.3 in the paper.
        diversity: "std" (eq. 3), "entropy" (supplement), or None for DCL_I, the loss without diversity.
        bank_size: number of earlier pairs used as further negatives, 4096 in the paper (Flickr30K); 0: no bank.
        dimension: D, required with a bank.
        settings: other fields of `DclSettings`, such as weight_bank or epsilon.
    """

    def __init__(
        self,
        temperature: float = 0.05,
        margin: float = 0.3,
        diversity: str | None = "std",
        bank_size: int = 0,
        dimension: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        if bank_size and dimension is None:
            raise ValueError(f"bank_size {bank_size} needs dimension, the size of an embedding")
        named: dict[str, Any] = {"temperature": temperature, "margin": margin, "diversity": diversity}
        self.settings = DclSettings(**named, **settings)
        self.bank = CoupledBank(bank_size, dimension or 0) if bank_size else None

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
        if self.bank is None and (image_keys is not None or text_keys is not None):
            raise ValueError("image_keys and text_keys need a bank: give bank_size and dimension")
        keys = None if self.bank is None else self._keys(self.bank, anchors, image_keys, text_keys)
        return coupled_dcl(anchors, keys, self.settings, weights=weights).per_pair

    def _keys(
        self, bank: CoupledBank, anchors: Anchors, image_keys: Tensor | None, text_keys: Tensor | None
    ) -> Keys:
        """Return this batch's keys, with the bank as it was before they enter."""
        if (image_keys is None) != (text_keys is None):
            raise ValueError("give the keys of both modalities, or of neither")
        if image_keys is not None and text_keys is not None:
            of_twins = pairs_of(image_keys, text_keys, anchors.image_ids, names=("image_keys", "text_keys"))
            images = of_twins.images.detach()
            texts = of_twins.texts.detach()
        else:
            images = anchors.images.detach()
            texts = anchors.texts.detach()
        _check_width(images, bank.images.shape[1])
        # A copy: backward() reads its slots, and the bank changes below.
        keys = Keys(images, texts, copy.deepcopy(bank).to(images.dtype))
        if self.training:
            bank.enqueue(*map(parallel.gather_rows, (images, texts, anchors.image_ids)))
        return keys


class BoostingLoss(PairLoss):
    """Deep Boosting Learning against a teacher's embeddings of the same pairs (Diao et al. 2024); add it to a loss.

    The teacher is a finished model, or a moving average of yours (`update_momentum`, `cosine_momentum`). The paper sums
    over the batch: multiply the mean by the batch size to match. `form` and `settings`: see `teacher_loss`.
    """

    def __init__(self, form: str = "rm", **settings: Any) -> None:
        super().__init__()
        self.loss = teacher_loss(form, **settings)

    def per_pair(
        self,
        anchors: Anchors,
        weights: Tensor | None,
        *,
        teacher_images: Tensor | None = None,
        teacher_texts: Tensor | None = None,
    ) -> Tensor:
        """Return (B,) losses, times their weights; the teacher's (B, D′) embeddings are required and get no gradient."""
        if teacher_images is None or teacher_texts is None:
            raise ValueError("give teacher_images and teacher_texts, embeddings of the same pairs")
        names = "teacher_images", "teacher_texts"
        teacher = pairs_of(teacher_images.detach(), teacher_texts.detach(), anchors.image_ids, names=names)
        losses = against_teachers(anchors, [teacher], self.loss)
        return losses if weights is None else losses * weights


class PrototypeLoss(nn.Module):
    """Prototype-guided classification (CODER eq. 7): on-line k-means over all pairs, and a classifier of its clusters.

    The loss is 0 until the first pass over the pairs has initialised the centroids.

    Args:
        count: K; 10,000 in the paper, for the 145,000 pairs of Flickr30K.
        dimension: D.
        pairs: number of pairs in the training split, over all processes.
        pass_pairs: number of pairs per epoch, if it drops the last batch; None: all.
        temperature: of the classification; eq. 7 has none (1).
    """

    def __init__(
        self,
        count: int,
        dimension: int,
        pairs: int,
        *,
        pass_pairs: int | None = None,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        self.temperature = temperature
        self.clusters = Prototypes(count, dimension, pairs, pass_pairs or pairs)
        bound = 1 / math.sqrt(dimension)  # as nn.Linear initialises its weights
        self.classifier = nn.Parameter(torch.empty(count, dimension).uniform_(-bound, bound))

    @without_autocast
    def forward(self, image_embeddings: Tensor, text_embeddings: Tensor, pair_ids: Tensor) -> Tensor:
        """Return the pairs' mean loss, (), summed over both modalities. `pair_ids`: (B,) pair numbers, from 0."""
        anchors = pairs_of(image_embeddings, text_embeddings, pair_ids)
        _check_width(anchors.images, self.classifier.shape[1])
        check_numbers("pair_ids", anchors.image_ids, 0, len(self.clusters.labels))
        local = pair_vectors(anchors.images, anchors.texts).to(self.clusters.centroids.dtype)
        samples = torch.cat([anchors.images, anchors.texts])
        classifier = self.classifier.to(samples.dtype)
        logits = prototype_logits(samples, classifier, temperature=self.temperature)
        loss = 0.0 * logits.sum()  # so that every parameter has a gradient from the start
        if self.clusters.ready:
            labels = self.clusters.assign(local).labels
            loss = 2 * prototype_guided(logits, labels.repeat(2)).mean()
        if self.training:
            self.clusters.update(parallel.gather_rows(local), anchors.all_image_ids)
        return loss


class SampleWeights(nn.Module):
    """Weights of a batch's pairs, with mean 1, for a loss's argument `weights`: "hal", "mithun" or "amrani" (see
    `batch_weights`). Weights for complementary samples need every caption's neighbours: see `NeighbourWeights`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        example = torch.ones(1, 1)
        batch_weights(kind, example, example, example, example == 0, scale=1.0)  # refuse an unknown kind now
        self.kind = kind

    @torch.no_grad()
    @without_autocast
    def forward(
        self, image_embeddings: Tensor, text_embeddings: Tensor, image_ids: Tensor | None = None
    ) -> Tensor:
        """Return (B,) weights of this process's pairs, without gradient."""
        anchors = pairs_of(image_embeddings, text_embeddings, image_ids)
        scores = parallel.gather_rows(batch_scores(anchors)[0])
        ids = anchors.all_image_ids
        samples = (anchors.all_images, anchors.all_texts)
        negatives = ids[:, None] != ids[None, :]
        weights = batch_weights(self.kind, scores, *samples, negatives, scale=float(len(ids)))
        return weights[anchors.offset : anchors.offset + len(anchors.image_ids)]


def _check_width(embeddings: Tensor, dimension: int) -> None:
    if embeddings.shape[1] != dimension:
        raise ValueError(
            f"embeddings have {embeddings.shape[1]} numbers per row: the loss was made for {dimension}"
        )


def pairs_of(
    images: Tensor,
    texts: Tensor,
    image_ids: Tensor | None = None,
    *,
    new_id: int = 0,
    names: tuple[str, str] = ("image_embeddings", "text_embeddings"),
) -> Anchors:
    """Check and normalise a batch of pairs and gather those of all processes; without ids they are numbered from
    `new_id`. ValueError: see the module's docstring; it names the arguments by `names`.

    >>> pairs_of(torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.eye(2)).images
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    if images.ndim != 2 or images.shape != texts.shape:
        shapes = f"{names[0]} are {tuple(images.shape)}, {names[1]} {tuple(texts.shape)}"
        raise ValueError(f"{shapes}: give both as (pairs, dimension), row i of both being one pair")
    for name, rows in zip(names, (images, texts), strict=True):
        _check_finite(name, rows)
    count = len(images)
    device = images.device
    precision = torch.promote_types(images.dtype, texts.dtype)
    if image_ids is None:
        image_ids = torch.arange(count, device=device) + new_id + parallel.rank() * count
    image_ids = torch.as_tensor(image_ids)
    if image_ids.shape != (count,) or image_ids.is_floating_point() or image_ids.dtype == torch.bool:
        kind = f"{image_ids.dtype} {tuple(image_ids.shape)}".removeprefix("torch.")
        raise ValueError(f"image_ids are {kind}: give {count} integers, one for every pair")
    images, texts = (normalise(rows.to(precision)) for rows in (images, texts))
    anchors = gather_anchors(images, texts, image_ids.to(device))
    ids = anchors.all_image_ids
    if not bool((ids != ids[:1]).any()):
        size = "one pair" if len(ids) == 1 else f"{len(ids)} pairs of one image"
        fix = "shuffle the data, and drop a last batch that is too small (drop_last=True)"
        raise ValueError(f"a batch of {size} has no negatives: {fix}")
    return anchors


def check_numbers(name: str, numbers: Tensor, first: int, end: int) -> None:
    """Raise ValueError if a number is below `first` or not below `end`.

    >>> check_numbers("text_ids", torch.tensor([0, 3]), 0, 4)
    """
    if bool(((numbers < first) | (numbers >= end)).any()):
        extent = f"{int(numbers.min())} to {int(numbers.max())}"
        raise ValueError(f"{name} are {extent}: give numbers from {first} to {end - 1}")


def _check_finite(name: str, rows: Tensor) -> None:
    finite = torch.isfinite(full_precision(rows).square().sum(1))  # a sum beyond float32 has no length
    if bool(finite.all()):
        return
    row = int((~finite).nonzero()[0])
    if rows.dtype == torch.float16 and not bool(rows.isnan().any()):
        raise ValueError(f"{name}, row {row}, overflowed float16: compute them in bfloat16 or float32")
    problem = "is too long" if bool(rows[row].isfinite().all()) else "is not finite"
    raise ValueError(f"{name}, row {row}, {problem}: look at that sample, or lower the learning rate")
