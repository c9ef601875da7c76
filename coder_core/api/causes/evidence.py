"""Evidence on the causes of misses: computed once for a run's split, and stored beside the run.

Nothing here depends on a verdict, on K or on a slice; `budget` combines it with those.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from coder_core.api import data_quality
from coder_core.api.causes.hubs import corrected_ranks, exact_tile, first_ranks
from coder_core.api.causes.vague import other_images_with_words
from coder_core.api.retrieval.comparison import same_samples
from coder_core.api.retrieval.results import ALIKE, PICTURES_READ, text_vectors
from coder_core.api.run import Run
from coder_core.api.sides import DIRECTIONS, QUERIES, TILE_ELEMENTS, Array, Direction, Sides, slices
from coder_core.api.slices.caption_words import CaptionWords
from coder_core.console.faults import InputError
from coder_core.data.content.report import TINY_SIDE, tiny_image
from coder_core.geometry.captions import SPACE_SIZE, largest_cosine
from coder_core.runs.derived.store import DerivedFolder, derived_folder, read_as, write_derived

KIND = "causes"
VERSION = 3
TRAIN = "train"
RANDOM_PAIRS = 5_000
# captions of an image, and pictures of a query of a search log, that a result is compared with
MOST_COMPARED = 20
FITS_MANY = 5  # other images that fit a caption that says little, at least
# of the judgments of a search log: judges saw the pairs, so that a run that doubts a larger share errs itself
MOST_DOUBTED = 0.25
SMALLEST_SPREAD = 1e-6
PERHAPS_COPY = 0.9  # least cosine of two pictures' embeddings for which their pixels are compared
SURELY_COPY = 0.99  # … from which they are copies where no pixels can be read
ARTICLES = frozenset({"a", "an", "the"})
PICTURE = 1
TEXT = 2
"""Kinds of copies: the result's picture is a near-duplicate, or the result has an equal text."""
FEATURES = ("words", "captions", "pictures", "score")
"""Likeness of a result to a match, each in standard deviations above the mean of random pairs: largest cosine of the
caption with the captions of the image, by words (TF-IDF) and by the run; cosine of both pictures; the score."""


@dataclass(frozen=True)
class WayEvidence:
    """Evidence on q queries of one direction, which have a labelled match, and on their k best results."""

    queries: Array  # (q,) int64 rows of the split
    # (q,) int64, the image that each query is or describes; in a search log, the one judged best
    images: Array
    ranks: Array  # (q,) int64 by the labels, 0 is first
    # (q,) int64, by scores corrected for hubs; `ranks` themselves, if only a sample of the split is ranked
    corrected: Array
    results: Array  # (q, k) int64 candidates, best first
    match: Array  # (q, k) bool
    refused: Array  # (q, k) bool, the judges of a search log say that it does not match
    features: Array  # (q, k, 4) float32, see `FEATURES`
    copies: Array  # (q, k) int8: `PICTURE`, `TEXT` or 0
    scores: Array  # (q, k) float32
    match_scores: Array  # (q,) float32, of the best match


@dataclass(frozen=True)
class Evidence:
    """Evidence on both directions of a split with m captions."""

    wrong: Array  # (m,) float64, probability that a caption belongs to another image; NaN: nothing can tell
    # (m,) int64, other images whose captions have all words of a caption that describe something; 0 for captions that
    # no query is about
    fits: Array
    i2t: WayEvidence
    t2i: WayEvidence

    def way(self, direction: Direction) -> WayEvidence:
        """Return the evidence of one direction."""
        return self.i2t if direction == "i2t" else self.t2i


def why_no_causes(run: Run, split: str) -> str:
    """Say in one sentence why nobody can tell the causes of a split's misses; "" if the evidence exists."""
    if run.lists(split) is not None:
        return (
            f"Why {run.name} misses cannot be told: it has only the lists of another system, and causes need "
            "embeddings, or the scores of all pairs."
        )
    ranked = run.analysis(split).ranked_queries
    if ranked is not None and not len(ranked.texts):
        return f"Why {run.name} misses is not known yet: split {split} is not ranked."
    return ""


def has_causes(run: Run, split: str) -> bool:
    """True if the causes of a split's misses can be found; see `why_no_causes`."""
    return not why_no_causes(run, split)


def split_evidence(run: Run, split: str) -> Evidence:
    """Return the evidence on a split: the stored one, or else compute and store it, unless the run's folder is read-only.
    InputError: the run has only lists, or no query is ranked."""
    where = f"split {split!r} of run {run.name}"
    if run.lists(split) is not None:
        fact = "has only the lists of another system, without scores of all pairs"
        raise InputError.at(where, fact, "a run with embeddings or scores")
    if not has_causes(run, split):
        fix = f"coder-lab evaluate {run.path} --split {split}"
        raise InputError.at(where, "is not ranked", fix=fix)

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
    asked = np.union1d(ways["t2i"].queries, pairs.right["i2t"][ways["i2t"].queries].indices)
    fits = np.zeros(run.count(split, "text"), np.int64)
    fits[asked] = other_images_with_words(pairs.words, pairs.right["t2i"], asked)
    wrong = wrong_probability(run, split, fits, np.diff(pairs.right["t2i"].indptr))
    return Evidence(wrong, fits, ways["i2t"], ways["t2i"])


