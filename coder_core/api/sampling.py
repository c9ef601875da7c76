"""Random samples of large splits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coder_core.api.sides import Array, Modality, Sides, sides

SCORES_AT_MOST = 125_000_000  # 5,000 images × 25,000 captions: a larger split is sampled
QUERIES_AT_MOST = 5_000  # captions, with their images, for what is computed query by query of a larger split
POINTS_AT_MOST = 20_000  # images and captions together, for the joint space of a larger split


@dataclass(frozen=True)
class Sample:
    """Some images of a split, drawn at random, with all their captions.

    Args:
        images: (k,) rows of the images, ascending. texts: (l,) rows of their captions, ascending.
        of_images, of_texts: how many the split has. seed: of the draw.
    """

    images: Array
    texts: Array
    of_images: int
    of_texts: int
    seed: int

    @property
    def key(self) -> tuple[int, int, int]:
        """Key that distinguishes this draw from others of the same split."""
        return len(self.images), len(self.texts), self.seed


@dataclass(frozen=True)
class SplitPart:
    """A whole split, or a sample of it.

    Args:
        images: (k, D) unit rows. texts: (l, D) unit rows.
        image_rows: (k,) their rows in the split. text_rows: (l,) likewise.
        owner: (l,) the position among `images` of each caption's image.
        scores: (k, l) of a model that scores pair by pair; its rows above have no numbers (D = 0).
    """

    images: Array
    texts: Array
    image_rows: Array
    text_rows: Array
    owner: Array
    scores: Array | None = None

    def sides(self, modality: Modality) -> Sides:
        """As anchors, which `modality` names, and candidates."""
        return sides(self.images, self.texts, self.owner, modality, self.scores)


def draw_sample(
    images: int, image_of_text: Array, *, scores: int | None = None, seed: int = 0
) -> Sample | None:
    """As many images as keep images × captions within `scores`; None when the whole split does.

    Args:
        images: n. image_of_text: (m,). scores: the largest matrix of similarities; None for SCORES_AT_MOST.
    """
    texts, scores = len(image_of_text), SCORES_AT_MOST if scores is None else scores
    if images * texts <= scores:
        return None
    rng = np.random.default_rng(seed)
    count = max(
        2, int((scores / texts * images) ** 0.5)
    )  # k images have about k·m/n captions, and k·k·m/n = scores
    return sample_of(rng.choice(images, min(count, images), replace=False), images, image_of_text, seed)


def sample_of(chosen: Array, images: int, image_of_text: Array, seed: int = 0) -> Sample:
    """These images with all their captions; the other arguments as for `draw_sample`."""
    inside = np.zeros(images, dtype=bool)
    inside[chosen] = True
    return Sample(
        np.flatnonzero(inside), np.flatnonzero(inside[image_of_text]), images, len(image_of_text), seed
    )


def draw_points_sample(
    images: int,
    image_of_text: Array,
    *,
    points: int = POINTS_AT_MOST,
    scores: int | None = None,
    seed: int = 0,
) -> Sample | None:
    """About `points` images and captions together; None where `draw_sample` takes the whole split."""
    texts, scores = len(image_of_text), SCORES_AT_MOST if scores is None else scores
    if images * texts <= scores:
        return None
    count = points * images / (images + texts)  # k images have about k·m/n captions
    return draw_sample(images, image_of_text, scores=int(count * count * texts / images), seed=seed)


def draw_query_sample(
    images: int, image_of_text: Array, *, scores: int | None = None, seed: int = 0
) -> Sample | None:
    """Images with about QUERIES_AT_MOST captions; None where `draw_sample` takes the whole split."""
    texts, scores = len(image_of_text), SCORES_AT_MOST if scores is None else scores
    if images * texts <= scores:
        return None
    count = round(QUERIES_AT_MOST * images / texts)
    chosen = np.random.default_rng(seed).choice(images, max(2, min(count, images)), replace=False)
    return sample_of(chosen, images, image_of_text, seed)


def part_of(
    images: Array, texts: Array, image_of_text: Array, sample: Sample | None, scores: Array | None = None
) -> SplitPart:
    """The rows of a sample, copied out of the memory map; the whole split for None."""
    if sample is None:
        return SplitPart(images, texts, np.arange(len(images)), np.arange(len(texts)), image_of_text, scores)
    owner = np.searchsorted(sample.images, image_of_text[sample.texts])
    part_scores = None if scores is None else scores[sample.images[:, None], sample.texts[None, :]]
    return SplitPart(
        images[sample.images], texts[sample.texts], sample.images, sample.texts, owner, part_scores
    )
