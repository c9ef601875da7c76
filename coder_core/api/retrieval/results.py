"""Results of one run: hubs among the candidates, margins, the picture most like a new one, and guesses from captions.

The guesses are independent of any model: a result is a likely match of a query if a caption of its image is similar to
a caption of the query's image, in a TF-IDF space of the split's captions. Guesses are shown beside the recall by the
labels and never mixed into it. For a split too large to compute whole, guesses are made for a sample of the queries, in
a space fitted to a sample of the captions.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from PIL import Image

from coder_core.api.run import Run
from coder_core.api.sampling import Sample
from coder_core.api.sides import QUERIES, TILE_ELEMENTS, Array, Direction, slices
from coder_core.api.stored_run import StoredResult, read_stored
from coder_core.console.faults import InputError
from coder_core.data.content.report import TINY_SIDE, tiny_image
from coder_core.evaluation.lists import NO_CANDIDATE
from coder_core.geometry import captions as geometry
from coder_core.geometry.text_space import TfidfSpace
from coder_core.runs.derived.hub_correction import HubCorrection, correction_folder, read_correction

# A photograph of Flickr8k at a third of its size has at least 0.97 (of 100), another of 1,000 at most 0.94.
ALIKE = 0.95
PICTURES_READ = 1_000  # pictures of a split that are read, at 2 or 3 milliseconds each
LIKELY = 0.6
"""Least cosine of a likely match. On Flickr8k's dev split 39% of the captions are this similar to another caption of
their own image, and 0.2% to one of a random other image."""


@dataclass(frozen=True)
class Hubness:
    """Statistics of the uneven distribution of first results over candidates. Radovanović et al. 2010, section 2."""

    k: int  # results counted per query
    mean: float  # mean occurrences of a candidate
    skewness: float  # third standardised moment of the occurrences; 0 is even, above 1 there are hubs
    never: float  # share (%) of candidates that no query finds


def occurrences(
    run: Run, split: str, direction: Direction, *, k: int = 10, queries: Array | None = None
) -> pd.DataFrame:
    """Count N_k of every candidate, the number of queries that have it among their first k results; an image without
    captions is not a query. Return one row per candidate: candidate, count, right (queries it belongs to), wrong. `k`:
    at most the ten results per query that the analysis keeps. `queries`: numbers of the queries that count; None for
    all."""
    best = run.best(split, direction)[:, :k]
    candidates = run.count(split, "image" if direction == "t2i" else "text")
    query = np.flatnonzero(run.ranks(split)[direction] >= 0)
    query = query if queries is None else np.intersect1d(query, queries)
    best = best[query]
    match = run.matches(split, direction, query[:, None], best)
    count = np.bincount(best[best != NO_CANDIDATE], minlength=candidates)
    right = np.bincount(best[match], minlength=candidates)
    return pd.DataFrame(
        {"candidate": np.arange(candidates), "count": count, "right": right, "wrong": count - right}
    )


def hubness(counts: Array, k: int) -> Hubness:
    """Compute the skewness of the occurrences and the share of candidates that no query finds."""
    counts = np.asarray(counts, dtype=np.float64)
    if not len(counts):
        return Hubness(k, 0.0, 0.0, 0.0)
    deviation = counts - counts.mean()
    spread = float(np.sqrt((deviation**2).mean()))
    skewness = float((deviation**3).mean() / spread**3) if spread > 0 else 0.0
    return Hubness(k, float(counts.mean()), skewness, 100.0 * float((counts == 0).mean()))


def found_by(run: Run, split: str, direction: Direction, candidate: int, *, k: int = 10) -> pd.DataFrame:
    """List the queries that have a candidate among their first k results. Return one row per query, best place first:
    query, place (from 1), match (True if it belongs to the query)."""
    asks = run.ranks(split)[direction] >= 0
    query, position = np.nonzero((run.best(split, direction)[:, :k] == candidate) & asks[:, None])
    match = run.matches(split, direction, query, candidate)
    frame = pd.DataFrame({"query": query, "place": position + 1, "match": match})
    return frame.sort_values(["place", "query"], kind="stable", ignore_index=True)


def stored_correction(run: Run, split: str) -> StoredResult[HubCorrection]:
    """Return the ranks corrected for hubs, if `coder-lab evaluate --hub-correction` stored them."""
    analysis = run.analysis(split)
    if analysis.scores is not None:  # of a run that scores pair by pair
        return StoredResult("missing", "")
    folder = correction_folder(run.path, split, analysis)
    return read_stored(folder.name, lambda: read_correction(folder))


def corrected_queries(
    run: Run, split: str, direction: Direction, correction: HubCorrection, at: int
) -> pd.DataFrame:
    """List the queries whose answer enters or leaves the first `at` results with the correction. Return one row per
    query, largest change first: query, rank and corrected (from 1), fixed (True if the answer enters)."""
    before = run.ranks(split)[direction]
    after = correction.text_ranks if direction == "t2i" else correction.image_ranks
    query = np.flatnonzero((before >= 0) & ((before < at) != (after < at)))
    query = query[np.argsort(-np.abs(before[query] - after[query]), kind="stable")]
    ranks = {"rank": before[query] + 1, "corrected": after[query] + 1}
    return pd.DataFrame({"query": query, **ranks, "fixed": after[query] < at})


def margins(run: Run, split: str, direction: Direction, *, sample: Sample | None = None) -> pd.DataFrame:
    """Compute the similarity of the best true match minus that of the most similar wrong candidate of the whole split.

    Only the pairs in question are scored: the closest wrong candidate is among the ten best that the analysis keeps or,
    if these are all true matches, found by scoring all candidates of that query.

    Return one row per query (of `sample`, if given) with a match: query, match, wrong (the two candidates),
    match_score, wrong_score, margin (below 0: the wrong one ranks above the match), rank (from 1)."""
    s = run.sides(split, QUERIES[direction])
    best = run.best(split, direction)
    ranks = run.ranks(split)[direction]
    _, anchor, candidate = s.own_pairs()
    counted = ranks[anchor] >= 0
    if sample is not None:
        counted &= np.isin(anchor, sample.queries(direction))

    anchor = anchor[counted]
    candidate = candidate[counted]
    score = s.pairs(anchor, candidate)
    best_first = np.lexsort((-score, anchor))
    queries, first = np.unique(anchor[best_first], return_index=True)
    match = candidate[best_first[first]]
    match_score = score[best_first[first]]
    own_image = s.anchor_images[queries]
    foreign = s.candidate_images[best[queries]] != own_image[:, None]
    wrong = best[queries, foreign.argmax(1)].astype(np.int64)
    for position in np.flatnonzero(~foreign.any(1)):  # ten true matches come first
        scores = np.where(s.candidate_images == own_image[position], -np.inf, s.row(int(queries[position])))
        wrong[position] = scores.argmax() if np.isfinite(scores).any() else -1

    columns = {"query": queries, "match": match, "wrong": wrong, "match_score": match_score}
    table = pd.DataFrame(columns)[wrong >= 0].reset_index(drop=True)
    wrong_score = s.pairs(table["query"].to_numpy(), table["wrong"].to_numpy())
    margin = table["match_score"] - wrong_score
    rank = ranks[table["query"]] + 1
    return table.assign(wrong_score=wrong_score, margin=margin, rank=rank)


@dataclass(frozen=True)
class LookAlike:
    """The nearest picture."""

    image: int  # its row
    likeness: float  # correlation of the tiny images, at most 1
    of: int  # pictures compared


def look_alike(run: Run, picture: Image.Image, *, split: str, at_most: int = PICTURES_READ) -> LookAlike:
    """Find the image of the split whose pixels are most similar to this picture's, among `at_most` drawn at random.
    InputError: none of the split's pictures can be read."""
    images, tiny = _tiny_pictures(run, split, at_most)
    likeness = tiny @ tiny_image(picture)
    best = int(likeness.argmax())
    return LookAlike(int(images[best]), float(likeness[best]), len(images))


