"""The map of Joint space in a real browser: search while typing, hover, click, colours, keys; many points."""

import math
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coder_core.api import open_run
from coder_core.config.schema import Config
from coder_core.runs.analysis.write import write_analysis
from tests.app.conftest import IMAGES
from tests.support import visits
from tests.support.run_folders import unit, write_configured
from tests.support.tiny_runs import changed

SPACE = "document.querySelector('.cl-map').parentElement.space"
LIT = f"Array.from({SPACE}.panels[0].plot.get('selectedPoints')).sort((a, b) => a - b)"
# images, each with one caption: more than 65,536 points are drawn before a worker has indexed them; 100,000 pass too
MANY = int(os.environ.get("CODER_MAP_IMAGES", 33_000))
FOUND = Path(visits.__file__).with_name("map_index.js").read_text("utf-8")
CORNERS = 12


@pytest.fixture
def visit(map_visit):
    return map_visit


def place(visit, point):
    """Return where a point of the last map is in the window."""
    x, y = visit.page.evaluate(f"{SPACE}.panels.at(-1).place({point})")
    stage = visit.page.locator(".cl-map-stage").last
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    return box["x"] + x, box["y"] + y


def test_points_light_up_while_typing_and_a_click_opens_a_sample_with_its_neighbours(visit, runs):
    visit.open("joint?run=demo&map=PCA", charts=False)
    field = visit.page.get_by_label("Find on the map")
    field.fill("scene 14, way 3")
    visit.page.wait_for_function("document.querySelector('.cl-map-found').textContent === '2 matches'")
    assert "find=" not in visit.page.url  # the page runs when the search is finished
    run = open_run(runs / "demo")
    caption = next(j for j, text in enumerate(run.captions("dev")) if text == "scene 14, told in way 3")
    assert visit.page.evaluate(LIT) == [14, IMAGES + caption]
    field.press("Enter")
    visit.reach("find=scene")
    rows = visit.page.locator("tbody tr").all_inner_texts()
    assert len(rows) == 2
    assert f"caption {caption} " in rows[1]
    field.fill("")
    field.press("Enter")
    visit.page.wait_for_function("!location.search.includes('find=')")
    visit.settle()
    point = int(
        visit.page.evaluate(
            f"Array.from({SPACE}.panels[0].y).reduce((top, y, i, all) => y > all[top] ? i : top, 0)"
        )
    )
    visit.page.mouse.move(*place(visit, point))
    tip = visit.page.locator(".cl-map-tip")
    tip.wait_for()
    name = f"image {point}" if point < IMAGES else f"caption {point - IMAGES}"
    assert tip.inner_text().startswith(name)
    assert tip.locator("img").evaluate("image => image.naturalWidth") > 0
    visit.page.mouse.click(*place(visit, point))
    visit.reach(f"focus={name.replace(' ', '-')}")
    rows = np.concatenate(run.embeddings("dev"))
    cosines = rows @ rows[point]
    cosines[point] = -1
    nearest = int(cosines.argmax())
    assert visit.page.evaluate(f"{SPACE}.data.near")[0] == nearest
    expected = f"image {nearest}" if nearest < IMAGES else f"caption {nearest - IMAGES}"
    assert re.search(rf"\b{expected}\b", visit.page.locator("tbody tr").first.inner_text())


def test_a_name_in_the_legend_hides_its_points_and_keys_move_the_map(visit):
    visit.open("joint?run=demo&map=PCA", charts=False)
    chip = visit.page.locator(".cl-map-legend button", has_text="caption")
    opacities = f"Array.from({SPACE}.panels[0].plot.get('opacity'))"
    before = visit.page.evaluate(opacities)
    chip.press("Enter")
    assert chip.get_attribute("aria-pressed") == "false"
    assert [a != b for a, b in zip(before, visit.page.evaluate(opacities), strict=True)] == [False, True]
    stage = visit.page.locator(".cl-map-stage")
    assert f"{IMAGES} images" in stage.get_attribute("aria-label")
    stage.focus()
    target = f"Array.from({SPACE}.panels[0].plot.get('cameraTarget'))"
    x, _ = visit.page.evaluate(target)
    visit.page.keyboard.press("ArrowRight")
    assert visit.page.evaluate(target)[0] > x
    distance = f"{SPACE}.panels[0].plot.get('cameraDistance')"
    far = visit.page.evaluate(distance)
    visit.page.keyboard.press("+")
    assert visit.page.evaluate(distance) < far


def lasso(visit, pane):
    """Draw a lasso, a circle over half the height of a map; return the number of selected points."""
    map_area = visit.page.locator(".cl-map-stage").nth(pane)
    map_area.scroll_into_view_if_needed()
    box = map_area.bounding_box()
    mouse = visit.page.mouse
    x = box["x"] + box["width"] / 2
    y = box["y"] + box["height"] / 2
    radius = box["height"] / 4
    mouse.move(x + radius, y)
    mouse.down()
    for angle in np.linspace(0, 2 * np.pi, CORNERS + 1)[1:].tolist():
        mouse.move(x + radius * math.cos(angle), y + radius * math.sin(angle))
    mouse.up()
    visit.reach(f"area={'ab'[pane]}")
    text = visit.page.get_by_text(" selected: ").first.inner_text()  # "47 of 360 selected: …"
    return int(text.split(" of ")[0].split()[-1].replace(",", ""))


