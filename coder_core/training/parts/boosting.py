"""Deep Boosting Learning: the branches that set the target's margins. Diao et al. 2024, section III-C.

They score the same batch as the model that is saved, the target, and are never saved as models. The teacher (the paper
calls it the anchor branch) is a moving average of the target (MSS) or a finished run (OAS); with the online scenario
(OSS) the earlier branches train beside the target.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import nn

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder
from coder_core.training.boosting_losses import boosted, cohort_losses
from coder_core.training.gathering import Anchors, Lengths, gather_anchors
from coder_core.training.losses import Losses
from coder_core.training.memory.momentum import cosine_momentum, normalise_by_batch, update_twin
from coder_core.training.parts.part import Part, StepContext
from coder_core.training.pieces import in_pieces
from coder_core.training.precision import twin_autocast, twin_precision
from coder_core.training.prepare import Prepared


class Boosting(Part):
    """Adds the losses of the target against other branches, from the configured epoch on."""

    @abstractmethod
    def encode(self, batch: Batch) -> list[Anchors]:
        """The pairs under every other branch, beside those of all processes."""

    def add_losses(self, losses: Losses, step: StepContext) -> Losses:
        """With the target's losses against the other branches."""
        if step.epoch < step.config.boosting.boosting_start_epoch:
            return losses
        with step.autocast:
            others = self.encode(step.batch)
        return self.losses_against(losses, others, step)

    def losses_against(self, losses: Losses, others: Sequence[Anchors], step: StepContext) -> Losses:
        """With the target's losses against the pairs under `others`."""
        return boosted(losses, step.anchors, others, step.config)


class BoostingTeacher(Boosting):
    """A branch that sets margins and gets no gradient (the paper's anchor branch).

    It reads without dropout, as the authors' program has it: margins should carry no noise. A moving average normalises
    by the batch, because the running statistics are the target's.

    Args:
        branch: its weights; taken over, not copied.
        steps: of the whole run.
        momentum: share of it that stays at the first step; None for a branch that never moves.
        precision: of its passes, "float32" or "bfloat16".
        piece_size: pairs that it encodes at a time; 0 takes all.
    """

    def __init__(
        self,
        branch: Coder,
        steps: int,
        momentum: float | None,
        precision: str = "float32",
        *,
        piece_size: int = 0,
    ) -> None:
        super().__init__()
        self.branch = branch.requires_grad_(False)
        self.branch = self.branch.eval() if momentum is None else normalise_by_batch(self.branch)
        self.steps, self.momentum, self.precision, self.piece_size = steps, momentum, precision, piece_size
        self.state_file = "anchor" if momentum is not None else None

    @torch.no_grad()
    def encode(self, batch: Batch) -> list[Anchors]:
        """The pairs under the teacher; one element."""
        lengths = Lengths(batch.region_lengths, batch.word_lengths)
        with twin_autocast(self.precision, batch.regions.device):
            images = in_pieces(self.branch.encode_images, self.piece_size, batch.regions, lengths.images)
            texts = in_pieces(self.branch.encode_texts, self.piece_size, batch.words, lengths.texts)
        return [gather_anchors(images, texts, batch.image_groups, self.branch.scorer, lengths)]

    def after_step(self, model: Coder, step: int) -> None:
        """Average the target in, as the optimizer left it (eq. 22)."""
        if self.momentum is not None:
            update_twin(self.branch, model, cosine_momentum(step, self.steps, self.momentum))


class OnlineBranches(Boosting):
    """Branches before the target, from other seeds, which train in the same step by their own loss.

    One forward pass of each serves its own loss and, without gradient, the margins of later branches; so they read with
    dropout, each with its own.

    Args:
        branches: in order; taken over, not copied.
        piece_size: pairs that a branch encodes at a time; 0 takes all.
    """

    state_file = "anchor"

    def __init__(self, branches: Sequence[Coder], piece_size: int = 0) -> None:
        super().__init__()
        self.piece_size = piece_size
        self.branches = nn.ModuleList(branches).train()

    def encode(self, batch: Batch) -> list[Anchors]:
        """The pairs under every branch, with gradient."""
        lengths = Lengths(batch.region_lengths, batch.word_lengths)
        pairs = []
        for branch in self.branches:
            assert isinstance(branch, Coder)
            inputs = batch.regions, lengths.images, batch.words, lengths.texts
            embedded = in_pieces(branch, self.piece_size, *inputs)
            pairs.append(
                gather_anchors(embedded.images, embedded.texts, batch.image_groups, branch.scorer, lengths)
            )
        return pairs

    def losses_against(self, losses: Losses, others: Sequence[Anchors], step: StepContext) -> Losses:
        """With the target's losses against the other branches, and the losses of these."""
        losses = super().losses_against(losses, others, step)
        return cohort_losses(losses, step.anchors, others, step.config, step.branch_losses)

    def separate_parameters(self) -> list[dict[str, nn.Parameter]]:
        """Those of every branch: no branch's gradient shortens another's."""
        return [
            {f"branch-{number} {name}": parameter for name, parameter in branch.named_parameters()}
            for number, branch in enumerate(self.branches, start=1)
        ]


def make_boosting(config: Config, prepared: Prepared) -> Boosting | None:
    """The other branches that a configuration asks for; a moving average starts as the prepared model."""
    if config.boosting.boosting == "none":
        return None
    if config.boosting.boosting_scenario == "online":
        return OnlineBranches(prepared.branches, config.training.piece_size)
    steps = prepared.batches.per_epoch * config.training.epochs
    precision = twin_precision(config.training, next(prepared.model.parameters()).device)
    if prepared.teacher is not None:
        return BoostingTeacher(
            prepared.teacher.model, steps, None, precision, piece_size=config.training.piece_size
        )
    return BoostingTeacher(
        copy.deepcopy(prepared.model),
        steps,
        config.boosting.boosting_momentum,
        precision,
        piece_size=config.training.piece_size,
    )
