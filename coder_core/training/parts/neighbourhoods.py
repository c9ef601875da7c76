"""Weights of complementary samples and partners of the within-modality losses, from the embeddings of the last epoch.

Every step caches its embeddings. Each epoch after the first starts by computing the raw scores of all pairs from that
cache, so a step only looks up its pairs' scores and takes two softmaxes. In the first epoch all weights are equal.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.config.training import OF_NEIGHBOURHOODS
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder
from coder_core.objectives.complementary import ABSENT, is_neighbour, within_modality
from coder_core.objectives.neighbour_weights import NeighbourWeights
from coder_core.objectives.pairs import mean_vectors, same_image_negatives
from coder_core.ops import parallel
from coder_core.runs.analysis.weights import weight_settings
from coder_core.training.step import Losses, Part, Step

PARTNER_STREAM = 7  # random stream that draws the partner of each pair, one of its neighbours


class Neighbourhoods(NeighbourWeights, Part):
    """Sample weights by neighbourhood and within-modality losses; `neighbours`: (m, N) int32 of the train captions."""

    state_file = "neighbourhoods"

    partner: Tensor

    def __init__(
        self, config: Config, neighbours: np.ndarray, image_of_text: np.ndarray, images: int
    ) -> None:
        weighting = config.weighting
        kind = weighting.sample_weights if weighting.sample_weights in OF_NEIGHBOURHOODS else "none"
        further = weight_settings(weighting) | {"seed": config.training.seed}
        further["neighbours_of_neighbours"] = weighting.neighbours_of_neighbours
        super().__init__(kind, neighbours, image_of_text, images, config.model.dimension, **further)
        self.has_partners = weighting.within_image > 0 or weighting.within_text > 0
        self.register_buffer("partner", torch.full((len(neighbours),), ABSENT))
        for name in ("neighbours", "image_of_text"):  # not saved: recomputed from the data
            self.register_buffer(name, getattr(self, name), persistent=False)
        self._pending: tuple[Tensor, ...] | None = None

    @torch.no_grad()
    def begin_epoch(self, epoch: int) -> None:
        """Score all pairs by the last epoch's embeddings and draw a partner for each; do nothing in epoch 0."""
        super().begin_epoch(epoch)
        if epoch > 0 and self.has_partners:
            self.partner.copy_(self.draw(1, PARTNER_STREAM, epoch).squeeze(1))

    def loss_inputs(self, model: Coder, batch: Batch) -> dict[str, Any]:
        """Return the weights of this step's pairs, if samples are weighted by neighbourhood."""
        return {} if self.kind == "none" else {"neighbour_weights": self.of_pairs(batch.text_ids)}

    @torch.no_grad()
    def partner_embeddings(self, text_ids: Tensor, *, images: bool) -> tuple[Tensor, Tensor]:
        """Return (B, D) cached embeddings of the pairs' partners (images or captions) and a (B,) mask of known ones."""
        partner = self.partner[text_ids]
        row = partner.clamp_min(0)
        if images:
            row = self.image_of_text[row]
            return self.cache.images[row], (partner >= 0) & self.cache.known_images[row]
        return self.cache.texts[row], (partner >= 0) & self.cache.known_texts[row]

    def add_losses(self, losses: Losses, step: Step) -> Losses:
        """Add the within-modality losses that have a weight (Thomas and Kovashka 2020).

        The paper draws one neighbour and encodes it with the batch. Here its embedding comes from the last epoch, which
        saves a second forward pass but gives the neighbour no gradient. The first epoch has no such losses.
        """
        pairs = mean_vectors(step.anchors)
        text_ids = step.batch.text_ids
        all_text_ids = parallel.gather_rows(text_ids)
        all_images = self.image_of_text[all_text_ids]
        self._pending = pairs.all_images.detach(), pairs.all_texts.detach(), all_images, all_text_ids
        weights = step.config.weighting
        if not self.has_partners:
            return losses

        neighbours = is_neighbour(self.neighbours[text_ids], all_text_ids)
        negatives = same_image_negatives(pairs.image_ids, pairs.all_image_ids) & ~neighbours
        margin = step.config.objective.npairs_margin
        for name, weight, samples, candidates in (
            ("within-image", weights.within_image, pairs.images, pairs.all_images),
            ("within-text", weights.within_text, pairs.texts, pairs.all_texts),
        ):
            if weight > 0:
                partners, exists = self.partner_embeddings(text_ids, images=name == "within-image")
                usable = negatives & exists[:, None]
                per_pair = within_modality(samples, candidates, partners, usable, margin=margin)
                losses = losses.plus(name, per_pair, weight)

        return losses

    def after_step(self, model: Coder, step: int) -> None:
        """Cache the embeddings of this step, of all processes."""
        if self._pending is not None:
            self.cache.write(*self._pending)
            self._pending = None
