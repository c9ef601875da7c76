"""Metrics of a split as people corrected it: labels judged wrong no longer count, pairs that also match do."""

import numpy as np

from coder_core.data.reviews import JudgedSplit
from coder_core.evaluation.extended import extended_metrics
from coder_core.evaluation.recall import Metrics
from coder_core.evaluation.tiles import ScoreTiles


def reviewed_positives(judged: JudgedSplit, image_of_text: np.ndarray) -> np.ndarray:
    """(P, 2) captions and images that belong together: the labels without those judged wrong, and other matches.
    Too-vague and duplicate pairs stay: their labels hold."""
    labels = np.stack([np.arange(len(image_of_text)), image_of_text], 1)
    return np.concatenate([labels[judged.labels != "wrong-caption"], judged.matches])


def reviewed_metrics(scores: ScoreTiles, judged: JudgedSplit, image_of_text: np.ndarray) -> Metrics:
    """i2t_reviewed_r1, r5, r10, mrr, ndcg10 and the same of t2i, in percent: R@K counts queries with any positive among
    the first K. A query whose only label is wrong is left out; its caption stays a candidate of others."""
    metrics = extended_metrics(scores, reviewed_positives(judged, image_of_text))
    return {name.replace("extended", "reviewed"): metrics[name] for name in metrics if "extended" in name}
