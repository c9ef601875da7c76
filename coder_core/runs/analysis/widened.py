"""Metrics of a split by groups and by equal texts, and the warning for captions that several images share."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from coder_core.console.faults import Fault
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import Metrics, metrics_of
from coder_core.evaluation.relevance import Queries, widened
from coder_core.evaluation.scores import Scores

EqualTexts = Literal["match", "label"]


def widened_metrics(
    scores: Scores,
    image_of_text: np.ndarray,
    *,
    groups: np.ndarray | None = None,
    captions: Sequence[str] | None = None,
    queries: Queries | None = None,
) -> Metrics:
    """Compute the metrics of `retrieval_metrics` by groups, by equal texts (if `captions` are given), or by both.
    `queries`: those that are ranked; None: all."""
    owner = np.asarray(image_of_text)
    relevance = widened(owner, scores.shape[0], groups=groups, captions=captions).of_queries(queries)
    return metrics_of(scores, rank(scores, relevance, best=0), relevance)


def equal_text_warning(captions: Sequence[str], shared: int, labels: Metrics, matched: Metrics) -> Fault:
    """Return the warning that `shared` captions also belong to other images by their text, with both figures."""
    by_labels, by_texts = (f"{of['i2t_r1']:.1f} and {of['t2i_r1']:.1f}" for of in (labels, matched))
    fact = f"{shared:,} of {len(captions):,} have a text that another image has too: R@1 image→text and text→image is"
    fact += f" {by_labels} by the labels, {by_texts} if equal texts match"
    fix = "choose which to report: evaluate --equal-texts match, or --equal-texts label"
    return Fault("captions", fact, fix=fix, severity="warning")
