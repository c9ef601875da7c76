"""How a report is written (`coder_core.api.report.page`), by hand: cells, numbers, escaped text, shades."""

import numpy as np
import pandas as pd
import pytest

from coder_core.api.report.page import Report, Section, _cell, _shade, render


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1.25, -0.5, 3.0), '1.2<br><span class="interval">-0.5 to 3.0</span>'),
        (float("nan"), "–"),
        (np.float32(1234.0), "1,234"),
        (1234.5678, "1,235"),
        (0.123456, "0.1235"),
        (12345, "12,345"),
        (np.int64(-3), "-3"),
        ("a <b>", "a <b>"),
    ],
)
def test_cells_are_short(value, text):
    assert str(_cell(value)) == text


def test_columns_of_numbers_are_marked_and_text_is_escaped():
    table = pd.DataFrame({"run": ["<i>a</i>", "b"], "R@1": [12.5, 7.0], "mixed": ["x", 1]})
    page = render(
        Report("Why?", "title", ["It & is."], [Section("Runs", "Read it.", [("table", table)])], "v1")
    )
    text = "".join(page.split())
    assert '<thclass="">run</th><thclass="number">R@1</th><thclass="">mixed</th>' in text
    assert '<tdclass="">&lt;i&gt;a&lt;/i&gt;</td><tdclass="number">12.5</td><tdclass="">x</td>' in text
    assert '<tdclass="">b</td><tdclass="number">7</td><tdclass="">1</td>' in text
    assert "It&amp;is." in text
    assert "<script" not in page


def test_shades_grow_with_the_count_and_name_the_direction():
    assert _shade(4, 16, 1, 0) == "rgba(44,138,75,0.39)"
    assert _shade(16, 16, 0, 1) == "rgba(190,70,50,0.70)"
    assert _shade(16, 16, 2, 2) == "rgba(90,105,115,0.70)"
    assert _shade(0, 16, 2, 2) == "rgba(90,105,115,0.00)"
    assert _shade(0, 0, 0, 1) == "rgba(190,70,50,0.00)"
