"""Tables, filters and figures of Retrieval, Diversity and Data, used with mouse and keyboard in a real browser."""

import re

import numpy as np
import pandas as pd
import pytest

from app import charts
from coder_core.api import compare, occurrences, open_run
from coder_core.api import margins as margin_table
from coder_core.api.retrieval import gain_in_words, gains
from coder_core.api.slices import select, slice_columns
from tests.app.conftest import IMAGES
from tests.support.visits import SIZE, row_number

PAIR = "run=demo-baseline&versus=demo"


def test_clicks_and_keys_open_rows_and_tables_page_filter_and_sort(visit, runs):
    visit.open(f"retrieval?{PAIR}&at=1&outcome=All")
    rows = visit.page.locator("tbody tr")
    assert rows.first.get_attribute("aria-selected") == "true"
    expected = row_number(visit, 3)
    rows.nth(3).locator("td").last.click()  # the last cell: far from any box
    visit.reach(f"query-text={expected}(&|$)")
    assert rows.nth(3).get_attribute("aria-selected") == "true"
    for key, row in (("Enter", 4), (" ", 5)):
        rows.nth(row - 1).focus()
        visit.page.keyboard.press("ArrowDown")
        visit.page.keyboard.press(key)
        visit.reach(f"query-text={row_number(visit, row)}(&|$)")
    visit.enter("Caption number", str(row_number(visit, 40)))
    visit.reach(f"query-text={row_number(visit, 40)}(&|$)")
    row_box = visit.page.locator("tbody tr[aria-selected=true]").bounding_box()
    outer = visit.page.locator(".scrolled").bounding_box()
    assert outer["y"] < row_box["y"]  # scrolled into view
    assert row_box["y"] + row_box["height"] <= outer["y"] + outer["height"] + 1
    visit.page.get_by_role("button", name="Next page").click()
    visit.show(f"51–100 of {5 * IMAGES}")
    assert rows.count() == 50
    visit.page.get_by_role("columnheader", name="rank in demo-baseline").get_by_role("button").click()
    visit.show(f"1–50 of {5 * IMAGES}")
    changes = compare(open_run(runs / "demo-baseline"), open_run(runs / "demo"), "dev")
    changes = changes[changes["direction"] == "t2i"]
    assert rows.first.inner_text().split()[-3] == str(changes["rank_a"].max())
    visit.enter("Filter by words", "scene 41 told")
    visit.show("5 captions", exact=True)
    assert {row_number(visit, row) for row in range(5)} == set(range(205, 210))
    assert visit.number("Caption number") in range(205, 210)  # a query that the filter leaves out is closed
    table = pd.read_csv(visit.downloaded("CSV"))
    assert set(table["caption id"]) == set(range(205, 210))
    assert {*table["image id"], *table["file"]} == {41, "41.png"}
    assert all(caption.startswith("scene 41, told") for caption in table["caption"])
    filtered = changes.set_index("query").loc[table["caption id"]]
    for column, name in (("rank_a", "rank in demo-baseline"), ("rank_b", "rank in demo"), ("change", "gain")):
        np.testing.assert_array_equal(table[name], filtered[column])


