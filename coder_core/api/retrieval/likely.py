"""Guesses from the captions alone, independent of any model: likely matches without a label, images a caption fits.

A result is a likely match of a query when a caption of its image is like a caption of the query's image, in a TF-IDF
space of the split's captions. A guess stays a guess: it is shown beside the recall of the labels and never mixed into
it. Of a split too large to look at whole, a sample of the queries is guessed about, in a space fitted to a sample of
the captions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from coder_core.api.run import Run
from coder_core.api.sampling import Sample
from coder_core.api.sides import TILE_ELEMENTS, Array, Direction, slices
from coder_core.geometry import captions as geometry
from coder_core.geometry.text_space import TfidfSpace

LIKELY = 0.6
"""Cosine from which a result is a likely match. On Flickr8k's dev split 39% of the captions are this like another
caption of their own image and 0.2% like one of a random other image."""


@dataclass(frozen=True)
class LikelyMatches:
    """Guesses about the best results of every query of one direction.

    Args:
        likeness: (Q, K) largest cosine between captions of the query and of each of its K best results, best first.
        match: (Q, K) true for the true matches among these results.
        ranks: (Q,) rank of the best true match, 0 is first; −1 for an image without captions.
        queries: (q,) the queries of the sample; None for all. Others have likeness −1 and no match.
    """

    likeness: Array
    match: Array
    ranks: Array
    queries: Array | None = None

    def likely(self, threshold: float = LIKELY) -> Array:
        """(Q, K) bool: like enough, and not a true match."""
        return np.asarray((self.likeness >= threshold) & ~self.match)

    def probably_right(self, at: int = 1, threshold: float = LIKELY) -> Array:
        """(Q,) bool: no true match among the first `at` results, but a likely one."""
        return np.asarray((self.ranks >= at) & self.likely(threshold)[:, :at].any(1))

    def recall(self, at: int, threshold: float = LIKELY, queries: Array | None = None) -> tuple[float, float]:
        """R@`at` in percent by the labels, and with likely matches counted as right; `at` up to K. Both are of the
        sample where there is one, and of these queries (None: all)."""
        counted = self.ranks >= 0
        for rows in (self.queries, queries):
            if rows is not None:
                counted &= np.isin(np.arange(len(counted)), rows)
        if not counted.any():
            return float("nan"), float("nan")
        right = self.ranks[counted] < at
        with_likely = right | self.probably_right(at, threshold)[counted]
        return 100 * float(right.mean()), 100 * float(with_likely.mean())


def text_vectors(run: Run, split: str) -> Array | None:
    """(m, S) unit rows of the split's captions in the space of the guess; None where they share hardly any word."""
    return geometry.caption_vectors(run.captions(split))


def sampled_space(run: Run, split: str, sample: Sample) -> TfidfSpace | None:
    """The space of the guess fitted to the captions of a sample; None where they share hardly any word."""
    captions = run.captions(split)
    return geometry.caption_space([captions[row] for row in sample.texts])


def likely_matches(
    run: Run, split: str, direction: Direction, vectors: Array | TfidfSpace, queries: Array | None = None
) -> LikelyMatches:
    """Guess about the (at most ten) best results that the analysis keeps of every query.

    Args:
        vectors: from `text_vectors`; or, where that is too much, from `sampled_space`, which encodes only the captions
            that are compared.
        queries: numbers of those to guess about; None for all.
    """
    captions, texts, best = run.captions(split), direction == "t2i", run.best(split, direction)
    captions_of = _captions_of(run.image_of_text(split), run.count(split, "image"))
    numbers = np.arange(len(best)) if queries is None else np.asarray(queries)
    likeness, match = np.full(best.shape, -1, np.float32), np.zeros(best.shape, bool)
    size = vectors.shape[1] if isinstance(vectors, np.ndarray) else geometry.SPACE_SIZE
    for part in slices(len(numbers), TILE_ELEMENTS // max(1, size * captions_of.shape[1])):
        rows, results = numbers[part], best[numbers[part]]
        of_query = rows[:, None] if texts else captions_of[rows]
        of_result = captions_of[results] if texts else results[:, :, None]
        missing = (of_query < 0)[:, None, :, None] | (of_result < 0)[:, :, None, :]
        if isinstance(vectors, np.ndarray):
            encoded = vectors
        else:
            compared = np.unique(np.concatenate([of_query.ravel(), of_result.ravel()]))
            encoded = vectors.encode([captions[row] for row in compared])
            of_query, of_result = np.searchsorted(compared, of_query), np.searchsorted(compared, of_result)
        for column in range(best.shape[1]):
            cosines = np.einsum("qad,qbd->qab", encoded[of_query], encoded[of_result[:, column]])
            likeness[rows, column] = np.where(missing[:, column], -1, cosines).max((1, 2))
        match[rows] = run.matches(split, direction, rows[:, None], results)
    return LikelyMatches(likeness, match, run.ranks(split)[direction], queries)


def _captions_of(image_of_text: Array, images: int) -> Array:
    """(n, most) the captions of every image, −1 where it has fewer."""
    position = pd.Series(image_of_text).groupby(image_of_text).cumcount().to_numpy()
    table = np.full((images, int(position.max(initial=0)) + 1), -1, np.int64)
    table[image_of_text, position] = np.arange(len(image_of_text))
    return table


def fitting_images(run: Run, split: str, sample: Sample | None = None) -> Array | None:
    """Count the OTHER images with a similar caption: (m,) int64, in the order of `run.diversity`.

    Two captions of the split, or of a sample of it, are alike from a cosine of `geometry.captions.LIKE` on. None where
    they share hardly any word.
    """
    part = run.part_compared(split, sample)
    captions = run.captions(split)
    vectors = geometry.caption_vectors([captions[row] for row in part.text_rows.tolist()])
    return None if vectors is None else geometry.fitting_images(vectors, part.owner, len(part.images))