def right_pairs(run: Run, split: str, direction: Direction) -> sparse.csr_array:
    """Return (Q, C) bool: the candidates that every query matches by its label or, in a search log, by the judgments."""
    relevance = run.analysis(split).relevance
    relation = relevance.t2i if direction == "t2i" else relevance.i2t
    queries = relation.queries[relation.found]
    candidates = relation.candidates[relation.found]
    count = run.count(split, QUERIES[direction])
    candidate_count = run.count(split, "image" if direction == "t2i" else "text")
    matches = np.ones(len(queries), bool)
    return sparse.csr_array((matches, (queries, candidates)), (count, candidate_count))


def wrong_probability(run: Run, split: str, fits: Array, matches: Array) -> Array:
    """Estimate (m,) the probability that each caption belongs to another image.

    NaN where nothing can tell: outside the sample of a large split; for train pairs of a run that learned them, right or
    wrong; for captions that say little, which would also look like wrong ones among the others; in a search log for
    queries with several right pictures, and for all queries of a run that doubts more than `MOST_DOUBTED` of them.

    Args:
        fits: (m,) other images that fit each caption, see `Evidence`.
        matches: (m,) images that each caption matches.
    """
    probability = np.full(run.count(split, "text"), np.nan)
    if split == TRAIN and not run.summary.imported:
        return probability
    is_log = run.analysis(split).judged is not None
    table = data_quality.mismatches(run, split, sample=run.query_sample(split))
    captions = table["caption"].to_numpy()
    can_tell = fits[captions] < FITS_MANY
    if is_log:
        can_tell &= matches[captions] == 1
    found = data_quality.error_probability(table["random"].to_numpy()[can_tell])
    if not (is_log and found.sum() > MOST_DOUBTED * len(found)):
        probability[captions[can_tell]] = found
    return probability


def _padded(pairs: sparse.csr_array) -> Array:
    """Return (rows, most) the columns of every row, at most `MOST_COMPARED` of them, filled with −1."""
    counts = np.diff(pairs.indptr)
    row = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(row)) - pairs.indptr[row]
    kept = place < MOST_COMPARED
    table = np.full((len(counts), int(place[kept].max(initial=0)) + 1), -1, np.int64)
    table[row[kept], place[kept]] = pairs.indices[kept]
    return table