def test_a_click_on_any_thumbnail_opens_the_large_picture(visit, runs):
    visit.open(f"retrieval?{PAIR}&query-text=7&outcome=All", reload=True)
    pair = [open_run(runs / name) for name in ("demo-baseline", "demo")]
    card = visit.page.locator(".cl-card").nth(12)
    image = int(re.fullmatch(r"image (\d+) · \d+\.png", card.get_attribute("title"))[1])
    assert card.locator("img").get_attribute("title") == f"scene {image}, told in way 0"
    dialog = visit.page.get_by_role("dialog")
    for thumbnail, number in (
        (card.locator("img"), image),
        (visit.page.locator(".cl-sample img").first, 1),
        (visit.page.locator("tbody tr img").nth(2), row_number(visit, 2) // 5),
    ):
        thumbnail.click()
        dialog.get_by_text(f"Image {number} · {number}.png").wait_for()
        visit.settle()
        assert dialog.locator(".cl-large img").evaluate("image => image.naturalWidth") == 160
        cells = dialog.locator(".cl-own tbody tr")
        for row, caption in enumerate(range(5 * number, 5 * number + 5), start=1):
            expected = []
            for run in pair:
                score = float(run.similarity([number], [caption], split="dev")[0, 0])
                expected += [str(run.ranks("dev")["t2i"][caption] + 1), f"{score:.4f}"]
            assert cells.nth(row).locator("td").all_inner_texts() == expected
            assert f"scene {number}, told in way {row - 1}" in cells.nth(row).inner_text()
        assert dialog.locator("[data-open]").count() == 6
        visit.page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
    visit.page.locator(".cl-sample .cl-zoom").first.focus()
    visit.page.keyboard.press("Enter")
    last = dialog.locator("[data-open^=caption]").last
    name = last.get_attribute("data-open")
    last.click()
    dialog.wait_for(state="detached")
    visit.show(f"{name.capitalize().replace('-', ' ')} of image ")


def test_a_row_opens_its_sample_in_view_and_its_links_need_no_reload(visit, runs):
    visit.open(f"retrieval?{PAIR}&at=1&outcome=All")
    number = row_number(visit, 3)
    panel = visit.page.locator(".st-key-opened")
    visit.page.locator("tbody tr").nth(3).locator("td").last.click()
    visit.reach(f"query-text={number}(&|$)")
    panel.get_by_text(f"Caption {number} of image {number // 5} ").wait_for()
    box = panel.bounding_box()
    row_box = visit.page.locator("tbody tr[aria-selected=true]").bounding_box()
    assert row_box["x"] + row_box["width"] <= box["x"]  # beside the list
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= SIZE["height"]
    visit.page.evaluate("window.stays = true")
    panel.get_by_role("link", name="diversity").click()
    visit.reach(f"/diversity.*[?&]caption={number}(&|$)")
    top = "document.querySelector('.st-key-detail').getBoundingClientRect().top"
    visit.page.wait_for_function(f"100 < {top} && {top} < 300")
    text = visit.page.locator(".cl-card [data-open]").first
    name = text.get_attribute("data-open")
    text.focus()
    visit.page.keyboard.press("Enter")
    visit.reach(f"[?&]sample={name}(&|$)")
    panel.get_by_text(f"{name.capitalize().replace('-', ' ')} ").wait_for()
    visit.page.go_back()
    visit.reach(f"/diversity.*[?&]caption={number}(&|$)")
    visit.page.go_back()
    visit.reach(f"/retrieval.*query-text={number}(&|$)")
    assert visit.page.evaluate("window.stays")


def click_bar(visit, chart, trace, position):
    """Click a bar or, with trace −1, the middle of a heat map's cell in this row and column 0."""
    point = visit.page.evaluate(
        """([key, trace, position]) => {
          const chart = document.querySelector(`.st-key-${key} .js-plotly-plot`), full = chart._fullLayout
          chart.scrollIntoView({block: "center"})
          const box = chart.getBoundingClientRect(), x = full.xaxis, y = full.yaxis
          const at = (axis, value) => axis._offset + axis.c2p(value)
          if (trace < 0) return [box.x + at(x, 0), box.y + at(y, position)]
          const d = chart.calcdata[trace][position]
          return [box.x + at(x, d.p), box.y + at(y, d.s1 * 0.5)]
        }""",
        [chart, trace, position],
    )
    visit.page.mouse.click(*point)


def test_a_click_on_a_cause_of_the_misses_lists_its_queries(visit):
    visit.open(f"overview?{PAIR}")
    widest = """[...document.querySelectorAll(".st-key-budget .bars .point path")]
      .map(part => part.getBoundingClientRect()).sort((a, b) => b.width - a.width)[0]"""
    visit.page.locator(".st-key-budget .js-plotly-plot").scroll_into_view_if_needed()
    visit.settle()
    visit.page.mouse.click(*visit.page.evaluate(f"(part => [part.x + part.width / 3, part.y + 9])({widest})"))
    visit.reach("/retrieval.*[?&]cause-of=demo")
    [cause] = visit.query()["cause"]
    visit.show(re.compile(f"misses with the cause “{cause}”"))


def test_clicks_on_chart_cells_and_bars_open_their_queries(visit, runs):
    visit.open(f"retrieval?{PAIR}&query-text=7&outcome=All")
    second = open_run(runs / "demo")
    changes = compare(open_run(runs / "demo-baseline"), second, "dev")
    changes = changes.query("direction == 't2i'").set_index("query")
    click_bar(visit, "ranks", -1, 1)  # from 2–5 to 1
    visit.reach("from-rank=2")
    inside = changes[changes["rank_a"].between(2, 5) & (changes["rank_b"] == 1)]
    assert visit.number("Caption number") in inside.index
    visit.show(re.compile(rf"(of |^){len(inside)} captions$"))
    outcome = visit.page.locator(".st-key-outcome").get_by_role("button", name="Open")
    outcome.scroll_into_view_if_needed()
    visit.settle()
    outcome.click()  # a list that opens while the page scrolls closes again
    visit.page.get_by_role("option", name="Broken").click()
    visit.page.get_by_label("Caption number", exact=True).wait_for(state="detached")  # no query, none is open
    visit.settle()
    visit.open(f"retrieval?{PAIR}&look=Near+misses")
    bars = "document.querySelector('.st-key-margins .js-plotly-plot').calcdata[1].map(bar => [bar.p, bar.s])"
    margins, counts = np.asarray(visit.page.evaluate(bars)).T
    fullest = int(np.argmax(counts))
    click_bar(visit, "margins", 1, fullest)
    visit.reach("query-text=")
    margin = margin_table(second, "dev", "t2i").set_index("query")["margin"][visit.number("Caption number")]
    assert abs(margin - margins[fullest]) < margins[1] - margins[0]
    assert visit.page.locator("tbody tr[aria-selected=true]").count() == 1
    visit.page.get_by_role("radio", name="Hubs").click()
    visit.reach("look=Hubs")
    hubs = occurrences(second, "dev", "t2i", k=10).set_index("candidate")["count"]
    band = charts.occurrence_band(hubs.to_numpy())
    largest = int(np.bincount(band).argmax())
    click_bar(visit, "hubs", 1, largest)
    visit.reach("hub-image=")
    assert hubs[visit.number("Hub")] == hubs[band == largest].max()
    row = visit.page.get_by_role("grid", name="images").locator("tbody tr").nth(2)
    image = int(re.search(r"image (\d+)", row.inner_text())[1])
    row.locator("td").last.click()
    visit.reach(f"hub-image={image}(&|$)")
    assert row.get_attribute("aria-selected") == "true"
    assert visit.number("Hub") == image
    downloaded = pd.read_csv(visit.downloaded("CSV")).set_index("image id")
    for name in ("demo-baseline", "demo"):
        counts = occurrences(open_run(runs / name), "dev", "t2i", k=10).set_index("candidate")["count"]
        np.testing.assert_array_equal(downloaded[f"queries in {name}"], counts.loc[downloaded.index])
    assert downloaded.loc[3, "file"] == "3.png"


def test_a_third_run_is_shown_and_kept_on_other_pages(visit, runs):
    visit.open("retrieval?run=demo-baseline&run=demo-late")
    visit.page.get_by_role("combobox", name="Runs").click()
    visit.page.get_by_role("option", name="demo", exact=True).click()
    visit.page.keyboard.press("Escape")
    visit.reach("[?&]run=demo-late&run=demo(&|$)")
    visit.page.locator(".cl-run").nth(2).wait_for()
    visit.settle()
    grids = [grid.bounding_box() for grid in visit.page.locator(".cl-grid").all() if grid.is_visible()]
    assert (len(grids), len({(box["x"], box["width"]) for box in grids})) == (3, 1)  # one row of each run
    assert grids[-1]["x"] + grids[-1]["width"] <= SIZE["width"]
    first = open_run(runs / "demo-late").ranks("dev")["t2i"] == 0
    click_bar(visit, "ranks", 1, 0)  # of the run in the middle
    visit.reach("[?&]rank-of=demo-late")
    visit.show(re.compile(rf"(of |^){first.sum()} captions$"))
    assert first[visit.number("Caption number")]
    visit.follow("Joint space")
    visit.reach("joint.*[?&]run=demo-late&run=demo")
    assert visit.page.get_by_text(re.compile("of 3.*demo-baseline and demo")).count() > 0


def test_exported_rows_name_their_samples_and_the_report_opens_from_disk(visit, runs, tmp_path):
    pair = [open_run(runs / name) for name in ("demo-baseline", "demo")]
    visit.open(f"diversity?{PAIR}&anchors=Images")
    assert visit.page.get_by_label("Download as CSV").count() == 0
    table = pd.read_parquet(visit.downloaded("Parquet"))
    assert list(table.columns[:3]) == ["image id", "file", "first caption"]
    assert sorted(table["image id"]) == list(range(IMAGES))
    for run in pair:
        expected = run.diversity("dev", modality="image").set_index("anchor").loc[table["image id"]]
        np.testing.assert_allclose(table[f"diversity in {run.name}"], expected["diversity"])
        np.testing.assert_array_equal(table[f"rank in {run.name}"], expected["rank"])
    assert not [name for name in table.columns if name.endswith(("_a", "_b"))]
    file = tmp_path / "report.html"
    with visit.task(PAIR):
        lines = visit.downloaded("LaTeX").read().decode().splitlines()
        with visit.page.expect_download() as download:
            visit.page.get_by_role("button", name="Report", exact=True).click()
    download.value.save_as(file)
    head = next(line for line in lines if "R@sum" in line).removesuffix(r" \\").split(" & ")
    row = next(line for line in lines if line.startswith("demo &")).removesuffix(r" \\").split(" & ")
    values = dict(zip(head, row, strict=True))
    assert values["seed"] == "0"
    assert re.fullmatch(r"\d+\.\d", values["R@sum"])
    assert float(values["R@sum"]) == pytest.approx(pair[1].metrics["dev"]["rsum"], abs=0.05)
    sentence = gain_in_words(*pair, "dev")
    gain = gains(*pair, "dev")["rsum"]
    assert f"{gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]" in visit.page.locator("h1").inner_text()
    assert visit.read_from_disk(file).count(sentence) == 1
    assert 'class="own"' in file.read_text()


def test_a_slice_chosen_from_the_table_applies_to_other_pages(visit, runs):
    with visit.task(PAIR):
        visit.follow("Slices")
        visit.page.get_by_role("grid", name="slices").locator("tbody tr").first.click()
        visit.reach("[?&]slice=")
        expression = visit.page.get_by_label("Search or slice", exact=True).input_value()
        inside = np.flatnonzero(select(expression, slice_columns(open_run(runs / "demo"), "dev"))).tolist()
        visit.follow("Overview")
        assert visit.page.get_by_text(re.compile(rf"\b{len(inside)} captions")).count() > 0
    visit.follow("Diversity")
    visit.show(f"1–{min(50, len(inside))} of {len(inside)} captions")
    numbers = re.findall(r"caption (\d+)", visit.page.locator("tbody").first.inner_text())
    assert numbers
    assert set(map(int, numbers)) <= set(inside)
    visit.page.get_by_role("button", name="Clear slice").click()
    visit.reach("^((?!slice=).)*$")
