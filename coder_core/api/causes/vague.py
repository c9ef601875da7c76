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
    images_with, ends = _images_with_words(words, right)
    every = np.unique(right.indices)

    counts = np.empty(len(rows), np.int64)
    for position, row in enumerate(rows):
        of_caption = words.ids[words.starts[row] : words.starts[row + 1]]
        with_word = [
            images_with[ends[word] : ends[word + 1]]
            for word in set(of_caption[describes[of_caption]].tolist())
        ]
        rarest_first = sorted(with_word, key=len)
        found = rarest_first[0] if rarest_first else every
        for images in rarest_first[1:]:
            place = np.minimum(np.searchsorted(images, found), max(len(images) - 1, 0))
            found = found[images[place] == found] if len(images) else images
        own = right.indices[right.indptr[row] : right.indptr[row + 1]]
        counts[position] = len(found) - np.isin(own, found).sum()
    return counts


def _images_with_words(words: CaptionWords, right: sparse.csr_array) -> tuple[Array, Array]:
    """Return the images of every word's captions, ascending for each word, one word after the other; and (v + 1,) where
    the images of the words end, after a 0."""
    captions, of_word = words.index
    word = np.repeat(np.arange(len(words.vocabulary)), np.diff(of_word))
    shown = np.diff(right.indptr)[captions]
    first = np.cumsum(shown) - shown
    images = right.indices[np.repeat(right.indptr[captions] - first, shown) + np.arange(shown.sum())]
    keys = np.sort(np.repeat(word, shown) << 32 | images)
    keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
    return keys & 0xFFFFFFFF, np.searchsorted(keys, np.arange(len(words.vocabulary) + 1) << 32)
