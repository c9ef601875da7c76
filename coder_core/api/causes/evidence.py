"""Evidence on the causes of misses: computed once for a run's split, and stored beside the run.

Nothing here depends on a verdict, on K or on a slice; `budget` combines it with those.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from coder_core.api import data_quality
from coder_core.api.causes.hubs import corrected_ranks, exact_tile, first_ranks
from coder_core.api.retrieval.comparison import same_samples
from coder_core.api.retrieval.results import ALIKE, PICTURES_READ, captions_by_image, text_vectors
from coder_core.api.run import Run
from coder_core.api.sides import DIRECTIONS, QUERIES, TILE_ELEMENTS, Array, Direction, slices
from coder_core.console.faults import InputError
from coder_core.data.content.duplicates import EMPTY_WORDS, caption_words
from coder_core.data.content.report import TINY_SIDE, tiny_image
from coder_core.geometry.captions import SPACE_SIZE, largest_cosine
from coder_core.runs.derived.store import DerivedFolder, derived_folder, read_as, write_derived

KIND = "causes"
VERSION = 1
TRAIN = "train"
RANDOM_PAIRS = 5_000
SMALLEST_SPREAD = 1e-6
PERHAPS_COPY = 0.9  # least cosine of two pictures' embeddings for which their pixels are compared
SURELY_COPY = 0.99  # … from which they are copies where no pixels can be read
ARTICLES = frozenset({"a", "an", "the"})
PICTURE = 1
TEXT = 2
"""Kinds of copies: the result's picture is a near-duplicate, or the result has an equal text."""
FEATURES = ("words", "captions", "pictures", "score")
"""Likeness of a result to a match, each in standard deviations above the mean of random pairs: largest cosine of the
caption with the captions of the other image, by words (TF-IDF) and by the run; cosine of both pictures; the score."""


@dataclass(frozen=True)
class WayEvidence:
    """Evidence on q queries of one direction, which have a labelled match, and on their k best results."""

    queries: Array  # (q,) int64 rows of the split
    images: Array  # (q,) int64, the image that each query is or describes
    ranks: Array  # (q,) int64 by the labels, 0 is first
    corrected: Array  # (q,) int64, by scores corrected for hubs
    results: Array  # (q, k) int64 candidates, best first
    match: Array  # (q, k) bool
    features: Array  # (q, k, 4) float32, see `FEATURES`
    copies: Array  # (q, k) int8: `PICTURE`, `TEXT` or 0
    scores: Array  # (q, k) float32
    match_scores: Array  # (q,) float32, of the best match


@dataclass(frozen=True)
class Evidence:
    """Evidence on both directions of a split with m captions."""

    wrong: Array  # (m,) float64, probability that a caption belongs to another image; NaN: no run can tell
    fits: Array  # (m,) int64, other images whose captions have all words of a caption that describe something
    i2t: WayEvidence
    t2i: WayEvidence

    def way(self, direction: Direction) -> WayEvidence:
        """Return the evidence of one direction."""
        return self.i2t if direction == "i2t" else self.t2i


def has_causes(run: Run, split: str) -> bool:
    """True if labels decide what is right in a split, all pairs have scores, and any query is ranked; False for a search
    log, where judgements decide, and for the lists of another system."""
    analysis = run.analysis(split)
    ranked = analysis.ranked_queries
    any_ranked = ranked is None or len(ranked.texts) > 0
    return analysis.judged is None and run.lists(split) is None and any_ranked


