"""Slices: captions selected by what they say, and how often a run answers them."""

from coder_core.api.slices.columns import slice_columns
from coder_core.api.slices.expressions import LONGEST_EXPRESSION, Columns, select
from coder_core.api.slices.table import Slice, slice_table, usual_slices

__all__ = ["LONGEST_EXPRESSION", "Columns", "Slice", "select", "slice_columns", "slice_table", "usual_slices"]
