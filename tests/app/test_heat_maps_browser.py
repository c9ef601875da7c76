"""Heat maps of words over pictures, in a real browser."""

import shutil

import numpy as np
import pytest

from app.components.heat_maps import LABELS
from coder_core.api import open_run
from coder_core.api.heat_maps import heat_map
from coder_core.api.masked_maps import mask_map
from coder_core.embed import main as embed
from coder_core.features import main as features
from tests.support.numerics import numerics_unchanged
from tests.support.picture_folders import CAPTIONS, LAYOUTS, NAMES, SPLITS, draw
from tests.support.trained_runs import train_on_regions, write_heat_runs
from tests.support.visits import CHART, payloads, picture

DEV = [name for name in NAMES if SPLITS[name] == "dev"]
CAPTION = CAPTIONS[DEV[1]][1]  # the fourth of dev: "number 7: a disc, drawn"


@pytest.fixture(scope="module")
def heat(runs):
    """`runs`, those of `write_heat_runs`, "bare" (features without boxes and tower, like a detector's), "tar"
    (pretrained) and "parquet" (trained on regions); the pictures of the last two are inside such files."""
    folder = runs.parent
    with numerics_unchanged():
        write_heat_runs(folder)
        bare = folder / "bare"
        regions = folder / "parquet-regions"
        shutil.copytree(folder / "features", bare, ignore=shutil.ignore_patterns("*_boxes.npy"))
        (bare / "tower.json").unlink()
        train_on_regions(folder, bare, "bare")
        for name, layout in (("tar", "webdataset"), ("parquet", "parquet")):
            LAYOUTS[layout](folder / name)
        flags = [f"--model={folder / 'clip'}", "--workers=0"]
        assert embed(["pictures", str(folder / "tar"), *flags, f"--root={runs}", "--name=tar"]) == 0
        flags += [f"--out={regions}", "--grid=2", "--splits", "train", "dev"]
        assert features([str(folder / "parquet"), *flags]) == 0
        train_on_regions(folder, regions, "parquet", pictures="")
    return runs


def drawn(visit, position=0):
    """Wait for a heat map; return its figure and the values of its trace."""
    chart = f".st-key-heat-{position} {CHART}"
    visit.settle()
    visit.page.locator(f"{chart} .plot-container").wait_for()
    visit.settle()
    return visit.page.evaluate(
        """chart => {
          const { _fullData, layout } = document.querySelector(chart)
          const rows = Array.from(_fullData[0].z || [_fullData[0].y], row => Array.from(row))
          return { type: _fullData[0].type, rows, images: layout.images, shapes: layout.shapes }
        }""",
        chart,
    )


def picked(visit):
    """Return the word whose regions are highlighted."""
    return str(
        visit.page.locator(
            ".st-key-word [aria-checked=true], .st-key-anchor-word [aria-checked=true]"
        ).inner_text()
    )


def assert_close(figure, values, atol=1e-5):
    np.testing.assert_allclose(np.ravel(figure["rows"]), values, atol=atol)


def test_selecting_a_word_highlights_its_regions(visit, heat):
    plain, scored = (open_run(heat / name) for name in ("plain", "words"))
    visit.open("retrieval?run=plain&versus=words&query-text=3&heat=true&heat-map=Cosine")
    expected = [heat_map(run, "dev", CAPTION, 1, "cosine") for run in (plain, scored)]
    words = visit.page.locator(".st-key-word").get_by_role("radio")
    first = drawn(visit)
    assert words.all_inner_texts() == expected[0].words
    lit = expected[1].first_content_word()
    assert words.nth(lit).get_attribute("aria-checked") == "true"
    assert_close(first, expected[0].values[lit])
    assert first["images"][0]["source"].startswith("data:image/jpeg;base64,")
    other = (lit + 1) % len(expected[0].words)
    words.nth(lit).focus()
    visit.page.keyboard.press("ArrowRight" if other else "Home")
    visit.page.keyboard.press("Space")
    visit.reach(rf"[?&]word={expected[0].words[other]}(&|$)")
    visit.check_accessibility()
    visit.page.get_by_text(LABELS["attention"]).click()
    visit.reach("[?&]heat-map=")
    expected[1] = heat_map(scored, "dev", CAPTION, 1, "attention")
    for position, known in enumerate(expected):  # the other run has cosines only
        figure = drawn(visit, position)
        values = known.values[other]
        assert_close(figure, values)
        frame = [figure["shapes"][0][side] for side in ("x0", "y0", "x1", "y1")]
        np.testing.assert_allclose(frame, known.boxes[int(values.argmax())], atol=1e-5)
    visit.page.locator("[data-testid=stExpander] summary").last.click()
    table = visit.page.get_by_role("table", name="words, attention").last
    assert table.locator("td:first-child").all_inner_texts() == expected[1].words
    row = [float(text) for text in table.locator("tr").nth(1 + other).locator("td").all_inner_texts()[1:]]
    assert row[0] == 1 + expected[1].values[other].argmax()
    np.testing.assert_allclose(row[1:], expected[1].values[other], atol=0.006)


