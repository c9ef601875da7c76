"""Retrieval metrics of scores: those of their ranks and MD, on a whole split, five folds or halves. Section 4 of
docs/equations.md."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from coder_core.console.faults import Fault, InputError
from coder_core.evaluation.metrics import Ranks
from coder_core.evaluation.rank_metrics import Metrics, rank_metrics, with_rsum
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.relevance import Relation, Relevance
from coder_core.evaluation.sampled import random_halves
from coder_core.evaluation.scores import Scores, Ties, check_owners, check_scores
from coder_core.evaluation.separation import separation
from coder_core.evaluation.sources import Source, mixture

CHOSEN_HALF = "chosen_half_rsum"
OTHER_HALF = "other_half_rsum"
"""Names, in a run's metrics, of R@sum on the half of a split that a model is chosen on, and on the other half."""


def retrieval_metrics(
    image_embeddings: Any,
    text_embeddings: Any,
    image_of_text: Any,
    *,
    ties: Ties = "pessimistic",
    second: tuple[Any, Any] | None = None,
    weight: float = 0.9,
) -> Metrics:
    """Compute the usual metrics of one model in both directions. InputError: `check_scores` refuses the arguments.

    In the example, caption j belongs to image j. Images 0 and 2 rank their captions first, image 1 second, so i2t_r1
    is 2/3. Caption 2 ranks its image first, captions 0 and 1 second, so t2i_r1 is 1/3.

    >>> scores = np.array([[0.9, 0.8, 0.1], [0.95, 0.7, 0.2], [0.3, 0.4, 0.5]])
    >>> metrics = retrieval_metrics(scores, np.eye(3), [0, 1, 2])  # ⟨row i, unit vector j⟩ is entry (i, j)
    >>> round(metrics["i2t_r1"], 1), round(metrics["t2i_r1"], 1), metrics["i2t_r5"]
    (66.7, 33.3, 100.0)

    Args:
        image_embeddings, text_embeddings: (n, D) and (m, D), unit rows for cosine scores. image_of_text: (m,).
        ties: "pessimistic" counts equal scores above the right answer.
        second, weight: embeddings of the concept branch; score = weight · first + (1 − weight) · second.

    Returns:
        i2t_r1 i2t_r5 i2t_r10 t2i_r1 … in percent, i2t_mrr t2i_mrr (mean reciprocal rank) and i2t_ndcg10 t2i_ndcg10 in
        percent, i2t_medr i2t_meanr t2i_medr t2i_meanr (1 is first), rsum (the sum of the six recalls), i2t_ties and
        t2i_ties: percent of queries whose right answer ties with a wrong one; md, mean score of matching pairs minus that
        of all others (absent if there are no others).
    """
    sources = mixture(image_embeddings, text_embeddings, second, weight)
    return ensemble_metrics(sources, image_of_text, ties=ties)


def ensemble_metrics(
    sources: Sequence[Source],
    image_of_text: Any,
    *,
    ties: Ties = "pessimistic",
    relevance: Relevance | None = None,
) -> Metrics:
    """Compute the metrics of the sum of several sources, for example the mean of two runs.

    >>> from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix
    >>> runs = [EmbeddingPair(np.eye(2), np.eye(2), 0.5), ScoreMatrix(np.array([[0.0, 1.5], [0.0, 1.0]]), 0.5)]
    >>> ensemble_metrics(runs, [0, 1])["i2t_r1"]
    50.0

    Args:
        relevance: which results are right; None: the labels, `image_of_text`.
    """
    scores = check_scores(sources)
    owner = check_owners(image_of_text, *scores.shape)
    relevance = Relevance.of_labels(owner, scores.shape[0]) if relevance is None else relevance
    return metrics_of(scores, rank(scores, relevance, ties=ties, best=0), relevance)


def metrics_of(scores: Scores, ranks: Ranks, relevance: Relevance) -> Metrics:
    """Return the metrics that `retrieval_metrics` lists, of ranks by a relevance; {} if no query is ranked.

    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> scores = check_scores([ScoreMatrix(np.array([[0.75, 0.25], [0.5, 0.75]]))])
    >>> labels = Relevance.of_labels(np.array([0, 1]), images=2)
    >>> metrics_of(scores, rank(scores, labels), labels)["md"]
    0.375
    """
    if not ((ranks.i2t.first >= 0).any() and (ranks.t2i.first >= 0).any()):
        return {}
    own = _own_scores(scores, ranks, relevance.t2i)
    md = separation(scores.sources, own).mean_distance
    return rank_metrics(ranks, relevance) | ({} if math.isnan(md) else {"md": md})


def _own_scores(scores: Scores, ranks: Ranks, relation: Relation) -> np.ndarray:
    """Return the scores of all right pairs, also of queries that are not ranked."""
    whole = relation.of_all
    if whole is None:
        return ranks.t2i.own[relation.found]
    texts, images = (torch.from_numpy(rows[whole.found]) for rows in (whole.queries, whole.candidates))
    return scores.pairs(images.to(scores.device), texts.to(scores.device)).cpu().numpy()


def five_fold(
    sources: Sequence[Source],
    image_of_text: Any,
    *,
    ties: Ties = "pessimistic",
    folds: int = 5,
    size: int = 1000,
) -> Metrics:
    """Average each metric over consecutive folds of `size` images and their captions; rsum sums the averages.
    InputError: fewer than folds · size images.

    >>> from coder_core.evaluation.sources import EmbeddingPair
    >>> five_fold([EmbeddingPair(np.eye(4), np.eye(4))], np.arange(4), folds=2, size=2)["rsum"]
    600.0
    """
    images = sources[0].shape[0]
    if images < folds * size:
        expected = f"at least {folds * size:,}"
        raise InputError(Fault("five folds", f"the split has {images:,} images", expected))
    parts = np.arange(folds * size).reshape(folds, size)
    every_fold = [_metrics_of(sources, image_of_text, part, ties=ties) for part in parts]
    means = {name: float(np.mean([metrics[name] for metrics in every_fold])) for name in every_fold[0]}
    return with_rsum(means)


def half_metrics(sources: Sequence[Source], image_of_text: Any) -> tuple[Metrics, Metrics]:
    """Compute the metrics on two halves of the images with their captions: one to choose a model on, and one to report,
    which gets the odd image. InputError: fewer than two images.

    The halves depend only on the number of images, so all runs on a split have the same ones. A half has fewer candidates
    than the whole, hence higher recall: compare halves with halves.

    >>> from coder_core.evaluation.sources import EmbeddingPair
    >>> first, second = half_metrics([EmbeddingPair(np.eye(4), np.eye(4))], np.arange(4))
    >>> first["rsum"], second["rsum"]
    (600.0, 600.0)
    """
    images = sources[0].shape[0]
    if images < 2:
        raise InputError(Fault("two halves", f"the split has {images} image", "at least 2"))
    first, second = random_halves(images)
    return _metrics_of(sources, image_of_text, first), _metrics_of(sources, image_of_text, second)


def _metrics_of(sources: Sequence[Source], image_of_text: Any, images: np.ndarray, **options: Any) -> Metrics:
    """Compute the metrics of sorted `images` and all their captions; `options` are those of `ensemble_metrics`."""
    owner = np.asarray(image_of_text)
    texts = np.flatnonzero(np.isin(owner, images))
    part = [source.part(images, texts) for source in sources]
    return ensemble_metrics(part, np.searchsorted(images, owner[texts]), **options)
