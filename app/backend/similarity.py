"""The door to the matrices of the Similarity page; kept by run, stamp and parameters likewise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.runs import RunSummary, open_summary
from coder_core.api.diversity.anchor import Loss
from coder_core.api.diversity.table import Measure
from coder_core.api.sides import Direction
from coder_core.api.similarity.batch import Batch, Order, Source, choose_batch
from coder_core.api.similarity.matrices import (
    batch_spread,
    hardest_in_cell,
    labels,
    matrix_table,
    ordered,
    positions,
    scaled_matrix,
    scaled_pair,
)
from coder_core.api.similarity.scaling import Pair, Scaled

__all__ = [
    "Batch", "Direction", "Loss", "Measure", "Pair", "Scaled", "Settings", "batch_of", "hardest", "labels", "matrix",
    "opened", "pair_at", "positions", "table",
]  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Everything the page lets one choose; two runs with the same settings show the same samples in the same order.

    Args:
        split: of the data. source, size, seed, chosen: the batch, as `choose_batch` takes them. order: of the samples.
        direction: who is the anchor. loss: μ, γ, ε and the measure of diversity.
    """

    split: str
    source: str
    size: int
    seed: int
    chosen: str
    order: str
    direction: Direction
    loss: Loss


@st.cache_data(max_entries=64, show_spinner="Putting the samples in order …")
def _batch(path: str, stamp: str, settings: Settings, _run: RunSummary) -> Batch:
    run, s = open_summary(_run), settings
    batch = choose_batch(run, s.split, cast(Source, s.source), size=s.size, seed=s.seed, chosen=s.chosen)
    return ordered(run, s.split, batch, cast(Order, s.order), s.direction, s.loss)


def batch_of(run: RunSummary, settings: Settings) -> Batch:
    """The samples, chosen and ordered by this run.

    Raises:
        InputError: the settings give fewer than two pairs.
    """
    return _batch(str(run.path), run.stamp, _without_sliders(settings), run)  # the order does not follow the sliders


def _without_sliders(settings: Settings) -> Settings:
    """The settings with the measure of diversity, and the usual μ, γ, ε: all that stays when a slider is moved."""
    loss = Loss(function=settings.loss.function, entropy_temperature=settings.loss.entropy_temperature)
    return replace(settings, loss=loss)


@st.cache_data(max_entries=32, show_spinner=False)
def _spread(
    path: str, stamp: str, by: tuple[str, str], settings: Settings, _run: RunSummary, _batch: Batch
) -> np.ndarray:
    return batch_spread(open_summary(_run), settings.split, _batch, settings.direction, settings.loss)


@st.cache_data(max_entries=32, show_spinner="Computing the matrix …")
def _matrix(path: str, stamp: str, by: tuple[str, str], settings: Settings, _run: RunSummary, _batch: Batch) -> Scaled:
    spread = _spread(path, stamp, by, _without_sliders(settings), _run, _batch)
    return scaled_matrix(open_summary(_run), settings.split, _batch, settings.direction, settings.loss, spread=spread)


def matrix(run: RunSummary, by: RunSummary, settings: Settings, batch: Batch) -> Scaled:
    """A run's matrix over the batch that the run `by` chose and ordered."""
    return _matrix(str(run.path), run.stamp, (str(by.path), by.stamp), settings, run, batch)


def pair_at(
    run: RunSummary, settings: Settings, batch: Batch, scaled: Scaled, cell: tuple[int, int]
) -> tuple[int, int]:
    """The image and the caption (rows in the split) of a cell; of a block, those of its most similar negative."""
    anchor, candidate = hardest_in_cell(open_summary(run), settings.split, batch, settings.direction, scaled, *cell)
    image, text = (anchor, candidate) if settings.direction == "i2t" else (candidate, anchor)
    return int(batch.images[image]), int(batch.texts[text])


def hardest(run: RunSummary, settings: Settings, batch: Batch, scaled: Scaled) -> tuple[int, int]:
    """The image and the caption of the most similar negative (of blocks: in the most similar block)."""
    found = np.where(np.isnan(scaled.exponent), -np.inf, scaled.similarity)
    cell = np.unravel_index(int(found.argmax()), found.shape)
    return pair_at(run, settings, batch, scaled, (int(cell[0]), int(cell[1])))


def opened(run: RunSummary, settings: Settings, batch: Batch, scaled: Scaled, place: tuple[int, int]) -> Pair:
    """Every number of one pair; `place` is (anchor, candidate) in the batch."""
    return scaled_pair(open_summary(run), settings.split, batch, settings.direction, scaled, *place)


def table(scaled: dict[str, Scaled], batch: Batch, settings: Settings) -> pd.DataFrame:
    """All cells of all runs, with the run's name in front."""
    parts = []
    for name, matrices in scaled.items():
        part = matrix_table(matrices, batch, settings.direction)
        part.insert(0, "run", name)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)
