"""THOMAS: what neighbours in the text space have in common, images and captions keep, each among themselves.

Thomas and Kovashka 2020, "Preserving Semantic Neighborhoods for Robust Cross-modal Retrieval", arXiv:2007.08617, with
the hinge that the complementary-samples paper gives all methods: beside the loss between modalities, one within each,
whose positive is a sample that belongs to one of the caption's neighbours.

They draw one neighbour and encode it with the batch. Here its embedding comes from the cache of the epoch before, so
that a step costs no second forward pass: it pulls without being pulled, and is pulled when its own turn comes. The
first epoch has none. A neighbour is drawn for every pair once an epoch; neighbours that stand in the batch are no
negatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.objectives.npairs import npairs_hinge
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
    negatives = None
    for name, weight, own, everyone in (
        ("within-image", config.weighting.within_image, anchors.images, anchors.all_images),
        ("within-text", config.weighting.within_text, anchors.texts, anchors.all_texts),
    ):
        if weight == 0:
            continue
        if negatives is None:
            negatives = _negatives(anchors, text_ids, neighbourhoods)
        partners, exists = neighbourhoods.partner_embeddings(text_ids, images=name == "within-image")
        scores = own @ everyone.T
        per_pair = npairs_hinge(
            scores, (own * partners).sum(1), negatives & exists[:, None], margin=config.objective.npairs_margin
        )  # fmt: skip
        losses = losses.plus(name, per_pair, weight)
    return losses


def _negatives(anchors: Anchors, text_ids: Tensor, neighbourhoods: Neighbourhoods) -> Tensor:
    """(B, world · B) bool: of another image, and no neighbour."""
    everyone = parallel.gather_rows(text_ids).expand(len(text_ids), -1).contiguous()
    known = neighbourhoods.neighbours[text_ids].sort(1).values
    place = torch.searchsorted(known, everyone).clamp_max(known.shape[1] - 1)
    near = known.gather(1, place) == everyone
    return (anchors.image_ids[:, None] != anchors.all_image_ids[None, :]) & ~near