@lru_cache(maxsize=8)
def _tiny_pictures(run: Run, split: str, at_most: int) -> tuple[Array, Array]:
    """Return (k,) rows of readable pictures among `at_most` of a split, and (k, 16 · 16 · 3) unit rows of pixels."""
    rows = np.arange(run.count(split, "image"))
    if len(rows) > at_most:
        rows = np.sort(np.random.default_rng(0).choice(rows, at_most, replace=False))
    tiny = {}
    for row in rows.tolist() if run.has_pictures(split) else []:
        with suppress(InputError):
            tiny[row] = tiny_image(run.open_picture(split, row, size=4 * TINY_SIDE))
    if not tiny:
        fact = f"has no readable picture of split {split!r}"
        raise InputError.at(f"run {run.name}", fact, "a picture folder")
    return np.array(list(tiny)), np.stack(list(tiny.values()))


@dataclass(frozen=True)
class LikelyMatches:
    """Guesses about the best results of every query of one direction."""

    # (Q, K) largest cosine between captions of the query and of each of its K best results, best first
    likeness: Array
    match: Array  # (Q, K) true for the true matches among these results
    ranks: Array  # (Q,) rank of the best true match, 0 is first; −1 for an image without captions
    # (q,) the queries of the sample; None for all. Others have likeness −1 and no match.
    queries: Array | None = None

    def likely(self, threshold: float = LIKELY) -> Array:
        """Return (Q, K) bool: similar enough, and not a true match."""
        return np.asarray((self.likeness >= threshold) & ~self.match)

    def probably_right(self, at: int = 1, threshold: float = LIKELY) -> Array:
        """Return (Q,) bool: no true match among the first `at` results, but a likely one."""
        return np.asarray((self.ranks >= at) & self.likely(threshold)[:, :at].any(1))

    def recall(self, at: int, threshold: float = LIKELY, queries: Array | None = None) -> tuple[float, float]:
        """Return R@`at` in percent by the labels, and with likely matches counted as right; `at` up to K. Only queries
        of the sample, if there is one, and of `queries` (None: all) count; NaN without any."""
        counted = self.ranks >= 0
        for rows in (self.queries, queries):
            if rows is not None:
                counted &= np.isin(np.arange(len(counted)), rows)
        if not counted.any():
            return float("nan"), float("nan")
        right = self.ranks[counted] < at
        with_likely = right | self.probably_right(at, threshold)[counted]
        return 100 * float(right.mean()), 100 * float(with_likely.mean())


