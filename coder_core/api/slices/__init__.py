"""Slices: captions selected by what they say, and how often a run answers them."""

from coder_core.api.slices.columns import slice_columns
from coder_core.api.slices.expressions import LONGEST_EXPRESSION, Columns, select
from coder_core.api.slices.search import PlainWords, plain_words, search
from coder_core.api.slices.table import Slice, images_counted, slice_metrics, slice_table, usual_slices

__all__ = [
    "LONGEST_EXPRESSION",
    "Columns",
    "PlainWords",
    "Slice",
    "images_counted",
    "plain_words",
    "search",
    "select",
    "slice_columns",
    "slice_metrics",
    "slice_table",
    "usual_slices",
]
