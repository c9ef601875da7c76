"""Judgements of which captions fit which images: files beside a run's data, or COCO's from eccv-caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.reviews import data_folder
from app.backend.runs import BY_STAMP, InputError, RunSummary, open_summary
from coder_core.api import retrieval as api
from coder_core.api.retrieval import JUDGED, LABELLED, Judgements, OtherSplitError

__all__ = ["JUDGED", "LABELLED", "Source", "recall", "results", "sources"]

State = tuple[int, ...]  # of a file: when it was changed, its size, which one it is


@dataclass(frozen=True)
class Source:
    """Judgements about a run's split.

    Args:
        run, split: whose. key: file name, or "eccv" or "cxc". label: as people know it. place: the file, or the key.
        state: of the file. fact: what it holds; fault: why it cannot be read, "" where it can.
    """

    run: RunSummary
    split: str
    key: str
    label: str
    place: str
    state: State
    fact: str = ""
    fault: str = ""


def sources(run: RunSummary, split: str) -> list[Source]:
    """Every source that speaks about this split of the run, the damaged ones with their fault."""
    files = []
    for file in api.judgement_files(data_folder(run)):
        try:
            status = file.stat()
        except OSError:  # it went meanwhile
            continue
        state = (status.st_mtime_ns, status.st_size, status.st_ino)
        files.append(Source(run, split, file.name, file.name, str(file), state))
    packages = [Source(run, split, key, label, key, ()) for key, label in api.judgement_packages().items()]
    read = [_described(source, packaged=not source.state) for source in (*files, *packages)]
    return [source for source in read if source is not None]


def _described(source: Source, *, packaged: bool) -> Source | None:
    judged = _read(source.run, source.split, source.place, source.state)
    if judged is None or (packaged and isinstance(judged, str)):  # of other images than COCO's
        return None
    fact, fault = ("", judged) if isinstance(judged, str) else (judged.fact, "")
    return Source(source.run, source.split, source.key, source.label, source.place, source.state, fact, fault)


@st.cache_resource(max_entries=32, show_spinner=False, hash_funcs=BY_STAMP)
def _read(run: RunSummary, split: str, place: str, state: State) -> Judgements | str | None:
    """The judgements; what is wrong with their file; None where it is about other splits."""
    try:
        return api.run_judgements(open_summary(run), split, Path(place) if state else place)
    except OtherSplitError:
        return None
    except (InputError, OSError) as error:
        return str(error)


def _judgements(source: Source) -> Judgements:
    judged = _read(source.run, source.split, source.place, source.state)
    assert isinstance(judged, Judgements)
    return judged


def results(source: Source, run: RunSummary, direction: str) -> np.ndarray:
    """`judged_results` of a run on the source's samples."""
    return _results(run, source.split, direction, source.place, source.state, _judgements(source))


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=BY_STAMP)
def _results(
    run: RunSummary, split: str, direction: str, place: str, state: State, _judged: Judgements
) -> np.ndarray:
    return api.judged_results(open_summary(run), split, direction, _judged)  # type: ignore[arg-type]


def recall(
    source: Source, runs: Sequence[RunSummary], queries: Mapping[str, np.ndarray] | None = None
) -> pd.DataFrame:
    """`judged_recall` of runs on the source's samples, over the queries of each direction or all."""
    judged = _judgements(source)
    values = [_values(run, source.split, source.place, source.state, judged) for run in runs]
    return api.judged_recall([run.name for run in runs], values, queries)


@st.cache_resource(max_entries=32, show_spinner="Ranking by the judgements …", hash_funcs=BY_STAMP)
def _values(run: RunSummary, split: str, place: str, state: State, _judged: Judgements) -> pd.DataFrame:
    return api.judged_values(open_summary(run), split, _judged)
