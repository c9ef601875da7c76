"""Metrics for queries that may have positives beyond their labels: mAP@R, R-Precision, extended R@K, MRR and nDCG@10.

R is the number of a query's positives. R-Precision is the share of positives among its first R results, and mAP@R is
(1/R) Σ P(i)·rel(i) over i = 1 … R, where P(i) is the precision at i and rel(i) is 1 if result i is a positive, else 0
(Musgrave et al. 2020; for captions Chun et al. 2022, ECCV Caption). Extended R@K is the share of queries with any
positive among their first K results (Parekh et al. 2021, CxC). Queries without a positive are left out.
"""

import numpy as np

from coder_core.evaluation.graded import RECALL_AT, graded_values
from coder_core.evaluation.ranking import judged_ranks
from coder_core.evaluation.recall import Metrics
from coder_core.evaluation.tiles import ScoreTiles

MEASURES = (*(f"success@{k}" for k in RECALL_AT), "mrr", "ndcg@10")
VALUES = ("map_at_r", "r_precision", *(f"extended_{name}" for name in ("r1", "r5", "r10", "mrr", "ndcg10")))


def extended_metrics(
    scores: ScoreTiles, positives: np.ndarray, of_images: np.ndarray | None = None
) -> Metrics:
    """Return, in percent, i2t_map_at_r, i2t_r_precision, i2t_extended_r1, …_r5, …_r10, …_mrr, …_ndcg10; same for t2i.

    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> from coder_core.evaluation.tiles import score_tiles
    >>> tiles = score_tiles([ScoreMatrix(np.array([[0.9, 0.1, 0.5], [0.2, 0.8, 0.6]]))], [0, 1, 1])
    >>> metrics = extended_metrics(tiles, np.array([[0, 0], [1, 1], [2, 1], [2, 0]]))  # caption 2 fits image 0 as well
    >>> metrics["i2t_map_at_r"], metrics["t2i_r_precision"]
    (100.0, 100.0)
    """
    return {
        f"{way}_{name}": 100 * float(of_queries.mean())
        for way, values in extended_values(scores, positives, of_images).items()
        for name, of_queries in zip(VALUES, values[~np.isnan(values[:, 0])].T, strict=True)
        if len(of_queries)
    }


def extended_values(
    scores: ScoreTiles, positives: np.ndarray, of_images: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Return "i2t" (n, 7) and "t2i" (m, 7): `VALUES` of every query, from 0 to 1; NaN for one without a positive.

    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> from coder_core.evaluation.tiles import score_tiles
    >>> tiles = score_tiles([ScoreMatrix(np.array([[0.9, 0.1, 0.5], [0.2, 0.8, 0.6]]))], [0, 1, 1])
    >>> extended_values(tiles, np.array([[0, 0], [1, 1], [2, 0]]))["t2i"][:, 0].tolist()  # mAP@R of three captions
    [1.0, 1.0, 0.0]

    Args:
        scores: of n images and m captions.
        positives: (P, 2) int64, a caption and an image that belong together; must include the labels.
        of_images: (P, 2) the same for images as queries, if they were judged separately: a caption, an image. None
            uses `positives` for both directions.
    """
    of_images = positives if of_images is None else of_images
    i2t = _one_way(scores, of_images[:, ::-1], scores.n, by_image=True)
    return {"i2t": i2t, "t2i": _one_way(scores, positives, scores.m, by_image=False)}


def _one_way(scores: ScoreTiles, positives: np.ndarray, count: int, *, by_image: bool) -> np.ndarray:
    """Return (count, 7) `VALUES` of every query; a row of `positives` (P, 2) is a query and a positive candidate."""
    values = np.full((count, len(VALUES)), np.nan)
    queries, candidates = np.unique(positives, axis=0).T
    ones = np.ones(len(queries), np.int64)
    sizes = np.bincount(queries, minlength=count)
    ranks = judged_ranks(scores, queries, candidates, ones, by_image=by_image)
    within = ranks < sizes[queries]
    asking, maps = graded_values(["map"], queries, ones, np.where(within, ranks, np.inf))
    precisions = np.bincount(queries, within, count)[asking] / sizes[asking]
    _, of_all = graded_values(MEASURES, queries, ones, ranks)
    values[asking] = np.column_stack([maps, precisions, of_all])
    return values
