"""A real browser opens every page: every chart is drawn, nothing fails, nobody else is asked, captions stay text."""

from __future__ import annotations

import http.client
import json
import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pandas as pd
import pytest
import streamlit

from app import jobs, training
from app.charts import DARK, LIGHT
from tests.app.conftest import IMAGES
from tests.support.pages import PAGES, PROJECT
from tests.support.tiny_runs import write_tiny_data
from tests.support.visits import PATIENCE, Visit, given_runs, payloads, picture

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
STREAMLIT = Path(streamlit.__file__).parent
CORNERS = 32
EVERYTHING = "area=a:-9,-9,9,-9,9,9,-9,9"
PAIRS = {
    "concepts": ("concepts", "more-concepts"),
    "weights": ("combined", "opposite"),
    "split": ("holder", "run"),
}
SECTIONS = {
    "overview?": 6,
    "diversity?": 7,
    "diversity?anchors=Images&": 7,
    "weights?": 6,
    "similarity?": 8,
    f"joint?map=PCA&{EVERYTHING}&focus=caption-2&": 4,
    "clusters?k=4&": 4,
    "concepts?": 6,
    "retrieval?": 4,
    "retrieval?direction=Image+→+captions&": 4,
    "overview?split&": 0,
    "train?": 1,
    "reviews?": 5,
}


@pytest.mark.parametrize("page", SECTIONS)
def test_hostile_captions_and_names_stay_text_on_pages_accessible_in_both_themes(
    visit: Visit, listener: tuple[int, list[str]], page: str
) -> None:
    port = listener[0]
    kinds = next((pair for kind, pair in PAIRS.items() if kind in page), ("run-baseline", "run"))
    first, second = (picture(port, kind) for kind in kinds)
    listener[1].clear()
    values: dict[str, Any] = {"run": first, "versus": second, "watch": second}
    values |= {"also": [picture(port, "more-concepts")], "concept": picture(port, "word1")}
    if "split" in page:
        values = {"run": first, "versus": "—", "split": picture(port, "split")}
    charts = page not in ("train?", "overview?split&", "reviews?")
    visit.open(page + urlencode(values, doseq=True), charts=charts)
    for chart in visit.page.locator(".js-plotly-plot").all()[:2]:
        chart.hover()
    visit.check()
    assert visit.page.locator("h1", has_text="closed").count() == 0
    assert visit.page.locator("h2").count() == SECTIONS[page]
    if page == "concepts?":
        heading = visit.page.get_by_role("heading", name="Top readers of").inner_text()
        assert picture(port, "word1") in heading.replace("\u2060", "")
    if page.startswith("retrieval?direction"):
        assert visit.page.get_by_text("![picture]").count() > 0
    visit.check_accessibility()
    if charts:
        assert visit.colour() == LIGHT.ink
        visit.turn("dark")
        assert visit.colour() == DARK.ink
        visit.check()
        visit.check_accessibility(colours_only=True)
    assert listener[1] == []
    assert len(payloads(0)) == 20


def test_columns_explain_and_sort(visit: Visit) -> None:
    """In a table whose rows open nothing: the keyboard reads what a column is and sorts by it."""
    visit.open("overview?run=demo-baseline&versus=demo")
    column = visit.page.get_by_role("columnheader", name="MD").first.get_by_role("button")
    column.focus()
    tip = "element => getComputedStyle(element, '::after').content"
    assert "Mean similarity of matching pairs minus" in column.evaluate(tip)
    visit.page.keyboard.press("Enter")
    visit.page.locator("th[aria-sort=descending]").wait_for(timeout=PATIENCE)
    visit.settle()
    assert visit.page.locator("table.plain tbody tr[tabindex]").count() == 0
    assert visit.page.locator("[data-testid=stDataFrame]").count() == 0


@pytest.mark.skipif(given_runs() is None, reason="CODER_SCREENSHOT_RUNS names no folder of real runs")
def test_pictures_for_the_documentation(serve: Callable[[Path], int], browser: Any) -> None:
    root = given_runs()
    assert root is not None
    real = Visit(browser, serve(root))
    for page in (*PAGES, "train"):
        real.open(page, charts=False)
        real.check()
        real.shoot(f"{page}-real")
    real.context.close()


