"""Tables, filters and figures of Retrieval and Diversity, used with mouse and keyboard in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app import charts
from coder_core.api import compare, occurrences, open_run
from coder_core.api import margins as margin_table
from coder_core.api.retrieval import gain_in_words
from coder_core.api.slices import select, slice_columns
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
    visit.page.get_by_label("Caption number", exact=True).fill(str(row_number(visit, 40)))
    visit.page.keyboard.press("Enter")
    open_number(visit, "query-text", row_number(visit, 40))
    box, outer = (
        visit.page.locator(css).bounding_box() for css in ("tbody tr[aria-selected=true]", ".scrolled")
    )
    assert (
        outer["y"] < box["y"] < box["y"] + box["height"] <= outer["y"] + outer["height"] + 1
    )  # it is scrolled there
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


def test_a_click_on_any_thumbnail_opens_the_large_picture(visit: Visit, runs: Path) -> None:
    visit.open(f"retrieval?{PAIR}&query-text=7")
    pair = [open_run(runs / name) for name in ("demo-baseline", "demo")]
    card = visit.page.locator(".cl-card").nth(12)
    image = int(re.search(r"image (\d+) · \d+\.png", card.inner_text())[1])  # type: ignore[index]
    assert card.locator("img").get_attribute("title") == f"scene {image}, told in way 0"
    for thumbnail, number in (
        (card.locator("img"), image),
        (visit.page.locator(".cl-sample img").first, 1),
        (visit.page.locator("tbody tr img").nth(2), row_number(visit, 2) // 5),
    ):
        thumbnail.click()
        dialog = visit.page.get_by_role("dialog")
        dialog.get_by_text(f"Image {number} · {number}.png").wait_for(timeout=PATIENCE)
        visit.settle()
        assert dialog.locator(".cl-large img").evaluate("image => image.naturalWidth") == 160
        cells = dialog.locator(".cl-own tbody tr")
        for row, caption in enumerate(range(5 * number, 5 * number + 5), start=1):
            values = [run.ranks("dev")["t2i"][caption] + 1 for run in pair]
            scores = [float(run.similarity([number], [caption], split="dev")[0, 0]) for run in pair]
            expected = [str(values[0]), f"{scores[0]:.4f}", str(values[1]), f"{scores[1]:.4f}"]
            assert cells.nth(row).locator("td").all_inner_texts() == expected
            assert f"scene {number}, told in way {row - 1}" in cells.nth(row).inner_text()
        assert dialog.get_by_role("link", name="similarity").count() == 5
        visit.page.keyboard.press("Escape")
        dialog.wait_for(state="detached", timeout=PATIENCE)
    visit.page.locator(".cl-sample .cl-zoom").first.focus()
    visit.page.keyboard.press("Enter")
    dialog.get_by_role("link", name="similarity").first.click()
    visit.page.wait_for_url("**/similarity?*", timeout=PATIENCE)
    visit.page.locator(".st-key-matrix-similarity-1 .js-plotly-plot").wait_for(timeout=PATIENCE)
    visit.settle()


def click_bar(visit: Visit, chart: str, trace: int, position: int) -> None:
    """Click on a bar, or with a trace of −1 on the middle of a heat map's cell of this row and column 0."""
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


