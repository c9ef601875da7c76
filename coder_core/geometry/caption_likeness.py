"""Similarity of a caption to the captions of other images, in a space independent of any model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from coder_core.console.faults import InputError
from coder_core.geometry.text_space import TfidfSpace, fit_tfidf

SPACE_SIZE = 256  # components of the TF-IDF space
LIKE = 0.5
"""Cosine from which a caption is taken to fit another image. Of Flickr8k's dev captions 59% are this like another
caption of their own image and 0.6% like one of a random other image; the median fits four other images."""
TILE_ELEMENTS = 8_388_608  # 32 MiB of float32


def caption_space(captions: Sequence[str]) -> TfidfSpace | None:
    """A TF-IDF space fitted to these captions; None where they share no words."""
    try:
        return fit_tfidf(captions, SPACE_SIZE)
    except InputError:
        return None


def caption_vectors(captions: Sequence[str]) -> np.ndarray | None:
    """(m, S) float32 unit rows of a TF-IDF space fitted to these very captions; None where they share no words."""
    space = caption_space(captions)
    return None if space is None else space.encode(captions)


def likeness_to_images(
    queries: np.ndarray, vectors: np.ndarray, image_of_text: np.ndarray, images: int
) -> Iterator[tuple[slice, np.ndarray]]:
    """The largest cosine of every query to the captions of every image, tile by tile.

    Args:
        queries: (Q, S) unit rows. vectors: (m, S) those of the captions.
        image_of_text: (m,) the image of every caption. images: n.

    Yields:
        rows of the queries and (rows, n) cosines; −1 for an image without captions.
    """
    order = np.argsort(image_of_text, kind="stable")
    owner, starts = np.unique(image_of_text[order], return_index=True)
    ordered = np.ascontiguousarray(vectors[order].T)
    step = max(1, TILE_ELEMENTS // max(len(vectors), 1))
    for start in range(0, len(queries), step):
        rows = slice(start, min(start + step, len(queries)))
        likeness = np.full((rows.stop - start, images), -1, np.float32)
        if len(owner):
            likeness[:, owner] = np.maximum.reduceat(queries[rows] @ ordered, starts, axis=1)
        yield rows, likeness


def fitting_images(
    vectors: np.ndarray, image_of_text: np.ndarray, images: int, likeness: float = LIKE
) -> np.ndarray:
    """Count the OTHER images with a caption at least this similar to each caption: (m,) int64.

    An estimate of how ambiguous a caption is. It knows words, not pictures: "a dog" is like few long captions, though
    it fits every dog.

    Args:
        vectors: (m, S) unit rows. image_of_text: (m,). images: n. likeness: a cosine.
    """
    counts = np.zeros(len(vectors), np.int64)
    for rows, cosines in likeness_to_images(vectors, vectors, image_of_text, images):
        own = np.arange(rows.stop - rows.start), image_of_text[rows]
        cosines[own] = -1
        counts[rows] = (cosines >= likeness).sum(1)
    return counts
