"""Relevance: which candidates are right for a query, how much, and why. Uses only NumPy, so that the app need not load
torch.

A split has one relation per direction. Labels alone are the default: a caption and its image belong together. Groups,
equal texts, files of judgments and people's verdicts widen or narrow it. Ranks and metrics read the relation; nothing
else decides whether a result is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from coder_core.console.faults import InputError
from coder_core.evaluation.sources import Array

SOURCES = ("label", "group", "text", "judgement", "verdict")
"""Why a candidate is right: the data says so, both belong to one group, the caption has the same text as one of the
image's own, judges found it, or a reviewer did. `LABEL` … are their codes; a pair has the first that applies."""
LABEL, GROUP, TEXT, JUDGEMENT, VERDICT = range(len(SOURCES))
MOST_PAIRS = 20_000_000  # of one source: 320 MB in both directions
MANY = 0.01  # share of the captions from which equal texts are reported


@dataclass(frozen=True)
class Queries:
    """The queries of a split that are ranked."""

    images: Array  # (a,) int64, ascending
    texts: Array  # (b,) int64, ascending


@dataclass(frozen=True)
class Relation:
    """Judged pairs of one direction, sorted by query, then by candidate.

    >>> relation = Relation.of(np.array([1, 0, 1]), np.array([0, 2, 1]), queries_in_all=3)
    >>> relation.queries, relation.candidates, relation.sizes
    (array([0, 1, 1]), array([2, 0, 1]), array([1, 2, 0]))
    >>> relation.contains(np.array([0, 0]), np.array([1, 2]))
    array([False,  True])
    """

    queries: Array  # (P,) int64, ascending
    candidates: Array  # (P,) int64; −1: a document that is not in the split, which no ranking finds
    grades: Array  # (P,) int64: relevant from 1, judged as not relevant below
    sources: Array  # (P,) int8 codes of `SOURCES`
    count: int  # number Q of queries of the split, judged or not
    # (A,) int64, ascending: the queries to rank, which alone have pairs; None: all
    asking: Array | None = None
    of_all: Relation | None = None  # with the pairs of the other queries too, if only some are to be ranked

    @classmethod
    def of(
        cls,
        queries: Array,
        candidates: Array,
        *,
        queries_in_all: int,
        grades: Array | None = None,
        sources: Array | int = LABEL,
    ) -> Relation:
        """Sort P different pairs, which have grade 1 unless `grades` (P,) are given."""
        order = np.lexsort((candidates, queries))
        grades = np.ones(len(queries)) if grades is None else grades
        sources = np.broadcast_to(sources, len(queries))
        query, candidate, grade = (np.asarray(a, np.int64)[order] for a in (queries, candidates, grades))
        return cls(query, candidate, grade, sources[order].astype(np.int8), queries_in_all)

    @classmethod
    def of_sources(cls, pairs: Mapping[int, Array], queries_in_all: int) -> Relation:
        """Join the pairs of several sources: code → (P, 2) int64 queries and candidates, in any order and number.

        >>> both = {LABEL: np.array([[0, 1]]), GROUP: np.array([[0, 0], [0, 1]])}
        >>> [SOURCES[code] for code in Relation.of_sources(both, queries_in_all=1).sources]
        ['group', 'label']
        """
        rows = np.concatenate([pairs[source] for source in sorted(pairs)])
        sources = np.repeat(sorted(pairs), [len(pairs[source]) for source in sorted(pairs)])
        unique, first = np.unique(rows, axis=0, return_index=True)
        return cls.of(*unique.T, queries_in_all=queries_in_all, sources=sources[first])

    def of_queries(self, asking: Array) -> Relation:
        """Keep the pairs of the queries `asking` (A,), ascending, which alone are to be ranked; candidates stay.

        >>> Relation.of(np.arange(3), np.arange(3), queries_in_all=3).of_queries(np.array([0, 2])).candidates
        array([0, 2])
        """
        asks = np.zeros(self.count, bool)
        asks[asking] = True
        kept = asks[self.queries]
        return Relation(
            self.queries[kept],
            self.candidates[kept],
            self.grades[kept],
            self.sources[kept],
            self.count,
            asking,
            self.of_all or self,
        )

    def numbered(self, queries: Array) -> Relation:
        """Return the pairs of some queries (A,), ascending, as a relation of A queries, numbered from 0."""
        part = self.of_queries(queries)
        return replace(
            part, queries=np.searchsorted(queries, part.queries), count=len(queries), asking=None, of_all=None
        )

    @cached_property
    def relevant(self) -> Array:
        """(P,) bool: the pairs whose candidate is right."""
        return np.asarray(self.grades > 0)

    @cached_property
    def sizes(self) -> Array:
        """(Q,) int64: the number of right candidates of every query, with those outside the split."""
        return np.bincount(self.queries[self.relevant], minlength=self.count)

    @cached_property
    def found(self) -> Array:
        """(F,) int64: the relevant pairs whose candidate is in the split, as rows of the relation."""
        return np.flatnonzero(self.relevant & (self.candidates >= 0))

    @cached_property
    def _keys(self) -> Array:
        """(F + 1,) int64: ascending numbers that stand for the pairs `found`, and one above all others."""
        keys = self.queries[self.found] << 32 | self.candidates[self.found]
        return np.append(keys, np.iinfo(np.int64).max)

    def find(self, queries: Array, candidates: Array) -> Array:
        """Return, in the common shape of both arguments, the row of every relevant pair; −1 for any other pair."""
        keys = np.asarray(queries, np.int64) << 32 | np.asarray(candidates, np.int64)
        place = np.searchsorted(self._keys, keys)
        return np.where(self._keys[place] == keys, np.append(self.found, -1)[place], -1)

    def contains(self, queries: Array, candidates: Array) -> Array:
        """Return, in the common shape of both arguments, whether the candidates are right for the queries."""
        return self.find(queries, candidates) >= 0