def test_a_link_to_a_page_may_be_the_first_request_to_a_server(
    serve: Callable[[Path], int], browser: Any, runs: Path
) -> None:
    fresh = Visit(browser, serve(runs))
    fresh.open("retrieval?direction=Image+→+captions")
    assert fresh.page.get_by_role("link", name="Overview").count() == 1
    assert fresh.page.get_by_role("link", name="streamlit app").count() == 0
    assert "direction=" in fresh.page.url
    fresh.check()
    fresh.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_start_page_popovers_dialogs_and_imported_runs_are_accessible(visit: Visit, theme: str) -> None:
    page, dark = visit.page, theme == "dark"
    page.emulate_media(color_scheme=theme)
    visit.open("start", charts=False)
    page.get_by_role("link", name="Open the overview").wait_for(timeout=PATIENCE)
    visit.check_accessibility(colours_only=dark)
    visit.open("retrieval?run=clip-blurred&versus=clip&values=true")
    visit.check_accessibility(colours_only=dark)
    for name in ("Download table", "Save figures"):
        page.get_by_role("button", name=name).first.click()
        page.get_by_test_id("stPopoverBody").wait_for(timeout=PATIENCE)
        visit.check_accessibility(colours_only=dark)
        page.keyboard.press("Escape")
    thumbnail = page.locator(".cl-card img").first
    image = int(re.search(r"scene (\d+)", thumbnail.get_attribute("alt") or "")[1])  # type: ignore[index]
    assert f"image {image} · " in page.locator(".cl-card").first.inner_text()
    thumbnail.click()
    large = page.get_by_role("dialog").get_by_role("img")
    large.wait_for(timeout=PATIENCE)
    visit.settle()
    assert large.get_attribute("alt") == f"view 0 of scene {image}"
    visit.check_accessibility(colours_only=dark)
    page.keyboard.press("Escape")
    if dark:
        visit.open("similarity?run=clip-blurred&versus=clip")
        wide, tall, left_over = page.evaluate(
            """() => {
              const chart = document.querySelector(".st-key-matrix-share-1 .js-plotly-plot")
              const {xaxis: x, yaxis: y, height} = chart._fullLayout
              return [x._length, y._length, height - y._offset - y._length]
            }"""
        )
        assert abs(wide - tall) < 2
        assert left_over < 70  # the axis title, and no blank space below it
        visit.check_accessibility(colours_only=dark)


def test_what_is_chosen_lives_in_the_url_and_follows_to_other_pages(visit: Visit) -> None:
    visit.open("diversity?measure=Entropy&caption=7&run=demo&versus=—")
    assert visit.page.get_by_text("Caption 7 of image 1").count() == 1
    visit.page.locator(".st-key-caption-next button").click()
    visit.page.wait_for_function("!location.search.includes('caption=7')", timeout=PATIENCE)
    visit.settle()
    assert "measure=Entropy" in visit.page.url
    visit.page.get_by_role("link", name="Retrieval").click()
    visit.page.wait_for_url("**/retrieval?*run=demo&versus=*", timeout=PATIENCE)
    visit.settle()


def test_a_picture_is_uploaded_and_answered(
    visit: Visit, runs: Path, tmp_path: Path, listener: tuple[int, list[str]]
) -> None:
    listener[1].clear()
    visit.open("retrieval?ask=Picture", charts=False)
    visit.page.get_by_text("No picture yet.").wait_for(timeout=PATIENCE)
    visit.page.locator("input[type=file]").set_input_files(runs.parent / "runs-pictures" / "7.png")
    visit.page.get_by_text("Using image 7 as the query", exact=False).first.wait_for(timeout=PATIENCE)
    visit.settle()
    assert visit.page.get_by_text("7.png").count() > 0
    assert visit.page.locator(".cl-card").count() == 20  # the ten captions of either run
    torn = tmp_path / f"{picture(listener[0], 'torn')}.png"
    torn.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))
    visit.page.locator("input[type=file]").set_input_files(torn)
    visit.page.get_by_text("This file cannot be used.").wait_for(timeout=PATIENCE)
    assert listener[1] == []


def test_a_hostile_name_that_is_chosen_stays_chosen_in_a_copied_link(
    visit: Visit, listener: tuple[int, list[str]]
) -> None:
    names = [picture(listener[0], kind) for kind in PAIRS["weights"]]
    visit.open("weights?" + urlencode({"run": names[0], "versus": names[1]}))
    visit.page.get_by_role("radio", name=names[0].partition("!")[0]).click()
    visit.page.wait_for_url("**weights-of=*", timeout=PATIENCE)
    visit.open(visit.page.url.rpartition("/")[2])
    visit.page.wait_for_url("**weights-of=*", timeout=PATIENCE)
    assert visit.page.get_by_role("radio", name=names[0].partition("!")[0]).is_checked()
    visit.open("weights?run=demo-baseline&versus=demo", charts=False)
    visit.page.get_by_role("button", name="Show combined").click()
    visit.page.wait_for_url(lambda url: parse_qs(url).get("versus") == ["—"], timeout=PATIENCE)
    assert parse_qs(urlsplit(visit.page.url).query)["run"] == ["combined"]
    visit.open(visit.page.url.rpartition("/")[2])
    assert visit.page.get_by_role("heading", name="Highest weights").is_visible()


