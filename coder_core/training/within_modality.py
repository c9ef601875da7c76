"""Losses within a modality, beside any loss between them. Thomas and Kovashka 2020.

They draw one neighbour and encode it with the batch. Here its embedding comes from the cache of the epoch before, so
that a step costs no second forward pass: it pulls without being pulled, and is pulled when its own turn comes. The
first epoch has none. A neighbour is drawn for every pair once an epoch; neighbours that stand in the batch are no
negatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from coder_core.config.schema import Config
from coder_core.objectives.within_modality import is_neighbour, within_modality
from coder_core.training import parallel
from coder_core.training.gathering import Anchors
from coder_core.training.losses import Losses

if TYPE_CHECKING:
    from coder_core.training.parts.neighbourhoods import Neighbourhoods


def with_neighbours(
    losses: Losses, anchors: Anchors, text_ids: Tensor, config: Config, neighbourhoods: Neighbourhoods
) -> Losses:
    """With the within-modality losses that have a weight.

    Args:
        losses: so far.
        anchors: the instance branch's pairs.
        text_ids: (B,) train captions of this process's pairs.
        config: of the run.
        neighbourhoods: their neighbours, and one drawn for each.
    """
    weights = config.weighting
    if weights.within_image == weights.within_text == 0:
        return losses
    near = is_neighbour(neighbourhoods.neighbours[text_ids], parallel.gather_rows(text_ids))
    negatives = (anchors.image_ids[:, None] != anchors.all_image_ids[None, :]) & ~near
    for name, weight, samples, candidates in (
        ("within-image", weights.within_image, anchors.images, anchors.all_images),
        ("within-text", weights.within_text, anchors.texts, anchors.all_texts),
    ):
        if weight == 0:
            continue
        neighbours, exists = neighbourhoods.partner_embeddings(text_ids, images=name == "within-image")
        per_pair = within_modality(
            samples, candidates, neighbours, negatives & exists[:, None], margin=config.objective.npairs_margin
        )  # fmt: skip
        losses = losses.plus(name, per_pair, weight)
    return losses