def test_cells_bars_and_filters_lead_to_their_queries(visit: Visit, runs: Path) -> None:
    visit.open(f"retrieval?{PAIR}&query-text=7")
    first, second = (open_run(runs / name) for name in ("demo-baseline", "demo"))
    changes = compare(first, second, "dev").query("direction == 't2i'").set_index("query")
    number = visit.page.get_by_label("Caption number", exact=True)
    click_bar(visit, "ranks", -1, 1)  # from 2–5 to 1
    visit.page.wait_for_url(re.compile("from-rank=2"), timeout=PATIENCE)
    visit.settle()
    inside = changes[changes["rank_a"].between(2, 5) & (changes["rank_b"] == 1)]
    assert int(number.input_value()) in inside.index
    visit.page.get_by_text(re.compile(rf"(of |^){len(inside)} captions$")).first.wait_for(timeout=PATIENCE)
    visit.page.get_by_role("radio", name="Broken").click()
    visit.page.get_by_text("No query matches.").wait_for(timeout=PATIENCE)
    visit.settle()
    assert number.count() == 0  # nothing is open where there is no query
    assert visit.page.get_by_text("One query in detail").count() == 0
    visit.open(f"retrieval?{PAIR}&outcome=Broken&query-text=7")
    if not (changes["outcome"] == "broken").any():
        assert number.input_value() == "7"  # a link is kept
    visit.open(f"retrieval?{PAIR}&look=Near+misses")
    bars = "document.querySelector('.st-key-margins .js-plotly-plot').calcdata[1].map(bar => [bar.p, bar.s])"
    margins, counts = np.asarray(visit.page.evaluate(bars)).T
    fullest = int(np.argmax(counts))
    click_bar(visit, "margins", 1, fullest)
    visit.page.wait_for_url(re.compile("query-text="), timeout=PATIENCE)
    visit.settle()
    table = margin_table(second, "dev", "t2i").set_index("query")
    assert abs(table["margin"][int(number.input_value())] - margins[fullest]) < margins[1] - margins[0]
    assert visit.page.locator("tbody tr[aria-selected=true]").count() == 1
    visit.open(f"retrieval?{PAIR}&look=Hubs")
    hubs = occurrences(second, "dev", "t2i", k=10).set_index("candidate")["count"]
    band = charts.occurrence_band(hubs.to_numpy())
    chosen = int(np.bincount(band).argmax())
    click_bar(visit, "hubs", 1, chosen)
    visit.page.wait_for_url(re.compile("hub-image="), timeout=PATIENCE)
    visit.settle()
    assert hubs[int(visit.page.get_by_label("Hub", exact=True).input_value())] == hubs[band == chosen].max()
    row = visit.page.get_by_role("grid", name="images").locator("tbody tr").nth(2)
    image = int(re.search(r"image (\d+)", row.inner_text())[1])  # type: ignore[index]
    row.locator("td").last.click()
    open_number(visit, "hub-image", image)
    assert row.get_attribute("aria-selected") == "true"
    assert visit.page.get_by_label("Hub", exact=True).input_value() == str(image)


def test_a_third_run_is_chosen_shown_and_carried_on(visit: Visit, runs: Path) -> None:
    visit.open(f"retrieval?{PAIR}")
    visit.page.get_by_role("combobox", name="Also").click()
    visit.page.get_by_role("option", name="demo-late").click()
    visit.page.keyboard.press("Escape")
    visit.page.wait_for_url(re.compile("[?&]also=demo-late(&|$)"), timeout=PATIENCE)
    visit.page.get_by_role("heading", name="Which of these 3 runs retrieves best?").wait_for(timeout=PATIENCE)
    visit.settle()
    columns = visit.page.locator("[data-testid=stColumn]").filter(has=visit.page.locator(".cl-grid"))
    boxes = [column.bounding_box() for column in columns.all()]
    assert len(boxes) == 3
    assert len({box["y"] for box in boxes}) == 1
    assert boxes[-1]["x"] + boxes[-1]["width"] <= 1280
    ranks = {
        name: open_run(runs / name).ranks("dev")["t2i"] + 1 for name in ("demo-baseline", "demo-late", "demo")
    }
    band = ranks["demo-late"] == 1
    click_bar(visit, "ranks", 1, 0)  # of the run in the middle
    visit.page.wait_for_url(re.compile("[?&]rank-of=demo-late"), timeout=PATIENCE)
    visit.page.get_by_text(re.compile(rf"(of |^){band.sum()} captions$")).first.wait_for(timeout=PATIENCE)
    visit.settle()
    assert band[int(visit.page.get_by_label("Caption number", exact=True).input_value())]
    visit.page.locator(".st-key-pages").get_by_role("link", name="Joint space").click()
    visit.page.get_by_text("the first and the last of 3, demo-baseline and demo").wait_for(timeout=PATIENCE)
    visit.page.wait_for_url(re.compile("joint.*[?&]also=demo-late"), timeout=PATIENCE)
    visit.settle()
    visit.check()


