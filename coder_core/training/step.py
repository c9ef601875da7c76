"""One training step: embed a batch, sum the loss of the instance branch and the terms of the optional parts. CODER eq. 8.

The loss is a module of `coder_core.objectives`. A `Part` adds what a module cannot know: a momentum encoder, memory over
epochs, another branch, reviewers' weights. `Objective` joins both for the trainer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from coder_core.config.schema import Config, settings
from coder_core.config.training import OF_NEIGHBOURHOODS
from coder_core.console.faults import InputError
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder, Embedded
from coder_core.model.encode import SplitEmbeddings
from coder_core.objectives.diversity_contrastive import CoderLoss
from coder_core.objectives.modules import FunctionLoss, PairLoss, SampleWeights, make_loss
from coder_core.objectives.pairs import Anchors, Keys, Lengths, gather_anchors
from coder_core.objectives.table import LOSSES
from coder_core.ops import parallel
from coder_core.training.gradient_caching import encode_in_pieces

DROPOUT = 2  # stream of a step's random numbers (see data/batches.py)
SAMPLES_NAMED = 5  # in the message of a NotFiniteError


class NotFiniteError(InputError):
    """Error for a loss, gradient or state with NaN or Inf; the step that produced it is not saved."""

    @classmethod
    def in_step(cls, step: int, found: str, expected: str, fix: str) -> Self:
        """Make the error of a step; `expected`: the values that should be finite."""
        return cls.at(f"step {step}", found, f"finite {expected}", f"{fix}; this step was not saved")


@dataclass(frozen=True)
class Losses:
    """Total loss of a step and its parts."""

    total: Tensor  # () the loss for the backward pass
    per_pair: Tensor  # (B,) weighted loss of each pair, to name the samples whose loss is not finite
    parts: dict[str, Tensor] = field(default_factory=dict)  # mean of each term over the anchors, unweighted
    diversity: Tensor | None = None  # (2 · B,) of this process's anchors, both modalities

    def plus(self, name: str, per_pair: Tensor, weight: float) -> Losses:
        """Add a term: the mean of its (B,) values `per_pair`, times `weight`."""
        mean = per_pair.mean()
        term = Losses(weight * mean, weight * per_pair.detach(), {name: mean.detach()})
        return self._add(term, term.parts)

    def plus_branch(self, name: str, other: Losses) -> Losses:
        """Add the losses of another branch; its parts get the prefix `name`."""
        return self._add(other, {f"{name} {part}": value for part, value in other.parts.items()})

    def _add(self, other: Losses, parts: dict[str, Tensor]) -> Losses:
        total = self.total + other.total
        per_pair = self.per_pair + other.per_pair
        return Losses(total, per_pair, {**self.parts, **parts}, self.diversity)


@dataclass(frozen=True)
class LossInputs:
    """Inputs of the instance branch's loss from the parts; None if no part provides one. B: this process's pairs."""

    keys: Keys | None = None  # momentum keys of this process's pairs, with the bank of earlier ones
    neighbour_weights: Tensor | None = None  # (B,) weights by neighbourhood (complementary samples)
    review_weights: Tensor | None = None  # (B,) weights from reviewers' verdicts


@dataclass(frozen=True)
class Step:
    """Data of a step, once the instance branch's loss is computed."""

    config: Config
    batch: Batch  # this process's pairs
    epoch: float  # epochs completed, fractional
    embedded: Embedded  # the batch, embedded by the model
    anchors: Anchors  # the instance branch's pairs, with those of all processes as candidates
    autocast: AbstractContextManager[None]  # precision of the forward passes with gradients
    branch_losses: Callable[[Anchors], Losses]  # configured objective, for another branch's pairs


@dataclass(frozen=True)
class EpochEnd:
    """Values for the parts at the end of an epoch."""

    epoch: int  # epochs completed
    last: bool  # True if no epoch follows
    embed_train: Callable[[], SplitEmbeddings]  # embeds the train split with the current model


class Part(nn.Module):
    """An optional part of a training step. A method that a part does not override does nothing.

    In a step: `loss_inputs`, the loss, `add_losses`, backward pass, optimizer, `after_step`. A part changes its state
    only in `after_step`, which a failed step never reaches; only momentum encoders change in `loss_inputs`."""

    # stem of the file with its tensors in a training state; None if it saves none
    state_file: str | None = None

    def begin_epoch(self, epoch: int) -> None:
        """Prepare for an epoch, counted from 0, before its first step."""

    def loss_inputs(self, model: Coder, batch: Batch) -> dict[str, Any]:
        """Return fields of `LossInputs` for this process's pairs; `model` is the model in training, unwrapped."""
        return {}

    def add_losses(self, losses: Losses, step: Step) -> Losses:
        """Return the losses with this part's terms."""
        return losses

    def after_step(self, model: Coder, step: int) -> None:
        """Update the part's state after the optimizer has updated `model` in step `step`, counted from 0."""

    def end_epoch(self, end: EpochEnd) -> dict[str, Any]:
        """Return fields of the epoch's line in the history; called on every process."""
        return {}

    def joint_parameters(self) -> dict[str, nn.Parameter]:
        """Return trained parameters whose gradient is clipped together with the model's."""
        return {}

    def separate_parameters(self) -> list[dict[str, nn.Parameter]]:
        """Return groups of trained parameters; the gradient of each group is clipped separately."""
        return []

    def report(self) -> dict[str, Any]:
        """Return fields of a step's line in the history."""
        return {}

    def facts(self, fields: Mapping[str, Any]) -> list[str]:
        """Return the fields of `report` or `end_epoch` as text for the terminal."""
        return []

    def exports(self) -> dict[str, dict[str, Tensor]]:
        """Return the files to save with the best model: stem → tensors."""
        return {}


