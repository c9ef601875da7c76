"""Heat maps of words over pictures, in a real browser."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.views.heat_maps import LABELS
from coder_core.api import open_run
from coder_core.api.heat_maps import heat_map
from coder_core.embed import main as embed
from coder_core.features import main as features
from tests.support.heat_runs import train, write_heat_runs
from tests.support.numerics import numerics_unchanged
from tests.support.picture_folders import CAPTIONS, LAYOUTS, NAMES, SPLITS, draw
from tests.support.visits import CHART, Listener, Visit, payloads

DEV = [name for name in NAMES if SPLITS[name] == "dev"]
CAPTION = CAPTIONS[DEV[1]][1]  # the fourth of dev: "number 7: a disc, drawn"
UPLOAD = {"name": "new.jpg", "mimeType": "image/jpeg", "buffer": draw(NAMES.index(DEV[1]))}


@pytest.fixture(scope="module")
def heat(runs: Path) -> Path:
    """`runs` with those of `write_heat_runs`, "bare", whose features are a detector's: without boxes and tower, and
    "tar" and "parquet", whose pictures lie inside such files, with "tar-regions" and "parquet-regions" on their regions."""
    folder = runs.parent
    with numerics_unchanged():
        write_heat_runs(folder)
        bare = folder / "bare"
        shutil.copytree(folder / "features", bare, ignore=shutil.ignore_patterns("*_boxes.npy"))
        (bare / "tower.json").unlink()
        train(folder, bare, "bare")
        given = [f"--model={folder / 'clip'}", "--workers=0"]
        for name, layout in (("tar", "webdataset"), ("parquet", "parquet")):
            data, regions = folder / name, folder / f"{name}-regions"
            LAYOUTS[layout](data)
            assert embed(["pictures", str(data), *given, f"--root={runs}", f"--name={name}"]) == 0
            flags = [f"--out={regions}", "--grid=2", "--splits", "train", "dev"]
            assert features([str(data), *given, *flags]) == 0
            train(folder, regions, regions.name, pictures="")
    return runs


def drawn(visit: Visit, position: int = 0) -> dict[str, Any]:
    """The trace, picture and frame of a heat map once it is there."""
    chart = f".st-key-heat-{position} {CHART}"
    visit.settle()
    visit.page.locator(f"{chart} .plot-container").wait_for()
    visit.settle()
    figure: dict[str, Any] = visit.page.evaluate(
        """chart => {
          const { _fullData, layout } = document.querySelector(chart)
          const rows = Array.from(_fullData[0].z || [_fullData[0].y], row => Array.from(row))
          return { type: _fullData[0].type, rows, images: layout.images, shapes: layout.shapes }
        }""",
        chart,
    )
    return figure


def assert_close(figure: dict[str, Any], values: np.ndarray, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(np.ravel(figure["rows"]), values, atol=atol)


def test_a_word_is_picked_and_its_regions_are_lit(visit: Visit, heat: Path) -> None:
    plain, scored = (open_run(heat / name) for name in ("plain", "words"))
    visit.open("retrieval?run=plain&versus=words&query-text=3&heat=true")
    expected = [heat_map(run, "dev", CAPTION, 1, "cosine") for run in (plain, scored)]
    words = visit.page.locator(".st-key-word").get_by_role("radio")
    first = drawn(visit)
    assert words.all_inner_texts() == expected[0].words
    lit = expected[1].most_varied()
    assert words.nth(lit).get_attribute("aria-checked") == "true"
    assert_close(first, expected[0].values[lit])
    assert first["images"][0]["source"].startswith("data:image/jpeg;base64,")
    other = (lit + 1) % len(expected[0].words)
    words.nth(lit).focus()
    visit.page.keyboard.press("ArrowRight" if other else "Home")
    visit.page.keyboard.press("Space")
    visit.reach(rf"[?&]word={expected[0].words[other]}(&|$)")
    visit.page.get_by_text(LABELS["attention"]).click()
    visit.reach("[?&]map=")
    expected[1] = heat_map(scored, "dev", CAPTION, 1, "attention")
    for position, known in enumerate(expected):  # the other run has cosines only
        figure, values = drawn(visit, position), known.values[other]
        assert_close(figure, values)
        frame = [figure["shapes"][0][side] for side in ("x0", "y0", "x1", "y1")]
        np.testing.assert_allclose(frame, known.boxes[int(values.argmax())], atol=1e-5)
    visit.page.locator("[data-testid=stExpander] summary").last.click()
    table = visit.page.locator("table.cl-values").last
    assert table.locator("tbody th").all_inner_texts() == expected[1].words
    row = [float(text) for text in table.locator("tbody tr").nth(other).locator("td").all_inner_texts()]
    np.testing.assert_allclose(row, expected[1].values[other], atol=0.006)
    visit.check_accessibility()


def test_a_hostile_text_is_words_and_an_upload_has_regions(
    visit: Visit, heat: Path, listener: Listener
) -> None:
    """Draw them with the towers of a pretrained run, and with those that made a run's features."""
    text = payloads(listener[0])[3]
    visit.open("retrieval?run=clip&versus=—&ask=Free+text&heat=true", charts=False)
    visit.enter("Text query", text)
    drawn(visit)
    assert "onerror" in visit.page.locator(".st-key-word").get_by_role("radio").all_inner_texts()
    visit.page.get_by_text(LABELS["tower"]).click()
    visit.reach("[?&]map=")
    clip, plain = open_run(heat / "clip"), open_run(heat / "plain")
    best = int(clip.search(text, split="dev")["candidate"][0])
    assert_close(drawn(visit), heat_map(clip, "dev", text, best, "tower").values[0])
    visit.check()
    visit.open("retrieval?run=plain&versus=—&ask=Picture&heat=true", charts=False)
    visit.page.locator("input[type=file]").set_input_files(UPLOAD)
    best = plain.search(1, split="dev", modality="image")["candidate"][0]
    uploaded = heat_map(plain, "dev", plain.captions("dev")[best], 1, "cosine")
    assert_close(drawn(visit), uploaded.values[uploaded.most_varied()], atol=1e-4)