@dataclass(frozen=True)
class Relevance:
    """Both relations of a split: images as queries for captions, captions as queries for images."""

    i2t: Relation
    t2i: Relation

    def of_queries(self, queries: Queries | None) -> Relevance:
        """Keep the pairs of some queries, which alone are to be ranked; None: all."""
        if queries is None:
            return self
        return Relevance(self.i2t.of_queries(queries.images), self.t2i.of_queries(queries.texts))

    @classmethod
    def of_labels(cls, image_of_text: Array, images: int) -> Relevance:
        """Return the labels of a split: every caption belongs to its image, `image_of_text` (m,), and to no other.

        >>> Relevance.of_labels(np.array([1, 0, 1]), images=2).i2t.candidates
        array([1, 0, 2])
        """
        texts = np.arange(len(image_of_text))
        i2t = Relation.of(image_of_text, texts, queries_in_all=images)
        return cls(i2t, Relation.of(texts, image_of_text, queries_in_all=len(texts)))

    @classmethod
    def of_pairs(cls, pairs: Mapping[int, Array], images: int, texts: int) -> Relevance:
        """Return the relation of captions and images that belong together: source → (P, 2) int64 rows (caption, image).

        >>> labels, other = np.array([[0, 0], [1, 1]]), np.array([[0, 1]])
        >>> Relevance.of_pairs({LABEL: labels, VERDICT: other}, images=2, texts=2).i2t.sizes
        array([1, 2])
        """
        turned = {source: rows[:, ::-1] for source, rows in pairs.items()}
        return cls(Relation.of_sources(turned, images), Relation.of_sources(pairs, texts))


def label_pairs(image_of_text: Array) -> Array:
    """Return (m, 2) int64 rows (caption, image) of the labels.

    >>> label_pairs(np.array([0, 0, 1])).tolist()
    [[0, 0], [1, 0], [2, 1]]
    """
    return np.stack([np.arange(len(image_of_text)), image_of_text], 1)


def judged_relevance(of_texts: Array, of_images: Array, image_of_text: Array, images: int) -> Relevance:
    """Return the relation of pairs that judges confirmed, in place of the labels.

    >>> pairs = np.array([[0, 0], [0, 1]])
    >>> judged_relevance(pairs, pairs[:1], np.array([0, 1]), images=2).t2i.sources
    array([0, 3], dtype=int8)

    Args:
        of_texts: (P, 2) int64 rows (caption, image), positives of captions as queries.
        of_images: the same for images as queries, which may have been judged separately.
    """

    def by_source(pairs: Array) -> dict[int, Array]:
        is_label = image_of_text[pairs[:, 0]] == pairs[:, 1]
        return {LABEL: pairs[is_label], JUDGEMENT: pairs[~is_label]}

    i2t = Relevance.of_pairs(by_source(of_images), images, len(image_of_text)).i2t
    return Relevance(i2t, Relevance.of_pairs(by_source(of_texts), images, len(image_of_text)).t2i)


