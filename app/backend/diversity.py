"""What the Diversity page asks beside `Run.diversity`, `Run.spread` and `Run.anchor`."""

import numpy as np
import streamlit as st

from app.backend.runs import BY_STAMP, RunSummary, open_summary, split_sample
from coder_core.api import BANK_SIZE, Anchor, diversity_changes, rank_correlation
from coder_core.api import diversity as api

__all__ = ["BANK_SIZE", "Anchor", "diversity_changes", "fitting_images", "rank_correlation"]


@st.cache_data(max_entries=16, show_spinner="Comparing the captions with one another …", hash_funcs=BY_STAMP)
def fitting_images(run: RunSummary, split: str) -> np.ndarray | None:
    """How many other images each caption fits, or of a large split its sample's; None where captions share no words."""
    return api.fitting_images(open_summary(run), split, split_sample(run, split))
