"""The model behind a run's new words and pictures, loaded once."""

from __future__ import annotations

import streamlit as st

from app.backend.runs import BY_STAMP, RunSummary, open_summary
from coder_core.api.heat_maps import load_encoders


@st.cache_resource(max_entries=16, show_spinner="Loading the model …", hash_funcs=BY_STAMP)
def load_model(run: RunSummary, split: str, *, pictures: bool = False) -> bool:
    """Load what encodes new words (and with `pictures` new pictures) of a run, once, behind a spinner."""
    load_encoders(open_summary(run), split, pictures=pictures)
    return True