def relevance_of_judgements(judgements: Array, images: int, texts: int) -> Relevance:
    """Return the relation of graded judgments, in place of the labels.

    >>> graded = relevance_of_judgements(np.array([[0, 1, 3], [0, 0, 0], [1, -1, 2]]), images=2, texts=2)
    >>> graded.t2i.relevant, graded.i2t.queries
    (array([False,  True,  True]), array([0, 1]))

    Args:
        judgements: (P, 3) int64 rows (caption, image, grade), no pair twice; image −1: not in the split, which no ranking
            finds. A grade of 1 or more is right.
    """
    texts_of, images_of, grades = judgements.T
    known = images_of >= 0
    i2t = Relation.of(
        images_of[known], texts_of[known], queries_in_all=images, grades=grades[known], sources=JUDGEMENT
    )
    t2i = Relation.of(texts_of, images_of, queries_in_all=texts, grades=grades, sources=JUDGEMENT)
    return Relevance(i2t, t2i)


def widened(
    image_of_text: Array, images: int, *, groups: Array | None = None, captions: Sequence[str] | None = None
) -> Relevance:
    """Return the labels, widened by groups, by equal texts, or by both. InputError: more than 20 million pairs match.

    Two pictures of one product share a title. By labels its second picture is wrong; by groups or by texts it is right:

    >>> owner, titles = np.array([0, 1]), ["Red shoe", "Red shoe "]
    >>> widened(owner, 2, groups=np.array([7, 7])).t2i.sizes, widened(owner, 2, captions=titles).i2t.sizes
    (array([2, 2]), array([2, 2]))

    Args:
        groups: (n,) int64, the group of every image: its captions belong to all images of the group.
        captions: the m texts: a caption belongs to every image that has the same text, apart from spaces at its ends.
    """
    pairs = {LABEL: label_pairs(image_of_text)}
    if groups is not None:
        pairs[GROUP] = _equal_pairs(groups[image_of_text], groups)
    if captions is not None:
        texts = text_numbers(captions)
        known, owners = np.unique(np.stack([texts, image_of_text], 1), axis=0).T
        rows = _equal_pairs(texts, known)
        pairs[TEXT] = np.stack([rows[:, 0], owners[rows[:, 1]]], 1)
    return Relevance.of_pairs(pairs, images, len(image_of_text))


def share_texts(captions: Sequence[str], image_of_text: Array) -> Array:
    """Return (m,) bool: the captions whose text, apart from spaces at its ends, another image has too.

    >>> share_texts(["a shoe", "a hat", "a shoe "], np.array([0, 1, 2]))
    array([ True, False,  True])
    """
    texts = text_numbers(captions)
    repeated = np.flatnonzero(np.bincount(texts)[texts] > 1)
    known = np.unique(np.stack([texts[repeated], image_of_text[repeated]], 1), axis=0)[:, 0]
    images = np.bincount(known, minlength=len(captions))
    return np.asarray(images[texts] > 1)


def equal_text_count(captions: Sequence[str], image_of_text: np.ndarray) -> int:
    """Return the number of captions whose text another image has too, if they are more than 1%; else 0.

    >>> equal_text_count(["a shoe", "a hat", "a shoe "], np.array([0, 1, 2]))
    2
    """
    shared = int(share_texts(captions, image_of_text).sum())
    return shared if shared > MANY * len(captions) else 0


def text_numbers(captions: Sequence[str]) -> Array:
    """Return (m,) int64, equal for captions of equal text, apart from spaces at the ends.

    >>> text_numbers(["a shoe", "a hat", "a shoe "])
    array([0, 1, 0])
    """
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(caption.strip(), len(numbers)) for caption in captions], np.int64)


def _equal_pairs(left: Array, right: Array) -> Array:
    """Return (P, 2) int64 rows (i, j) with left[i] = right[j]."""
    order = np.argsort(right, kind="stable")
    ascending = right[order]
    first = np.searchsorted(ascending, left)
    counts = np.searchsorted(ascending, left, "right") - first
    total = int(counts.sum())
    if total > MOST_PAIRS:
        fix = "groups or captions that say so little cannot tell right from wrong: use the labels"
        raise InputError.at("relevance", f"{total:,} pairs match", f"at most {MOST_PAIRS:,}", fix)
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack([np.repeat(np.arange(len(left)), counts), order[np.repeat(first, counts) + within]], 1)
