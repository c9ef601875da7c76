"""Sample weights of a run's pairs and the measures they come from."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.backend.runs import BY_STAMP, RunSummary, open_summary
from coder_core.api.training import sample_weights
from coder_core.api.training.sample_weights import (
    CODER,
    DISCREPANCY,
    DIVERSITY,
    WEIGHT,
    Weighting,
    correlations,
)

__all__ = [
    "CODER",
    "DISCREPANCY",
    "DIVERSITY",
    "WEIGHT",
    "Weighting",
    "correlations",
    "has_weights",
    "weight_table",
    "weighting",
]


def has_weights(run: RunSummary, split: str) -> bool:
    """Whether the analysis of the split holds sample weights."""
    return sample_weights.has_weights(open_summary(run), split)


def weighting(run: RunSummary, split: str) -> Weighting:
    """How the run weights its pairs."""
    return sample_weights.weighting(open_summary(run), split)


@st.cache_resource(max_entries=32, show_spinner=False, hash_funcs=BY_STAMP)
def weight_table(run: RunSummary, split: str, modality: str) -> pd.DataFrame:
    """Every pair with its weight and its measures. Shared: not to be changed."""
    return sample_weights.weight_table(open_summary(run), split, modality)  # type: ignore[arg-type]
