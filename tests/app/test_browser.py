"""A real browser opens every page: charts are drawn, nothing fails, no other host is contacted, captions stay text."""

import re
from urllib.parse import urlencode

import pytest

from app.charts import LIGHT
from tests.app.conftest import serve
from tests.support.pages import PAGES, PROJECT
from tests.support.visits import CHART, SIZE, Visit, given_runs, payloads, picture, row_number

LONGEST = 2600  # pixels of a page of 1440 × 900
FIRST_DATA = 320
DATA = f"{CHART}, [data-testid=stMain] :is(table, img)"
SHOTS = PROJECT / "artifacts" / "screenshots"
EVERYTHING = "area=a:-9,-9,9,-9,9,9,-9,9"
PAIRS = {"concepts": ("concepts", "more-concepts"), "weights": ("combined", "opposite")}
PAIRS |= {"split": ("holder", "run")}
# page → number of sections
SECTIONS = {"overview?": 9, "diversity?": 5, "diversity?anchors=Images&": 5, "weights?": 5, "similarity?": 3}
SECTIONS |= {
    f"joint?map=PCA&{EVERYTHING}&focus=caption-2&": 1,
    "clusters?cluster-count=4&": 1,
    "concepts?": 3,
}
SECTIONS |= {"retrieval?values=true&": 3, "retrieval?direction=Image+→+captions&": 3, "overview?split&": 0}
SECTIONS |= {"train?": 0, "reviews?": 4, "data?": 1}
WITHOUT_CHARTS = ("train?", "overview?split&", "reviews?", "data?")
# views with the same components as another view of the page, or with those that the tests of reviews check
AGAIN = ("diversity?anchors", "retrieval?direction", "reviews?")


def hostile(port, page):
    """Return the address of a page with its hostile runs."""
    kinds = next((pair for kind, pair in PAIRS.items() if kind in page), ("run-baseline", "run"))
    first, second = (picture(port, kind) for kind in kinds)
    values = {"run": first, "versus": second, "watch": second}
    values |= {"also": [picture(port, "more-concepts")], "concept": picture(port, "word1")}
    if "split" in page:
        values = {"run": first, "versus": "—", "split": picture(port, "split")}
    return page + urlencode(values, doseq=True)


@pytest.mark.parametrize("page", SECTIONS)
def test_pages_escape_hostile_texts_and_are_accessible(request, listener, page):
    visit = request.getfixturevalue("map_visit" if page.startswith("joint") else "visit")
    port, requests = listener
    requests.clear()
    charts = page not in WITHOUT_CHARTS
    visit.open(hostile(port, page), charts=charts)
    for chart in visit.page.locator(CHART).all()[:2]:
        chart.hover()
    visit.check()
    assert visit.page.locator("h1", has_text="closed").count() == 0
    assert visit.page.locator("table.plain tbody tr[tabindex], [data-testid=stDataFrame]").count() == 0
    assert visit.page.locator("h2").count() == SECTIONS[page]
    if page == "overview?":
        visit.page.set_viewport_size(SIZE | {"width": 800})
        cut = "all => all.filter(part => part.scrollWidth > part.clientWidth + 1).map(part => part.innerText)"
        assert visit.page.locator("[data-testid=stMetric] :is(div, p)").evaluate_all(cut) == []
        visit.page.set_viewport_size(SIZE)
    if page == "concepts?":
        headings = [text.replace("\u2060", "") for text in visit.page.locator("h2").all_inner_texts()]
        assert any(picture(port, "word1") in text for text in headings)
    if page.startswith("retrieval?direction"):
        assert visit.page.get_by_text("![picture]").count() > 0
    if page == "data?":
        assert visit.page.locator(".cl-sample").count() > 0
        expected = row_number(visit, 2)
        visit.page.locator("tbody tr").nth(2).click()
        visit.reach(f"pair-caption-number={expected}(&|$)")
    if not page.startswith(AGAIN):
        visit.check_accessibility()
    if charts:
        assert visit.colour() == LIGHT.ink
    assert requests == []
    assert len(payloads(0)) == 20


