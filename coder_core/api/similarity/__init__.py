"""Similarity matrices of a batch or a split, before and after diversity scaling. CODER eq. 4."""

from coder_core.api.similarity.matrices import (
    hardest_in_cell,
    labels,
    matrix_sides,
    matrix_table,
    ordered,
    positions,
    scaled_matrix,
)
from coder_core.api.similarity.samples import MatrixSamples, Order, Source, choose_samples
from coder_core.api.similarity.scaling import Pair, Scaled, anchor_diversity, open_pair, scale, spread_over
from coder_core.api.similarity.starting_values import StartingValues, values_from_similarities

__all__ = [
    "MatrixSamples",
    "Order",
    "Pair",
    "Scaled",
    "Source",
    "StartingValues",
    "anchor_diversity",
    "choose_samples",
    "hardest_in_cell",
    "labels",
    "matrix_sides",
    "matrix_table",
    "open_pair",
    "ordered",
    "positions",
    "scale",
    "scaled_matrix",
    "spread_over",
    "values_from_similarities",
]