def test_judged_results_are_marked_and_a_damaged_file_is_named(visit: Visit, runs: Path) -> None:
    run, file = open_run(runs / "demo"), runs / "positives.tsv"
    best, ranks = np.asarray(run.analysis("dev").text_best), run.ranks("dev")["t2i"]
    query = int(np.flatnonzero(ranks >= 10)[0])
    try:
        file.write_text(f"{query // 5}.png#{query % 5}\t{best[query][0]}.png\n")
        visit.open(f"retrieval?{PAIR}&look=Judgements", charts=False)
        visit.page.get_by_role("heading", name="By the judgements of positives.tsv").wait_for(
            timeout=PATIENCE
        )
        assert visit.page.get_by_label("Caption number", exact=True).input_value() == str(query)
        rows = visit.page.get_by_role("table", name="rows").locator("tbody tr")
        assert rows.count() == 4
        assert len({row.split()[-1] for row in rows.all_inner_texts()}) > 1
        judged = visit.page.locator(".cl-is-judged")
        assert "✓ judged" in judged.last.inner_text()
        assert f"image {best[query][0]} " in judged.last.inner_text()
        assert judged.last.evaluate("card => getComputedStyle(card).borderStyle") == "dashed"
        file.write_text("<img src=x onerror=alert(1)>\n")
        visit.open(f"retrieval?{PAIR}")
        visit.page.get_by_text("positives.tsv line 1: is").wait_for(timeout=PATIENCE)
        assert judged.count() == 0
    finally:
        file.unlink()


def test_every_export_says_what_its_rows_are_and_digits_follow_the_quantity(visit: Visit, runs: Path) -> None:
    first, second = (open_run(runs / name) for name in ("demo-baseline", "demo"))
    visit.open(f"diversity?{PAIR}&anchors=Images")
    assert visit.page.get_by_label("Download as CSV").count() == 0
    table = pd.read_parquet(visit.downloaded("Parquet"))
    assert list(table.columns[:3]) == ["image id", "file", "first caption"]
    assert sorted(table["image id"]) == list(range(IMAGES))
    for run in (first, second):
        expected = run.diversity("dev", modality="image").set_index("anchor").loc[table["image id"]]
        np.testing.assert_allclose(table[f"diversity in {run.name}"], expected["diversity"])
        np.testing.assert_array_equal(table[f"rank in {run.name}"], expected["rank"])
    assert not [name for name in table.columns if name.endswith(("_a", "_b"))]
    visit.open(f"retrieval?{PAIR}&look=Hubs")
    table = pd.read_csv(visit.downloaded("CSV")).set_index("image id")
    for run in (first, second):
        counts = occurrences(run, "dev", "t2i", k=10).set_index("candidate")["count"]
        np.testing.assert_array_equal(table[f"queries in {run.name}"], counts.loc[table.index])
    assert table.loc[3, "file"] == "3.png"
    visit.open(f"overview?{PAIR}")
    assert visit.page.get_by_label("Download as CSV").locator("visible=true").count() == 0
    lines = visit.downloaded("LaTeX").read().decode().splitlines()
    head = next(line for line in lines if "R@sum" in line).removesuffix(r" \\").split(" & ")
    row = next(line for line in lines if line.startswith("demo &")).removesuffix(r" \\").split(" & ")
    values = dict(zip(head, row, strict=True))
    assert values["seed"] == "0"
    assert re.fullmatch(r"\d+\.\d", values["R@sum"])
    assert float(values["R@sum"]) == pytest.approx(second.metrics("dev")["rsum"], abs=0.05)


def test_a_long_paste_is_refused_with_a_sentence_and_unknown_words_are_named(visit: Visit) -> None:
    visit.open("retrieval?run=combined&versus=—&ask=Free+text", charts=False)
    field = visit.page.get_by_label("Text query")
    field.fill("a dog runs " * 273)
    field.press("Enter")
    visit.page.get_by_text("has 3,002 characters; expected at most 500").wait_for(timeout=PATIENCE)
    field.fill("a unicorn")
    field.press("Enter")
    visit.page.get_by_text("Words this run does not know: unicorn.").wait_for(timeout=PATIENCE)
    visit.settle()
    cards = visit.page.locator(".cl-card")
    assert cards.count() == 6
    assert all(re.search(r"image \d", text) for text in cards.all_inner_texts())