def lasso(visit: Visit, pane: int, share: float) -> None:
    """Draw a circle around the middle of a map, over `share` of its height."""
    box = visit.page.locator(".st-key-joint-map .nsewdrag").nth(pane).bounding_box()
    x, y, radius = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, box["height"] * share / 2
    mouse = visit.page.mouse
    mouse.move(x + radius, y)
    mouse.down()
    for step in range(1, CORNERS + 1):
        angle = 2 * math.pi * step / CORNERS
        mouse.move(x + radius * math.cos(angle), y + radius * math.sin(angle))
    mouse.up()
    visit.page.wait_for_url("**area=*", timeout=PATIENCE)
    visit.settle()


def selected(visit: Visit) -> int:
    """ "47 of 360 selected" → 47."""
    text = visit.page.get_by_text(" selected: ").first.inner_text()
    return int(text.split(" of ")[0].split()[-1].replace(",", ""))


@pytest.mark.parametrize("pane", [0, 1])
def test_a_lasso_on_either_map_fills_the_table_and_the_files(visit: Visit, pane: int) -> None:
    visit.page.set_viewport_size({"width": 1280, "height": 1800})
    visit.open("joint?map=PCA")
    lasso(visit, pane, 0.5)
    count = selected(visit)
    assert 10 < count < 6 * IMAGES
    assert f"area={'ab'[pane]}" in visit.page.url
    highlighted = visit.page.evaluate(
        """() => {
          const seen = {x: new Set(), x2: new Set()}
          for (const t of document.querySelector('.st-key-joint-map .js-plotly-plot')._fullData)
            if (t.mode === 'markers' && t.customdata && t.selectedpoints)
              for (const i of Array.from(t.selectedpoints)) seen[t.xaxis].add(Number(Array.from(t.customdata)[i]))
          return [[...seen.x].sort(), [...seen.x2].sort()]
        }"""
    )
    assert highlighted[0] == highlighted[1]  # the same samples light up on both maps
    assert len(highlighted[0]) == count
    table = pd.read_csv(visit.downloaded("CSV"))
    assert len(table) == count
    ids = [
        n if kind == "image" else n + IMAGES
        for kind, n in zip(table["modality"], table["number"], strict=True)
    ]
    assert sorted(ids) == sorted(highlighted[0])
    parquet = pd.read_parquet(visit.downloaded("Parquet"))
    pd.testing.assert_frame_equal(parquet, table, check_dtype=False, check_exact=False)
    visit.page.goto(visit.page.url)  # a colleague opens the copied link
    visit.page.get_by_text(" selected: ").first.wait_for(timeout=PATIENCE)
    visit.settle()
    assert selected(visit) == count
    visit.page.get_by_role("button", name="Clear selection").click()
    visit.page.wait_for_function("!location.search.includes('area=')", timeout=PATIENCE)
    visit.settle()
    assert visit.page.get_by_text(" selected: ").count() == 0


def test_hover_names_the_cell_and_a_click_opens_the_pair(visit: Visit) -> None:
    visit.open("similarity")
    plot = visit.page.locator(".st-key-matrix-similarity-1 .js-plotly-plot .nsewdrag").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    cell = box["x"] + box["width"] * 0.51, box["y"] + box["height"] * 0.26
    visit.page.mouse.move(*cell)
    label = visit.page.locator(".st-key-matrix-similarity-1 .hoverlayer .hovertext").first
    label.wait_for(timeout=PATIENCE)
    caption, image = re.search(r"caption (\d+): \w.* · image (\d+)", label.text_content()).groups()  # type: ignore[union-attr]
    visit.page.mouse.click(*cell)
    visit.page.wait_for_function(f"location.search.includes('pair-caption={caption}')", timeout=PATIENCE)
    visit.settle()
    answer = visit.page.get_by_text(f"Image {image} with caption {caption}")
    assert answer.count() == 1
    for _ in range(2):  # the answer is in sight beside the matrix, also further down
        place = answer.bounding_box()
        assert 0 <= place["y"] <= visit.page.viewport_size["height"]
        assert place["x"] > plot.bounding_box()["x"] + plot.bounding_box()["width"]
        visit.page.locator(".st-key-matrix-share-1").scroll_into_view_if_needed()


