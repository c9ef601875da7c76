"""Weights for complementary samples, as a module that stores the last epoch's embeddings and all captions' neighbours.

    neighbours = split_neighbours(fit_tfidf(captions, 256), captions, image_of_text, 200)
    weights = NeighbourWeights("diversity", neighbours, image_of_text, images=len(pictures), dimension=512)
    for epoch in range(epochs):
        weights.begin_epoch(epoch)
        for images, texts, text_ids in batches:  # embedded
            loss(images, texts, image_ids, weights=weights(images, texts, text_ids)).backward()

`fit_tfidf` is in `coder_core.geometry.text_space`, `split_neighbours` in `coder_core.runs.derived.neighbours`.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from coder_core.objectives.complementary import (
    ABSENT,
    combined_weights,
    neighbour_scores,
    sample_neighbours,
    shuffled,
)
from coder_core.objectives.modules import without_autocast
from coder_core.objectives.pairs import check_numbers, pairs_of
from coder_core.ops import parallel

# columns of the raw scores
IMAGE = 0
TEXT = 1
DRAW_STREAM = 6  # random stream that draws neighbours of neighbours
SHUFFLE_STREAM = 11  # random stream that permutes the scores over the pairs


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
        """Store a batch's embeddings, (B, D) unit rows: for a repeated image its last row; captions occur only once."""
        is_last = ~(image_ids[:, None] == image_ids[None, :]).triu(1).any(1)
        last = image_ids[is_last]
        self.images[last] = images[is_last].to(self.images.dtype)
        self.texts[text_ids] = texts.to(self.texts.dtype)
        self.known_images[last] = True
        self.known_texts[text_ids] = True


class NeighbourWeights(nn.Module):
    """DIVERSITY, DISCREPANCY and COMBINED weights of the pairs of a batch (Thomas and Kovashka 2022); their mean is 1.

    All weights are 1 in the first epoch; every later epoch uses the embeddings of the epoch before. `state_dict`
    includes the tables and (n + m) · D embeddings. Under torch.distributed every process caches all processes' pairs.

    Args:
        kind: "diversity", "discrepancy", "combined", "combined-stats" or "random" (`combination_shares`), or "none".
        neighbours: (m, N) integers, the captions nearest to each caption in a fixed text space, none of its own image;
            padded with −1.
        image_of_text: (m,) the image of every caption.
        images: n, the number of images.
        dimension: D.
        scale: λ ÷ batch size; a larger value spreads the weights more.
        neighbours_of_neighbours: number drawn for each pair in each epoch, 0 (all N²) or at least N.
        seed: of these draws.
        settings: shares, direction or modalities of `combined_weights`.

    Raises:
        ValueError: an unknown kind, tables of the wrong shape, or caption or image numbers out of range.
    """

    diversity: Tensor
    discrepancy: Tensor
    scored: Tensor
    neighbours: Tensor
    image_of_text: Tensor

    def __init__(
        self,
        kind: str,
        neighbours: Any,
        image_of_text: Any,
        images: int,
        dimension: int,
        *,
        scale: float = 6.125,
        neighbours_of_neighbours: int = 1000,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__()
        near = torch.as_tensor(neighbours).long()
        owner = torch.as_tensor(image_of_text).long()
        texts = len(owner)
        if kind != "none":
            example = torch.zeros(1, 2)
            combined_weights(kind, example, example, **settings)  # raise errors in the settings now
        if near.ndim != 2 or near.shape[0] != texts or not near.shape[1]:
            raise ValueError(f"neighbours are {tuple(near.shape)}: give a row for each of {texts} captions")

        check_numbers("neighbours", near, ABSENT, texts)
        check_numbers("image_of_text", owner, 0, images)
        if 0 < neighbours_of_neighbours < near.shape[1]:
            raise ValueError(
                f"neighbours_of_neighbours is {neighbours_of_neighbours}: give 0, or at least {near.shape[1]}"
            )

        self.kind = kind
        self.scale = scale
        self.seed = seed
        self.settings = settings
        self.each = neighbours_of_neighbours // near.shape[1]
        self.cache = SampleCache(images, texts, dimension)
        self.register_buffer("diversity", torch.zeros(texts, 2))
        self.register_buffer("discrepancy", torch.zeros(texts, 2))
        self.register_buffer("scored", torch.zeros((), dtype=torch.bool))
        self.register_buffer("neighbours", near)
        self.register_buffer("image_of_text", owner)

    @torch.no_grad()
    def begin_epoch(self, epoch: int) -> None:
        """Score all pairs by the last epoch's embeddings; do nothing in epoch 0."""
        if epoch == 0 or self.kind == "none":
            return
        second_order = self.draw(self.each, DRAW_STREAM, epoch) if self.each else self.neighbours
        cache = self.cache
        every_text = torch.arange(len(self.neighbours), device=self.neighbours.device)
        for column, values, known, owner in (
            (IMAGE, cache.images, cache.known_images, self.image_of_text),
            (TEXT, cache.texts, cache.known_texts, every_text),
        ):
            raw = neighbour_scores(values, known, owner, self.neighbours, second_order)
            self.diversity[:, column], self.discrepancy[:, column] = raw
        if self.kind == "random":
            self.diversity.copy_(shuffled(self.diversity, self.random(SHUFFLE_STREAM, epoch)))
        self.scored.fill_(True)

    @torch.no_grad()
    @without_autocast
    def forward(self, image_embeddings: Tensor, text_embeddings: Tensor, text_ids: Tensor) -> Tensor:
        """Return (B,) weights of this process's pairs, without gradient; in training mode cache their embeddings.

        Args:
            image_embeddings, text_embeddings: (B, D).
            text_ids: (B,) integer numbers of the captions.
        """
        check_numbers("text_ids", text_ids, 0, len(self.image_of_text))
        anchors = pairs_of(image_embeddings, text_embeddings, self.image_of_text[text_ids])
        weights = self.of_pairs(text_ids)
        if self.training:
            all_text_ids = parallel.gather_rows(text_ids)
            self.cache.write(anchors.all_images, anchors.all_texts, anchors.all_image_ids, all_text_ids)
        return weights

    @torch.no_grad()
    def of_pairs(self, text_ids: Tensor) -> Tensor:
        """Return (B,) weights of this process's pairs; the mean of all processes' is 1."""
        if not bool(self.scored):
            return torch.ones(text_ids.shape, device=text_ids.device)
        weights = combined_weights(
            self.kind,
            self.diversity,
            self.discrepancy,
            parallel.gather_rows(text_ids),
            scale=self.scale,
            **self.settings,
        )
        start = parallel.rank() * len(text_ids)
        return weights[start : start + len(text_ids)] / self.scale

    def draw(self, count: int, stream: int, epoch: int) -> Tensor:
        """Draw `count` neighbours of every caption, (m, count) int64; the draw follows from seed, stream and epoch."""
        drawn = sample_neighbours(self.neighbours.cpu(), count, self.random(stream, epoch))
        return drawn.to(self.neighbours.device)

    def random(self, stream: int, epoch: int) -> torch.Generator:
        """Return the random generator of a stream in an epoch."""
        seed = np.random.SeedSequence((self.seed, stream, epoch)).generate_state(1, np.uint64)[0]
        return torch.Generator().manual_seed(int(seed) % 2**63)
