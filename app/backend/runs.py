"""List and open runs; their pictures, histories, and samples of large splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import streamlit as st
from threadpoolctl import threadpool_limits

from app.backend.jobs import runs_root
from coder_core.api import (
    METRICS,
    ORIGINS,
    InputError,
    Loss,
    Run,
    RunSummary,
    Sample,
    SplitSamples,
    config_differences,
    facts,
    list_runs,
    numbers_from,
    open_run,
    same_samples,
)

__all__ = [
    "BY_STAMP",
    "METRICS",
    "ORIGINS",
    "InputError",
    "Loss",
    "Run",
    "RunSummary",
    "Sample",
    "SplitSamples",
    "all_runs",
    "analysis_fault",
    "comparable",
    "configuration_changes",
    "epochs",
    "facts",
    "has_embeddings",
    "history_faults",
    "numbers_from",
    "open_summary",
    "read_each",
    "run_faults",
    "runs_root",
    "split_sample",
    "steps",
    "thumbnail",
    "thumbnails",
]

# Several visitors share the server, and no page multiplies more than takes one processor a second: a second thread of
# linear algebra mostly spins while it waits (a PCA map: 1.0 s of processor time with two threads, 0.06 with one).
threadpool_limits(1, user_api="blas")

LISTING_SECONDS = 2
Part = TypeVar("Part")
BY_STAMP: dict[str | type[Any], Callable[[Any], Any]] = {RunSummary: lambda run: (str(run.path), run.stamp)}


def all_runs() -> list[RunSummary]:
    """Every run, by name, damaged ones included."""
    return _runs_in(str(runs_root()))


@st.cache_data(ttl=LISTING_SECONDS, show_spinner=False)
def _runs_in(root: str) -> list[RunSummary]:
    return list_runs(root)


def run_faults() -> list[tuple[str, str]]:
    """Name and fault of every damaged run, and of every damaged analysis."""
    return [(run.name, fault) for run in all_runs() for fault in (run.fault, *run.damaged.values()) if fault]


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=BY_STAMP)
def open_summary(run: RunSummary) -> Run:
    """The run behind a summary; its arrays stay mapped and its statistics are kept."""
    return open_run(run.path)


@st.cache_data(max_entries=256, show_spinner=False, hash_funcs=BY_STAMP)
def analysis_fault(run: RunSummary, split: str) -> str:
    """What is wrong with the analysis of a split; "" when every byte is as it was written."""
    try:
        analysis = open_summary(run).analysis(split)
        _ = analysis.captions, analysis.image_names, analysis.packed_pictures
    except InputError as error:
        return str(error)
    return ""


def has_embeddings(run: RunSummary, split: str) -> bool:
    """Whether every sample of the split has one embedding; otherwise the run scores pairs."""
    return open_summary(run).scores(split) is None


@st.cache_data(ttl=LISTING_SECONDS, show_spinner=False, hash_funcs=BY_STAMP)
def epochs(run: RunSummary) -> pd.DataFrame:
    """One row per finished epoch; read anew every two seconds, because the run may be training."""
    return open_run(run.path).history


@st.cache_data(ttl=LISTING_SECONDS, show_spinner=False, hash_funcs=BY_STAMP)
def steps(run: RunSummary) -> pd.DataFrame:
    """One row every few training steps; "epoch" is a fraction here."""
    return open_run(run.path).steps


@st.cache_data(ttl=LISTING_SECONDS, show_spinner=False, hash_funcs=BY_STAMP)
def history_faults(run: RunSummary) -> list[str]:
    """Sentences on lost or damaged parts of the curves."""
    return open_run(run.path).history_faults


def read_each(
    runs: Sequence[RunSummary], read: Callable[[RunSummary], Part]
) -> tuple[dict[str, Part], list[tuple[str, str]]]:
    """What `read` returns of every run, by name; and of those where it is damaged, name and fault."""
    parts, faults = {}, []
    for run in runs:
        try:
            parts[run.name] = read(run)
        except InputError as error:
            faults.append((run.name, str(error)))
    return parts, faults


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=BY_STAMP)
def split_sample(run: RunSummary, split: str) -> Sample | None:
    """A random sample of a split too large to analyse completely; None for others. Two runs on one split share it."""
    return open_summary(run).sample(split)


@st.cache_resource(max_entries=256, show_spinner=False, hash_funcs=BY_STAMP)
def comparable(first: RunSummary, second: RunSummary, split: str) -> bool:
    """Whether the two runs' analyses of the split are of the same samples."""
    try:
        return same_samples(open_summary(first), open_summary(second), split)
    except InputError:
        return False


def configuration_changes(runs: Sequence[RunSummary]) -> pd.DataFrame:
    """The settings in which the runs' configurations differ."""
    return config_differences({run.name: run.config for run in runs})


@st.cache_data(max_entries=4096, show_spinner=False, hash_funcs=BY_STAMP)
def thumbnail(run: RunSummary, split: str, image: int, size: int = 280) -> bytes | None:
    """A picture as JPEG bytes; None when there is none."""
    return open_summary(run).picture(split, image, size)


def thumbnails(
    run: RunSummary, split: str, images: Sequence[int] | np.ndarray, size: int = 96
) -> list[bytes | None]:
    """Pictures of several images, in order."""
    return [thumbnail(run, split, int(image), size) for image in images]
