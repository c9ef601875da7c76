"""Losses as modules for any training loop, and for this project's trainer: embeddings in, a scalar out.

    loss = CoderLoss(temperature=0.05, bank_size=4096, dimension=512)
    loss(image_embeddings, text_embeddings, image_ids).backward()

    image_embeddings, text_embeddings  (B, D), row i of both is one pair; any length and any float type: rows are
                                       normalised here, in float32
    image_ids                          (B,) integers; rows with the same id show the same image (or the same product) and
                                       are not negatives of each other. (B, K): rows with the same id in any column, such
                                       as a product's or a text's, are not. (B, 2, K): ids of the image and of the caption,
                                       and no image has an id of the other caption in any column. None: every row shows a
                                       different image
    weights                            (B,) one per pair; None: all are equal
    result                             (), the mean over this process's pairs

A loss keeps its state (bank, learned scale, prototypes) in its `state_dict`; pass `loss.parameters()`, if it has any, to
the optimizer. Under torch.distributed every process calls the loss with the same number of rows. Candidates, bank and
prototypes are then those of all processes, and the average of their gradients, as DistributedDataParallel computes it,
is that of a single process; `coder_core.ops.parallel.average_gradients` averages those of the loss's parameters.

Every loss raises ValueError if shapes do not match, a value is not finite, or no row is a negative of another.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from coder_core.objectives.batch_weights import batch_weights
from coder_core.objectives.contrastive import info_nce, pairwise_sigmoid
from coder_core.objectives.pairs import (
    Anchors,
    Keys,
    batch_directions,
    batch_scores,
    check_finite,
    mean_vectors,
    pairs_of,
    same_image_negatives,
)
from coder_core.objectives.table import LARGEST_SCALE, LOSSES
from coder_core.objectives.teachers import against_teachers, teacher_loss
from coder_core.objectives.triplet import triplet_hardest, triplet_sum
from coder_core.ops import parallel

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


def make_loss(name: str, values: Mapping[str, Any]) -> "PairLoss":
    """Create the module of a loss in `LOSSES`.

    Args:
        name: of the loss, such as "infonce".
        values: setting of a run → value; those that the loss does not read are ignored, missing ones take the
            module's default. `same_image_negatives` is a setting of every loss.

    >>> make_loss("btr-sum", {"margin": 0.3})(torch.eye(2), torch.eye(2))
    tensor(0.)
    """
    entry = LOSSES[name]
    given = {keyword: values[key] for keyword, key in entry.settings.items() if key in values}
    given.update(entry.constants)
    loss = entry.load()
    if isinstance(loss, type):
        module: PairLoss = loss(**given)
    elif entry.scaled:
        module = ScaledLoss(loss, **given)
    else:
        module = FunctionLoss(loss, **given)
    module.same_image_negatives = values.get("same_image_negatives", False)
    return module


@dataclass(frozen=True)
class Terms:
    """Loss of this process's pairs, summed over both directions."""

    per_pair: Tensor  # (B,) weighted sum of all terms
    in_batch: Tensor  # (B,) the loss within the batch, unweighted
    others: dict[str, Tensor] = field(default_factory=dict)  # further terms by name, unweighted
    diversity: Tensor | None = None  # (2 · B,) of the images, then of the captions


class PairLoss(nn.Module):
    """A loss of both directions of a batch: image to text and text to image.

    A subclass defines `one_direction`, or `terms` if it needs more than the scores of a direction.
    """

    same_image_negatives = False  # other captions of the anchor's image are negatives too

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
            check_finite("weights", weights[:, None])
        return self.per_pair(anchors, weights, **named).mean()

    def new_id(self) -> int:
        """Return the first of the image ids that a batch without ids gets."""
        return 0

    def per_pair(self, anchors: Anchors, weights: Tensor | None) -> Tensor:
        """Return (B,) losses of this process's pairs, summed over both directions, times their weights."""
        return self.terms(anchors, weights).per_pair

    def terms(self, anchors: Anchors, weights: Tensor | None = None, keys: Keys | None = None) -> Terms:
        """Return the losses of this process's pairs; (B,) `weights` multiply each pair's loss. Only losses that read a
        bank use `keys`."""
        directions = batch_directions(anchors, keep_same_image=self.same_image_negatives)
        of_ways = [self.one_direction(way.scores, way.positive_scores, way.negatives) for way in directions]
        losses = torch.stack(of_ways).sum(0)
        return Terms(losses if weights is None else losses * weights, losses)

    def one_direction(self, scores: Tensor, positive_scores: Tensor, negatives: Tensor) -> Tensor:
        """Return (Q,) losses of one direction."""
        raise NotImplementedError


class FunctionLoss(PairLoss):
    """A function of one direction as a module: (Q, C) scores, (Q,) positive scores, (Q, C) negatives → (Q,) losses.

    `settings` are further arguments of the function.

    >>> FunctionLoss(triplet_sum, margin=0.4)(torch.eye(2), torch.eye(2))
    tensor(0.)
    """

    def __init__(self, function: Callable[..., Tensor], **settings: Any) -> None:
        super().__init__()
        self.function = function
        self.settings = settings

    def one_direction(self, scores: Tensor, positive_scores: Tensor, negatives: Tensor) -> Tensor:
        """Return (Q,) losses of the function."""
        return self.function(scores, positive_scores, negatives, **self.settings)


