"""The door: the only file of the app that asks `coder_core`, and the only one that caches.

Everything is keyed by a run's path, its stamp (which changes when its analysis is written anew) and the parameters;
arrays are never hashed. A run's name from a widget or the URL is matched against the names there are, never joined.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st
from threadpoolctl import threadpool_limits

from app.backend import jobs
from app.backend.jobs import runs_root
from coder_core.api import (
    BANK_SIZE,
    METRICS,
    OUTCOMES,
    Anchor,
    InputError,
    LookAlike,
    Loss,
    Run,
    RunSummary,
    Sample,
    compare,
    config_differences,
    decode,
    diversity_changes,
    facts,
    found_by,
    hubness,
    jpeg,
    list_runs,
    margins,
    occurrences,
    open_run,
    rank_correlation,
    same_samples,
)

__all__ = [
    "BANK_SIZE", "METRICS", "OUTCOMES", "Anchor", "InputError", "Loss", "Run", "RunSummary", "Sample", "anchor",
    "changes", "comparable", "configuration_changes", "decode", "diversity", "diversity_changes", "epochs", "facts",
    "found_by_queries", "has_embeddings", "hubness", "job", "jpeg", "look_alike", "margin_table", "occurrence_table",
    "open_summary", "rank_correlation", "runs", "runs_root", "sample", "search", "search_picture", "spread",
    "start_demo", "steps", "stop_job", "thumbnail", "thumbnails",
]  # fmt: skip

# Several visitors share the server, and no page multiplies more than takes one processor a second: a second thread of
# linear algebra mostly waits, spinning, for its turn (a principal plane: 1.0 s of processor time with two, 0.06 alone).
threadpool_limits(1, user_api="blas")

LISTING_SECONDS = 2
OPEN_RUNS = 8


@st.cache_data(ttl=LISTING_SECONDS, show_spinner=False)
def _listed(root: str) -> list[RunSummary]:
    return list_runs(root)


def runs() -> list[RunSummary]:
    """Every run, by name, damaged ones included."""
    return _listed(str(runs_root()))


@st.cache_resource(max_entries=OPEN_RUNS, show_spinner=False)
def _opened(path: str, stamp: str) -> Run:
    return open_run(path)


def open_summary(summary: RunSummary) -> Run:
    """The run behind a summary; its arrays stay memory-mapped and its statistics are kept."""
    return _opened(str(summary.path), summary.stamp)


def has_embeddings(summary: RunSummary, split: str) -> bool:
    """Whether every sample of the split has one embedding; otherwise the run scores pairs."""
    return open_summary(summary).scores(split) is None


@st.cache_data(ttl=LISTING_SECONDS, show_spinner=False)
def _history(path: str, event: str) -> pd.DataFrame:
    run = open_run(path)
    return run.history if event == "epoch" else run.steps


def epochs(summary: RunSummary) -> pd.DataFrame:
    """One row for every finished epoch."""
    return _history(str(summary.path), "epoch")


def steps(summary: RunSummary) -> pd.DataFrame:
    """One row every few training steps; "epoch" is a fraction here."""
    return _history(str(summary.path), "step")


def diversity(summary: RunSummary, split: str, **settings: object) -> pd.DataFrame:
    """`Run.diversity`; the run keeps what is expensive, so a new ε costs nothing."""
    return open_summary(summary).diversity(split, **settings)  # type: ignore[arg-type]


def spread(summary: RunSummary, split: str, **settings: object) -> np.ndarray:
    """`Run.spread`, kept by the run."""
    return open_summary(summary).spread(split, **settings)  # type: ignore[arg-type]


def anchor(summary: RunSummary, number: int, split: str, **settings: object) -> Anchor:
    """`Run.anchor`."""
    return open_summary(summary).anchor(number, split=split, **settings)  # type: ignore[arg-type]


@st.cache_resource(max_entries=64, show_spinner=False)
def _sample(path: str, stamp: str, split: str) -> Sample | None:
    return _opened(path, stamp).sample(split)


def sample(summary: RunSummary, split: str) -> Sample | None:
    """The random part of a split too large to look at whole; None for the others. Two runs on one split share it."""
    return _sample(str(summary.path), summary.stamp, split)


@st.cache_resource(max_entries=32, show_spinner=False)
def _margins(path: str, stamp: str, split: str, direction: str) -> pd.DataFrame:
    run = _opened(path, stamp)
    return margins(run, split, direction, sample=_sample(path, stamp, split))  # type: ignore[arg-type]


def margin_table(summary: RunSummary, split: str, direction: str) -> pd.DataFrame:
    """`margins` of the split, or of its sample. Shared: not to be changed."""
    return _margins(str(summary.path), summary.stamp, split, direction)


@st.cache_resource(max_entries=64, show_spinner=False)
def _occurrences(path: str, stamp: str, split: str, direction: str, k: int) -> pd.DataFrame:
    return occurrences(_opened(path, stamp), split, direction, k=k)  # type: ignore[arg-type]


def occurrence_table(summary: RunSummary, split: str, direction: str, k: int) -> pd.DataFrame:
    """`occurrences` over the whole split. Shared: not to be changed."""
    return _occurrences(str(summary.path), summary.stamp, split, direction, k)


def found_by_queries(summary: RunSummary, split: str, direction: str, candidate: int, k: int) -> pd.DataFrame:
    """`found_by`."""
    return found_by(open_summary(summary), split, direction, candidate, k=k)  # type: ignore[arg-type]


@st.cache_data(max_entries=64, show_spinner="Encoding the picture …")
def _search_picture(path: str, stamp: str, content: bytes, split: str, top: int) -> pd.DataFrame:
    run = _opened(path, stamp)
    query = run.encode_picture(decode(content, "the picture"), split=split)
    return run.search(query, split=split, modality="image", top=top)


def search_picture(summary: RunSummary, content: bytes, split: str, top: int = 10) -> pd.DataFrame:
    """The captions nearest to a new picture, for a run that `reads_pictures`."""
    return _search_picture(str(summary.path), summary.stamp, content, split, top)


@st.cache_data(max_entries=64, show_spinner="Looking for the picture most like it …")
def _look_alike(path: str, stamp: str, content: bytes, split: str) -> LookAlike:
    return _opened(path, stamp).look_alike(decode(content, "the picture"), split=split)


def look_alike(summary: RunSummary, content: bytes, split: str) -> LookAlike:
    """The picture of the split most like a new one, by its pixels."""
    return _look_alike(str(summary.path), summary.stamp, content, split)


@st.cache_data(max_entries=512, show_spinner=False)
def _search(path: str, stamp: str, query: str | int, split: str, modality: str, top: int) -> pd.DataFrame:
    return _opened(path, stamp).search(query, split=split, modality=modality, top=top)  # type: ignore[arg-type]


def search(summary: RunSummary, query: str | int, split: str, modality: str = "text", top: int = 10) -> pd.DataFrame:
    """`Run.search`; a free text loads the run's model the first time."""
    return _search(str(summary.path), summary.stamp, query, split, modality, top)


