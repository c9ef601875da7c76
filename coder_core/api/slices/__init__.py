"""Slices: captions selected by what they say, and how often a run answers them."""

from coder_core.api.slices.columns import slice_columns
from coder_core.api.slices.expressions import Columns, select
from coder_core.api.slices.table import Slice, slice_table, usual_slices

__all__ = ["Columns", "Slice", "select", "slice_columns", "slice_table", "usual_slices"]