class PairEvidence:
    """Likeness of captions and images of a split that are not labelled as a pair."""

    def __init__(self, run: Run, split: str) -> None:
        self.run = run
        self.split = split

        self.right = {direction: right_pairs(run, split, direction) for direction in DIRECTIONS}
        self.images = run.count(split, "image")
        self.captions_of = _padded(self.right["i2t"])
        self.pictures_of = _padded(self.right["t2i"])
        self.vectors = text_vectors(run, split)

        part = run.compared(split)
        self.has_embeddings = part.scores is None
        self.pictures = part.images
        self.texts = part.texts
        self.sides = run.sides(split, "text")
        self.words = CaptionWords.of_content(run.captions(split))
        self.keys = self._text_keys()

        labelled, shown = self.right["t2i"].nonzero()
        self.labelled_texts = np.unique(self.keys[labelled] * self.images + shown)

        random = np.random.default_rng(0)
        texts = random.integers(0, len(self.keys), RANDOM_PAIRS)
        images = random.integers(0, self.images, RANDOM_PAIRS)
        foreign = ~run.matches(split, "t2i", texts, images)
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
        wanted = self.keys[texts] * self.images + images
        place = np.searchsorted(self.labelled_texts, wanted)
        return np.asarray(self.labelled_texts[np.minimum(place, len(self.labelled_texts) - 1)] == wanted)

    def nearest_pictures(self, texts: Array, images: Array) -> tuple[Array, Array]:
        """Return for P pairs (P,) the picture of the caption that is most like the image, and (P,) their cosine; NaN without
        embeddings."""
        nearest = self.pictures_of[texts, 0]
        cosines = np.full(len(texts), np.nan)
        if not self.has_embeddings:
            return nearest, cosines
        elements = self.pictures.shape[1] * self.pictures_of.shape[1]
        for part in slices(len(texts), TILE_ELEMENTS // elements):
            own = self.pictures_of[texts[part]]
            likeness = np.einsum("prd,pd->pr", self.pictures[own], self.pictures[images[part]])
            likeness[own < 0] = -np.inf
            best = likeness.argmax(1)[:, None]
            nearest[part] = np.take_along_axis(own, best, 1)[:, 0]
            cosines[part] = np.take_along_axis(likeness, best, 1)[:, 0]
        return nearest, cosines

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
        uncaptioned = others[:, 0] < 0
        words = np.where(uncaptioned, np.nan, words)
        by_run = np.where(uncaptioned, np.nan, by_run)
        _, pictures = self.nearest_pictures(texts, images)
        return np.stack([words, by_run, pictures, self.sides.pairs(texts, images)], 1)

    def _text_keys(self) -> Array:
        """Return (m,) int64, equal for captions with the same words apart from articles."""
        words = self.words
        kept = ~np.array([word in ARTICLES for word in words.vocabulary], bool)[words.ids]
        ids = words.ids[kept].tobytes()
        size = words.ids.itemsize
        ends = (size * np.append(0, np.cumsum(kept))[words.starts]).tolist()
        numbers: dict[bytes, int] = {}
        keys = [numbers.setdefault(ids[start:stop], len(numbers)) for start, stop in pairwise(ends)]
        return np.array(keys, np.int64)


def _way(run: Run, split: str, direction: Direction, pairs: PairEvidence) -> WayEvidence:
    sides = run.sides(split, QUERIES[direction])
    right = pairs.right[direction]
    all_ranks = run.ranks(split)[direction]
    sample = run.query_sample(split)
    queries = np.flatnonzero(all_ranks >= 0)
    if sample is not None:
        queries = np.intersect1d(queries, sample.queries(direction))

    results = run.best(split, direction)[queries].astype(np.int64)
    match = run.matches(split, direction, queries[:, None], results)
    ranks = all_ranks[queries].astype(np.int64)
    # of a split of which a sample is ranked, a correction would compare all images with all captions
    is_sampled = run.ranked_images(split) is not None
    anchors = np.repeat(queries, results.shape[1])
    flat = results.ravel()
    texts, images = (anchors, flat) if direction == "t2i" else (flat, anchors)
    features = pairs.features(texts, images).reshape(*results.shape, len(FEATURES))
    copies = _copies(pairs, texts, images).reshape(results.shape)

    return WayEvidence(
        queries=queries,
        images=sides.anchor_images[queries],
        ranks=ranks,
        corrected=ranks if is_sampled else corrected_ranks(sides, queries, right),
        results=results,
        match=match,
        refused=_refused(run, split, texts, images).reshape(results.shape),
        features=features,
        copies=np.where(match, 0, copies).astype(np.int8),
        scores=sides.pairs(anchors, flat).reshape(results.shape),
        match_scores=_match_scores(sides, right, queries),
    )


def _refused(run: Run, split: str, texts: Array, images: Array) -> Array:
    """Return (P,) bool: the judges of a search log say that a picture does not match a query."""
    judged = run.analysis(split).judged
    if judged is None:
        return np.zeros(len(texts), bool)
    wrong = ~judged.t2i.relevant
    refused = np.stack([judged.t2i.queries[wrong], judged.t2i.candidates[wrong]], 1)
    return among(texts, images, refused)


def among(first: Array, second: Array, pairs: Array) -> Array:
    """Return, in the common shape of two arrays of numbers, whether they are one of the pairs, (·, 2) rows."""
    return np.asarray(np.isin(first << 32 | second, pairs[:, 0] << 32 | pairs[:, 1]))


def _match_scores(sides: Sides, right: sparse.csr_array, queries: Array) -> Array:
    """Return (q,) the score of every query's best match."""
    row, candidate = right[queries].nonzero()
    best = np.full(len(queries), -np.inf, np.float32)
    np.maximum.at(best, row, sides.pairs(queries[row], candidate))
    return best


def _copies(pairs: PairEvidence, texts: Array, images: Array) -> Array:
    """Return (P,) int8: `PICTURE` where the image is a near-duplicate of a picture of the caption, else `TEXT` where it has
    a caption of the same text, else 0."""
    first, cosine = pairs.nearest_pictures(texts, images)
    perhaps = np.flatnonzero((cosine >= PERHAPS_COPY) & (first != images))
    copies = np.where(pairs.equal_texts(texts, images), TEXT, 0).astype(np.int8)
    ends = np.sort(np.stack([first[perhaps], images[perhaps]], 1), axis=1)
    unique, of_pair = np.unique(ends, axis=0, return_inverse=True)
    likeness = np.zeros(len(unique))
    likeness[of_pair] = cosine[perhaps]
    is_copy = _same_pixels(pairs.run, pairs.split, unique, likeness)
    copies[perhaps[is_copy[of_pair]]] = PICTURE
    return copies


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
    right = right_pairs(first, split, direction)
    ranks = np.empty(len(queries), np.int64)
    for part in slices(len(queries), TILE_ELEMENTS // len(both[0].candidate_images)):
        rows = queries[part]
        scores = exact_tile(both[0], rows) + exact_tile(both[1], rows)
        ranks[part] = first_ranks(scores, right[rows].toarray())
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
