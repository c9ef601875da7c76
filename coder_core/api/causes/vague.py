"""Captions that say little: how many other images have captions with all the words of a caption that describe something."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from coder_core.api.sides import Array
from coder_core.api.slices.caption_words import CaptionWords
from coder_core.data.content.duplicates import EMPTY_WORDS


def other_images_with_words(
    words: CaptionWords, right: sparse.csr_array, asked: Array | None = None
) -> Array:
    """Count the images that a caption does not match, but whose captions together have all its words that describe
    something: (a,) for the `asked` captions, or (m,) for all. `right`: (m, n), from `right_pairs`.

    >>> right = sparse.csr_array(([True] * 4, ([0, 1, 2, 3], [0, 0, 1, 2])))
    >>> words = CaptionWords.of_content(["a dog", "a red ball", "the dog runs", "a cat"])
    >>> other_images_with_words(words, right)
    array([1, 0, 0, 0])
    """
    rows = range(len(words.starts) - 1) if asked is None else asked.tolist()
    describes = np.array([word not in EMPTY_WORDS for word in words.vocabulary], bool)
    images_with = _images_with_words(words, right)
    every = np.unique(right.indices)

    counts = np.empty(len(rows), np.int64)
    for position, row in enumerate(rows):
        of_caption = words.ids[words.starts[row] : words.starts[row + 1]]
        describing = set(of_caption[describes[of_caption]].tolist())
        rarest_first = sorted((_columns(images_with, word) for word in describing), key=len)
        found = rarest_first[0] if rarest_first else every
        for images in rarest_first[1:]:
            place = np.minimum(np.searchsorted(images, found), max(len(images) - 1, 0))
            found = found[images[place] == found] if len(images) else images
        counts[position] = len(found) - np.isin(_columns(right, row), found).sum()
    return counts


def _images_with_words(words: CaptionWords, right: sparse.csr_array) -> sparse.csr_array:
    """Return (v, n) bool: whether a caption of the image has the word."""
    captions, ends = words.index
    captions_with = sparse.csr_array(
        (np.ones(len(captions), bool), captions, ends), (len(words.vocabulary), right.shape[0])
    )
    images_with = captions_with @ right
    images_with.sort_indices()
    return images_with


def _columns(matrix: sparse.csr_array, row: int) -> Array:
    """Return the columns of a row that are true."""
    return np.asarray(matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]])