def split_evidence(run: Run, split: str) -> Evidence:
    """Return the evidence on a split: the stored one, or else compute and store it, unless the run's folder is read-only.
    InputError: the split is a search log, or no query is ranked."""
    if run.lists(split) is not None:
        fact = "has only the lists of another system, without scores of all pairs"
        raise InputError.at(f"split {split!r} of run {run.name}", fact, "a run with embeddings or scores")
    if not has_causes(run, split):
        if run.analysis(split).judged is None:
            fix = f"coder-lab evaluate {run.path} --split {split}"
            raise InputError.at(f"split {split!r} of run {run.name}", "is not ranked", fix=fix)
        fact = "is a search log: people's judgements decide what is right there, and labels have no fault"
        raise InputError.at(f"split {split!r} of run {run.name}", fact, "a split with labels")
    analysis = run.analysis(split)
    folder = derived_folder(run.path, split, KIND, {"method": VERSION}, [analysis])
    with suppress(InputError):  # damaged: computed again, and replaced
        stored = read_as(folder, _build)
        if stored is not None:
            return stored
    evidence = compute_evidence(run, split)
    with suppress(OSError, InputError):
        _store(folder, evidence)
    return evidence


def compute_evidence(run: Run, split: str) -> Evidence:
    """Compute the evidence on a split; of a split too large to compute whole, on a sample of its queries."""
    pairs = PairEvidence(run, split)
    ways = {direction: _way(run, split, direction, pairs) for direction in DIRECTIONS}
    fits = other_images_with_words(run.captions(split), run.image_of_text(split))
    return Evidence(wrong_probability(run, split), fits, ways["i2t"], ways["t2i"])


def wrong_probability(run: Run, split: str) -> Array:
    """Estimate (m,) the probability that each caption belongs to another image; NaN outside the sample of a large split,
    and for train pairs of a run that learned them, right or wrong."""
    probability = np.full(run.count(split, "text"), np.nan)
    if split == TRAIN and not run.summary.imported:
        return probability
    table = data_quality.mismatches(run, split, sample=run.query_sample(split))
    probability[table["caption"]] = data_quality.error_probability(table["random"].to_numpy())
    return probability


def other_images_with_words(captions: Any, image_of_text: Array) -> Array:
    """Count (m,) the OTHER images whose captions together have all words of a caption that describe something.

    >>> other_images_with_words(["a dog", "a red ball", "the dog runs", "a cat"], np.array([0, 0, 1, 2]))
    array([1, 0, 0, 0])
    """
    words = [frozenset(caption_words(caption)) - EMPTY_WORDS for caption in captions]
    images_of: dict[str, set[int]] = {}
    for of_caption, image in zip(words, image_of_text.tolist(), strict=True):
        for word in of_caption:
            images_of.setdefault(word, set()).add(image)
    every = set(image_of_text.tolist())
    counts = np.empty(len(words), np.int64)
    for row, of_caption in enumerate(words):
        rarest_first = sorted((images_of[word] for word in of_caption), key=len)
        counts[row] = len(set.intersection(*rarest_first) if rarest_first else every) - 1
    return counts