class TripletLoss(FunctionLoss):
    """BTR, the bidirectional triplet ranking loss (CODER eq. 1; VSE++), at the hardest negative or over all of them.

    The hardest negative trains badly from random weights: train the first epoch with `hardest = False`. VSE++ sums over
    the batch; multiply the mean by the batch size to get its gradients.
    """

    def __init__(self, margin: float = 0.2, *, hardest: bool = True) -> None:
        if not margin >= 0:
            raise ValueError(f"margin must be >= 0, got {margin}")
        super().__init__(triplet_hardest, margin=margin)
        self.hardest = hardest

    @property
    def hardest(self) -> bool:
        """True if only the best-scoring negative counts."""
        return self.function is triplet_hardest

    @hardest.setter
    def hardest(self, hardest: bool) -> None:
        self.function = triplet_hardest if hardest else triplet_sum


class LogitScale(nn.Module):
    """Scale of the logits, exp(t): 1 / temperature, or a learned one that starts there and never exceeds 100 (CLIP:
    Radford et al. 2021). ValueError: temperature is not > 0, or a learned scale would start above 100."""

    def __init__(self, temperature: float, *, learn: bool) -> None:
        super().__init__()
        if not temperature > 0 or (learn and temperature < 1 / LARGEST_SCALE):
            least = f">= {1 / LARGEST_SCALE:g} if the scale is learned" if learn else "> 0"
            raise ValueError(f"temperature must be {least}, got {temperature}")
        self.temperature = temperature
        start = -math.log(temperature)
        self.log_scale = nn.Parameter(torch.tensor(start)) if learn else None
        self.rounded_off = start - float(torch.tensor(start))  # by float32; a module in float64 adds it again

    def forward(self) -> Tensor | float:
        """Return the scale, ()."""
        if self.log_scale is None:
            return 1 / self.temperature
        exponent = self.log_scale.clamp(max=math.log(LARGEST_SCALE))
        if exponent.dtype == torch.float64:
            exponent = exponent + self.rounded_off
        return exponent.exp()

    @torch.no_grad()
    def limit(self) -> None:
        """Move a learned scale that an optimizer has moved above 100 back to 100."""
        if self.log_scale is not None:
            self.log_scale.clamp_(max=math.log(LARGEST_SCALE))


class ScaledLoss(FunctionLoss):
    """A function of scale · S, which takes `temperature`; `learn_scale` trains the scale 1 / temperature."""

    def __init__(
        self,
        function: Callable[..., Tensor],
        temperature: float,
        *,
        learn_scale: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(function, **settings)
        self.scale = LogitScale(temperature, learn=learn_scale)
        self.bias: nn.Parameter | None = None

    def one_direction(self, scores: Tensor, positive_scores: Tensor, negatives: Tensor) -> Tensor:
        """Return (Q,) losses of the function at the present temperature."""
        temperature = self.scale.temperature if self.scale.log_scale is None else 1 / self.scale()
        return self.function(scores, positive_scores, negatives, temperature=temperature, **self.settings)


class InfoNCELoss(ScaledLoss):
    """InfoNCE of both directions, which is twice CLIP's loss; `learn_scale` trains the scale 1 / temperature."""

    def __init__(self, temperature: float = 0.07, *, learn_scale: bool = False) -> None:
        super().__init__(info_nce, temperature, learn_scale=learn_scale)


class SigmoidLoss(ScaledLoss):
    """SigLIP's pairwise sigmoid loss with a learned scale and bias (Zhai et al. 2023). Both directions count every pair,
    so the value is twice the paper's."""

    def __init__(self, temperature: float = 0.1, bias: float = -10.0) -> None:
        super().__init__(pairwise_sigmoid, temperature, learn_scale=True)
        self.bias = nn.Parameter(torch.tensor(bias))

    def one_direction(self, scores: Tensor, positive_scores: Tensor, negatives: Tensor) -> Tensor:
        """Return (Q,) losses by `pairwise_sigmoid`."""
        return self.function(scores, positive_scores, negatives, scale=self.scale(), bias=self.bias)


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
        names = ("teacher_images", "teacher_texts")
        teacher = pairs_of(teacher_images.detach(), teacher_texts.detach(), anchors.image_ids, names=names)
        losses = against_teachers(anchors, [teacher], self.loss)
        return losses if weights is None else losses * weights


class SampleWeights(nn.Module):
    """Weights of a batch's pairs, with mean 1, for a loss's argument `weights`: "hal", "mithun" or "amrani" (see
    `batch_weights`). Weights for complementary samples need every caption's neighbours: see `NeighbourWeights`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        example = torch.ones(1, 1)
        batch_weights(kind, example, example, example, example == 0, scale=1.0)  # refuse an unknown kind now
        self.kind = kind

    @without_autocast
    def forward(
        self, image_embeddings: Tensor, text_embeddings: Tensor, image_ids: Tensor | None = None
    ) -> Tensor:
        """Return (B,) weights of this process's pairs, without gradient."""
        return self.of_pairs(pairs_of(image_embeddings, text_embeddings, image_ids))

    @torch.no_grad()
    def of_pairs(self, anchors: Anchors) -> Tensor:
        """Return (B,) weights of this process's pairs, computed over the pairs of all processes as one batch."""
        scores = parallel.gather_rows(batch_scores(anchors)[0].detach())
        ids = anchors.all_image_ids
        single = mean_vectors(anchors)
        weights = batch_weights(
            self.kind,
            scores,
            single.all_images.detach(),
            single.all_texts.detach(),
            same_image_negatives(ids, ids),
            scale=float(len(ids)),
        )
        return weights[anchors.offset : anchors.offset + len(anchors.image_ids)]