def instance_loss(config: Config) -> PairLoss:
    """Create the configured loss of the instance branch."""
    values = {key: setting.of(config) for key, setting in settings().items()}
    return make_loss(config.objective.loss, values)


def concept_loss(config: Config) -> PairLoss:
    """Create the loss of the concept branch, L_DCL^C (section 3.3): a symmetric DCL on (V^C, W^C) with batch-level
    diversity, regardless of the instance branch's loss; only dcl-i turns it into DCL_I."""
    values = {key: setting.of(config) for key, setting in settings().items()}
    values |= {"bank_size": 0, "weight_instance": 1.0}
    loss = config.objective.loss
    return make_loss(loss if LOSSES[loss].reads_bank else "dcl", values)


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Train none of the module's parameters by what is computed inside the block."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


class Objective:
    """Objective of a run (eq. 8): the loss of the instance branch, that of the concept branch if the model has one,
    and the terms of the optional parts, summed in this order.

    Args:
        loss: of the instance branch; None creates the configured one.
    """

    def __init__(self, config: Config, parts: Sequence[Part] = (), loss: PairLoss | None = None) -> None:
        self.config = config
        self.parts = list(parts)
        self.loss = loss or instance_loss(config)
        self.entry = LOSSES[config.objective.loss]
        self.of_concepts = concept_loss(config) if config.model.concepts else None
        kind = config.weighting.sample_weights
        of_batches = kind != "none" and kind not in OF_NEIGHBOURHOODS
        self.batch_weights = SampleWeights(kind) if of_batches else None

    def losses(
        self,
        model: Coder,
        batch: Batch,
        *,
        epoch: float,
        embed: Callable[..., Embedded] | None = None,
        autocast: AbstractContextManager[None] | None = None,
    ) -> Losses:
        """Compute the losses of a batch: first the instance branch's, then those of every part, in order.

        Args:
            epoch: epochs completed, fractional.
            embed: forward pass of the wrapped model (pieces, several processes, compiled); None uses `model` itself.
            autocast: context of every forward pass with gradients; None uses float32.
        """
        autocast = autocast or nullcontext()
        if embed is None:
            embed = partial(encode_in_pieces, model, self.config.training.piece_size)
        with autocast:
            embedded = embed(batch.regions, batch.region_lengths, batch.words, batch.word_lengths)
        lengths = Lengths(batch.region_lengths, batch.word_lengths)
        anchors = gather_anchors(embedded.images, embedded.texts, batch.pair_ids, model.scorer, lengths)
        inputs = self._inputs(model, batch)
        weights = self.pair_weights(anchors, inputs)
        self.follow_schedule(epoch)
        losses = self.instance_losses(anchors, weights, inputs.keys)
        losses = self._with_concepts(losses, embedded, batch)

        def of_branch(pairs: Anchors) -> Losses:
            """Branches other than the target have no bank and do not train the scale of the logits."""
            with frozen(self.loss):
                return self.instance_losses(pairs, weights)

        step = Step(self.config, batch, epoch, embedded, anchors, autocast, of_branch)
        for part in self.parts:
            losses = part.add_losses(losses, step)
        return losses

    def follow_schedule(self, epoch: float) -> None:
        """Set what changes with the `epoch`, the epochs completed: the warm-up of the hardest negatives and the start
        of the bank's loss."""
        objective = self.config.objective
        if self.entry.warm_up and isinstance(self.loss, FunctionLoss):
            warming_up = epoch < objective.warmup_epochs
            entry = LOSSES[self.entry.warm_up] if warming_up else self.entry
            self.loss.function = entry.load()
        if isinstance(self.loss, CoderLoss):
            started = epoch >= self.config.memory.bank_start_epoch
            self.loss.weight_bank = objective.weight_memory if started else 0.0

    def instance_losses(
        self, anchors: Anchors, weights: Tensor | None = None, keys: Keys | None = None
    ) -> Losses:
        """Return the losses of the instance branch: λ times the sum or mean over the pairs. CODER's terms include λ."""
        terms = self.loss.terms(anchors, weights, keys)
        per_pair = terms.per_pair
        total = per_pair.mean()
        if self.entry.summed:
            total = per_pair.sum() * parallel.world_size()  # several processes average their gradients
        if not self.entry.reads_bank:
            total = total * self.config.objective.weight_instance
        parts = {self.config.objective.loss: terms.in_batch.mean().detach()}
        parts |= {name: values.mean().detach() for name, values in terms.others.items()}
        return Losses(total, per_pair.detach(), parts, terms.diversity)

    def pair_weights(self, anchors: Anchors, inputs: LossInputs) -> Tensor | None:
        """Return (B,) weights of this process's pairs, without gradient; None if all are equal.

        A weight multiplies its pair's loss in the instance branch, in the batch and against the banks, in both
        directions. Boosting, the concept branch and the prototypes use no sample weights, as in the papers.

        The mean of a batch's weights is 1, so that the loss keeps its scale, and λ only sets the spread. With the n-pairs
        hinge they sum to λ instead (eq. 1).
        """
        weights = inputs.neighbour_weights
        if self.batch_weights is not None:
            weights = self.batch_weights.of_pairs(anchors)
        if weights is None:
            return inputs.review_weights
        if self.entry.weights_sum_to_lambda:
            weights = weights * self.config.weighting.weight_scale
        return weights if inputs.review_weights is None else weights * inputs.review_weights

    def _with_concepts(self, losses: Losses, embedded: Embedded, batch: Batch) -> Losses:
        """Add L_DCL^C, even at weight 0: DistributedDataParallel waits for a gradient of every parameter."""
        images = embedded.concept_images
        texts = embedded.concept_texts
        if self.of_concepts is None or images is None or texts is None:
            return losses
        terms = self.of_concepts.terms(gather_anchors(images, texts, batch.pair_ids))
        return losses.plus("dcl-concept", terms.in_batch, self.config.objective.weight_concept)

    def _inputs(self, model: Coder, batch: Batch) -> LossInputs:
        found = _merged(part.loss_inputs(model, batch) for part in self.parts)
        return LossInputs(**found)

    def begin_epoch(self, epoch: int) -> None:
        """Prepare the parts for an epoch, counted from 0."""
        for part in self.parts:
            part.begin_epoch(epoch)

    def after_step(self, model: Coder, step: int) -> None:
        """Update the parts after the optimizer's step, counted from 0."""
        for part in self.parts:
            part.after_step(model, step)

    def end_epoch(self, end: EpochEnd) -> dict[str, Any]:
        """Return the parts' fields of the epoch's line in the history."""
        return _merged(part.end_epoch(end) for part in self.parts)

    def report(self) -> dict[str, Any]:
        """Return the parts' fields of a step's line in the history."""
        return _merged(part.report() for part in self.parts)

    def facts(self, fields: Mapping[str, Any]) -> list[str]:
        """Return the fields of `report` or `end_epoch` as text for the terminal."""
        return [fact for part in self.parts for fact in part.facts(fields)]

    def joint_parameters(self) -> dict[str, nn.Parameter]:
        """Return the parts' parameters whose gradient is clipped together with the model's."""
        return _merged(part.joint_parameters() for part in self.parts)

    def separate_parameters(self) -> list[dict[str, nn.Parameter]]:
        """Return the parts' groups of parameters, each of which is clipped separately."""
        return [group for part in self.parts for group in part.separate_parameters()]