class PairEvidence:
    """Likeness of captions and images of a split that are not labelled as a pair."""

    def __init__(self, run: Run, split: str) -> None:
        self.run = run
        self.split = split
        self.owner = run.image_of_text(split)
        self.images = run.count(split, "image")
        self.captions_of = captions_by_image(self.owner, self.images)
        self.vectors = text_vectors(run, split)
        part = run.compared(split)
        self.has_embeddings = part.scores is None
        self.pictures = part.images
        self.texts = part.texts
        self.sides = run.sides(split, "text")
        self.keys = self._text_keys()
        of_labels = self.keys * self.images + self.owner
        self.labelled_texts = np.unique(of_labels)
        random = np.random.default_rng(0)
        texts = random.integers(0, len(self.owner), RANDOM_PAIRS)
        images = random.integers(0, self.images, RANDOM_PAIRS)
        foreign = self.owner[texts] != images
        values = self._values(texts[foreign], images[foreign])
        self.mean = np.zeros(len(FEATURES))
        self.spread = np.ones(len(FEATURES))
        for column in np.flatnonzero(np.isfinite(values).any(0)):
            known = values[np.isfinite(values[:, column]), column]
            self.mean[column] = known.mean()
            self.spread[column] = max(float(known.std()), SMALLEST_SPREAD)

    def features(self, texts: Array, images: Array) -> Array:
        """Return (P, 4) `FEATURES` of P pairs; NaN where there is no evidence."""
        values = np.empty((len(texts), len(FEATURES)), np.float32)
        for part in slices(len(texts), TILE_ELEMENTS // (SPACE_SIZE * self.captions_of.shape[1])):
            values[part] = (self._values(texts[part], images[part]) - self.mean) / self.spread
        return values

    def equal_texts(self, texts: Array, images: Array) -> Array:
        """Return (P,) bool: the image has a caption with the same words, apart from case, punctuation and articles."""
        return np.isin(self.keys[texts] * self.images + images, self.labelled_texts)

    def likeness_of_pictures(self, first: Array, second: Array) -> Array:
        """Return (P,) cosine of the embeddings of two images; NaN without embeddings."""
        if not self.has_embeddings:
            return np.full(len(first), np.nan)
        cosines = np.empty(len(first))
        for part in slices(len(first), TILE_ELEMENTS // self.pictures.shape[1]):
            cosines[part] = np.einsum("pd,pd->p", self.pictures[first[part]], self.pictures[second[part]])
        return cosines

    def _values(self, texts: Array, images: Array) -> Array:
        nothing = np.full(len(texts), np.nan)
        own = texts[:, None]
        others = self.captions_of[images]
        words = nothing
        if isinstance(self.vectors, np.ndarray):
            words = largest_cosine(self.vectors, own, others)
        elif self.vectors is not None:
            compared, rows = np.unique(np.concatenate([own, np.maximum(others, 0)], 1), return_inverse=True)
            captions = self.run.captions(self.split)
            encoded = self.vectors.encode([captions[row] for row in compared.tolist()])
            rows = rows.reshape(len(texts), -1)
            words = largest_cosine(encoded, rows[:, :1], np.where(others < 0, -1, rows[:, 1:]))
        by_run = largest_cosine(self.texts, own, others) if self.has_embeddings else nothing
        pictures = self.likeness_of_pictures(self.owner[texts], images)
        return np.stack([words, by_run, pictures, self.sides.pairs(texts, images)], 1)

    def _text_keys(self) -> Array:
        numbers: dict[tuple[str, ...], int] = {}
        keys = [
            tuple(word for word in caption_words(caption) if word not in ARTICLES)
            for caption in self.run.captions(self.split)
        ]
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def _way(run: Run, split: str, direction: Direction, pairs: PairEvidence) -> WayEvidence:
    sides = run.sides(split, QUERIES[direction])
    all_ranks = run.ranks(split)[direction]
    sample = run.query_sample(split)
    queries = np.flatnonzero(all_ranks >= 0)
    if sample is not None:
        queries = np.intersect1d(queries, sample.queries(direction))
    ranks = all_ranks[queries].astype(np.int64)
    results = run.best(split, direction)[queries].astype(np.int64)
    match = run.matches(split, direction, queries[:, None], results)
    images = sides.anchor_images[queries]
    anchors = np.repeat(queries, results.shape[1])
    flat = results.ravel()
    texts, shown = (anchors, flat) if direction == "t2i" else (flat, anchors)
    features = pairs.features(texts, shown).reshape(*results.shape, len(FEATURES))
    equal_texts = pairs.equal_texts(texts, shown).reshape(results.shape)
    copies = _copies(pairs, images, sides.candidate_images[results], equal_texts)
    return WayEvidence(
        queries=queries,
        images=images,
        ranks=ranks,
        corrected=corrected_ranks(sides, queries),
        results=results,
        match=match,
        features=features,
        copies=np.where(match, 0, copies).astype(np.int8),
        scores=sides.pairs(anchors, flat).reshape(results.shape),
        match_scores=_match_scores(run, split, direction, queries),
    )


def _match_scores(run: Run, split: str, direction: Direction, queries: Array) -> Array:
    """Return (q,) the score of every query's best match."""
    sides = run.sides(split, QUERIES[direction])
    _, anchor, candidate = sides.own_pairs()
    wanted = np.isin(anchor, queries)
    best = np.full(len(sides.anchor_images), -np.inf, np.float32)
    np.maximum.at(best, anchor[wanted], sides.pairs(anchor[wanted], candidate[wanted]))
    return best[queries]


def _copies(pairs: PairEvidence, images: Array, of_results: Array, equal_texts: Array) -> Array:
    """Return (q, k) int8: `PICTURE` where the picture of a result is a near-duplicate of the query's, else `TEXT` where the
    texts are equal, else 0."""
    first = np.repeat(images, of_results.shape[1])
    second = of_results.ravel()
    cosine = pairs.likeness_of_pictures(first, second)
    perhaps = np.flatnonzero((cosine >= PERHAPS_COPY) & (first != second))
    copies = np.where(equal_texts.ravel(), TEXT, 0)
    ends = np.sort(np.stack([first[perhaps], second[perhaps]], 1), axis=1)
    unique, of_pair = np.unique(ends, axis=0, return_inverse=True)
    likeness = np.zeros(len(unique))
    likeness[of_pair] = cosine[perhaps]
    is_copy = _same_pixels(pairs.run, pairs.split, unique, likeness)
    copies[perhaps[is_copy[of_pair]]] = PICTURE
    return copies.reshape(of_results.shape)


def _same_pixels(run: Run, split: str, ends: Array, cosine: Array) -> Array:
    """Return (P,) bool: two images are near-duplicates by their pixels or, where those cannot be read, by the cosine of
    their embeddings. At most `PICTURES_READ` pictures are read, those of the most similar pairs first."""
    order = np.argsort(-cosine, kind="stable")
    wanted = dict.fromkeys(ends[order].ravel().tolist())
    tiny: dict[int, Array] = {}
    for image in list(wanted)[:PICTURES_READ] if run.has_pictures(split) else []:
        with suppress(InputError):
            tiny[image] = tiny_image(run.open_picture(split, image, size=4 * TINY_SIDE))
    same = cosine >= SURELY_COPY
    for number, (first, second) in enumerate(ends.tolist()):
        if first in tiny and second in tiny:
            same[number] = tiny[first] @ tiny[second] >= ALIKE
    return same


def averaged_ranks(first: Run, second: Run, split: str, direction: Direction, queries: Array) -> Array:
    """Return (q,) the ranks of queries by the sum of two runs' scores; 0 is first. InputError: the runs were evaluated on
    different samples."""
    if not same_samples(first, second, split):
        fact = f"has different captions in split {split!r} than run {second.name}"
        raise InputError.at(f"run {first.name}", fact, "two runs evaluated on the same data")
    both = [run.sides(split, QUERIES[direction]) for run in (first, second)]
    ranks = np.empty(len(queries), np.int64)
    for part in slices(len(queries), TILE_ELEMENTS // len(both[0].candidate_images)):
        rows = queries[part]
        own = both[0].anchor_images[rows][:, None] == both[0].candidate_images
        ranks[part] = first_ranks(exact_tile(both[0], rows) + exact_tile(both[1], rows), own)
    return ranks


def _store(folder: DerivedFolder, evidence: Evidence) -> None:
    arrays = {"wrong": evidence.wrong, "fits": evidence.fits}
    for direction in DIRECTIONS:
        way = evidence.way(direction)
        arrays |= {f"{direction}_{field.name}": getattr(way, field.name) for field in fields(WayEvidence)}
    write_derived(folder, arrays)


def _build(arrays: dict[str, Any], _: dict[str, Any]) -> Evidence:
    ways = {
        direction: WayEvidence(
            **{field.name: arrays[f"{direction}_{field.name}"] for field in fields(WayEvidence)}
        )
        for direction in DIRECTIONS
    }
    return Evidence(arrays["wrong"], arrays["fits"], **ways)