def test_an_anchor_and_regions_without_boxes(visit: Visit, heat: Path) -> None:
    visit.open("diversity?run=bare&versus=—&caption=3&heat=true")
    figure, run = drawn(visit), open_run(heat / "bare")
    assert figure["type"] == "bar"
    expected = heat_map(run, "dev", CAPTION, 1, "cosine")
    assert_close(figure, expected.values[expected.most_varied()])
    visit.page.get_by_role("radiogroup", name="Negative").get_by_text("2", exact=True).click()
    visit.reach(r"[?&]pair=2(&|$)")
    nearest = run.anchor(3, split="dev").nearest(2)["candidate"].tolist()
    expected = heat_map(run, "dev", CAPTION, nearest[1], "cosine")
    figure = drawn(visit)
    word = visit.page.locator(".st-key-word [aria-checked=true]").inner_text()
    assert_close(figure, expected.values[expected.words.index(word)])


@pytest.mark.parametrize(
    ("page", "suffix"),
    [
        ("retrieval?query-text=3", ""),
        ("retrieval?query-text=3", "-regions"),
        ("diversity?caption=3", "-regions"),
    ],
)
def test_pictures_inside_tar_and_parquet_are_shown(visit: Visit, heat: Path, page: str, suffix: str) -> None:
    visit.open(f"{page}&run=tar{suffix}&versus=parquet{suffix}&heat=true")
    for position in (0, 1):  # both runs hold the same pictures
        figure = drawn(visit, position)
        assert figure["images"][0]["source"].startswith("data:image/jpeg;base64,")
        if not suffix:
            expected = heat_map(open_run(heat / "tar"), "dev", CAPTION, 1, "cosine")
            assert_close(figure, expected.values[expected.most_varied()])
    cards = visit.page.locator("[data-image]")
    cards.first.wait_for()
    assert len(set(cards.evaluate_all("all => all.map(card => card.dataset.image)"))) >= 2
    assert all(cards.locator("img").evaluate_all("all => all.map(image => image.naturalWidth > 0)"))
    assert cards.locator("img").count() == cards.count()
    if not suffix:
        cards.first.click()
        visit.page.get_by_role("dialog").locator("img").wait_for()
        assert visit.violations("[role=dialog]") == []
        visit.page.keyboard.press("Escape")


def test_a_run_of_packed_pictures_encodes_an_uploaded_one(visit: Visit, heat: Path) -> None:
    visit.open("retrieval?run=parquet&versus=—&ask=Picture", charts=False)
    visit.page.locator("input[type=file]").set_input_files(UPLOAD)
    visit.page.locator(".cl-card").first.wait_for()
    visit.settle()
    assert visit.page.locator(".cl-empty").count() == 0
