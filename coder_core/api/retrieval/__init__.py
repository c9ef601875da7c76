"""Retrieval results of a run: rank changes between two runs, hubs, margins, the most similar picture."""

from coder_core.api.retrieval.comparison import (
    OUTCOMES,
    compare,
    config_differences,
    diversity_changes,
    rank_correlation,
    same_samples,
)
from coder_core.api.retrieval.hubs import (
    Hubness,
    corrected_queries,
    found_by,
    hubness,
    occurrences,
    stored_correction,
)
from coder_core.api.retrieval.judged import (
    JUDGED,
    LABELLED,
    judged_recall,
    judged_results,
    judged_values,
    judgement_files,
    judgement_packages,
    run_judgements,
)
from coder_core.api.retrieval.likely import LIKELY, LikelyMatches, likely_matches, sampled_space, text_vectors
from coder_core.api.retrieval.look_alike import ALIKE, LookAlike
from coder_core.api.retrieval.margins import margins
from coder_core.api.retrieval.significance import gain_in_words, gains, in_words, interval, rank_gains
from coder_core.data.judgements import Judgements, OtherSplitError
from coder_core.evaluation.bootstrap import Difference
from coder_core.geometry.text_space import TfidfSpace
from coder_core.runs.derived.hub_correction import HubCorrection

__all__ = [
    "ALIKE",
    "JUDGED",
    "LABELLED",
    "LIKELY",
    "OUTCOMES",
    "Difference",
    "HubCorrection",
    "Hubness",
    "Judgements",
    "LikelyMatches",
    "LookAlike",
    "OtherSplitError",
    "TfidfSpace",
    "compare",
    "config_differences",
    "corrected_queries",
    "diversity_changes",
    "found_by",
    "gain_in_words",
    "gains",
    "hubness",
    "in_words",
    "interval",
    "judged_recall",
    "judged_results",
    "judged_values",
    "judgement_files",
    "judgement_packages",
    "likely_matches",
    "margins",
    "occurrences",
    "rank_correlation",
    "rank_gains",
    "run_judgements",
    "same_samples",
    "sampled_space",
    "stored_correction",
    "text_vectors",
]
