"""Rank changes, margins and hubs of a split; queries that are no samples of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.runs import BY_STAMP, RunSummary, open_summary, split_sample
from coder_core.api import (
    ALIKE,
    OUTCOMES,
    LookAlike,
    compare,
    decode,
    found_by,
    hubness,
    jpeg,
    margins,
    occurrences,
)
from coder_core.api import retrieval as api
from coder_core.api.retrieval import HubCorrection
from coder_core.api.stored import StoredResult

__all__ = [
    "ALIKE",
    "OUTCOMES",
    "HubCorrection",
    "LookAlike",
    "answers",
    "corrected_queries",
    "decode",
    "found_by",
    "hub_correction",
    "hubness",
    "jpeg",
    "likely_matches",
    "likely_results",
    "look_alike",
    "margin_table",
    "occurrence_table",
    "rank_changes",
    "search",
    "search_picture",
    "unknown_words",
]


@st.cache_resource(max_entries=32, show_spinner=False, hash_funcs=BY_STAMP)
def rank_changes(first: RunSummary, second: RunSummary, split: str, at: int) -> pd.DataFrame:
    """`compare`: rank change of every query in both directions. Shared: not to be changed."""
    return compare(open_summary(first), open_summary(second), split, at=at)


@st.cache_resource(max_entries=32, show_spinner=False, hash_funcs=BY_STAMP)
def margin_table(run: RunSummary, split: str, direction: str) -> pd.DataFrame:
    """`margins` of the split, or of its sample. Shared: not to be changed."""
    return margins(open_summary(run), split, direction, sample=split_sample(run, split))  # type: ignore[arg-type]


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=BY_STAMP)
def occurrence_table(
    run: RunSummary, split: str, direction: str, k: int, queries: np.ndarray | None = None
) -> pd.DataFrame:
    """`occurrences` over the whole split, or of these queries. Shared: not to be changed."""
    return occurrences(open_summary(run), split, direction, k=k, queries=queries)  # type: ignore[arg-type]


@st.cache_data(max_entries=32, show_spinner=False, hash_funcs=BY_STAMP)
def answers(
    runs: Sequence[RunSummary], split: str, direction: str, at: int, queries: np.ndarray | None = None
) -> np.ndarray:
    """(runs, queries) bool: which of these queries (None: of all) each run answers within the first `at`; queries
    without a match are left out."""
    ranks = np.stack([open_summary(run).ranks(split)[direction] for run in runs])
    ranks = ranks if queries is None else ranks[:, queries]
    return np.asarray((ranks < at)[:, ranks[0] >= 0])


def hub_correction(run: RunSummary, split: str) -> StoredResult[HubCorrection]:
    """The corrected ranks that `python -m coder_core.evaluate --hub-correction` stored."""
    return api.stored_correction(open_summary(run), split)


def corrected_queries(
    run: RunSummary, split: str, direction: str, correction: HubCorrection, at: int
) -> pd.DataFrame:
    """`corrected_queries`: the answers that come or go with the correction."""
    return api.corrected_queries(open_summary(run), split, direction, correction, at)  # type: ignore[arg-type]


@st.cache_resource(
    max_entries=8, show_spinner="Comparing the captions with one another …", hash_funcs=BY_STAMP
)
def _text_vectors(run: RunSummary, split: str) -> np.ndarray | api.TfidfSpace | None:
    opened, sample = open_summary(run), split_sample(run, split)
    return api.text_vectors(opened, split) if sample is None else api.sampled_space(opened, split, sample)


@st.cache_resource(
    max_entries=32, show_spinner="Comparing the captions with one another …", hash_funcs=BY_STAMP
)
def likely_matches(run: RunSummary, split: str, direction: str) -> api.LikelyMatches | None:
    """`likely_matches`, of a large split those of a sample of its queries; None where the captions share no words.
    Shared: not to be changed."""
    vectors, opened = _text_vectors(run, split), open_summary(run)
    if vectors is None:
        return None
    sample = opened.query_sample(split)
    queries = None if sample is None else sample.texts if direction == "t2i" else sample.images
    return api.likely_matches(opened, split, direction, vectors, queries)  # type: ignore[arg-type]


def likely_results(run: RunSummary, split: str, direction: str, query: int) -> np.ndarray:
    """(l,) the best results of any query that are guessed to be matches."""
    opened, vectors = open_summary(run), _text_vectors(run, split)
    if split_sample(run, split) is None or vectors is None:
        guesses = likely_matches(run, split, direction)
    else:
        guesses = api.likely_matches(opened, split, direction, vectors, np.array([query]))  # type: ignore[arg-type]
    if guesses is None:
        return np.zeros(0, np.int64)
    analysis = opened.analysis(split)
    best = (analysis.text_best if direction == "t2i" else analysis.image_best)[query]
    return np.asarray(best)[guesses.likely()[query]]


@st.cache_data(max_entries=512, show_spinner=False, hash_funcs=BY_STAMP)
def search(
    run: RunSummary, query: str | int, split: str, modality: str = "text", top: int = 10
) -> pd.DataFrame:
    """`Run.search`; a free text loads the run's model the first time."""
    return open_summary(run).search(query, split=split, modality=modality, top=top)  # type: ignore[arg-type]


@st.cache_data(max_entries=512, show_spinner=False, hash_funcs=BY_STAMP)
def unknown_words(run: RunSummary, text: str) -> list[str]:
    """The words of a text that the run's training never saw (`Run.unknown_words`)."""
    return open_summary(run).unknown_words(text)


@st.cache_data(max_entries=64, show_spinner="Encoding the picture …", hash_funcs=BY_STAMP)
def search_picture(run: RunSummary, content: bytes, split: str, top: int = 10) -> pd.DataFrame:
    """The captions nearest to a new picture, for a run that `reads_pictures`."""
    query = open_summary(run).encode_picture(decode(content, "the picture"), split=split)
    return open_summary(run).search(query, split=split, modality="image", top=top)


@st.cache_data(max_entries=64, show_spinner="Looking for the most similar picture …", hash_funcs=BY_STAMP)
def look_alike(run: RunSummary, content: bytes, split: str) -> LookAlike:
    """The picture of the split whose pixels are most similar to a new picture."""
    return open_summary(run).look_alike(decode(content, "the picture"), split=split)