def test_a_narrow_window_stacks_columns_and_keeps_cards_readable(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 760, "height": 1000})
    for path in ("retrieval?run=demo-baseline&versus=demo", "similarity"):
        visit.open(path)
        main = visit.page.locator("[data-testid=stMainBlockContainer]").bounding_box()
        charts = [chart.bounding_box() for chart in visit.page.locator(".js-plotly-plot").all()]
        assert min(chart["width"] for chart in charts) > 0.8 * main["width"]
        assert max(chart["x"] + chart["width"] for chart in charts) <= main["x"] + main["width"] + 1
        assert all(
            card.bounding_box()["width"] >= 140 for card in visit.page.locator(".cl-grid .cl-card").all()
        )
        assert visit.page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 760
    panel = visit.page.locator(".st-key-pair-panel").bounding_box()
    assert panel["y"] < charts[0]["y"]
    visit.check()


def test_tips_open_by_keyboard_and_touch(visit: Visit, browser: Any) -> None:
    visit.open("clusters?run=demo-baseline&versus=demo")
    visit.page.get_by_role("button", name="Help for agreement").focus()
    visit.page.get_by_text("each assigned alone").first.wait_for(timeout=PATIENCE)
    visit.page.keyboard.press("Escape")
    tip = visit.page.locator(".cl-tip").first
    tip.locator("summary").focus()
    visit.page.keyboard.press("Enter")
    assert "Cosine between" in tip.inner_text()
    column = visit.page.locator("th button[data-help]").first
    column.focus()
    shown = column.evaluate("element => getComputedStyle(element, '::after').content")
    assert column.get_attribute("aria-description") in shown
    context = browser.new_context(viewport={"width": 400, "height": 800}, has_touch=True)
    phone = context.new_page()
    phone.goto(visit.page.url)
    phone.get_by_role("button", name="Help for agreement").tap(timeout=PATIENCE)
    phone.get_by_text("each assigned alone").first.wait_for(timeout=PATIENCE)
    context.close()


def test_a_click_on_a_mark_chooses_the_concept(visit: Visit) -> None:
    visit.open("concepts?run=concepts&concept=dog")
    mark = visit.page.evaluate(
        """() => {
          const chart = document.querySelector('.st-key-concept-graph-0 .js-plotly-plot'), full = chart._fullLayout
          for (const t of chart._fullData) if (t.mode === 'markers+text') {
            const i = Array.from(t.text).indexOf('ball'), box = chart.getBoundingClientRect()
            if (i >= 0) return [box.x + full.xaxis._offset + full.xaxis.d2p(t.x[i]),
                                box.y + full.yaxis._offset + full.yaxis.d2p(t.y[i])]
          }
        }"""
    )
    visit.page.mouse.click(*mark)
    visit.page.wait_for_url("**concept=ball*", timeout=PATIENCE)
    visit.settle()
    assert visit.page.get_by_text("Top readers of “ball”").count() == 1


