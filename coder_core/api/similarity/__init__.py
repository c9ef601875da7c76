"""Similarity matrices of a batch or a split, before and after diversity scaling. CODER eq. 4."""

from coder_core.api.similarity.matrices import (
    hardest_in_cell,
    labels,
    matrix_sides,
    matrix_table,
    ordered,
    positions,
    scaled_matrix,
    values_from_similarities,
)
from coder_core.api.similarity.samples import MatrixSamples, Order, Source, choose_samples
from coder_core.api.similarity.scaling import Pair, Scaled, open_pair, spread_over
