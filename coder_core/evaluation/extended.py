"""Metrics where a query may have positives beyond its labels: mAP@R, R-Precision, extended R@K.

R is the number of a query's positives. R-Precision is the share of positives among its first R results, and mAP@R is
(1/R) Σ P(i)·rel(i) over i = 1 … R, P(i) the precision at i and rel(i) whether result i is a positive (Musgrave et al.
2020; for captions Chun et al. 2022, ECCV Caption). Extended R@K is the share of queries with any positive among their
first K results (Parekh et al. 2021, CxC). Queries without a positive are left out.
"""

from __future__ import annotations

import numpy as np
import torch

from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import RECALL_AT, Metrics
from coder_core.evaluation.tiles import ScoreTiles

LONGEST_LIST = 1_000  # results of a query that are looked at; a query with more positives counts by these


def extended_metrics(scores: ScoreTiles, positives: np.ndarray, of_images: np.ndarray | None = None) -> Metrics:
    """Both directions, in percent: i2t_map_at_r, i2t_r_precision, i2t_extended_r1, r5, r10, and the same of t2i.

    >>> from coder_core.evaluation import ScoreMatrix, score_tiles
    >>> tiles = score_tiles([ScoreMatrix(np.array([[0.9, 0.1, 0.5], [0.2, 0.8, 0.6]]))], [0, 1, 1])
    >>> metrics = extended_metrics(tiles, np.array([[0, 0], [1, 1], [2, 1], [2, 0]]))  # caption 2 fits image 0 as well
    >>> metrics["i2t_map_at_r"], metrics["t2i_r_precision"]
    (100.0, 100.0)

    Args:
        scores: of n images and m captions.
        positives: (P, 2) int64, a caption and an image that belong together; labels are positives too and are named
            here like any other.
        of_images: (P, 2) those of images as queries, where they were judged apart: a caption, an image.
    """
    of_images = positives if of_images is None else of_images
    images_of_text = _lists(positives[:, 0], positives[:, 1], scores.m)
    texts_of_image = _lists(of_images[:, 1], of_images[:, 0], scores.n)
    most = max((len(own) for own in (*images_of_text, *texts_of_image)), default=0)
    ranks = rank(scores, best=min(max(most, *RECALL_AT), LONGEST_LIST))
    return {
        **_one_way("i2t", _hits(scores, ranks.image_best, texts_of_image, by_image=True), texts_of_image),
        **_one_way("t2i", _hits(scores, ranks.text_best, images_of_text, by_image=False), images_of_text),
    }


def _lists(queries: np.ndarray, answers: np.ndarray, count: int) -> list[np.ndarray]:
    """The positives of every query, each once."""
    pairs = np.unique(np.stack([queries, answers], 1), axis=0)
    return np.split(pairs[:, 1], np.searchsorted(pairs[:, 0], np.arange(1, count)))


def _hits(scores: ScoreTiles, best: np.ndarray, positives: list[np.ndarray], *, by_image: bool) -> np.ndarray:
    """(Q, K) bool: which results are positives, best first; among exactly equal scores positives come last."""
    hits = np.stack([np.isin(row, own) for row, own in zip(best, positives, strict=True)])
    query = np.repeat(np.arange(len(best)), best.shape[1])
    pairs = (query, best.reshape(-1).astype(np.int64))
    images, texts = (torch.from_numpy(side) for side in (pairs if by_image else pairs[::-1]))
    exact = scores.pairs(images, texts).numpy().reshape(best.shape)
    order = np.lexsort((hits, -exact), axis=1)
    return np.asarray(np.take_along_axis(hits, order, 1))


def _one_way(way: str, hits: np.ndarray, positives: list[np.ndarray]) -> Metrics:
    counts = np.minimum([len(own) for own in positives], hits.shape[1])
    asks = counts > 0
    hits, counts = hits[asks], counts[asks]
    if not len(hits):
        return {}
    precision = np.cumsum(hits, 1) / np.arange(1, hits.shape[1] + 1)
    within = np.arange(hits.shape[1]) < counts[:, None]
    return {
        f"{way}_map_at_r": 100 * float(((precision * hits * within).sum(1) / counts).mean()),
        f"{way}_r_precision": 100 * float(((hits & within).sum(1) / counts).mean()),
        **{f"{way}_extended_r{k}": 100 * float(hits[:, :k].any(1).mean()) for k in RECALL_AT},
    }
