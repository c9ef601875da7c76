"""Random samples of large splits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coder_core.api.sides import Array, Direction, Modality, Sides

SCORES_AT_MOST = 125_000_000  # 5,000 images × 25,000 captions: a larger split is sampled
QUERIES_AT_MOST = 5_000  # captions, with their images, for computations per query on a larger split
POINTS_AT_MOST = 20_000  # images and captions together, for the joint space of a larger split


@dataclass(frozen=True)
class Sample:
    """Some images of a split, drawn at random, with all their captions."""

    images: Array  # (k,) rows of the images, ascending
    texts: Array  # (l,) rows of their captions, ascending
    # of_images, of_texts: numbers in the split
    of_images: int
    of_texts: int

    @property
    def key(self) -> bytes:
        """Key that distinguishes this sample from others of the same split."""
        return self.images.tobytes()

    def queries(self, direction: Direction) -> Array:
        """Return the rows of the queries of a direction."""
        return self.texts if direction == "t2i" else self.images


@dataclass(frozen=True)
class SplitPart:
    """A whole split, or a sample of it."""

    images: Array  # (k, D) unit rows
    texts: Array  # (l, D) unit rows
    image_rows: Array  # (k,) their rows in the split
    text_rows: Array  # (l,) those of the captions
    owner: Array  # (l,) the position among `images` of each caption's image
    # (k, l) of a model that scores pair by pair; its embeddings above are empty (D = 0)
    scores: Array | None = None

    def sides(self, modality: Modality) -> Sides:
        """Return anchors of `modality` and candidates of the other one."""
        of_images = Sides(self.images, self.texts, np.arange(len(self.images)), self.owner, self.scores)
        return of_images if modality == "image" else of_images.turned()

    def similarities(self, images: Array, texts: Array) -> Array:
        """Return (k, l) similarities of some images and captions, given as positions in the part."""
        if self.scores is not None:
            return np.asarray(self.scores[np.ix_(images, texts)])
        return np.asarray(self.images[images] @ self.texts[texts].T)

    def rows(self, modality: Modality) -> Array:
        """Return the rows in the split of the images or of the captions."""
        return self.image_rows if modality == "image" else self.text_rows

    def of_sample(self, sample: Sample | None) -> SplitPart:
        """Return the rows of a sample, copied out of the memory map; the part itself for None."""
        if sample is None:
            return self
        rows = sample.images
        columns = sample.texts
        scores = None if self.scores is None else self.scores[np.ix_(rows, columns)]
        owner = np.searchsorted(rows, self.owner[columns])
        return SplitPart(self.images[rows], self.texts[columns], rows, columns, owner, scores)


def whole_split(images: Array, texts: Array, image_of_text: Array, scores: Array | None = None) -> SplitPart:
    """Return the whole split as one part; arguments as for `SplitPart`."""
    return SplitPart(images, texts, np.arange(len(images)), np.arange(len(texts)), image_of_text, scores)


def draw_sample(
    images: int,
    image_of_text: Array,
    *,
    scores: int | None = None,
    points: int | None = None,
    texts: int | None = None,
    first: Array | None = None,
) -> Sample | None:
    """Draw random images with their captions; None for a split small enough to compute whole. `scores`: the most
    similarities to compute; None for SCORES_AT_MOST. `points`, `texts`: approximate number of images and captions, or
    of captions; None for as many as `scores` allows. `first`: (f,) images to draw before others, those with ranks."""
    most = SCORES_AT_MOST if scores is None else scores
    captions = len(image_of_text)
    if images * captions <= most:
        return None

    # k images have about k·m/n captions, and k·k·m/n = scores
    count = (most / captions * images) ** 0.5
    if points is not None:
        count = points * images / (images + captions)
    elif texts is not None:
        count = round(texts * images / captions)

    random = np.random.default_rng(0)
    wanted = min(max(2, int(count)), images)
    if first is None:
        rows = random.choice(images, wanted, replace=False)
    elif wanted <= len(first):
        rows = random.choice(first, wanted, replace=False)
    else:
        is_other = np.ones(images, dtype=bool)
        is_other[first] = False
        others = np.flatnonzero(is_other)
        rows = np.concatenate([first, random.choice(others, wanted - len(first), replace=False)])

    return sample_of(rows, images, image_of_text)


def sample_of(rows: Array, images: int, image_of_text: Array) -> Sample:
    """Return these images with all their captions; the other arguments as for `draw_sample`."""
    chosen = np.zeros(images, dtype=bool)
    chosen[rows] = True
    texts = np.flatnonzero(chosen[image_of_text])
    return Sample(np.flatnonzero(chosen), texts, images, len(image_of_text))
