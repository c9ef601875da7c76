"""Read and write people's verdicts, in a file that whoever started the app named, or beside data or runs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.jobs import runs_root
from app.backend.retrieval import likely_matches, margin_table
from app.backend.runs import BY_STAMP, RunSummary, open_summary, split_sample
from app.backend.training import DataSet, data_sets
from coder_core.api import reviews as api
from coder_core.api.reviews import LONGEST, LONGEST_TAG, MOST_TAGS, VERDICTS, Review, ReviewedSplit, Reviews

__all__ = [
    "LONGEST",
    "LONGEST_TAG",
    "MOST_TAGS",
    "QUEUES",
    "VERDICTS",
    "Review",
    "ReviewedSplit",
    "Reviews",
    "agreement",
    "data_folder",
    "file_of",
    "give",
    "load",
    "of_data",
    "own_verdicts",
    "queue",
    "recall",
    "reviewed_split",
    "same_data",
    "undo",
]

QUEUES = {"ambiguous": "Most ambiguous", "near": "Near misses", "likely": "Likely matches"}


def file_of(run: RunSummary) -> Path:
    """Where verdicts on the samples of a run go."""
    return of_data(str(run.config.get("data", {}).get("data", "")))


def of_data(data: str) -> Path:
    """Where verdicts on a data set go: the file in CODER_REVIEWS, or reviews.jsonl beside the data or the runs."""
    named = os.environ.get("CODER_REVIEWS")
    return Path(named) if named else _data_folder(data, str(runs_root())) / api.FILE


def data_folder(run: RunSummary) -> Path:
    """The folder of a run's data, where that is one of the data sets that the app offers; else that of the runs."""
    return _data_folder(str(run.config.get("data", {}).get("data", "")), str(runs_root()))


@st.cache_data(ttl=30, max_entries=64, show_spinner=False)
def _data_folder(data: str, root: str) -> Path:
    return api.data_folder(
        data, [Path(entry.path) for entry in data_sets() if entry.path != "demo"], Path(root)
    )


def same_data(entry: DataSet, data: str) -> bool:
    """Whether a data set is the one that a run's configuration names."""
    if entry.path == "demo" or data == "demo":
        return entry.path == data
    return Path(entry.path).resolve() == Path(data).resolve()


def load(path: Path) -> Reviews:
    """What the file says now; a missing one says nothing.

    Raises:
        InputError: the file holds something else.
    """
    try:
        state = path.stat()
    except FileNotFoundError:
        return Reviews()
    return _load(path, state.st_mtime_ns, state.st_size, state.st_ino)


@st.cache_resource(max_entries=8, show_spinner=False)
def _load(path: Path, changed: int, size: int, inode: int) -> Reviews:
    return api.read_reviews(path)


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=BY_STAMP)
def reviewed_split(run: RunSummary, split: str) -> ReviewedSplit:
    """What the split's images and captions are called in reviews."""
    return ReviewedSplit.of(open_summary(run), split)


def give(
    run: RunSummary,
    split: str,
    image: int,
    caption: int | None,
    verdict: str,
    reviewer: str,
    tags: tuple[str, ...] = (),
    note: str = "",
) -> None:
    """Append a verdict on a pair of the split; without a caption on the image with all its captions.

    Raises:
        InputError: a text is too long, or the file cannot be written.
    """
    key, text = reviewed_split(run, split).pair(image, caption)
    assert verdict in VERDICTS
    api.append_review(file_of(run), Review(key, text, verdict, reviewer, tags, note))


def undo(run: RunSummary, review: Review) -> None:
    """Take a verdict back."""
    api.append_undo(file_of(run), review.id, review.reviewer)


def own_verdicts(run: RunSummary, reviewer: str) -> dict[tuple[str, str], Review]:
    """Pair → what this reviewer says of it now, the last verdict last."""
    return load(file_of(run)).by_reviewer.get(reviewer, {})


@st.cache_resource(max_entries=16, show_spinner="Choosing pairs …", hash_funcs=BY_STAMP)
def queue(run: RunSummary, split: str, kind: str, within: np.ndarray | None = None) -> list[tuple[int, int]]:
    """(image, caption) of at most 50 pairs to judge, the most telling first; `kind` is one of `QUEUES`, `within` the
    captions to choose from (None: all)."""
    opened, sample = open_summary(run), split_sample(run, split)
    within = np.arange(opened.count(split, "text")) if within is None else within
    if kind == "ambiguous":
        table = opened.diversity(split, sample=sample)
        return api.ambiguous_pairs(table[table["anchor"].isin(within)], opened.image_of_text(split))
    if kind == "near":
        table = margin_table(run, split, "t2i")
        return api.near_miss_pairs(table[table["query"].isin(within)])
    likely = likely_matches(run, split, "t2i")
    return [] if likely is None else api.likely_pairs(likely, opened.analysis(split).text_best, within)


def recall(run: RunSummary, split: str, within: np.ndarray | None = None) -> pd.DataFrame:
    """`reviewed_recall` of what the file says now, over the captions `within` (None: all)."""
    reviews = load(file_of(run))
    return _recall(run, split, reviews.fingerprint(), reviews, within)


@st.cache_data(max_entries=16, show_spinner=False, hash_funcs=BY_STAMP)
def _recall(
    run: RunSummary, split: str, fingerprint: str, _reviews: Reviews, within: np.ndarray | None
) -> pd.DataFrame:
    return api.reviewed_recall(open_summary(run), split, reviewed_split(run, split), _reviews, within)


def agreement(reviews: Reviews) -> pd.DataFrame:
    """`agreement` of the reviewers of a file."""
    return api.agreement(reviews)
