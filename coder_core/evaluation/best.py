"""The best candidates of every query, in the order the ranks count them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from coder_core.evaluation.sources import Scored

_ROWS = 256
SPARE = 8  # candidates looked at beyond the list, so that rounding in the fast product cannot push one out


def best_lists(scored: Scored, best: int) -> tuple[np.ndarray, np.ndarray]:
    """The best captions of every image and the best images of every caption.

    Candidates are found with a float32 product and ordered by their float64 score rounded to float32; among equal
    scores the own ones come last (as pessimistic ties count them), then the lower index first.

    Returns:
        (n, min(best, m)) and (m, min(best, n)) int32.
    """
    owner = scored.image_of_text
    images = torch.arange(scored.n)
    forward = _one_way(scored.images, scored.texts, scored.weights, images, owner, best)
    backward = _one_way(scored.texts, scored.images, scored.weights, owner, images, best)
    return forward, backward


def _one_way(
    queries: list[Tensor],
    candidates: list[Tensor],
    weights: list[float],
    query_image: Tensor,
    candidate_image: Tensor,
    best: int,
) -> np.ndarray:
    count = len(candidates[0])
    width, looked_at = min(best, count), min(best + SPARE, count)
    lists = np.empty((len(queries[0]), width), np.int32)
    if width == 0:
        return lists
    for start in range(0, len(lists), _ROWS):
        rows = slice(start, start + _ROWS)
        scores = torch.zeros(len(lists[rows]), count)
        for query, candidate, weight in zip(queries, candidates, weights, strict=True):
            scores.addmm_(query[rows], candidate.T, alpha=weight)
        found = torch.topk(scores, looked_at, dim=1).indices
        exact = torch.zeros(found.shape, dtype=torch.float64)
        for query, candidate, weight in zip(queries, candidates, weights, strict=True):
            exact += weight * torch.einsum("qd,qkd->qk", query[rows].double(), candidate[found].double())
        own = candidate_image[found] == query_image[rows, None]
        lists[rows] = listed(found, exact.float(), own, width)
    return lists


def listed(found: Tensor, scores: Tensor, own: Tensor, width: int) -> np.ndarray:
    """The first `width` of the candidates found: by score, own ones last among equals, then the lower index first.

    Args:
        found: (rows, k) candidates.
        scores: (rows, k) of them.
        own: (rows, k) bool, the query's right answers.
        width: of the list.
    """
    order = np.lexsort((found.numpy(), own.numpy(), -scores.numpy()), axis=1)
    return np.take_along_axis(found.numpy(), order, 1)[:, :width]
