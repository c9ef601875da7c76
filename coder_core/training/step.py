"""The losses of one step: embeds a batch and sums every term of both branches. CODER eq. 8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder, Embedded
from coder_core.training.gathering import Lengths, gather_anchors
from coder_core.training.losses import Losses
from coder_core.training.parts.part import Part, StepContext
from coder_core.training.pieces import in_pieces
from coder_core.training.sample_weights import sample_weights, with_review_weights

Embed = Callable[..., Embedded]


def compute_losses(
    model: Coder,
    batch: Batch,
    config: Config,
    parts: Sequence[Part] = (),
    *,
    epoch: float,
    embed: Embed | None = None,
    autocast: AbstractContextManager[None] | None = None,
) -> Losses:
    """The losses of a batch: the instance branch's first, then those of every part, in order.

    Args:
        model: the bare model.
        batch: this process's pairs.
        config: of the run.
        parts: optional parts of the step.
        epoch: epochs done, with fraction.
        embed: the model as it trains (wrapped for pieces, several processes or compiled); the bare one for None.
        autocast: around everything but the losses; none for None.
    """
    autocast = autocast or nullcontext()
    embed = partial(in_pieces, model, config.training.piece_size) if embed is None else embed
    with autocast:
        embedded = embed(batch.regions, batch.region_lengths, batch.words, batch.word_lengths)
    lengths = Lengths(batch.region_lengths, batch.word_lengths)
    anchors = gather_anchors(embedded.images, embedded.texts, batch.image_groups, model.scorer, lengths)
    step = StepContext(config, model, batch, epoch, embedded, anchors, autocast)
    for part in parts:
        part.prepare(step)
    step.weights = with_review_weights(sample_weights(anchors, config, step.weights), step.review_weights)
    losses = step.branch_losses(anchors, step.keys)
    for part in parts:
        losses = part.add_losses(losses, step)
    return losses