def _merged(fields: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of all parts; no two parts have one of the same name."""
    return {name: value for of_part in fields for name, value in of_part.items()}


def seed_step(seed: int, step: int, process: int) -> None:
    """Seed torch's random numbers, which dropout uses, for a step. Without a device beside the CPU, `torch.manual_seed`
    would still format the stack for three kinds of them."""
    state = np.random.SeedSequence((seed, DROPOUT, step, process)).generate_state(1, np.uint64)[0]
    seed_all = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed
    seed_all(int(state) % 2**63)


def check_losses(losses: Losses, total: float, batch: Batch, step: int) -> None:
    """Raise NotFiniteError, naming the step, the term and the samples, if the loss, whose total was read, is not
    finite."""
    if math.isfinite(total):
        return
    terms = [name for name, value in losses.parts.items() if not bool(torch.isfinite(value))]
    rows = (~torch.isfinite(losses.per_pair)).nonzero().flatten()[:SAMPLES_NAMED]
    pairs = zip(batch.text_ids[rows].tolist(), batch.image_ids[rows].tolist(), strict=True)
    named = ", ".join(f"caption {text} of image {image}" for text, image in pairs)
    bad = batch.image_ids[~batch.regions.flatten(1).isfinite().all(1)]
    cause = f"; the features of image {int(bad[0])} are not finite" if len(bad) else ""
    message = f"the loss term {', '.join(terms) or 'total'} is not finite ({named or 'every sample'}{cause})"
    fix = "lower --learning-rate, or check the data with coder-lab check"
    raise NotFiniteError.in_step(step, message, "losses", fix)
