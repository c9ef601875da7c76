"""Metrics of a split on reviewed labels: labels judged wrong do not count, and pairs that also match do."""

import numpy as np

from coder_core.data.reviews import JudgedSplit
from coder_core.evaluation.metrics import Ranks
from coder_core.evaluation.rank_metrics import Metrics, extended_metrics
from coder_core.evaluation.relevance import LABEL, VERDICT, Relevance, label_pairs


def reviewed_relevance(judged: JudgedSplit, image_of_text: np.ndarray, images: int) -> Relevance:
    """Return the labels without those judged wrong, and the pairs that also match. Too-vague and duplicate pairs stay,
    because their labels are right."""
    labels = label_pairs(image_of_text)[judged.labels != "wrong-caption"]
    return Relevance.of_pairs({LABEL: labels, VERDICT: judged.matches}, images, len(image_of_text))


def reviewed_metrics(ranks: Ranks, relevance: Relevance) -> Metrics:
    """Compute i2t_reviewed_r1, r5, r10, mrr, ndcg10 and the same for t2i, in percent, of ranks by `reviewed_relevance`: R@K
    counts queries with any positive among the first K. A query whose only label is wrong is left out; it remains a
    candidate for others."""
    metrics = extended_metrics(ranks, relevance)
    return {name.replace("extended", "reviewed"): metrics[name] for name in metrics if "extended" in name}
