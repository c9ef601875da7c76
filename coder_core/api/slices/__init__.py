"""Slices: captions selected by their content, and a run's recall on them."""

from coder_core.api.slices.expressions import LONGEST_EXPRESSION, Columns, plain_query, search, select
from coder_core.api.slices.filters import (
    Filter,
    Values,
    filter_of,
    fitting_step,
    parsed_limit,
    values_of,
    with_filter,
    with_slice,
    written_limit,
)
from coder_core.api.slices.own_columns import own_names
from coder_core.api.slices.table import (
    LEAST_QUERIES,
    Queries,
    Slice,
    counted_columns,
    images_counted,
    images_of_all,
    own_slices,
    slice_columns,
    slice_metrics,
    slice_recalls,
    slice_table,
    slices_by,
    usual_slices,
)