def test_a_lasso_on_either_map_fills_the_table_and_downloads(visit):
    lit = "panels => panels.map(({ plot }) => Array.from(plot.get('selectedPoints')).sort((a, b) => a - b))"
    highlighted = f"({lit})(document.querySelector('.cl-map').parentElement.space.panels)"
    drawn = f"""async () => {{
      let drawn = 0
      for (const panel of {SPACE}.panels) panel.plot.subscribe("draw", () => drawn++)
      await new Promise((over) => setTimeout(over, 500))
      return drawn
    }}"""
    with visit.task("run=demo-baseline&run=demo"):
        visit.follow("Joint space")
        visit.page.get_by_role("combobox", name="Color").click()
        visit.page.get_by_role("option", name="words", exact=True).click()
        visit.reach("colour=words")
        lasso(visit, 0)
        assert visit.page.locator(".stMain tbody tr").count() > 5
    visit.open("joint?run=demo-baseline&run=demo&map=PCA", charts=False)
    assert visit.page.evaluate(drawn) <= 2  # maps that show the same part do not move one another for ever
    for pane in (0, 1):
        count = lasso(visit, pane)
        assert 10 < count < 6 * IMAGES
        first, second = visit.page.evaluate(highlighted)
        assert first == second  # the same samples light up on both maps
        assert len(first) == count
        table = pd.read_csv(visit.downloaded("CSV"))
        ids = table["number"].where(table["modality"] == "image", table["number"] + IMAGES)
        assert sorted(ids) == first
        if pane == 0:
            parquet = pd.read_parquet(visit.downloaded("Parquet"))
            pd.testing.assert_frame_equal(parquet, table, check_dtype=False, check_exact=False)
            visit.page.get_by_role("button", name="Clear selection").click()
            visit.page.wait_for_function("!location.search.includes('area=')")
            visit.settle()
            assert visit.page.get_by_text(" selected: ").count() == 0


def write_many(root):
    """Write a run of images with a caption each, of whose queries none is ranked first."""
    rng = np.random.default_rng(0)
    v = rng.normal(size=(MANY, 8))
    w = v + 0.5 * rng.normal(size=v.shape)
    one = np.arange(MANY)
    nobody = np.zeros(0, dtype=np.int64)
    unranked = np.full(MANY, -1)
    tables = {
        "image_ranks": unranked,
        "text_ranks": unranked,
        "image_queries": nobody,
        "text_queries": nobody,
    }
    tables |= {"image_best": np.full((MANY, 10), -1), "text_best": np.full((MANY, 10), -1)}
    tables |= {"image_embeddings": unit(v), "text_embeddings": unit(w), "image_of_text": one}
    folder = write_configured(root, changed(Config(name="many"), data="demo"))
    write_analysis(
        folder,
        "dev",
        captions=[f"number {row}" for row in one.tolist()],
        image_names=[f"{row}.png" for row in one.tolist()],
        metrics={},
        fingerprint="0" * 64,
        source="synthetic",
        **tables,
    )


def test_many_points_are_drawn_and_selected_by_a_lasso(visit, move, tmp_path):
    """Every other test draws a few hundred points. The library packs points into textures by number, and its index must
    find each of them."""
    write_many(tmp_path / "runs")
    move(tmp_path)
    visit.open("joint?run=many&map=PCA", charts=False)
    drawn = visit.page.evaluate(f"[{SPACE}.data.count, {SPACE}.panels[0].plot.get('isPointsDrawn')]")
    assert drawn == [2 * MANY, True]
    visit.page.wait_for_selector(".cl-map-stage[data-index=filled]")
    asked = np.random.default_rng(0).choice(2 * MANY, 200, replace=False).tolist()
    for point, (found, every) in zip(asked, visit.page.evaluate(FOUND, asked), strict=True):
        assert point in found
        assert found == every
    visit.page.mouse.move(*place(visit, asked[0]))
    visit.page.locator(".cl-map-tip").get_by_text("number").wait_for()
    box = visit.page.locator(".cl-map-stage").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    visit.page.mouse.move(x - 60, y - 60)
    visit.page.mouse.down()
    for across, down in ((60, -60), (60, 60), (-60, 60), (-60, -60)):
        visit.page.mouse.move(x + across, y + down, steps=4)
    visit.page.mouse.up()
    visit.reach("area=a")
    lit = visit.page.evaluate(f"{SPACE}.panels[0].plot.get('selectedPoints').length")
    assert MANY / 5 < lit < 2 * MANY
    assert visit.page.get_by_text(f"{lit:,} of {2 * MANY:,} selected").count() == 1
    visit.darken()
    visit.check_accessibility()
