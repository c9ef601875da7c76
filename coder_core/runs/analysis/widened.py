"""The warning for captions that several images share."""

from collections.abc import Sequence
from typing import Literal

from coder_core.console.faults import Fault
from coder_core.evaluation.rank_metrics import Metrics

EqualTexts = Literal["match", "label"]


def equal_text_warning(captions: Sequence[str], shared: int, labels: Metrics, matched: Metrics) -> Fault:
    """Return the warning that `shared` captions also belong to other images by their text, with both figures."""
    ways = {"i2t_r1": "image→text", "t2i_r1": "text→image"}
    ways = {key: name for key, name in ways.items() if key in labels}
    by_labels, by_texts = (" and ".join(f"{of[key]:.1f}" for key in ways) for of in (labels, matched))
    fact = f"{shared:,} of {len(captions):,} have a text that another image has too"
    if ways:  # some queries are ranked
        fact += f": R@1 {' and '.join(ways.values())} is {by_labels} by the labels, {by_texts} if equal texts match"
    fix = "choose which to report: evaluate --equal-texts match, or --equal-texts label"
    return Fault("captions", fact, fix=fix, severity="warning")
