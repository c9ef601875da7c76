"""Tell differences between two rows from noise: a paired bootstrap over the queries, and over the seeds.

An image and its captions are drawn together, because they are not independent. Both rows are measured on the same
draw, so difficulty that affects both cancels out. If both rows have several seeds, each draw also resamples each row's
seeds with replacement, because retraining changes a result too. Efron and Tibshirani 1993, chapter 8.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from coder_core.evaluation.metrics import RECALL_AT

RECALLS = (*(f"{way}_r{k}" for way in ("i2t", "t2i") for k in RECALL_AT), "rsum")
MANY = 1_000  # above this many images, and for a slice, images with equal hits are drawn as one group
VERY_MANY = 25_000  # above this, images are grouped by equal differences of hits, which gives fewer groups
CELLS = 10_000_000  # numbers drawn at once
DRAWS = 2000
SEED = 20220910


@dataclass(frozen=True)
class Hits:
    """The contribution of each image and its captions to the six recalls of one run."""

    # (n, 6) hits of the image at 1, 5 and 10, then of its captions, summed; one row per group if groups are drawn
    hits: np.ndarray
    queries: np.ndarray  # (n, 2) 1 if the image has captions, else 0; number of its captions


@dataclass(frozen=True)
class Difference:
    """A recall, or R@sum, of a row minus that of the reference."""

    mean: float  # as measured
    low: float  # lower end of the 95% interval
    high: float  # upper end
    seeds: bool  # True if the seeds were drawn too

    @property
    def beyond_noise(self) -> bool:
        """True if the interval excludes zero."""
        return self.low > 0 or self.high < 0


def count_hits(
    image_ranks: np.ndarray,
    text_ranks: np.ndarray,
    image_of_text: np.ndarray,
    groups: np.ndarray | None = None,
) -> Hits:
    """Count hits from the ranks of images (n,) and texts (m,); 0 is first, −1 marks a query that does not count.

    `groups` (n,) int64: images of one group are drawn together with all their captions; None draws image by image.

    >>> count_hits(np.array([0, 7]), np.array([0, 3, 0]), np.array([0, 0, 1])).hits
    array([[1., 1., 1., 1., 2., 2.],
           [0., 0., 1., 1., 1., 1.]])
    """
    images = len(image_ranks)
    has_captions = image_ranks >= 0
    of_images = [has_captions & (image_ranks < k) for k in RECALL_AT]
    counts = text_ranks >= 0
    of_captions = [
        np.bincount(image_of_text, weights=counts & (text_ranks < k), minlength=images) for k in RECALL_AT
    ]
    count = np.bincount(image_of_text, weights=counts, minlength=images)
    hits = np.stack([*of_images, *of_captions], 1)
    queries = np.stack([has_captions, count], 1).astype(float)
    if groups is None:
        return Hits(hits, queries)

    names, group = np.unique(groups, return_inverse=True)
    hits_of_groups = np.zeros((len(names), hits.shape[1]))
    queries_of_groups = np.zeros((len(names), queries.shape[1]))
    np.add.at(hits_of_groups, group, hits)
    np.add.at(queries_of_groups, group, queries)
    return Hits(hits_of_groups, queries_of_groups)


def difference(row: Sequence[Hits], reference: Sequence[Hits], *, draws: int = DRAWS) -> Difference:
    """Compare the mean R@sum of `row` and `reference` over their seeds, with a 95% interval. ValueError: the runs were
    not evaluated on the same captions.

    >>> ranks, owner = np.array([0, 7, 2, 0]), np.arange(4)
    >>> better, worse = (count_hits(np.minimum(ranks, most), ranks, owner) for most in (2, 9))
    >>> difference([better], [worse]).mean
    25.0

    Args:
        row, reference: one `Hits` per seed, all on the same images.
    """
    queries = row[0].queries
    if not all(np.array_equal(run.queries, queries) for run in (*row, *reference)):
        raise ValueError("the runs were evaluated on different captions")
    random = np.random.default_rng(SEED)
    images = len(queries)
    weights = random.multinomial(images, np.full(images, 1 / images), size=draws).astype(np.float64)
    with_seeds = len(row) > 1 and len(reference) > 1

    def mean(runs: Sequence[Hits]) -> np.ndarray:
        sums = np.stack([recalls(weights, run)[:, -1] for run in runs])  # (seeds, draws)
        if not with_seeds:
            return np.asarray(sums.mean(0))
        drawn = random.multinomial(len(runs), np.full(len(runs), 1 / len(runs)), size=draws)
        return np.einsum("sd,ds->d", sums, drawn / len(runs))

    low, high = np.nanpercentile(mean(row) - mean(reference), [2.5, 97.5])
    once = np.ones((1, images))
    measured, base = (np.mean([recalls(once, run)[0, -1] for run in runs]) for runs in (row, reference))
    return Difference(float(measured - base), float(low), float(high), with_seeds)


def recall_differences(row: Hits, reference: Hits) -> dict[str, Difference]:
    """Compare the six recalls and R@sum of two runs, with 95% intervals; keys are RECALLS, without those of a direction
    that has no query. ValueError as for `difference`.

    >>> ranks, owner = np.array([0, 7, 2, 0]), np.arange(4)
    >>> better, worse = (count_hits(np.minimum(ranks, most), ranks, owner) for most in (2, 9))
    >>> recall_differences(better, worse)["i2t_r5"].mean
    25.0
    """
    if not np.array_equal(row.queries, reference.queries):
        raise ValueError("the runs were evaluated on different captions")
    mine = row.hits
    theirs = reference.hits
    if len(row.queries) > VERY_MANY:
        mine = row.hits - reference.hits
        theirs = np.zeros_like(reference.hits)

    def change(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
        hits, other, queries = np.split(rows, [mine.shape[1], 2 * mine.shape[1]], axis=1)
        return recalls(weights, Hits(hits, queries)) - recalls(weights, Hits(other, queries))

    of_images = np.concatenate([mine, theirs, row.queries], 1)
    values = _measured_and_ends(of_images, change)
    by_name = zip(RECALLS, values.tolist(), strict=True)
    asked = [bool(column.any()) for column in row.queries.T]
    silent = tuple(way for way, has_queries in zip(("i2t", "t2i"), asked, strict=True) if not has_queries)
    silent = (*silent, "rsum") if len(silent) == 1 else silent
    return {
        name: Difference(mean, low, high, seeds=False)
        for name, (mean, low, high) in by_name
        if not name.startswith(silent)
    }


def recall_intervals(run: Hits) -> np.ndarray:
    """Return (7, 3): the six recalls and R@sum of one run in percent, each with the ends of its 95% interval.

    >>> recall_intervals(count_hits(np.zeros(9, int), np.zeros(9, int), np.arange(9)))[-1]
    array([600., 600., 600.])
    """

    def of_draws(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
        hits, queries = np.split(rows, [run.hits.shape[1]], axis=1)
        return recalls(weights, Hits(hits, queries))

    return _measured_and_ends(np.concatenate([run.hits, run.queries], 1), of_draws)


def mean_intervals(values: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return (k, 3): the means of k values over Q queries, each with the ends of its 95% interval.

    >>> mean_intervals(np.array([[1.0], [0.0], [1.0]]), np.array([3, 3, 8]))[0, 0].round(3)
    np.float64(0.667)

    Args:
        values: (Q, k).
        images: (Q,) the image that each query is or describes, or its group; queries of one are drawn together.
    """
    groups, group = np.unique(images, return_inverse=True)
    rows = np.zeros((len(groups), values.shape[1] + 1))
    np.add.at(rows, group, np.concatenate([values, np.ones((len(values), 1))], 1))

    def means(weights: np.ndarray, sums: np.ndarray) -> np.ndarray:
        totals = weights @ sums
        return totals[:, :-1] / totals[:, -1:]

    return _measured_and_ends(rows, means)


