"""Metrics of a split on reviewed labels: labels judged wrong do not count, and pairs that also match do."""

import numpy as np

from coder_core.data.reviews import JudgedSplit
from coder_core.evaluation.extended import extended_metrics
from coder_core.evaluation.recall import Metrics
from coder_core.evaluation.tiles import ScoreTiles


def reviewed_positives(judged: JudgedSplit, image_of_text: np.ndarray) -> np.ndarray:
    """Return (P, 2) pairs (caption, image) that belong together: the labels without those judged wrong, and other
    matches. Too-vague and duplicate pairs stay, because their labels are right."""
    labels = np.stack([np.arange(len(image_of_text)), image_of_text], 1)
    return np.concatenate([labels[judged.labels != "wrong-caption"], judged.matches])


def reviewed_metrics(scores: ScoreTiles, judged: JudgedSplit, image_of_text: np.ndarray) -> Metrics:
    """Compute i2t_reviewed_r1, r5, r10, mrr, ndcg10 and the same for t2i, in percent: R@K counts queries with any
    positive among the first K. A query whose only label is wrong is left out; it remains a candidate for others."""
    metrics = extended_metrics(scores, reviewed_positives(judged, image_of_text))
    return {name.replace("extended", "reviewed"): metrics[name] for name in metrics if "extended" in name}
