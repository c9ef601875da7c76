"""Reports of runs on a split as one HTML file, and whether a gain is noise."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.backend.reviews import file_of, load
from app.backend.runs import BY_STAMP, RunSummary, open_summary
from coder_core.api.report import gather, render
from coder_core.api.retrieval import gain_in_words


@st.cache_data(max_entries=64, show_spinner=False, hash_funcs=BY_STAMP)
def gain(first: RunSummary, last: RunSummary, split: str) -> str:
    """`gain_in_words`."""
    return gain_in_words(open_summary(first), open_summary(last), split)


def report_page(runs: Sequence[RunSummary], split: str) -> str:
    """The report on runs of the same samples; the first is the baseline, the last the one that is judged."""
    names = " ".join(str(run.path) for run in runs)
    command = f"python -m coder_core.report {names} --split {split} --out report.html"
    reviews = load(file_of(runs[-1]))
    command += f" --reviews {file_of(runs[-1])}" if reviews.standing else ""
    return render(gather([open_summary(run) for run in runs], split, command=command, reviews=reviews))
