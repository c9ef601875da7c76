"""Diversity over all negatives of a split, those of a random batch, or a random bank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from coder_core.api.diversity.table import Measure, entropy_over_split, masked_spread, std_over_split
from coder_core.api.sampling import SplitPart
from coder_core.api.sides import Array, Modality

BANK_SIZE = 4_096  # CODER's bank on Flickr30K, section 4.2
Candidates = Literal["split", "batch", "bank"]


@dataclass(frozen=True)
class DiversitySettings:
    """The choices behind a table of diversities.

    Args:
        modality: of the anchors. function: "std" (eq. 3) or "entropy" (supplement eq. 16).
        candidates: "split", all negatives; "batch", those of one random batch; "bank", a random bank of pairs.
        batch_size: pairs in a batch. bank_size: pairs in the bank. seed: of either draw.
        temperature: of the softmax inside entropy.
    """

    modality: Modality = "text"
    function: Measure = "std"
    candidates: Candidates = "split"
    batch_size: int = 128
    bank_size: int = BANK_SIZE
    seed: int = 0
    temperature: float = 1.0

    @property
    def key(self) -> tuple[object, ...]:
        """The values that change the spread."""
        drawn = {"split": (), "batch": (self.batch_size, self.seed), "bank": (self.bank_size, self.seed)}
        temperature = self.temperature if self.function == "entropy" else None
        return self.modality, self.function, self.candidates, *drawn[self.candidates], temperature


@dataclass(frozen=True)
class Draw:
    """Random training batches that hold every anchor of a modality exactly once.

    Args:
        pair_image, pair_text: (Q,) the image and the caption of each anchor's pair.
        batches: (K, B) anchors in each batch; the last one borrows from the first to be full.
        batch_of: (Q,) the batch an anchor is judged in.
    """

    pair_image: Array
    pair_text: Array
    batches: Array
    batch_of: Array


def draw_batches(
    images: int, image_of_text: Array, modality: Modality, *, batch_size: int, seed: int
) -> Draw:
    """Cut all anchors of a modality into random batches; an image is paired with one of its captions, at random.

    Raises:
        ValueError: the batch is smaller than 2.
    """
    if batch_size < 2:
        raise ValueError(f"batch_size must be at least 2, got {batch_size}: a pair alone has no negatives")
    rng = np.random.default_rng(seed)
    if modality == "image":
        shuffled = rng.permutation(len(image_of_text))
        owner, first = np.unique(image_of_text[shuffled], return_index=True)
        pair_text = np.zeros(images, dtype=np.int64)
        pair_text[owner] = shuffled[first]
        pair_image = np.arange(images)
    else:
        pair_image, pair_text = np.asarray(image_of_text, dtype=np.int64), np.arange(len(image_of_text))
    count = len(pair_image)
    size = min(batch_size, count)
    order = rng.permutation(count)
    starts = np.arange(0, count, size)
    batches = order[(starts[:, None] + np.arange(size)[None, :]) % count]
    batch_of = np.empty(count, dtype=np.int64)
    batch_of[order] = np.arange(count) // size
    return Draw(pair_image, pair_text, batches, batch_of)


def draw_bank(pairs: int, *, size: int, seed: int) -> Array:
    """Rows of the captions in a bank of `size` pairs (or of all pairs), drawn without repetition.

    Raises:
        ValueError: the bank holds nothing.
    """
    if size < 1:
        raise ValueError(f"a bank holds at least 1 pair, got {size}")
    return np.sort(np.random.default_rng(seed).choice(pairs, min(size, pairs), replace=False))


def spread_in_batches(part: SplitPart, draw: Draw, settings: DiversitySettings) -> Array:
    """Each anchor's spread over the negatives of its batch, (Q,) float64."""
    spread = np.zeros(len(draw.pair_image))
    for number, batch in enumerate(draw.batches):
        images, texts = draw.pair_image[batch], draw.pair_text[batch]
        if part.scores is None:
            scores = part.images[images] @ part.texts[texts].T
        else:
            scores = part.scores[images[:, None], texts[None, :]]
        scores = np.asarray(scores if settings.modality == "image" else scores.T, dtype=np.float64)
        negatives = images[:, None] != images[None, :]
        spreads = masked_spread(scores, negatives, settings.function, settings.temperature)
        own = draw.batch_of[batch] == number
        spread[batch[own]] = spreads[own]
    return spread


def draw_for(part: SplitPart, settings: DiversitySettings) -> Draw | None:
    """The random batches of "batch"; None for the others."""
    if settings.candidates != "batch":
        return None
    return draw_batches(
        len(part.images), part.owner, settings.modality, batch_size=settings.batch_size, seed=settings.seed
    )


def spread(part: SplitPart, settings: DiversitySettings) -> Array:
    """(Q,) standard deviation, or entropy in bits, of every anchor's similarities to its negatives."""
    draw = draw_for(part, settings)
    if draw is not None:
        return spread_in_batches(part, draw, settings)
    sides = part.sides(settings.modality)
    if (
        settings.candidates == "bank"
    ):  # an image stands there once for each of its pairs, as in the coupled queues
        pairs = draw_bank(len(part.texts), size=settings.bank_size, seed=settings.seed)
        sides = sides.among(pairs if settings.modality == "image" else part.owner[pairs])
    if settings.function == "std":
        return std_over_split(sides)
    return entropy_over_split(sides, settings.temperature)


def candidates_of(part: SplitPart, settings: DiversitySettings, position: int, draw: Draw | None) -> Array:
    """Rows, in the split, of the candidates one anchor is compared with, its own among them.

    Args:
        position: of the anchor in the part; −1, outside the sample, takes those of the first batch.
    """
    images = settings.modality == "image"
    if draw is not None:
        pairs = draw.batches[draw.batch_of[position] if position >= 0 else 0]
        return part.text_rows[draw.pair_text[pairs]] if images else part.image_rows[draw.pair_image[pairs]]
    if settings.candidates == "bank":
        pairs = draw_bank(len(part.texts), size=settings.bank_size, seed=settings.seed)
        return part.text_rows[pairs] if images else part.image_rows[part.owner[pairs]]
    return part.text_rows if images else part.image_rows
