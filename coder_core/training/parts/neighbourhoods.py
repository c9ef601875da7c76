"""Weights of complementary samples while training: the cache of embeddings, and what an epoch makes of it.

Embeddings are kept as batches go by. At the start of every epoch after the first the raw scores of all pairs are
computed at once from what the epoch before left; within the epoch they stay, so a step only looks up its pairs and
takes two softmaxes. In the first epoch all weights are alike.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from coder_core.config.schema import Config
from coder_core.config.weighting import OF_NEIGHBOURHOODS
from coder_core.memory.sample_cache import SampleCache
from coder_core.objectives.neighbour_weights import ABSENT, drawn_neighbours, raw_scores
from coder_core.runs.analysis.weights import IMAGE, TEXT, weights_of
from coder_core.training import parallel
from coder_core.training.gathering import Anchors
from coder_core.training.prepare import Prepared

DRAW_STREAM = 6  # of the random numbers that choose neighbours of neighbours
PARTNER_STREAM = 7  # of those that draw every pair a neighbour


class Neighbourhoods(nn.Module):
    """Cached embeddings, raw scores and the weights they give. Saved and resumed as a whole.

    Args:
        config: of the run.
        neighbours: (m, N) int32 of the train captions.
        image_of_text: (m,) the image of every train caption.
        images: n.
    """

    diversity: Tensor
    discrepancy: Tensor
    scored: Tensor
    partner: Tensor
    neighbours: Tensor
    image_of_text: Tensor

    def __init__(self, config: Config, neighbours: np.ndarray, image_of_text: np.ndarray, images: int) -> None:
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
        """Score all pairs by what the epoch before left in the cache, and draw every pair a neighbour. Nothing to do in
        epoch 0."""
        if epoch == 0:
            return
        if self.config.within_image > 0 or self.config.within_text > 0:
            self.partner.copy_(self._draw(1, PARTNER_STREAM, epoch).squeeze(1))
        if self.config.sample_weights in OF_NEIGHBOURHOODS:
            self._score(epoch)

    def _draw(self, count: int, stream: int, epoch: int) -> Tensor:
        drawn = np.random.SeedSequence((self.seed, stream, epoch)).generate_state(1, np.uint64)[0]
        generator = torch.Generator().manual_seed(int(drawn) % 2**63)
        return drawn_neighbours(self.neighbours.cpu(), count, generator).to(self.neighbours.device)

    def _score(self, epoch: int) -> None:
        again = self.neighbours
        if self.config.neighbours_of_neighbours:
            each = self.config.neighbours_of_neighbours // self.neighbours.shape[1]
            again = self._draw(each, DRAW_STREAM, epoch)
        every = torch.arange(len(self.neighbours), device=self.neighbours.device)
        cache = self.cache
        sides = (
            (IMAGE, cache.images, cache.known_images, self.image_of_text),
            (TEXT, cache.texts, cache.known_texts, every),
        )
        for column, values, known, owner in sides:
            raw = raw_scores(values, known, owner, self.neighbours, again)
            self.diversity[:, column], self.discrepancy[:, column] = raw
        self.scored.fill_(True)

    @torch.no_grad()
    def weigh(self, text_ids: Tensor) -> Tensor:
        """(B,) weights of this process's pairs; those of all processes sum to λ."""
        if not bool(self.scored):
            return torch.full(text_ids.shape, self.config.weight_scale, device=text_ids.device)
        weights = weights_of(self.diversity, self.discrepancy, parallel.gather_rows(text_ids), self.config)
        start = parallel.rank() * len(text_ids)
        return weights[start : start + len(text_ids)]

    @torch.no_grad()
    def drawn(self, text_ids: Tensor, *, images: bool) -> tuple[Tensor, Tensor]:
        """(B, D) cached embeddings of each pair's drawn neighbour, its image's or its caption's, and (B,) whether there
        is one."""
        partner = self.partner[text_ids]
        row = partner.clamp_min(0)
        row = self.image_of_text[row] if images else row
        values, known = (
            (self.cache.images, self.cache.known_images) if images else (self.cache.texts, self.cache.known_texts)
        )  # fmt: skip
        return values[row], (partner >= 0) & known[row]

    @torch.no_grad()
    def notice(self, anchors: Anchors, text_ids: Tensor) -> None:
        """Keep a step's embeddings, of all processes, for `remember`."""
        self._pending = (
            anchors.all_images.detach(), anchors.all_texts.detach(), anchors.all_image_ids,
            parallel.gather_rows(text_ids),
        )  # fmt: skip

    def remember(self) -> None:
        """Take the waiting embeddings in. After backward(), so that a step that fails leaves the cache as it was."""
        if self._pending is not None:
            self.cache.write(*self._pending)
            self._pending = None


def make_neighbourhoods(config: Config, prepared: Prepared) -> Neighbourhoods | None:
    """What a configuration that reads neighbours needs beside its model."""
    if prepared.neighbourhood is None:
        return None
    train = prepared.train
    return Neighbourhoods(config, prepared.neighbourhood.neighbours, train.image_of_text, train.n_images)
