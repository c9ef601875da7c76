"""Whether a gain is noise: a paired bootstrap over images."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import streamlit as st

from app.backend.runs import BY_STAMP, RunSummary, open_summary
from coder_core.api import retrieval as api
from coder_core.api.retrieval import Difference, interval

__all__ = ["Difference", "gain", "gain_of_ranks", "gains", "interval"]


@st.cache_data(max_entries=64, show_spinner=False, hash_funcs=BY_STAMP)
def gains(
    first: RunSummary, last: RunSummary, split: str, captions: np.ndarray | None = None
) -> dict[str, Difference]:
    """`gains`: every recall of one run minus that of another, of the captions of a slice or of all."""
    return api.gains(open_summary(first), open_summary(last), split, captions)


def gain(
    first: RunSummary, last: RunSummary, split: str, recall: str = "rsum", captions: np.ndarray | None = None
) -> str:
    """`gain_in_words`."""
    change = gains(first, last, split, captions)[recall]
    return api.in_words(recall, change, f"of {last.name}", f"that of {first.name}")


def gain_of_ranks(
    run: RunSummary,
    split: str,
    recall: str,
    after: Mapping[str, np.ndarray],
    row: str,
    captions: np.ndarray | None = None,
) -> str:
    """A recall by other ranks of a run, `row`, against that by its own, in words."""
    opened = open_summary(run)
    change = api.rank_gains(opened.ranks(split), after, opened.image_of_text(split), captions)[recall]
    return api.in_words(recall, change, row, "that without")