def test_hostile_texts_and_uploads_have_heat_maps(visit, heat, listener):
    """Their maps use the towers of a pretrained run, or those that made a run's features."""
    port, requests = listener
    text = payloads(port)[3]
    requests.clear()
    with visit.task("run=clip"):
        visit.follow("Retrieval")
        visit.page.get_by_text("Free text", exact=True).click()
        visit.enter("Text query", text)
        visit.reach("ask=Free")
        visit.page.get_by_text("Show heat maps", exact=True).click()
        visit.page.get_by_text(LABELS["cosine"]).click()
        drawn(visit)
    assert "onerror" in visit.page.locator(".st-key-word").get_by_role("radio").all_inner_texts()
    visit.page.get_by_text(LABELS["tower"]).click()
    visit.reach("[?&]heat-map=")
    clip = open_run(heat / "clip")
    plain = open_run(heat / "plain")
    best = int(clip.search(text, split="dev")["candidate"][0])
    assert_close(drawn(visit), heat_map(clip, "dev", text, best, "tower").values[0])
    visit.page.get_by_text(LABELS["masking"], exact=True).click()
    visit.reach("[?&]heat-map=Masking")
    masked = mask_map(clip, "dev", text, best)
    visit.page.get_by_text(f"masking {masked.areas['masking']:+.3f} · cosine").wait_for()
    assert_close(drawn(visit), masked.heat.values[masked.heat.words.index(picked(visit))])
    visit.check()
    visit.open(
        "retrieval?run=plain&versus=—&ask=Picture&heat=true&heat-map=Cosine", charts=False, reload=True
    )
    name = f"{picture(port, 'new')}.jpg"
    content = draw(NAMES.index(DEV[1]))
    upload = {"name": name, "mimeType": "image/jpeg", "buffer": content}
    visit.page.locator("input[type=file]").set_input_files(upload)
    best = plain.search(1, split="dev", modality="image")["candidate"][0]
    uploaded = heat_map(plain, "dev", plain.captions("dev")[best], 1, "cosine")
    assert_close(drawn(visit), uploaded.values[uploaded.first_content_word()], atol=1e-4)
    visit.open("retrieval?run=tar&versus=—&ask=Picture", charts=False, reload=True)
    visit.page.locator("input[type=file]").set_input_files(upload)
    visit.page.locator(".cl-card").first.wait_for()
    visit.settle()
    assert visit.page.locator(".cl-empty").count() == 0
    assert requests == []


def test_heat_map_of_an_anchor_without_boxes_is_a_bar_chart(visit, heat):
    visit.open("retrieval?run=bare&query-text=3&heat=true")
    drawn(visit)
    visit.open(
        "diversity?run=bare&versus=—&caption=3&heat=true"
    )  # the former name of a control is Retrieval's
    figure = drawn(visit)
    run = open_run(heat / "bare")
    assert figure["type"] == "bar"
    expected = heat_map(run, "dev", CAPTION, 1, "cosine")
    assert_close(figure, expected.values[expected.first_content_word()])
    visit.page.get_by_role("radiogroup", name="Negative").get_by_text("2", exact=True).click()
    visit.reach(r"[?&]anchor-pair=2(&|$)")
    nearest = run.anchor(3, split="dev").nearest(2)["candidate"].tolist()
    expected = heat_map(run, "dev", CAPTION, nearest[1], "cosine")
    assert_close(drawn(visit), expected.values[expected.words.index(picked(visit))])


def test_pictures_inside_tar_and_parquet_are_shown(visit, heat):
    visit.open("retrieval?query-text=3&run=tar&versus=parquet&heat=true&heat-map=Cosine")
    for position, name in enumerate(("tar", "parquet")):
        figure = drawn(visit, position)
        known = heat_map(open_run(heat / name), "dev", CAPTION, 1, "cosine")
        assert figure["images"][0]["source"].startswith("data:image/jpeg;base64,")
        assert_close(figure, known.values[known.words.index(picked(visit))])
    cards = visit.page.locator("[data-image]")
    cards.first.wait_for()
    assert len(set(cards.evaluate_all("all => all.map(card => card.dataset.image)"))) >= 2
    assert all(cards.locator("img").evaluate_all("all => all.map(image => image.naturalWidth > 0)"))
    assert cards.locator("img").count() == cards.count()
