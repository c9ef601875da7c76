"""Tables, filters and figures of Retrieval and Diversity, used with mouse and keyboard in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coder_core.api import compare, open_run
from tests.app.conftest import IMAGES
from tests.support.visits import PATIENCE, Visit

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
PAIR = "run=demo-baseline&versus=demo"


def open_number(visit: Visit, key: str, number: int) -> None:
    """Wait until the address names this number."""
    visit.page.wait_for_url(re.compile(rf"[?&]{key}={number}(&|$)"), timeout=PATIENCE)
    visit.settle()


def row_number(visit: Visit, row: int) -> int:
    """The caption of a table's row."""
    return int(re.search(r"caption (\d+)", visit.page.locator("tbody tr").nth(row).inner_text())[1])  # type: ignore[index]


def test_a_click_enter_and_space_open_a_row_and_tables_page_filter_and_sort(visit: Visit, runs: Path) -> None:
    visit.open(f"retrieval?{PAIR}&at=1")
    rows = visit.page.locator("tbody tr")
    assert rows.first.get_attribute("aria-selected") == "true"
    expected = row_number(visit, 3)
    rows.nth(3).locator("td").last.click()  # the last cell: far from any box
    open_number(visit, "query-text", expected)
    assert rows.nth(3).get_attribute("aria-selected") == "true"
    for key, row in (("Enter", 4), (" ", 5)):
        rows.nth(row - 1).focus()
        visit.page.keyboard.press("ArrowDown")
        visit.page.keyboard.press(key)
        open_number(visit, "query-text", row_number(visit, row))
    visit.page.get_by_role("button", name="Next page").click()
    visit.page.get_by_text(f"51–100 of {5 * IMAGES} captions").wait_for(timeout=PATIENCE)
    assert rows.count() == 50
    visit.page.get_by_role("columnheader", name="rank in demo-baseline").get_by_role("button").click()
    visit.page.get_by_text(f"1–50 of {5 * IMAGES} captions").wait_for(timeout=PATIENCE)
    changes = compare(open_run(runs / "demo-baseline"), open_run(runs / "demo"), "dev")
    changes = changes[changes["direction"] == "t2i"]
    visit.settle()
    assert rows.first.inner_text().split()[-3] == str(changes["rank_a"].max())
    visit.page.get_by_label("Filter by words").fill("scene 41 told")
    visit.page.keyboard.press("Enter")
    visit.page.get_by_text("5 captions", exact=True).wait_for(timeout=PATIENCE)
    visit.settle()
    assert {row_number(visit, row) for row in range(5)} == set(range(205, 210))
    opened = int(visit.page.get_by_label("Caption number", exact=True).input_value())
    assert opened in range(205, 210)  # what the filter leaves out is no longer open
    table = pd.read_csv(visit.downloaded("CSV"))
    assert set(table["caption id"]) == set(range(205, 210))
    assert set(table["image id"]) == {41}
    assert set(table["file"]) == {"41.png"}
    assert all(caption.startswith("scene 41, told") for caption in table["caption"])
    wanted = changes.set_index("query").loc[table["caption id"]]
    for column, name in (("rank_a", "rank in demo-baseline"), ("rank_b", "rank in demo"), ("change", "gain")):
        np.testing.assert_array_equal(table[name], wanted[column])