def test_a_slice_goes_from_its_table_to_the_other_pages(visit: Visit, runs: Path) -> None:
    visit.open(f"slices?{PAIR}", charts=False)
    row = visit.page.get_by_role("grid", name="slices").locator("tbody tr").first
    expression = row.locator("td, th").first.inner_text().strip()
    row.click()
    visit.page.wait_for_url(re.compile("[?&]slice="), timeout=PATIENCE)
    visit.settle()
    assert visit.page.get_by_label("Search or slice", exact=True).input_value() == expression
    run = open_run(runs / "demo")
    inside = np.flatnonzero(select(expression, slice_columns(run, "dev")))
    visit.page.locator(".st-key-pages").get_by_role("link", name="Overview").click()
    visit.page.get_by_text(re.compile(f"over the {len(inside)} captions? .* of the slice")).wait_for(
        timeout=PATIENCE
    )
    visit.page.get_by_text(f"Of {len(inside)} queries").wait_for(timeout=PATIENCE)
    visit.settle()
    visit.check()
    for page in ("Retrieval", "Diversity"):
        visit.page.get_by_role("link", name=page, exact=True).first.click()
        visit.page.get_by_text(f"1–{min(50, len(inside))} of {len(inside)} captions").wait_for(
            timeout=PATIENCE
        )
        visit.settle()
        numbers = [
            int(number)
            for number in re.findall(r"caption (\d+)", visit.page.locator("tbody").first.inner_text())
        ]
        assert numbers
        assert {int(number) for number in numbers} <= set(inside.tolist())
        visit.check()
    field = visit.page.get_by_label("Search or slice", exact=True)
    field.fill("<img src=x onerror=alert(1)> in words")
    field.press("Enter")
    visit.page.get_by_text("Nothing is filtered").wait_for(timeout=PATIENCE)
    visit.settle()
    visit.check()
    field.fill(" scene “told in way 2”")
    field.press("Enter")
    visit.page.get_by_text(f"With “scene” and “told in way 2”: {IMAGES} of {5 * IMAGES} captions").wait_for(
        timeout=PATIENCE
    )
    visit.settle()
    opened = visit.page.get_by_label("Caption number", exact=True).input_value()
    visit.page.get_by_role("button", name="Similar captions").click()
    visit.page.wait_for_url(re.compile(rf"[?&]slice={opened}\+in\+neighbours"), timeout=PATIENCE)
    visit.page.get_by_text(f"51 of {5 * IMAGES} captions on every page").wait_for(timeout=PATIENCE)
    visit.settle()
    visit.page.locator(".st-key-pages").get_by_role("link", name="Similarity").click()
    visit.page.get_by_text("of the slice’s 51 pairs, drawn at random").wait_for(timeout=PATIENCE)
    visit.settle()
    visit.check()
    field.fill("")
    field.press("Enter")
    visit.page.wait_for_url(re.compile("^((?!slice=).)*$"), timeout=PATIENCE)
    visit.settle()


def test_the_report_button_gives_a_file_that_opens_from_disk(
    visit: Visit, runs: Path, tmp_path: Path
) -> None:
    visit.open(f"overview?{PAIR}")
    sentence = gain_in_words(open_run(runs / "demo-baseline"), open_run(runs / "demo"), "dev")
    assert visit.page.get_by_text(sentence).count() == 1
    file = tmp_path / "report.html"
    with visit.page.expect_download(timeout=PATIENCE) as download:
        visit.page.get_by_role("button", name="Report", exact=True).click()
    file.write_bytes(Path(download.value.path()).read_bytes())
    page = visit.context.new_page()
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: errors.append(message.text))
    page.goto(file.as_uri())
    assert page.get_by_text(sentence).count() == 1
    shown = page.locator("figure.own img")
    assert shown.count() > 0
    assert shown.evaluate_all("images => images.every(image => image.complete && image.naturalWidth > 0)")
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    assert errors == []
    page.close()