@st.cache_resource(max_entries=256, show_spinner=False)
def _comparable(paths: tuple[str, str], stamps: tuple[str, str], split: str) -> bool:
    first, second = (_opened(path, stamp) for path, stamp in zip(paths, stamps, strict=True))
    try:
        return same_samples(first, second, split)
    except InputError:
        return False


def comparable(first: RunSummary, second: RunSummary, split: str) -> bool:
    """Whether the two runs' analyses of the split are of the same samples."""
    return _comparable((str(first.path), str(second.path)), (first.stamp, second.stamp), split)


@st.cache_resource(max_entries=32, show_spinner=False)
def _changes(paths: tuple[str, str], stamps: tuple[str, str], split: str, at: int) -> pd.DataFrame:
    first, second = (_opened(path, stamp) for path, stamp in zip(paths, stamps, strict=True))
    return compare(first, second, split, at=at)


def changes(first: RunSummary, second: RunSummary, split: str, at: int) -> pd.DataFrame:
    """`compare`: rank change of every query, both directions. Shared: not to be changed."""
    return _changes((str(first.path), str(second.path)), (first.stamp, second.stamp), split, at)


def configuration_changes(summaries: Sequence[RunSummary]) -> pd.DataFrame:
    """The values in which the runs' configurations differ."""
    return config_differences({run.name: run.config for run in summaries})


@st.cache_data(max_entries=4096, show_spinner=False)
def _thumbnail(path: str, stamp: str, split: str, image: int, size: int) -> bytes | None:
    return _opened(path, stamp).picture(split, image, size)


def thumbnail(summary: RunSummary, split: str, image: int, size: int = 280) -> bytes | None:
    """A picture as JPEG bytes; None when there is none."""
    return _thumbnail(str(summary.path), summary.stamp, split, int(image), size)


def thumbnails(
    summary: RunSummary, split: str, images: Sequence[int] | np.ndarray, size: int = 96
) -> list[bytes | None]:
    """Pictures of several images, in order."""
    return [thumbnail(summary, split, int(image), size) for image in images]


def job() -> jobs.Job | None:
    """The training process started from the app, running or over."""
    return jobs.current()


def start_demo() -> jobs.Job:
    """Train the demo pair in a process of its own; one at a time."""
    return jobs.start_demo()


def stop_job() -> None:
    """Ask the training process to save and leave."""
    jobs.stop()
