"""Heat maps of words over pictures, in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.views.heat_maps import NOTES, numbered, table_html
from coder_core.api import open_run
from coder_core.api.heat_maps import heat_map
from coder_core.embed import main as embed
from coder_core.features import main as features
from tests.support.heat_runs import train, write_heat_runs
from tests.support.picture_folders import CAPTIONS, LAYOUTS, NAMES, SPLITS, draw
from tests.support.visits import PATIENCE, Visit, payloads

DEV = [name for name in NAMES if SPLITS[name] == "dev"]
CAPTION = CAPTIONS[DEV[1]][1]  # the fourth of dev: "number 7: a disc, drawn"
browser_test = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]


def marked(test: Any) -> Any:
    for mark in browser_test:
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, own_threads: None) -> Path:
    """The runs, "bare", whose features are a detector's: without boxes and tower, and "tar" and "parquet", whose
    pictures lie inside such files; "tar-regions" and "parquet-regions" are trained on region features of those."""
    folder = write_heat_runs(tmp_path_factory.mktemp("heat"))
    bare = shutil.copytree(folder / "features", folder / "bare", ignore=shutil.ignore_patterns("*_boxes.npy"))
    (bare / "tower.json").unlink()
    train(folder, bare, "bare")
    for name, layout in (("tar", "webdataset"), ("parquet", "parquet")):
        LAYOUTS[layout](folder / name)
        given = [f"--model={folder / 'clip'}", f"--root={folder / 'runs'}", f"--name={name}", "--workers=0"]
        assert embed(["pictures", str(folder / name), *given]) == 0
        regions = folder / f"{name}-regions"
        given = [f"--model={folder / 'clip'}", f"--out={regions}", "--workers=0", "--grid=2"]
        assert features([str(folder / name), *given, "--splits", "train", "dev"]) == 0
        train(folder, regions, regions.name, pictures="")
    return folder


@pytest.fixture(scope="module")
def heat(browser: Any, serve: Callable[[Path], int], base: Path) -> Iterator[Visit]:
    visit = Visit(browser, serve(base / "runs"))
    yield visit
    visit.context.close()


def drawn(visit: Visit, position: int = 0) -> dict[str, Any]:
    """The trace, picture and frame of a heat map once it is there."""
    visit.settle()
    one = f"document.querySelectorAll('.st-key-heat-{position} .js-plotly-plot .plot-container').length == 1"
    visit.page.wait_for_function(one, timeout=PATIENCE)
    visit.settle()
    figure: dict[str, Any] = visit.page.evaluate(
        """position => {
          const { _fullData, layout } = document.querySelector(`.st-key-heat-${position} .js-plotly-plot`)
          const rows = Array.from(_fullData[0].z || [_fullData[0].y], row => Array.from(row))
          return { type: _fullData[0].type, rows, images: layout.images, shapes: layout.shapes }
        }""",
        position,
    )
    return figure


@marked
def test_a_word_is_picked_and_its_regions_are_lit(
    heat: Visit, base: Path, listener: tuple[int, list[str]]
) -> None:
    runs = {name: open_run(base / "runs" / name) for name in ("plain", "words", "clip")}
    heat.open("retrieval?run=plain&versus=words&query-text=3&heat=true")
    expected = {name: heat_map(runs[name], "dev", CAPTION, 1, "cosine") for name in ("plain", "words")}
    words = heat.page.locator(".st-key-word").get_by_role("radio")
    first = drawn(heat)
    assert words.all_inner_texts() == expected["plain"].words
    chosen = expected["words"].most_varied()
    assert words.nth(chosen).get_attribute("aria-checked") == "true"
    np.testing.assert_allclose(np.ravel(first["rows"]), expected["plain"].values[chosen], atol=1e-5)
    assert first["images"][0]["source"].startswith("data:image/jpeg;base64,")
    other = (chosen + 1) % len(expected["plain"].words)
    words.nth(chosen).focus()
    heat.page.keyboard.press("ArrowRight" if other else "Home")
    heat.page.keyboard.press("Space")
    heat.page.wait_for_url(re.compile(rf"[?&]word={expected['plain'].words[other]}(&|$)"), timeout=PATIENCE)
    heat.settle()
    heat.page.get_by_text("Scorer’s attention").click()
    heat.page.get_by_text(NOTES["attention"]).wait_for(timeout=PATIENCE)
    expected["words"] = heat_map(runs["words"], "dev", CAPTION, 1, "attention")
    for position, name in enumerate(("plain", "words")):  # the other run has cosines only
        figure = drawn(heat, position)
        values = expected[name].values[other]
        np.testing.assert_allclose(np.ravel(figure["rows"]), values, atol=1e-5)
        box = expected[name].boxes[int(values.argmax())]
        frame = figure["shapes"][0]
        np.testing.assert_allclose([frame[side] for side in ("x0", "y0", "x1", "y1")], box, atol=1e-5)
    heat.page.get_by_text("All words and regions as a table").nth(1).click()
    table = heat.page.locator("table.cl-values").last
    assert table.locator("tbody th").all_inner_texts() == expected["words"].words
    row = [float(text) for text in table.locator("tbody tr").nth(other).locator("td").all_inner_texts()]
    np.testing.assert_allclose(row, expected["words"].values[other], atol=0.006)
    heat.check_accessibility()
    heat.check()
    # a hostile text is words and nothing else, with the towers of a pretrained run too
    text = payloads(listener[0])[3]
    heat.open("retrieval?run=clip&versus=—&ask=Free+text&heat=true", charts=False)
    heat.page.get_by_label("Text query").fill(text)
    heat.page.keyboard.press("Enter")
    drawn(heat)
    assert "onerror" in words.all_inner_texts()
    heat.page.get_by_text("Tower’s attention").click()
    heat.page.get_by_text("the same for every word").wait_for(timeout=PATIENCE)
    best = int(runs["clip"].search(text, split="dev")["candidate"][0])
    attention = heat_map(runs["clip"], "dev", text, best, "tower")
    np.testing.assert_allclose(np.ravel(drawn(heat)["rows"]), attention.values[0], atol=1e-5)
    heat.check()
    # an uploaded picture: its regions come from the tower that made the run's features
    heat.open("retrieval?run=plain&versus=—&ask=Picture&heat=true", charts=False)
    file = {"name": "new.jpg", "mimeType": "image/jpeg", "buffer": draw(NAMES.index(DEV[1]))}
    heat.page.locator("input[type=file]").set_input_files(file)
    best = runs["plain"].search(1, split="dev", modality="image")["candidate"][0]
    figure = drawn(heat)
    uploaded = heat_map(runs["plain"], "dev", runs["plain"].captions("dev")[best], 1, "cosine")
    np.testing.assert_allclose(np.ravel(figure["rows"]), uploaded.values[uploaded.most_varied()], atol=1e-4)
    heat.check()


@marked
def test_an_anchor_and_regions_that_lie_nobody_knows_where(heat: Visit, base: Path) -> None:
    heat.open("diversity?run=bare&versus=—&caption=3&heat=true")
    figure = drawn(heat)
    assert figure["type"] == "bar"
    run = open_run(base / "runs" / "bare")
    expected = heat_map(run, "dev", CAPTION, 1, "cosine")
    np.testing.assert_allclose(figure["rows"][0], expected.values[expected.most_varied()], atol=1e-5)
    heat.page.get_by_text("There is no file of boxes beside these features").wait_for(timeout=PATIENCE)
    heat.page.get_by_role("radiogroup", name="Negative").get_by_text("2", exact=True).click()
    heat.page.wait_for_url(re.compile(r"[?&]pair=2(&|$)"), timeout=PATIENCE)
    nearest = run.anchor(3, split="dev").nearest(2)["candidate"].tolist()
    expected = heat_map(run, "dev", CAPTION, nearest[1], "cosine")
    values = drawn(heat)["rows"][0]
    word = heat.page.locator(".st-key-word [aria-checked=true]").inner_text()
    np.testing.assert_allclose(values, expected.values[expected.words.index(word)], atol=1e-5)
    heat.check()


@marked
def test_pictures_inside_tar_and_parquet_files_are_shown(heat: Visit, base: Path) -> None:
    heat.open("retrieval?run=tar&versus=parquet&query-text=3&heat=true")
    expected = heat_map(open_run(base / "runs" / "tar"), "dev", CAPTION, 1, "cosine")
    for position in (0, 1):  # both runs hold the same pictures
        figure = drawn(heat, position)
        assert figure["images"][0]["source"].startswith("data:image/jpeg;base64,")
        np.testing.assert_allclose(
            np.ravel(figure["rows"]), expected.values[expected.most_varied()], atol=1e-5
        )
    cards = heat.page.locator("[data-image]")
    assert sorted(set(cards.evaluate_all("all => all.map(card => card.dataset.image)"))) == ["0", "1", "2"]
    assert all(cards.locator("img").evaluate_all("all => all.map(image => image.naturalWidth > 0)"))
    cards.first.click()
    heat.page.get_by_role("dialog").locator("img").wait_for(timeout=PATIENCE)
    heat.check_accessibility()
    heat.page.keyboard.press("Escape")
    heat.open("retrieval?run=parquet&versus=—&ask=Picture", charts=False)
    file = {"name": "new.jpg", "mimeType": "image/jpeg", "buffer": draw(NAMES.index(DEV[1]))}
    heat.page.locator("input[type=file]").set_input_files(file)
    heat.page.get_by_text("This run encodes the picture from its pixels.").wait_for(timeout=PATIENCE)
    heat.check()


@marked
def test_runs_on_region_features_of_packed_pictures_show_them(heat: Visit) -> None:
    pair = "run=tar-regions&versus=parquet-regions"
    for page in (f"retrieval?{pair}&query-text=3&heat=true", f"diversity?{pair}&caption=3&heat=true"):
        heat.open(page)
        for position in (0, 1):
            assert drawn(heat, position)["images"][0]["source"].startswith("data:image/jpeg;base64,")
        cards = heat.page.locator("[data-image]")
        cards.first.wait_for(timeout=PATIENCE)
        assert len(set(cards.evaluate_all("all => all.map(card => card.dataset.image)"))) >= 2
        assert all(cards.locator("img").evaluate_all("all => all.map(image => image.naturalWidth > 0)"))
        assert cards.locator("img").count() == cards.count()
        heat.check()


def test_words_of_a_table_are_text_and_repeated_words_are_told_apart() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    html = table_html([hostile, "b"], np.array([[0.5, np.nan], [0.1, 0.2]]), "cosine")
    assert hostile not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "<td><b>0.50</b></td><td>–</td>" in html
    assert numbered(["a", "dog", "a", "a"]) == ["a", "dog", "a (2)", "a (3)"]
