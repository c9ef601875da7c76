"""Random parts of a split: the queries to rank of a large one, and two halves of its images. Uses only NumPy, so that
the app need not load torch.

A split of more than `RANKED_PAIRS` pairs is ranked for a seeded sample of queries of each direction, against all
candidates: ranks of the sample are those of the whole ranking, and only its recalls have wider intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coder_core.console.faults import InputError
from coder_core.evaluation.relevance import Queries, Relation, Relevance
from coder_core.evaluation.sources import Array

# of images and captions: 100,000 × 100,000 of 512 numbers take minutes on two cores
RANKED_PAIRS = 10_000_000_000
SAMPLED = 10_000  # queries per direction of a larger split
SEED = 20260601
HALVES_SEED = 0  # for halving the images of a split
AUTO = "auto"
ALL = "all"


@dataclass(frozen=True)
class RankOptions:
    """Which queries of a split are ranked, and where their scores are computed."""

    queries: str | int = AUTO  # as for `choose_queries`
    device: str = "cpu"  # of the float32 product; ranks are the same on every device


AS_USUAL = RankOptions()


def parse_rank(text: str, flag: str = "--rank") -> str | int:
    """Return "auto", "all", or a number of queries per direction. InputError: anything else.

    >>> parse_rank("10000"), parse_rank("all")
    (10000, 'all')
    """
    if text in (AUTO, ALL):
        return text
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise InputError.at(flag, f"is {text!r}", "auto, all, or a number of queries such as 10000")
    return int(text)


def choose_queries(relevance: Relevance, image_of_text: Array, asked: str | int = AUTO) -> Queries | None:
    """Choose the queries to rank among those with a right answer; None: all of the split.

    Images are drawn at random. Captions are drawn at random too, but those of one image as evenly as possible; if every
    image has one caption, the captions of the drawn images are drawn.

    >>> labels = Relevance.of_labels(np.arange(50), images=50)
    >>> drawn = choose_queries(labels, np.arange(50), 5)
    >>> drawn.images.tolist() == drawn.texts.tolist(), choose_queries(labels, np.arange(50)) is None
    (True, True)

    Args:
        asked: "all", a number of queries per direction, or "auto": all of a split of up to `RANKED_PAIRS` pairs, and
            `SAMPLED` of a larger one.
    """
    images = relevance.i2t.count
    texts = relevance.t2i.count
    if asked == ALL or (asked == AUTO and images * texts <= RANKED_PAIRS):
        return None
    most = SAMPLED if isinstance(asked, str) else asked
    key_of_image = np.random.default_rng(SEED).random(images)
    captions = np.bincount(image_of_text, minlength=images)[image_of_text]
    keys = (key_of_image[image_of_text] + _places(image_of_text) / captions) % 1.0
    queries = Queries(_lowest(key_of_image, relevance.i2t, most), _lowest(keys, relevance.t2i, most))
    whole = [_with_answer(relation) for relation in (relevance.i2t, relevance.t2i)]
    return None if [len(queries.images), len(queries.texts)] == [len(part) for part in whole] else queries


def queries_differ(chosen: Queries | None, ranked: Queries | None) -> bool:
    """True unless both are the same queries.

    >>> some = Queries(np.arange(3), np.arange(2))
    >>> queries_differ(some, Queries(np.arange(3), np.arange(2))), queries_differ(some, None)
    (False, True)
    """
    if chosen is None or ranked is None:
        return chosen is not ranked
    same = np.array_equal(chosen.images, ranked.images) and np.array_equal(chosen.texts, ranked.texts)
    return not same


def describe(queries: Queries | None, images: int, texts: int) -> str:
    """Return words on which queries are ranked; "" if all are.

    >>> describe(Queries(np.arange(10), np.arange(10)), 1000, 1000)
    'sampled 10 of 1,000'
    """
    if queries is None:
        return ""
    return describe_counts(len(queries.images), len(queries.texts), images, texts)


def describe_counts(ranked_images: int, ranked_texts: int, images: int, texts: int) -> str:
    """Return the words of `describe` for numbers of ranked queries.

    >>> describe_counts(10, 20, 1000, 5000)
    'sampled 10 of 1,000 images and 20 of 5,000 captions'
    """
    if not ranked_images and not ranked_texts:
        return "not ranked"
    if (ranked_images, images) == (ranked_texts, texts):
        return f"sampled {ranked_images:,} of {images:,}"
    return f"sampled {ranked_images:,} of {images:,} images and {ranked_texts:,} of {texts:,} captions"


def _with_answer(relation: Relation) -> Array:
    return np.flatnonzero(relation.sizes > 0)


def _lowest(keys: Array, relation: Relation, most: int) -> Array:
    """Return the queries with a right answer whose keys are lowest, ascending."""
    queries = _with_answer(relation)
    if len(queries) <= most:
        return queries
    return np.sort(queries[np.argpartition(keys[queries], most)[:most]])


def _places(image_of_text: Array) -> Array:
    """Return (m,) the position of every caption among those of its image."""
    order = np.argsort(image_of_text, kind="stable")
    ascending = image_of_text[order]
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order)) - np.searchsorted(ascending, ascending)
    return places


def random_halves(images: int) -> tuple[Array, Array]:
    """Return the images of two random halves in ascending order; the second one gets the odd image.

    The halves depend only on the number of images, so all runs on a split have the same ones.

    >>> [half.tolist() for half in random_halves(5)]
    [[2, 4], [0, 1, 3]]
    """
    order = np.random.default_rng(HALVES_SEED).permutation(images)
    return np.sort(order[: images // 2]), np.sort(order[images // 2 :])