@pytest.mark.skipif(given_runs() is None, reason="CODER_SCREENSHOT_RUNS names no folder of real runs")
def test_screenshots_of_every_page(browser, tmp_path):
    with serve(given_runs(), tmp_path / "log") as port:
        real = Visit(browser, port)
        for page in (*PAGES, "train"):
            real.open(page, charts=False)
            real.check()
            for width, height in ((1280, 800), (1920, 1080), (1280, 3000)):
                real.page.set_viewport_size({"width": width, "height": height})
                real.settle()
                real.page.screenshot(path=SHOTS / f"{page}-{width}x{height}.png")


def test_start_page_popovers_and_dialogs_are_accessible(visit):
    page = visit.page
    visit.open("start", charts=False)
    visit.check_accessibility()
    visit.open("retrieval?run=imported-blurred&versus=imported")
    for dark in (False, True):
        if dark:
            visit.darken()  # waits for the end of the script: until then Streamlit fades outdated elements
        for name in ("Download table", "Save figures"):
            page.get_by_role("button", name=name).first.click()
            page.get_by_test_id("stPopoverBody").wait_for()
            visit.settle()
            assert visit.violations("[data-testid=stPopoverBody]", colours_only=dark) == []
            page.keyboard.press("Escape")
        thumbnail = page.locator(".cl-card img").first
        image = int(re.search(r"scene (\d+)", thumbnail.get_attribute("alt") or "")[1])
        assert f"image {image} · " in page.locator(".cl-card").first.get_attribute("title")
        thumbnail.click()
        large = page.get_by_role("dialog").get_by_role("img")
        large.wait_for()
        visit.settle()
        assert large.get_attribute("alt") == f"view 0 of scene {image}"
        assert visit.violations("[role=dialog]", colours_only=dark) == []
        page.keyboard.press("Escape")
    check_narrow(visit)


def test_pages_begin_with_data_choices_are_whole_and_typed_words_are_kept(visit):
    across_rows = """grids => grids.map(({children: [first, ...others]}) =>
        1 + others.filter(card => card.offsetTop === first.offsetTop).length)"""
    cut = "groups => groups.filter(group => group.scrollWidth > group.clientWidth).map(group => group.innerText)"
    visit.open("retrieval?run=imported-blurred&run=imported")
    for width, across in ((1280, 5), (1440, 5), (390, 2)):
        visit.page.set_viewport_size(SIZE | {"width": width})
        visit.settle()
        assert set(visit.page.locator(".cl-grid").evaluate_all(across_rows)) == {across}
    for page in ("data", "reviews"):
        visit.open(page, charts=False)
        assert visit.page.get_by_role("radiogroup").evaluate_all(cut) == []
    visit.page.set_viewport_size({"width": 1440, "height": 900})
    for page in ("overview?", "diversity?anchors=Captions&"):
        visit.open(f"{page}run=imported-blurred&run=imported")
        assert visit.page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight") <= LONGEST
        tops = "parts => parts.map(part => part.getBoundingClientRect().top)"
        if page != "overview?":  # which first says why these runs have no error budget
            assert min(visit.page.locator(DATA).evaluate_all(tops)) <= FIRST_DATA
    visit.page.set_viewport_size(SIZE)
    field = visit.page.get_by_label("Search or slice", exact=True)
    field.fill("scene 4")
    assert visit.page.locator(f"#{field.get_attribute('list')} option").count() > 5
    visit.page.locator("h1").click()
    visit.reach("slice=scene")


