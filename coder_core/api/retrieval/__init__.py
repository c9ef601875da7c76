"""Retrieval results of a run: rank changes between two runs, hubs, margins, the most similar picture."""

from coder_core.api.retrieval.comparison import (
    OUTCOMES,
    compare,
    config_differences,
    diversity_changes,
    rank_correlation,
    same_samples,
)
from coder_core.api.retrieval.hubs import Hubness, found_by, hubness, occurrences
from coder_core.api.retrieval.likely import LIKELY, LikelyMatches, likely_matches, text_vectors
from coder_core.api.retrieval.look_alike import ALIKE, LookAlike
from coder_core.api.retrieval.margins import margins

__all__ = [
    "ALIKE", "LIKELY", "OUTCOMES", "Hubness", "LikelyMatches", "LookAlike", "compare", "config_differences",
    "diversity_changes", "found_by", "hubness", "likely_matches", "margins", "occurrences", "rank_correlation",
    "same_samples", "text_vectors",
]  # fmt: skip
