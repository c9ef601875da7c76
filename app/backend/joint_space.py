"""The door to the joint space: maps, samples, gap, distributions; kept by run, stamp and parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.jobs import module_command
from app.backend.runs import RunSummary, _opened, open_summary
from coder_core.api.joint_space import geometry
from coder_core.api.joint_space.geometry import Distributions, Gap, Separation
from coder_core.api.joint_space.layouts import (
    METHODS,
    MOST_TSNE,
    Kept,
    Layout,
    LayoutSettings,
    Method,
    draw_points,
    kept_layout,
    principal_layout,
)
from coder_core.api.sampling import Sample

__all__ = [
    "METHODS", "MOST_TSNE", "Distributions", "Gap", "Kept", "Layout", "LayoutSettings", "Method", "Sample",
    "Separation", "distributions", "draw_points", "gap", "kept_maps", "map_command", "points_sample", "principal_maps",
    "samples", "score_distributions", "score_separation",
]  # fmt: skip


@st.cache_resource(max_entries=32, show_spinner=False)
def _points_sample(path: str, stamp: str, split: str) -> Sample | None:
    return _opened(path, stamp).points_sample(split)


def points_sample(run: RunSummary, split: str) -> Sample | None:
    """What a split too large to look at whole is opened with; None for the others. Two runs on one split share it."""
    return _points_sample(str(run.path), run.stamp, split)


def _drawn(path: str, stamp: str, split: str, part: bool) -> Sample | None:
    return _points_sample(path, stamp, split) if part else None


@st.cache_resource(max_entries=16, show_spinner="Measuring every sample …")
def _samples(path: str, stamp: str, split: str, part: bool) -> pd.DataFrame:
    return geometry.samples(_opened(path, stamp), split, sample=_drawn(path, stamp, split, part))


def samples(run: RunSummary, split: str, part: bool) -> pd.DataFrame:
    """Every sample, or with `part` those of `points_sample`, in the order of a map's points. Shared: never changed."""
    return _samples(str(run.path), run.stamp, split, part)


@st.cache_data(max_entries=32, show_spinner=False)
def _gap(path: str, stamp: str, split: str, part: bool) -> Gap:
    return geometry.gap(_opened(path, stamp), split, sample=_drawn(path, stamp, split, part))


def gap(run: RunSummary, split: str, part: bool) -> Gap:
    """The modality gap and the mean similarities, of all samples or of a part."""
    return _gap(str(run.path), run.stamp, split, part)


@st.cache_data(max_entries=32, show_spinner="Counting similarities …")
def _distributions(path: str, stamp: str, split: str, part: bool) -> Distributions:
    return geometry.distributions(_opened(path, stamp), split, sample=_drawn(path, stamp, split, part))


def distributions(run: RunSummary, split: str, part: bool) -> Distributions:
    """How often each similarity occurs among matching and among other pairs."""
    return _distributions(str(run.path), run.stamp, split, part)


@st.cache_data(max_entries=64, show_spinner=False)
def _score_separation(path: str, stamp: str, split: str) -> Separation:
    return geometry.score_separation(_opened(path, stamp), split)


def score_separation(run: RunSummary, split: str) -> Separation:
    """The mean score of matching and of other pairs, over the whole split."""
    return _score_separation(str(run.path), run.stamp, split)


@st.cache_data(max_entries=64, show_spinner="Counting similarities …")
def _score_distributions(path: str, stamp: str, split: str) -> Distributions:
    return geometry.score_distributions(_opened(path, stamp), split)


def score_distributions(run: RunSummary, split: str) -> Distributions:
    """How often each score occurs among matching and among other pairs."""
    return _score_distributions(str(run.path), run.stamp, split)


@st.cache_resource(max_entries=16, show_spinner="Finding the principal plane …")
def _principal(paths: tuple[str, ...], stamps: tuple[str, ...], split: str, part: bool) -> list[Layout]:
    first, *others = (_opened(path, stamp) for path, stamp in zip(paths, stamps, strict=True))
    sample = _drawn(paths[0], stamps[0], split, part)
    made = [principal_layout(first, split, sample=sample)]
    return made + [principal_layout(run, split, made[0], sample=sample) for run in others]


def principal_maps(runs: Sequence[RunSummary], split: str, part: bool) -> list[Layout]:
    """The principal plane of every run, the second laid over the first. Quick enough to be computed at once."""
    return _principal(tuple(str(run.path) for run in runs), tuple(run.stamp for run in runs), split, part)


def kept_maps(runs: Sequence[RunSummary], split: str, settings: LayoutSettings) -> list[Kept]:
    """The maps that were computed before, the second aligned to the first; read anew each time, every byte checked."""
    first = open_summary(runs[0])
    found = [kept_layout(first, split, settings)]
    return found + [kept_layout(open_summary(run), split, settings, first) for run in runs[1:]]


def map_command(runs: Sequence[RunSummary], split: str, settings: LayoutSettings) -> tuple[str, ...]:
    """The command that computes these maps."""
    values = [
        "--split", split, "--method", settings.method, "--neighbours", str(settings.neighbours), "--min-distance",
        repr(settings.min_distance), "--perplexity", repr(settings.perplexity), "--seed", str(settings.seed),
    ]  # fmt: skip
    return module_command("coder_core.project", *(str(run.path) for run in runs), *values)


def table_of(
    runs: Sequence[RunSummary], tables: Sequence[pd.DataFrame], planes: Sequence[np.ndarray], points: np.ndarray
) -> pd.DataFrame:
    """The chosen samples as one table: what they are, then every run's numbers under "column (run)"."""
    shared = ["modality", "number", "image", "text", "words"]
    chosen = tables[0].loc[points, shared].reset_index(drop=True)
    for run, table, plane in zip(runs, tables, planes, strict=True):
        suffix = f" ({run.name})" if len(runs) > 1 else ""
        own = table.loc[points].drop(columns=shared).reset_index(drop=True)
        own["x"], own["y"] = plane[points, 0], plane[points, 1]
        chosen = chosen.join(own.add_suffix(suffix))
    return chosen