def test_hovering_describes_the_cell_and_a_click_opens_the_pair(visit):
    visit.open("similarity?run=demo-baseline&run=demo")
    plot = visit.page.locator(f".st-key-matrix-similarity-1 {CHART} .nsewdrag").first
    plot.scroll_into_view_if_needed()
    heights = "buttons => buttons.map(button => button.offsetHeight)"
    assert min(visit.page.locator(".modebar-btn").evaluate_all(heights)) >= 24  # also in two rows
    box = plot.bounding_box()
    cell = box["x"] + box["width"] * 0.51, box["y"] + box["height"] * 0.26
    visit.page.mouse.move(*cell)
    label = visit.page.locator(".st-key-matrix-similarity-1 .hoverlayer .hovertext").first
    label.wait_for()
    caption, image = re.search(r"caption (\d+): \w.* · image (\d+)", label.text_content()).groups()
    visit.page.mouse.click(*cell)
    visit.reach(f"pair-caption={caption}")
    answer = visit.page.get_by_text(f"Image {image} with caption {caption}")
    assert answer.count() == 1
    for _ in range(2):  # the answer is visible beside the matrix, also further down
        position = answer.bounding_box()
        assert 0 <= position["y"] <= visit.page.viewport_size["height"]
        assert position["x"] > plot.bounding_box()["x"] + plot.bounding_box()["width"]
        visit.page.locator(".st-key-matrix-exponent-1").scroll_into_view_if_needed()
    chart = visit.page.locator(f".st-key-matrix-exponent-1 {CHART}")
    sizes = "({xaxis: x, yaxis: y, height}) => [x._length, y._length, height - y._offset - y._length]"
    wide, tall, left_over = chart.evaluate(f"chart => ({sizes})(chart._fullLayout)")
    assert abs(wide - tall) < 2
    assert left_over < 70  # the axis title, and no blank space below it
    assert visit.page.locator(".st-key-pair-panel").bounding_box()["y"] < check_narrow(visit)[0]["y"]


def check_narrow(visit):
    """Check that a narrow window stacks columns and keeps cards readable; return the boxes of the charts."""
    visit.page.set_viewport_size({"width": 760, "height": 1000})
    visit.page.locator("h1").scroll_into_view_if_needed()
    visit.settle()
    main = visit.page.locator("[data-testid=stMainBlockContainer]").bounding_box()
    charts = [chart.bounding_box() for chart in visit.page.locator(CHART).all()]
    assert min(chart["width"] for chart in charts) > 0.8 * main["width"]
    assert max(chart["x"] + chart["width"] for chart in charts) <= main["x"] + main["width"] + 1
    assert all(card.bounding_box()["width"] >= 140 for card in visit.page.locator(".cl-grid .cl-card").all())
    assert visit.page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 760
    return charts


def test_the_list_tooltips_and_columns_are_reached_by_keyboard(visit):
    visit.open("clusters?run=demo-baseline&versus=demo")
    visit.page.get_by_role("link", name="Skip to main content").focus()
    for key in (
        "Enter",
        "Tab",
        "Tab",
        "Tab",
        "Enter",
    ):  # two tabs of pages, then the button that skips to the list
        visit.page.keyboard.press(key)
    assert visit.page.locator("tbody tr[aria-selected=true]").first.evaluate("row => row.matches(':focus')")
    tooltip = visit.page.get_by_role("tooltip").or_(visit.page.locator("[data-testid=stTooltipContent]"))
    visit.page.get_by_role("button", name="Help for agreement").focus()
    tooltip.first.wait_for()
    visit.page.keyboard.press("Escape")
    tip = visit.page.locator(".cl-tip").first
    closed = tip.inner_text()
    tip.locator("summary").focus()
    visit.page.keyboard.press("Enter")
    assert len(tip.inner_text()) > len(closed)
    column = visit.page.locator("th button[data-help]").first
    column.focus()
    shown = column.evaluate("element => getComputedStyle(element, '::after').content")
    assert column.get_attribute("aria-description") in shown
    visit.page.keyboard.press("Enter")
    visit.page.locator("th[aria-sort=descending]").wait_for()


def test_a_click_on_a_graph_node_selects_the_concept(visit):
    ball = """chart => {
      const { xaxis, yaxis } = chart._fullLayout, box = chart.getBoundingClientRect()
      const trace = chart._fullData.find(t => t.mode === 'markers+text' && Array.from(t.text).includes('ball'))
      const i = Array.from(trace.text).indexOf('ball')
      return [box.x + xaxis._offset + xaxis.d2p(trace.x[i]), box.y + yaxis._offset + yaxis.d2p(trace.y[i])]
    }"""
    visit.open("concepts?run=concepts&concept=dog")
    graph = visit.page.locator(f".st-key-concept-graph-0 {CHART}")
    graph.scroll_into_view_if_needed()
    visit.settle()
    visit.page.mouse.click(*graph.evaluate(ball))
    visit.reach("concept=ball")
    assert visit.page.locator("h2", has_text="“ball”").count() == 1
