"""The door to sample weights: what a run weighs by, every pair with its weight; kept by run, stamp and parameters."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.backend.runs import RunSummary, _opened, open_summary
from coder_core.api.training import sample_weights as weights
from coder_core.api.training.sample_weights import CODER, DISCREPANCY, DIVERSITY, WEIGHT, Weighting, correlations

__all__ = [
    "CODER",
    "DISCREPANCY",
    "DIVERSITY",
    "WEIGHT",
    "Weighting",
    "correlations",
    "has_weights",
    "table",
    "weighting",
]


def has_weights(run: RunSummary, split: str) -> bool:
    """Whether the analysis of the split holds sample weights."""
    return weights.has_weights(open_summary(run), split)


def weighting(run: RunSummary, split: str) -> Weighting:
    """How the run weighs."""
    return weights.weighting(open_summary(run), split)


@st.cache_resource(max_entries=32, show_spinner=False)
def _table(path: str, stamp: str, split: str, modality: str) -> pd.DataFrame:
    return weights.weight_table(_opened(path, stamp), split, modality)  # type: ignore[arg-type]


def table(run: RunSummary, split: str, modality: str) -> pd.DataFrame:
    """Every pair with its weight and its measures. Shared: not to be changed."""
    return _table(str(run.path), run.stamp, split, modality)
