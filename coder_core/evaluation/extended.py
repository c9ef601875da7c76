"""Metrics where a query may have positives beyond its labels: mAP@R, R-Precision, extended R@K.

R is the number of a query's positives. R-Precision is the share of positives among its first R results, and mAP@R is
(1/R) Σ P(i)·rel(i) over i = 1 … R, P(i) the precision at i and rel(i) whether result i is a positive (Musgrave et al.
2020; for captions Chun et al. 2022, ECCV Caption). Extended R@K is the share of queries with any positive among their
first K results (Parekh et al. 2021, CxC). Queries without a positive are left out.
"""

import numpy as np
import torch

from coder_core.evaluation.ranking import best_lists
from coder_core.evaluation.recall import RECALL_AT, Metrics
from coder_core.evaluation.tiles import ScoreTiles

VALUES = ("map_at_r", "r_precision", *(f"extended_r{k}" for k in RECALL_AT))
LONGEST_LIST = 1_000  # results of a query that are looked at; a query with more positives counts by these


def extended_metrics(
    scores: ScoreTiles, positives: np.ndarray, of_images: np.ndarray | None = None
) -> Metrics:
    """Both directions, in percent: i2t_map_at_r, i2t_r_precision, i2t_extended_r1, r5, r10, and the same of t2i.

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
    """ "i2t" (n, 5) and "t2i" (m, 5): `VALUES` of every query, from 0 to 1; NaN for one without a positive.

    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> from coder_core.evaluation.tiles import score_tiles
    >>> tiles = score_tiles([ScoreMatrix(np.array([[0.9, 0.1, 0.5], [0.2, 0.8, 0.6]]))], [0, 1, 1])
    >>> extended_values(tiles, np.array([[0, 0], [1, 1], [2, 0]]))["t2i"][:, 0].tolist()  # mAP@R of three captions
    [1.0, 1.0, 0.0]

    Args:
        scores: of n images and m captions.
        positives: (P, 2) int64, a caption and an image that belong together; labels are positives too and are named
            here like any other.
        of_images: (P, 2) those of images as queries, where they were judged apart: a caption, an image.
    """
    of_images = positives if of_images is None else of_images
    texts_of_image = _lists(of_images[:, 1], of_images[:, 0], scores.n)
    images_of_text = _lists(positives[:, 0], positives[:, 1], scores.m)
    i2t = _one_way(scores, texts_of_image, by_image=True)
    return {"i2t": i2t, "t2i": _one_way(scores, images_of_text, by_image=False)}


def _lists(queries: np.ndarray, answers: np.ndarray, count: int) -> list[np.ndarray]:
    """The positives of every query, each once."""
    pairs = np.unique(np.stack([queries, answers], 1), axis=0)
    return np.split(pairs[:, 1], np.searchsorted(pairs[:, 0], np.arange(1, count)))


def _one_way(scores: ScoreTiles, positives: list[np.ndarray], *, by_image: bool) -> np.ndarray:
    counts = np.array(list(map(len, positives)))
    values = np.full((len(counts), len(VALUES)), np.nan)
    asking = np.flatnonzero(counts)
    if not len(asking):
        return values
    width = min(max(int(counts.max()), *RECALL_AT), LONGEST_LIST)
    candidates = scores.m if by_image else scores.n
    queries = np.repeat(np.arange(len(counts)), counts)
    pairs = queries * candidates + np.concatenate(positives)  # sorted, as `_lists` leaves them
    # Among equal scores positives come last, so that none is listed in place of another candidate.
    best, _ = best_lists(
        scores, width, by_image=by_image, asking=torch.from_numpy(asking), last=torch.from_numpy(pairs)
    )
    hits = np.isin(asking[:, None] * candidates + best, pairs)
    counts = np.minimum(counts[asking], hits.shape[1])
    precision = np.cumsum(hits, 1) / np.arange(1, hits.shape[1] + 1)
    within = np.arange(hits.shape[1]) < counts[:, None]
    columns = [(precision * hits * within).sum(1) / counts, (hits & within).sum(1) / counts]
    values[asking] = np.stack([*columns, *(hits[:, :k].any(1) for k in RECALL_AT)], 1)
    return values
