"""Maps of the joint space, its modality gap and its similarity distributions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.jobs import module_command
from app.backend.runs import BY_STAMP, RunSummary, open_summary
from coder_core.api import joint_space
from coder_core.api.joint_space import (
    FEWEST,
    METHODS,
    MOST_TSNE,
    Distributions,
    Layout,
    LayoutSettings,
    Method,
    Modalities,
    ModalityGap,
    Separation,
    draw_points,
    layout_seconds,
    principal_layout,
    stored_layout,
)
from coder_core.api.sampling import Sample
from coder_core.api.stored import StoredResult

__all__ = [
    "FEWEST",
    "METHODS",
    "MOST_TSNE",
    "Distributions",
    "Layout",
    "LayoutSettings",
    "Method",
    "Modalities",
    "ModalityGap",
    "Sample",
    "Separation",
    "distributions",
    "draw_points",
    "layout_seconds",
    "map_command",
    "modality_gap",
    "points_sample",
    "principal_maps",
    "samples",
    "score_distributions",
    "score_separation",
    "selection_table",
    "stored_maps",
]


@st.cache_resource(max_entries=32, show_spinner=False, hash_funcs=BY_STAMP)
def points_sample(run: RunSummary, split: str) -> Sample | None:
    """The random sample that a large split opens with; None for a small split. Two runs on one split share it."""
    return open_summary(run).points_sample(split)


def _sample(run: RunSummary, split: str, sampled: bool) -> Sample | None:
    return points_sample(run, split) if sampled else None


@st.cache_resource(max_entries=16, show_spinner="Measuring every sample …", hash_funcs=BY_STAMP)
def samples(run: RunSummary, split: str, sampled: bool) -> pd.DataFrame:
    """Every sample (`sampled`: those of `points_sample`) in the order of a map's points. Shared: not to be changed."""
    return joint_space.samples(open_summary(run), split, sample=_sample(run, split, sampled))


@st.cache_data(max_entries=32, show_spinner=False, hash_funcs=BY_STAMP)
def modality_gap(run: RunSummary, split: str, sampled: bool) -> ModalityGap:
    """The modality gap and the mean similarities."""
    return joint_space.modality_gap(open_summary(run), split, sample=_sample(run, split, sampled))


@st.cache_data(max_entries=32, show_spinner="Counting similarities …", hash_funcs=BY_STAMP)
def distributions(run: RunSummary, split: str, sampled: bool) -> Distributions:
    """How often each similarity occurs among matching and among other pairs."""
    return joint_space.distributions(open_summary(run), split, sample=_sample(run, split, sampled))


@st.cache_data(max_entries=64, show_spinner=False, hash_funcs=BY_STAMP)
def score_separation(run: RunSummary, split: str) -> Separation:
    """The mean score of matching and of other pairs, over the whole split."""
    return joint_space.score_separation(open_summary(run), split)


@st.cache_data(max_entries=64, show_spinner="Counting similarities …", hash_funcs=BY_STAMP)
def score_distributions(run: RunSummary, split: str) -> Distributions:
    """How often each score occurs among matching and among other pairs."""
    return joint_space.score_distributions(open_summary(run), split)


@st.cache_resource(max_entries=16, show_spinner="Computing the PCA map …", hash_funcs=BY_STAMP)
def principal_maps(
    runs: Sequence[RunSummary], split: str, sampled: bool, modalities: Modalities
) -> list[Layout]:
    """The PCA map of every run, the second aligned to the first. Fast enough to be computed at once."""
    sample = _sample(runs[0], split, sampled)
    first, *others = (open_summary(run) for run in runs)
    reference = principal_layout(first, split, sample=sample, modalities=modalities)
    return [reference] + [
        principal_layout(run, split, reference, sample=sample, modalities=modalities) for run in others
    ]


def stored_maps(
    runs: Sequence[RunSummary], split: str, settings: LayoutSettings
) -> list[StoredResult[Layout]]:
    """Maps computed before, the second aligned to the first; read anew each time, every byte checked."""
    first = open_summary(runs[0])
    others = [stored_layout(open_summary(run), split, settings, first) for run in runs[1:]]
    return [stored_layout(first, split, settings), *others]


def map_command(runs: Sequence[RunSummary], split: str, settings: LayoutSettings) -> tuple[str, ...]:
    """The command that computes these maps."""
    values = [
        "--split",
        split,
        "--method",
        settings.method,
        "--neighbours",
        str(settings.neighbours),
        "--min-distance",
        repr(settings.min_distance),
        "--perplexity",
        repr(settings.perplexity),
        "--seed",
        str(settings.seed),
        "--modalities",
        settings.modalities,
    ]
    return module_command("coder_core.project", *(str(run.path) for run in runs), *values)


def selection_table(
    runs: Sequence[RunSummary],
    tables: Sequence[pd.DataFrame],
    planes: Sequence[np.ndarray],
    points: np.ndarray,
) -> pd.DataFrame:
    """The selected samples as one table: what they are, then every run's numbers under "column (run)".

    The gain compares two runs, so it stands there once.
    """
    shared = [name for name in ("modality", "number", "image", "text", "words", "gain") if name in tables[0]]
    selection = tables[0].iloc[points][shared].reset_index(drop=True)
    for run, table, plane in zip(runs, tables, planes, strict=True):
        suffix = f" ({run.name})" if len(runs) > 1 else ""
        own = table.iloc[points].drop(columns=shared).reset_index(drop=True)
        own["x"], own["y"] = plane[points, 0], plane[points, 1]
        selection = selection.join(own.add_suffix(suffix))
    return selection
