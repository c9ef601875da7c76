"""Metrics of a split as people corrected it: labels judged wrong no longer count, pairs that also match do."""

import numpy as np

from coder_core.data.reviews import JudgedSplit
from coder_core.evaluation.c_way import DIRECTIONS
from coder_core.evaluation.graded import graded_values, judged_ranks
from coder_core.evaluation.recall import RECALL_AT, Metrics
from coder_core.evaluation.tiles import ScoreTiles

# name in a run's metrics → name in `graded_values`
MEASURES = {**{f"r{k}": f"success@{k}" for k in RECALL_AT}, "mrr": "mrr", "ndcg10": "ndcg@10"}


def reviewed_positives(judged: JudgedSplit, image_of_text: np.ndarray) -> np.ndarray:
    """(P, 2) captions and images that belong together: the labels without those judged wrong, and other matches.
    Too-vague and duplicate pairs stay: their labels hold."""
    labels = np.stack([np.arange(len(image_of_text)), image_of_text], 1)
    return np.concatenate([labels[judged.labels != "wrong-caption"], judged.matches])


def reviewed_metrics(scores: ScoreTiles, judged: JudgedSplit, image_of_text: np.ndarray) -> Metrics:
    """i2t_reviewed_r1, r5, r10, mrr, ndcg10 and the same of t2i, in percent: R@K counts queries with any positive among
    the first K. A query whose only label is wrong is left out; its caption stays a candidate of others."""
    pairs = np.unique(reviewed_positives(judged, image_of_text), axis=0)
    grades, metrics = np.ones(len(pairs), np.int64), Metrics()
    for way, (documents, queries) in zip(DIRECTIONS, (pairs.T, pairs.T[::-1]), strict=True):
        ranks = judged_ranks(scores, queries, documents, grades, by_image=way == "i2t")
        _, values = graded_values(list(MEASURES.values()), queries, grades, ranks)
        if len(values):
            means = zip(MEASURES, 100 * values.mean(0), strict=True)
            metrics |= {f"{way}_reviewed_{name}": float(mean) for name, mean in means}
    return metrics
