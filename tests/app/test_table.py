"""Order and pages of the table that every page uses."""

import numpy as np
import pandas as pd
import pytest

from app.components import table
from app.components.opened import View

VALUES = pd.DataFrame({"rank": [3.0, np.nan, 1.0, 2.0, 1.0]}, index=[9, 8, 7, 6, 5])


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        (None, [0, 1, 2, 3, 4]),
        (("rank", "ascending"), [2, 4, 3, 0, 1]),
        (("rank", "descending"), [0, 3, 2, 4, 1]),
    ],
)
def test_a_sorted_column_keeps_equal_values_in_order_and_missing_ones_last(sort, expected):
    assert table._sorted_rows(VALUES, sort).tolist() == expected


def test_clicks_on_a_heading_sort_down_then_up_then_not():
    view = View(page=2)
    seen = []
    for _ in range(3):
        table._turn(view, {"sort": 0}, 5, ["rank"])
        seen.append(view.sort)
    assert seen == [("rank", "descending"), ("rank", "ascending"), None]
    assert view.page == 0
    for page in (4, 5, -1, True, "1", None):
        table._turn(view, {"page": page}, 5, ["rank"])
    assert view.page == 4  # only a page that exists is turned to


@pytest.mark.parametrize(
    ("page", "total", "text"),
    [
        (0, 1, "one row"),
        (0, 50, "50 captions"),
        (0, 51, "1–50 of 51 captions"),
        (1, 51, "51–51 of 51 captions"),
        (1, 5000, "51–100 of 5,000 captions"),
    ],
)
def test_the_range_names_the_rows_shown(page, total, text):
    assert table._range(page, total, "captions") == text


@pytest.mark.parametrize(
    ("value", "digits", "suffix", "text"),
    [
        (None, ",d", "", "–"),
        (float("nan"), ".1f", " %", "–"),
        (1234.0, ",d", "", "1,234"),
        (2.25, "+.1f", " %", "+2.2 %"),
        ("dog", "", "", "dog"),
    ],
)
def test_a_cell_is_formatted_or_a_dash(value, digits, suffix, text):
    assert table._cell(value, table.Column("x", digits, suffix=suffix)) == text