def text_vectors(run: Run, split: str) -> Array | TfidfSpace | None:
    """Return (m, S) unit rows of the split's captions in the guesses' space or, for a split too large to compute whole,
    the space, fitted to a sample of the captions; None if they share hardly any word."""
    captions = run.captions(split)
    sample = run.sample(split)
    if sample is None:
        return geometry.caption_vectors(captions)
    return geometry.caption_space([captions[row] for row in sample.texts])


def likely_matches(
    run: Run, split: str, direction: Direction, vectors: Array | TfidfSpace, queries: Array | None = None
) -> LikelyMatches:
    """Guess which of the (at most ten) best results that the analysis keeps of every query are matches. `vectors`: from
    `text_vectors`; of a space, only the captions that are compared are encoded. `queries`: numbers of the queries to
    guess about; None for all."""
    captions = run.captions(split)
    texts = direction == "t2i"
    best = run.best(split, direction)
    captions_of = captions_by_image(run.image_of_text(split), run.count(split, "image"))
    numbers = np.arange(len(best)) if queries is None else np.asarray(queries)
    numbers = numbers[best[numbers, 0] >= 0] if best.shape[1] else numbers  # of those that are ranked
    likeness = np.full(best.shape, -1, np.float32)
    match = np.zeros(best.shape, bool)
    size = vectors.shape[1] if isinstance(vectors, np.ndarray) else geometry.SPACE_SIZE
    for part in slices(len(numbers), TILE_ELEMENTS // max(1, size * captions_of.shape[1])):
        rows = numbers[part]
        results = best[numbers[part]]
        of_query = rows[:, None] if texts else captions_of[rows]
        of_result = captions_of[results] if texts else results[:, :, None]
        if isinstance(vectors, np.ndarray):
            encoded = vectors
        else:
            compared = np.unique(np.concatenate([of_query.ravel(), of_result.ravel()]))
            compared = compared[compared >= 0]
            encoded = vectors.encode([captions[row] for row in compared])
            of_query, of_result = (
                np.where(side < 0, -1, np.searchsorted(compared, side)) for side in (of_query, of_result)
            )
        for column in range(best.shape[1]):
            likeness[rows, column] = geometry.largest_cosine(encoded, of_query, of_result[:, column])
        likeness[rows] = np.where(results == NO_CANDIDATE, -1, likeness[rows])
        match[rows] = run.matches(split, direction, rows[:, None], results)

    return LikelyMatches(likeness, match, run.ranks(split)[direction], queries)


def captions_by_image(image_of_text: Array, images: int) -> Array:
    """Return (n, most) the captions of every image, filled with −1 if it has fewer."""
    position = pd.Series(image_of_text).groupby(image_of_text).cumcount().to_numpy()
    table = np.full((images, int(position.max(initial=0)) + 1), -1, np.int64)
    table[image_of_text, position] = np.arange(len(image_of_text))
    return table


def count_fitting_images(run: Run, split: str, sample: Sample | None = None) -> Array | None:
    """Count the OTHER images with a similar caption: (m,) int64, in the order of `run.diversity`.

    Two captions of the split, or of a sample of it, are similar if their cosine is at least `geometry.captions.LIKE`.
    None if they share hardly any word.
    """
    part = run.compared(split, sample)
    captions = run.captions(split)
    vectors = geometry.caption_vectors([captions[row] for row in part.text_rows.tolist()])
    return None if vectors is None else geometry.fitting_images(vectors, part.owner)
