"""Weights of complementary samples and partners of the within-modality losses, from the embeddings of the last epoch.

Every step caches its embeddings. At the start of every epoch after the first, the raw scores of all pairs are computed
from that cache once, so a step only looks up its pairs and takes two softmaxes. In the first epoch all weights are equal.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from coder_core.config.objective import OF_NEIGHBOURHOODS
from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder
from coder_core.objectives.anchors import mean_vectors
from coder_core.objectives.combined_weights import shuffled
from coder_core.objectives.neighbour_scores import ABSENT, neighbour_scores, sample_neighbours
from coder_core.objectives.within_modality import is_neighbour, within_modality
from coder_core.ops import parallel
from coder_core.runs.analysis.weights import IMAGE, TEXT, weights_of
from coder_core.training.losses import Losses
from coder_core.training.step import Part, Step

DRAW_STREAM = 6  # of the random numbers that choose neighbours of neighbours
PARTNER_STREAM = 7  # of those that draw every pair a neighbour
SHUFFLE_STREAM = 11  # of those that give a pair the weight of another


class SampleCache(nn.Module):
    """Unit embeddings of all n images and m captions, each from its last batch; (n + m) · D float32 numbers."""

    images: Tensor
    texts: Tensor
    known_images: Tensor
    known_texts: Tensor

    def __init__(self, images: int, texts: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("images", torch.zeros(images, dimension))
        self.register_buffer("texts", torch.zeros(texts, dimension))
        self.register_buffer("known_images", torch.zeros(images, dtype=torch.bool))
        self.register_buffer("known_texts", torch.zeros(texts, dtype=torch.bool))

    @torch.no_grad()
    def write(self, images: Tensor, texts: Tensor, image_ids: Tensor, text_ids: Tensor) -> None:
        """Store a batch's embeddings, (B, D) unit rows: of an image that occurs twice the last; captions occur once."""
        is_last = ~(image_ids[:, None] == image_ids[None, :]).triu(1).any(1)
        last = image_ids[is_last]
        self.images[last] = images[is_last].to(self.images.dtype)
        self.texts[text_ids] = texts.to(self.texts.dtype)
        self.known_images[last] = True
        self.known_texts[text_ids] = True


class Neighbourhoods(Part):
    """Weigh samples by their neighbourhoods and add the within-modality losses.

    Args:
        neighbours: (m, N) int32 of the train captions.
        image_of_text: (m,) the image of every train caption.
        images: n.
    """

    state_file = "neighbourhoods"

    diversity: Tensor
    discrepancy: Tensor
    scored: Tensor
    partner: Tensor
    neighbours: Tensor
    image_of_text: Tensor

    def __init__(
        self, config: Config, neighbours: np.ndarray, image_of_text: np.ndarray, images: int
    ) -> None:
        super().__init__()
        texts = len(neighbours)
        self.config, self.seed = config.weighting, config.training.seed
        self.cache = SampleCache(images, texts, config.model.dimension)
        self.register_buffer("diversity", torch.zeros(texts, 2))
        self.register_buffer("discrepancy", torch.zeros(texts, 2))
        self.register_buffer("scored", torch.zeros((), dtype=torch.bool))
        self.register_buffer("partner", torch.full((texts,), ABSENT))
        self.register_buffer("neighbours", torch.from_numpy(neighbours).long(), persistent=False)
        self.register_buffer("image_of_text", torch.from_numpy(image_of_text).long(), persistent=False)
        self._pending: tuple[Tensor, ...] | None = None

    @torch.no_grad()
    def begin_epoch(self, epoch: int) -> None:
        """Score all pairs by the embeddings of the last epoch and draw every pair a partner; nothing in epoch 0."""
        if epoch == 0:
            return
        if self.config.within_image > 0 or self.config.within_text > 0:
            self.partner.copy_(self._draw(1, PARTNER_STREAM, epoch).squeeze(1))
        if self.config.sample_weights in OF_NEIGHBOURHOODS:
            self._score(epoch)

    def _random(self, stream: int, epoch: int) -> torch.Generator:
        seed = np.random.SeedSequence((self.seed, stream, epoch)).generate_state(1, np.uint64)[0]
        return torch.Generator().manual_seed(int(seed) % 2**63)

    def _draw(self, count: int, stream: int, epoch: int) -> Tensor:
        drawn = sample_neighbours(self.neighbours.cpu(), count, self._random(stream, epoch))
        return drawn.to(self.neighbours.device)

    def _score(self, epoch: int) -> None:
        second_order = self.neighbours
        if self.config.neighbours_of_neighbours:
            each = self.config.neighbours_of_neighbours // self.neighbours.shape[1]
            second_order = self._draw(each, DRAW_STREAM, epoch)
        cache, every_text = self.cache, torch.arange(len(self.neighbours), device=self.neighbours.device)
        for column, values, known, owner in (
            (IMAGE, cache.images, cache.known_images, self.image_of_text),
            (TEXT, cache.texts, cache.known_texts, every_text),
        ):
            raw = neighbour_scores(values, known, owner, self.neighbours, second_order)
            self.diversity[:, column], self.discrepancy[:, column] = raw
        if self.config.sample_weights == "random":
            self.diversity.copy_(shuffled(self.diversity, self._random(SHUFFLE_STREAM, epoch)))
        self.scored.fill_(True)

    def loss_inputs(self, model: Coder, batch: Batch) -> dict[str, Any]:
        """Return the weights of this step's pairs if the configuration weighs by neighbourhoods."""
        if self.config.sample_weights not in OF_NEIGHBOURHOODS:
            return {}
        return {"neighbour_weights": self.pair_weights(batch.text_ids)}

    @torch.no_grad()
    def pair_weights(self, text_ids: Tensor) -> Tensor:
        """Return (B,) weights of this process's pairs; those of all processes sum to λ."""
        if not bool(self.scored):
            return torch.full(text_ids.shape, self.config.weight_scale, device=text_ids.device)
        weights = weights_of(self.diversity, self.discrepancy, parallel.gather_rows(text_ids), self.config)
        start = parallel.rank() * len(text_ids)
        return weights[start : start + len(text_ids)]

    @torch.no_grad()
    def partner_embeddings(self, text_ids: Tensor, *, images: bool) -> tuple[Tensor, Tensor]:
        """Return (B, D) cached embeddings of each pair's partner (image or caption) and (B,) true where one exists."""
        partner = self.partner[text_ids]
        row = partner.clamp_min(0)
        if images:
            row = self.image_of_text[row]
            return self.cache.images[row], (partner >= 0) & self.cache.known_images[row]
        return self.cache.texts[row], (partner >= 0) & self.cache.known_texts[row]

    def add_losses(self, losses: Losses, step: Step) -> Losses:
        """Add the within-modality losses that have a weight (Thomas and Kovashka 2020).

        The paper draws one neighbour and encodes it with the batch. Here its embedding is that of the last epoch, which
        saves a second forward pass: the neighbour has no gradient. The first epoch has no such loss.
        """
        pairs, text_ids = mean_vectors(step.anchors), step.batch.text_ids
        all_text_ids = parallel.gather_rows(text_ids)
        all_images = self.image_of_text[all_text_ids]
        self._pending = pairs.all_images.detach(), pairs.all_texts.detach(), all_images, all_text_ids
        weights = step.config.weighting
        if weights.within_image == weights.within_text == 0:
            return losses
        neighbours = is_neighbour(self.neighbours[text_ids], all_text_ids)
        negatives = (pairs.image_ids[:, None] != pairs.all_image_ids[None, :]) & ~neighbours
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