def mean_change(before: np.ndarray, after: np.ndarray, counted: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return (3,): the mean of `after` over the counted queries minus the mean of `before` over all, with the ends of its
    95% interval. Every draw takes the same images for both, so what they share cancels.

    >>> mean_change(np.zeros(4), np.ones(4), np.ones(4, bool), np.arange(4)).tolist()
    [1.0, 1.0, 1.0]

    Args:
        before, after: (Q,) values.
        counted: (Q,) bool.
        images: (Q,) as for `mean_intervals`.
    """
    groups, group = np.unique(images, return_inverse=True)
    rows = np.zeros((len(groups), 4))
    np.add.at(rows, group, np.stack([after * counted, counted, before, np.ones(len(before))], axis=1))

    def change(weights: np.ndarray, sums: np.ndarray) -> np.ndarray:
        totals = weights @ sums
        means = totals[:, ::2] / np.maximum(totals[:, 1::2], 1)
        return np.asarray(means[:, :1] - means[:, 1:])

    return np.asarray(_measured_and_ends(rows, change)[0])


def _measured_and_ends(rows: np.ndarray, value: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Return (v, 3): v statistics with every image counted once, each with the ends of its 95% interval. `value` maps
    (draws, k) weights of k rows to (draws, v) statistics; `rows` (n, c) has one row per image, 0 without queries."""
    images = len(rows)
    counts = np.ones(len(rows), np.int64)
    if images > MANY or not rows.any(1).all():  # a slice leaves most images without queries
        rows, counts = _different_rows(rows)
    random = np.random.default_rng(SEED)
    block = max(1, CELLS // len(rows))
    sizes = [min(block, DRAWS - start) for start in range(0, DRAWS, block)]
    weights = (random.multinomial(images, counts / images, size=size).astype(float) for size in sizes)
    ends = np.nanpercentile(np.concatenate([value(part, rows) for part in weights]), [2.5, 97.5], axis=0)
    return np.stack([value(counts[None].astype(float), rows)[0], *ends], 1)


def _different_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different rows in ascending order, and how often each occurs. Rows of zeros, which are most rows of a
    split of which a sample is ranked, are not sorted."""
    is_zero = ~rows.any(1)
    zeros = int(is_zero.sum())
    one_zero = np.zeros((min(zeros, 1), rows.shape[1]))
    different, counts = np.unique(np.concatenate([rows[~is_zero], one_zero]), axis=0, return_counts=True)
    counts[~different.any(1)] = zeros
    return different, counts


def recalls(weights: np.ndarray, run: Hits) -> np.ndarray:
    """Return (draws, 7): the six recalls and R@sum in percent under (draws, n) weights of the images. NaN for a draw
    without queries, which is common for a slice of few images.

    >>> recalls(np.ones((1, 2)), count_hits(np.array([0, 7]), np.array([0, 3]), np.arange(2)))
    array([[ 50.,  50., 100.,  50., 100., 100., 450.]])
    """
    queries = weights @ run.queries
    queries = np.where((queries == 0) & run.queries.any(0), np.nan, np.maximum(queries, 1))
    six = (weights @ run.hits) / np.repeat(queries, len(RECALL_AT), axis=1)
    return 100 * np.concatenate([six, six.sum(1, keepdims=True)], 1)
