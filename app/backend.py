"""The door: the only file of the app that asks `coder_core`, and the only one that caches.

Everything is keyed by a run's path, its stamp (which changes when its analysis is written anew) and the parameters;
arrays are never hashed. A run's name from a widget or the URL is matched against the names there are, never joined.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from app import jobs
from coder_core.api import (
    METRICS,
    OUTCOMES,
    Anchor,
    InputError,
    Run,
    RunSummary,
    compare,
    config_differences,
    facts,
    list_runs,
    open_run,
)

__all__ = [
    "METRICS", "OUTCOMES", "Anchor", "InputError", "Run", "RunSummary", "anchor", "changes", "configuration_changes",
    "diversity", "epochs", "facts", "job", "open_summary", "runs", "runs_root", "search", "start_demo",
    "steps", "stop_job",
    "thumbnail", "thumbnails",
]  # fmt: skip

LISTING_SECONDS = 2
OPEN_RUNS = 8


def runs_root() -> Path:
    """The folder of runs: CODER_CHECKPOINTS, or checkpoints/ beside the app."""
    return Path(os.environ.get("CODER_CHECKPOINTS") or jobs.PROJECT / "checkpoints").resolve()


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


def anchor(summary: RunSummary, number: int, split: str, **settings: object) -> Anchor:
    """`Run.anchor`."""
    return open_summary(summary).anchor(number, split=split, **settings)  # type: ignore[arg-type]


@st.cache_data(max_entries=512, show_spinner=False)
def _search(path: str, stamp: str, query: str | int, split: str, modality: str, top: int) -> pd.DataFrame:
    return _opened(path, stamp).search(query, split=split, modality=modality, top=top)  # type: ignore[arg-type]


def search(summary: RunSummary, query: str | int, split: str, modality: str = "text", top: int = 10) -> pd.DataFrame:
    """`Run.search`; a free text loads the run's model the first time."""
    return _search(str(summary.path), summary.stamp, query, split, modality, top)


@st.cache_data(max_entries=32, show_spinner=False)
def _changes(paths: tuple[str, str], stamps: tuple[str, str], split: str, at: int) -> pd.DataFrame:
    first, second = (_opened(path, stamp) for path, stamp in zip(paths, stamps, strict=True))
    return compare(first, second, split, at=at)


def changes(first: RunSummary, second: RunSummary, split: str, at: int) -> pd.DataFrame:
    """`compare`: rank change of every query, both directions."""
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
    return jobs.current(runs_root())


def start_demo() -> jobs.Job:
    """Train the demo pair in a process of its own; one at a time."""
    return jobs.start(runs_root())


def stop_job() -> None:
    """Ask the training process to save and leave."""
    jobs.stop(runs_root())
