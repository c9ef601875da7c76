"""Retrieval metrics from ranks: R@K, MedR, MeanR, R@sum, five folds of 1,000. Section 4 of docs/equations.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.evaluation.matrix import AnySource
from coder_core.evaluation.ranking import Checked, Ranks, Ties, checked, pair_sources, scored_ranks
from coder_core.evaluation.scores import MatrixSource
from coder_core.evaluation.separation import Pairing, separation
from coder_core.evaluation.sources import Scored, Source

RECALL_AT = (1, 5, 10)
Metrics = dict[str, float]


def retrieval_metrics(
    image_embeddings: Any,
    text_embeddings: Any,
    image_of_text: Any,
    *,
    ties: Ties = "pessimistic",
    second: tuple[Any, Any] | None = None,
    weight: float = 0.9,
) -> Metrics:
    """The field's metrics of one model, both ways.

    Three images and three captions with scores [[.9, .8, .1], [.95, .7, .2], [.3, .4, .5]], caption j of image j:
    image 0 finds its caption first; image 1 has one caption above its own; image 2 has none. So i2t_r1 is 2/3 and
    i2t_r5 is 100. Caption 0 has image 1 above its own, caption 1 has image 0, caption 2 none: t2i_r1 is 1/3.

    Args:
        image_embeddings: (n, D), unit rows for cosine scores.
        text_embeddings: (m, D).
        image_of_text: (m,) the image each caption belongs to.
        ties: "pessimistic" counts equal scores above the right answer.
        second: a second pair of embeddings, the concept branch.
        weight: score = weight · first + (1 − weight) · second.

    Returns:
        i2t_r1 i2t_r5 i2t_r10 t2i_r1 … in percent, i2t_medr i2t_meanr t2i_medr t2i_meanr (1 is first), rsum (the sum of
        the six recalls), i2t_ties and t2i_ties: percent of queries whose right answer ties with a wrong one; md, mean
        score of matching pairs minus that of all others (absent where there are no others).

    Raises:
        InputError: NaN or infinite embeddings, shapes or owners that do not fit.
    """
    return ensemble_metrics(pair_sources(image_embeddings, text_embeddings, second, weight), image_of_text, ties=ties)


def ensemble_metrics(sources: Sequence[AnySource], image_of_text: Any, *, ties: Ties = "pessimistic") -> Metrics:
    """The metrics of several sources of scores added up, for example the mean of two runs."""
    scored = checked(sources, image_of_text)
    return all_metrics(scored, scored_ranks(scored, ties=ties, best=0))


def all_metrics(scored: Checked, ranks: Ranks) -> Metrics:
    """The metrics of `ranks`, and how far matching pairs stand from the others."""
    own = scored.own.numpy() if isinstance(scored, Scored) else None
    md = separation(pairings(scored), scored.image_of_text.numpy(), own).mean_distance
    return metrics_from_ranks(ranks) | ({} if math.isnan(md) else {"md": md})


def pairings(scored: Checked) -> list[Pairing]:
    """What was checked, as `separation` takes it."""
    if isinstance(scored, Scored):
        sides = zip(scored.images, scored.texts, scored.weights, strict=True)
        return [(v.numpy(), w.numpy(), share) for v, w, share in sides]
    return [
        one if isinstance(one, MatrixSource) else (np.asarray(one.image), np.asarray(one.text), one.weight)
        for one in scored.sources
    ]


def metrics_from_ranks(ranks: Ranks) -> Metrics:
    """The metrics of ranks already counted. Images without captions ask no question."""
    asked = ranks.image_ranks >= 0
    image = _one_way("i2t", ranks.image_ranks[asked], ranks.image_ties[asked])
    text = _one_way("t2i", ranks.text_ranks, ranks.text_ties)
    recalls = [way[f"{name}_r{k}"] for name, way in (("i2t", image), ("t2i", text)) for k in RECALL_AT]
    return {**image, **text, "rsum": float(sum(recalls))}


def five_fold(
    sources: Sequence[AnySource], image_of_text: Any, *, ties: Ties = "pessimistic", folds: int = 5, size: int = 1000
) -> Metrics:
    """Each metric averaged over folds of `size` images and their captions; rsum is the sum of the averages.

    Args:
        sources: as for `ensemble_metrics`.
        image_of_text: (m,) the image each caption belongs to.
        ties: how equal scores count.
        folds: consecutive folds from the front.
        size: images a fold.

    Raises:
        InputError: fewer than folds · size images.
    """
    owner = np.asarray(image_of_text)
    first = sources[0]
    images = len(first.scores if isinstance(first, MatrixSource) else first.image)
    if images < folds * size:
        raise InputError(Fault("five folds", f"the split has {images:,} images", f"at least {folds * size:,}"))
    found = [_fold(sources, owner, slice(fold * size, (fold + 1) * size), ties) for fold in range(folds)]
    averaged = {name: float(np.mean([metrics[name] for metrics in found])) for name in found[0]}
    averaged["rsum"] = float(sum(averaged[f"{way}_r{k}"] for way in ("i2t", "t2i") for k in RECALL_AT))
    return averaged


def _fold(sources: Sequence[AnySource], owner: np.ndarray, images: slice, ties: Ties) -> Metrics:
    texts = np.flatnonzero((owner >= images.start) & (owner < images.stop))
    part = [
        MatrixSource(np.asarray(one.scores[images])[:, texts], one.weight)
        if isinstance(one, MatrixSource)
        else Source(one.image[images], one.text[texts], one.weight)
        for one in sources
    ]
    return ensemble_metrics(part, owner[texts] - images.start, ties=ties)


def _one_way(way: str, ranks: np.ndarray, ties: np.ndarray) -> Metrics:
    metrics = {f"{way}_r{k}": 100.0 * float(np.sum(ranks < k)) / len(ranks) for k in RECALL_AT}
    metrics[f"{way}_medr"] = float(np.floor(np.median(ranks)) + 1)
    metrics[f"{way}_meanr"] = float(np.mean(ranks) + 1)
    metrics[f"{way}_ties"] = 100.0 * float(np.sum(ties > 0)) / len(ranks)
    return metrics
