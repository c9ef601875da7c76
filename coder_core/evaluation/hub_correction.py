"""Correct scores for hubs: lower the scores of candidates that score high with unrelated queries.

A hub scores high with many queries. A candidate's bias is its mean score with its k nearest reference queries, taken from
the train split. The corrected score of query q and candidate c is s(q, c) − α · bias_k(c), as in nearest neighbour
normalization (Chowdhury et al. 2024, eq. 1-2). k and α are chosen on dev for each direction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from coder_core.evaluation.metrics import RECALL_AT
from coder_core.evaluation.nearest import NearestRows, joined, too_many
from coder_core.evaluation.rank_metrics import query_metrics
from coder_core.evaluation.ranking import first_ranks
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.sampled import choose_queries
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import TILE_ELEMENTS, EmbeddingPair, Source, slices

NEIGHBOURS = (1, 4, 16, 64, 128)
STRENGTHS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Strength:
    """Correction of the candidates of one direction."""

    k: int  # reference queries averaged into a bias
    alpha: float  # share of the bias that is subtracted; 0 leaves the scores as they are


def hub_biases(
    candidates: Sequence[EmbeddingPair], neighbours: Sequence[int] = NEIGHBOURS, device: str = "cpu"
) -> np.ndarray:
    """Return (N, K) float32: the mean score of every candidate with its k nearest reference queries, for K values of k.
    ValueError: a k below 1 or above the number of reference queries.

    >>> pair = EmbeddingPair(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]))
    >>> hub_biases([pair], (1, 2))
    array([[1.  , 0.75]], dtype=float32)

    With more than 4·10¹⁰ products, the nearest queries are most of those that there are: see `nearest`.

    Args:
        candidates: `image` holds the N candidates, of either modality, and `text` the reference queries of the other
            modality; scores of several pairs are summed.
        device: of the products.
    """
    count, queries = candidates[0].shape
    most = max(neighbours)
    if min(neighbours) < 1 or most > queries:
        raise ValueError(f"k must be from 1 to the {queries:,} reference queries, got {tuple(neighbours)}")
    biases = np.empty((count, len(neighbours)), np.float32)
    nearest_scores = _most_nearest if too_many(count, queries) else _nearest
    for rows, nearest in nearest_scores(candidates, most, device):
        means = nearest.double().cumsum(1) / torch.arange(1, most + 1, device=nearest.device)
        biases[rows] = means[:, [k - 1 for k in neighbours]].float().cpu().numpy()
    return biases


def _nearest(candidates: Sequence[EmbeddingPair], most: int, device: str) -> Iterator[tuple[slice, Tensor]]:
    """Yield some candidates at a time, and (h, most) their largest scores with reference queries, in descending order."""
    count, queries = candidates[0].shape
    texts = [torch.from_numpy(np.array(pair.text, np.float32)).to(device) for pair in candidates]
    for rows in slices(count, TILE_ELEMENTS // queries):
        scores = torch.zeros(rows.stop - rows.start, queries, device=device)
        for pair, text in zip(candidates, texts, strict=True):
            images = torch.from_numpy(np.array(pair.image[rows], np.float32)).to(device)
            scores.addmm_(images, text.T, alpha=pair.weight)
        yield rows, scores.topk(most, dim=1).values


def _most_nearest(
    candidates: Sequence[EmbeddingPair], most: int, device: str
) -> Iterator[tuple[slice, Tensor]]:
    """Yield the same of the reference queries that an index finds; a candidate with fewer repeats its last score."""
    images, texts = joined(candidates)
    for rows, scores, _ in NearestRows(texts).blocks(images, most):
        least = np.min(scores, axis=1, where=np.isfinite(scores), initial=np.inf, keepdims=True)
        yield rows, torch.from_numpy(np.maximum(scores, least))


def corrected(sources: Sequence[Source], image_bias: np.ndarray, text_bias: np.ndarray) -> list[Source]:
    """Return sources whose scores are s − image_bias (n,) − text_bias (m,).

    One set of scores serves both directions: the bias of an image changes the order of the images for a caption, but
    not the order of the captions for that image.

    >>> corrected([EmbeddingPair(np.eye(2), np.eye(2))], np.array([0.5, 0.0]), np.zeros(2))[1].rows(np.array([0, 1]))
    array([[-0.5, -0.5],
           [ 0. ,  0. ]], dtype=float32)
    """
    images = np.stack([-image_bias, np.ones(len(image_bias))], 1).astype(np.float32)
    texts = np.stack([np.ones(len(text_bias)), -text_bias], 1).astype(np.float32)
    return [*sources, EmbeddingPair(images, texts)]


def choose_strengths(
    sources: Sequence[Source],
    image_of_text: np.ndarray,
    image_biases: np.ndarray,
    text_biases: np.ndarray,
    neighbours: Sequence[int] = NEIGHBOURS,
    device: str = "cpu",
) -> tuple[Strength, Strength]:
    """Choose the k and α with the largest R@1 + R@5 + R@10 on a split, for image→text and for text→image.

    Among equal sums the weakest correction is chosen, so α is 0 if none helps. Of a split with more than 10¹⁰ pairs, the
    queries of a sample count.

    >>> pair, none = EmbeddingPair(np.eye(3), np.eye(3)), np.zeros((3, 1))
    >>> choose_strengths([pair], np.arange(3), none, none, neighbours=(1,))
    (Strength(k=1, alpha=0.0), Strength(k=1, alpha=0.0))

    Args:
        image_biases, text_biases: from `hub_biases`, with one column for each k in `neighbours`.
    """
    columns = {k: column for column, k in enumerate(neighbours)}
    tried = [Strength(neighbours[0], 0.0)]
    tried += [Strength(k, alpha) for alpha in STRENGTHS for k in neighbours]
    labels = Relevance.of_labels(image_of_text, sources[0].shape[0])
    labels = labels.of_queries(choose_queries(labels, image_of_text))
    sums = []
    for strength in tried:
        column = columns[strength.k]
        of_images = strength.alpha * image_biases[:, column]
        of_texts = strength.alpha * text_biases[:, column]
        scores = check_scores(corrected(sources, of_images, of_texts), device)
        image_ranks, text_ranks = first_ranks(scores, labels)
        metrics = query_metrics(image_ranks, text_ranks)
        sums.append([sum(metrics[f"{way}_r{k}"] for k in RECALL_AT) for way in ("i2t", "t2i")])

    i2t, t2i = np.argmax(sums, axis=0)  # the first of equal sums
    return tried[i2t], tried[t2i]
