"""Similarity matrices of a batch before and after diversity scaling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.runs import BY_STAMP, RunSummary, open_summary
from coder_core.api.diversity import Loss, Measure
from coder_core.api.sides import Direction, Sides
from coder_core.api.similarity import (
    MatrixSamples,
    Order,
    Pair,
    Scaled,
    Source,
    StartingValues,
    choose_samples,
    hardest_in_cell,
    labels,
    matrix_sides,
    matrix_table,
    open_pair,
    ordered,
    positions,
    scaled_matrix,
    spread_over,
    values_from_similarities,
)

__all__ = [
    "Direction",
    "Loss",
    "MatrixSamples",
    "Measure",
    "Pair",
    "Scaled",
    "Settings",
    "StartingValues",
    "batch_of",
    "hardest_negative",
    "labels",
    "matrices_table",
    "matrix",
    "own_values",
    "pair_at",
    "pair_numbers",
    "positions",
    "starting_loss",
]


@dataclass(frozen=True)
class Settings:
    """What the page lets one choose; two runs with the same settings show the same samples in the same order.

    Args:
        split: of the data. source, size, seed, chosen: as `choose_samples` takes them. order: of the samples.
        direction: which modality the anchors have. loss: μ, γ, ε and the measure of diversity.
        within: captions of the slice to draw from; None for the whole split.
    """

    split: str
    source: str
    size: int
    seed: int
    chosen: str
    order: str
    direction: Direction
    loss: Loss
    within: np.ndarray | None = None

    def without_sliders(self) -> Settings:
        """The same with the default μ, γ and ε: batch, order and spread do not depend on the sliders."""
        measure = Loss(function=self.loss.function, entropy_temperature=self.loss.entropy_temperature)
        return replace(self, loss=measure)


@st.cache_data(max_entries=64, show_spinner="Looking at the similarities …", hash_funcs=BY_STAMP)
def own_values(run: RunSummary, split: str) -> StartingValues:
    """μ and γ from the run's own similarities."""
    return values_from_similarities(open_summary(run), split)


def starting_loss(run: RunSummary, split: str) -> Loss:
    """The values the sliders start at: those of training; of imported embeddings, from their own similarities."""
    return own_values(run, split).loss if run.imported else open_summary(run).loss


def batch_of(run: RunSummary, settings: Settings) -> MatrixSamples:
    """The samples, chosen and ordered by this run.

    Raises:
        InputError: the settings give fewer than two pairs.
    """
    return _batch(run, settings.without_sliders())


@st.cache_data(max_entries=64, show_spinner="Ordering the samples …", hash_funcs=BY_STAMP)
def _batch(run: RunSummary, settings: Settings) -> MatrixSamples:
    opened, s = open_summary(run), settings
    source = cast(Source, s.source)
    batch = choose_samples(
        opened, s.split, source, size=s.size, seed=s.seed, chosen=s.chosen, within=s.within
    )
    return ordered(opened, s.split, batch, cast(Order, s.order), s.direction, s.loss)


@st.cache_data(max_entries=32, show_spinner=False, hash_funcs=BY_STAMP)
def _spread(run: RunSummary, by: RunSummary, settings: Settings) -> np.ndarray:
    return spread_over(_sides(run, settings, _batch(by, settings)), settings.loss)


def _sides(run: RunSummary, settings: Settings, batch: MatrixSamples) -> Sides:
    return matrix_sides(open_summary(run), settings.split, batch, settings.direction)


@st.cache_data(max_entries=32, show_spinner="Computing the matrix …", hash_funcs=BY_STAMP)
def matrix(run: RunSummary, by: RunSummary, settings: Settings) -> Scaled:
    """A run's matrix over the batch that the run `by` chose and ordered."""
    base = settings.without_sliders()
    batch, spread = _batch(by, base), _spread(run, by, base)
    return scaled_matrix(
        open_summary(run), settings.split, batch, settings.direction, settings.loss, spread=spread
    )


def pair_at(
    run: RunSummary, settings: Settings, batch: MatrixSamples, scaled: Scaled, cell: tuple[int, int]
) -> tuple[int, int]:
    """The image and the caption (rows in the split) of a cell; of a block, those of its most similar negative."""
    anchor, candidate = hardest_in_cell(_sides(run, settings, batch), scaled, *cell)
    image, text = (anchor, candidate) if settings.direction == "i2t" else (candidate, anchor)
    return int(batch.images[image]), int(batch.texts[text])


def hardest_negative(
    run: RunSummary, settings: Settings, batch: MatrixSamples, scaled: Scaled
) -> tuple[int, int]:
    """The image and the caption of the most similar negative (of blocks: in the most similar block)."""
    negatives = np.where(np.isnan(scaled.exponent), -np.inf, scaled.similarity)
    cell = np.unravel_index(int(negatives.argmax()), negatives.shape)
    return pair_at(run, settings, batch, scaled, (int(cell[0]), int(cell[1])))


def pair_numbers(
    run: RunSummary, settings: Settings, batch: MatrixSamples, scaled: Scaled, cell: tuple[int, int]
) -> Pair:
    """Every number of one pair; `cell` is (anchor, candidate) in the batch."""
    return open_pair(_sides(run, settings, batch), scaled.spread, scaled.loss, *cell, paired=batch.paired)


def matrices_table(scaled: dict[str, Scaled], batch: MatrixSamples, settings: Settings) -> pd.DataFrame:
    """All cells of all runs, with the run's name in front."""
    tables = {name: matrix_table(matrices, batch, settings.direction) for name, matrices in scaled.items()}
    return pd.concat(tables, names=["run"]).reset_index(level="run").reset_index(drop=True)
