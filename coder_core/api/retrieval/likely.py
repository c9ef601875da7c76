"""Guess which results that count as wrong are matches that nobody labelled, by the captions alone.

A result is a likely match of a query when a caption of its image is like a caption of the query's image, in a TF-IDF
space of the split's captions, which the judged model has no part in. A guess stays a guess: it is shown beside the
recall of the labels and never mixed into it. Of a split too large to look at whole, a sample of the queries is guessed
about, in a space fitted to a sample of the captions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from coder_core.api.sampling import Sample
from coder_core.api.sides import TILE_ELEMENTS, Array, Direction, slices
from coder_core.geometry.captions import SPACE_SIZE, caption_space, caption_vectors
from coder_core.geometry.text_space import TfidfSpace

if TYPE_CHECKING:
    from coder_core.api.run import Run


LIKELY = 0.6
"""Cosine from which a result is a likely match. On Flickr8k's dev split 39% of the captions are this like another
caption of their own image and 0.2% like one of a random other image."""


@dataclass(frozen=True)
class LikelyMatches:
    """Guesses about the best results of every query of one direction.

    Args:
        likeness: (Q, K) largest cosine between captions of the query and of each of its K best results, best first.
        match: (Q, K) which of these results are true matches.
        ranks: (Q,) rank of the best true match, 0 is first; −1 for an image without captions.
        queries: (q,) the queries of the sample; None for all. Others have likeness −1 and no match.
    """

    likeness: Array
    match: Array
    ranks: Array
    queries: Array | None = None

    def likely(self, threshold: float = LIKELY) -> Array:
        """(Q, K) bool: like enough, and no true match."""
        return np.asarray((self.likeness >= threshold) & ~self.match)

    def probably_right(self, at: int = 1, threshold: float = LIKELY) -> Array:
        """(Q,) bool: no true match among the first `at` results, but a likely one."""
        return np.asarray((self.ranks >= at) & self.likely(threshold)[:, :at].any(1))

    def recall(self, at: int, threshold: float = LIKELY, queries: Array | None = None) -> tuple[float, float]:
        """R@`at` in percent as the labels have it, and with likely matches counted as right; `at` up to K. Both are of
        the sample where there is one.

        Args:
            queries: numbers of those that count; None for all.
        """
        asks = self.ranks >= 0
        for chosen in (self.queries, queries):
            if chosen is not None:
                asks &= np.isin(np.arange(len(asks)), chosen)
        if not asks.any():
            return float("nan"), float("nan")
        right = self.ranks[asks] < at
        return 100 * float(right.mean()), 100 * float(
            (right | self.probably_right(at, threshold)[asks]).mean()
        )


def text_vectors(run: Run, split: str) -> Array | None:
    """(m, S) unit rows of the split's captions in the space of the guess; None where they share hardly any word."""
    return caption_vectors(run.captions(split))


def sampled_space(run: Run, split: str, sample: Sample) -> TfidfSpace | None:
    """The space of the guess fitted to the captions of a sample; None where they share hardly any word."""
    captions = run.captions(split)
    return caption_space([captions[row] for row in sample.texts])


def likely_matches(
    run: Run, split: str, direction: Direction, vectors: Array | TfidfSpace, queries: Array | None = None
) -> LikelyMatches:
    """Guess about the (at most ten) best results that the analysis keeps of every query.

    Args:
        vectors: from `text_vectors`; or, where that is too much, from `sampled_space`, which encodes only the captions
            that are compared.
        queries: numbers of those to guess about; None for all.
    """
    analysis, image_of_text = run.analysis(split), run.image_of_text(split)
    texts = direction == "t2i"
    best = np.asarray(analysis.text_best if texts else analysis.image_best)
    captions_of = _captions_of(image_of_text, run.count(split, "image"))
    asked = np.arange(len(best)) if queries is None else np.asarray(queries)
    likeness, match = np.full(best.shape, -1, np.float32), np.zeros(best.shape, bool)
    size = vectors.shape[1] if isinstance(vectors, np.ndarray) else SPACE_SIZE
    for part in slices(len(asked), TILE_ELEMENTS // max(1, size * captions_of.shape[1])):
        rows = asked[part]
        results = best[rows]
        own = rows[:, None] if texts else captions_of[rows]
        others = captions_of[results] if texts else results[:, :, None]
        missing = (own < 0)[:, None, :, None] | (others < 0)[:, :, None, :]
        if isinstance(vectors, np.ndarray):
            encoded = vectors
        else:
            compared = np.unique(np.concatenate([own.ravel(), others.ravel()]))
            encoded = vectors.encode([run.captions(split)[row] for row in compared])
            own, others = np.searchsorted(compared, own), np.searchsorted(compared, others)
        for column in range(best.shape[1]):
            cosines = np.einsum("qad,qbd->qab", encoded[own], encoded[others[:, column]])
            likeness[rows, column] = np.where(missing[:, column], -1, cosines).max((1, 2))
        result_image = results if texts else image_of_text[results]
        match[rows] = result_image == (image_of_text[rows] if texts else rows)[:, None]
    return LikelyMatches(likeness, match, run.ranks(split)[direction], queries)


def _captions_of(image_of_text: Array, images: int) -> Array:
    """(n, most) the captions of every image, −1 where it has fewer."""
    order = np.argsort(image_of_text, kind="stable")
    owner = image_of_text[order]
    first = np.searchsorted(owner, np.arange(images))
    counts = np.bincount(image_of_text, minlength=images)
    table = np.full((images, max(int(counts.max(initial=0)), 1)), -1, np.int64)
    table[owner, np.arange(len(order)) - first[owner]] = order
    return table