def test_two_tabs_and_a_reload_show_the_same_run(
    visit: Visit, browser: Any, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.app.test_train_page import TINY, fresh, until

    write_tiny_data(tmp_path / "data" / "tiny")
    monkeypatch.setenv("CODER_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CODER_CHECKPOINTS", str(runs))
    data = next(data for data in training.data_sets() if data.name == "tiny")
    training.start("demo", "mine", data, TINY | {"epochs": 100_000})
    try:
        tabs = [visit, Visit(browser, visit.port)]
        for tab in tabs:
            tab.open("train?watch=mine", charts=False)
            tab.page.get_by_text("running: step").wait_for(timeout=PATIENCE)
        before = visit.page.locator("text=/running: step/").inner_text()
        visit.page.wait_for_function(
            "before => !document.body.innerText.includes(before)", arg=before, timeout=PATIENCE
        )  # it moves on its own
        visit.page.reload()
        visit.page.get_by_text("running: step").wait_for(timeout=PATIENCE)
        visit.shoot("train-live-light")
        tabs[1].page.get_by_role("button", name="Stop", exact=True).click()
        for tab in tabs:
            tab.page.get_by_role("button", name="Resume").wait_for(timeout=PATIENCE)
        tabs[1].check()
        tabs[1].context.close()
    finally:
        for entry in fresh():
            if entry.stoppable:
                jobs.stop(entry.job_name)
        until(lambda: not any(entry.alive for entry in fresh()))


def answer(
    port: int, path: str, host: str, origin: str | None = None, method: str = "GET", **headers: str
) -> http.client.HTTPResponse:
    """The answer to a request with this Host and Origin."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    for name, value in {"Host": host, **({"Origin": origin} if origin else {}), **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    connection.close()
    return response


def request(*arguments: Any, **headers: str) -> int:
    """The status of `answer`."""
    return answer(*arguments, **headers).status


UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_a_foreign_host_or_origin_is_refused_on_pages_uploads_and_the_socket(port: int) -> None:
    own, foreign = f"127.0.0.1:{port}", "http://evil.example"
    for path in ("/", "/diversity", "/overview?run=../../etc", "/_stcore/health", "/_stcore/stream"):
        headers, success = (
            (UPGRADE, 101) if path.endswith("stream") else ({}, 200 if "health" in path else 307)
        )
        assert request(port, path, own, f"http://{own}", **headers) == success
        assert request(port, path, f"localhost:{port}", f"http://localhost:{port}", **headers) == success
        assert request(port, path, f"evil.example:{port}", **headers) == 403
        for origin in (foreign, f"http://127.0.0.1:{port + 1}", "http://127.0.0.1", f"https://{own}"):
            assert request(port, path, own, origin, **headers) == 403
    assert request(port, "/", own) == 307  # to the address with its runs
    assert request(port, "/_stcore/upload_file/a/b", own, foreign, "PUT") == 403


def test_every_answer_forbids_frames_and_foreign_content(port: int) -> None:
    own = f"127.0.0.1:{port}"
    script = re.search(r"\./(static/js/[\w.-]+\.js)", (STREAMLIT / "static" / "index.html").read_text())
    assert script is not None
    answers = {
        path: answer(port, path, own)
        for path in ("/", "/start", f"/{script[1]}", "/_stcore/health", "/media/none.png", "/none/none.js")
    }
    answers["socket"] = answer(port, "/_stcore/stream", own, f"http://{own}", **UPGRADE)
    answers["refused socket"] = answer(
        port, "/_stcore/stream", own, f"http://127.0.0.1:{port + 1}", **UPGRADE
    )
    answers["refused page"] = answer(port, "/", "evil.example")
    assert {
        name: response.status for name, response in answers.items() if response.status not in (200, 404)
    } == {"/": 307, "socket": 101, "refused socket": 403, "refused page": 403}
    for response in answers.values():
        assert response.headers.get_all("X-Frame-Options") == ["DENY"]
        assert response.headers.get_all("X-Content-Type-Options") == ["nosniff"]
        assert response.headers.get_all("Referrer-Policy") == ["no-referrer"]
        [policy] = response.headers.get_all("Content-Security-Policy")
        rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
        assert (
            rules["frame-ancestors"]
            == rules["object-src"]
            == rules["form-action"]
            == rules["base-uri"]
            == "'none'"
        )
        assert rules["default-src"] == "'self'"
        assert "'unsafe-inline'" not in rules["script-src"]
        assert not re.search(r"\*|https?:|(?<!127\.0\.0\.1):\d", policy)


def test_no_foreign_page_may_frame_the_app(browser: Any, port: int, tmp_path: Path) -> None:
    tab = browser.new_context().new_page()
    page = tmp_path / "foreign.html"
    page.write_text(f"<iframe src=http://127.0.0.1:{port}/train></iframe>")
    refusals: list[str] = []
    tab.on("console", lambda message: refusals.append(message.text))
    tab.goto(page.as_uri())
    tab.wait_for_timeout(1500)
    assert any("frame-ancestors" in text for text in refusals)
    assert tab.frame_locator("iframe").locator("[data-testid=stApp]").count() == 0
    tab.context.close()


def test_the_server_listens_on_this_machine_only_and_reports_nothing() -> None:
    config = tomllib.loads((PROJECT / ".streamlit" / "config.toml").read_text())
    server = config["server"]
    assert server["address"] == "127.0.0.1"
    assert server["allowedHosts"] == ["localhost", "127.0.0.1"]
    assert server["enableCORS"] is server["enableXsrfProtection"] is True
    assert server["maxUploadSize"] == 10
    assert config["browser"]["gatherUsageStats"] is False
    assert json.dumps(config).count("magicEnabled") == 1
