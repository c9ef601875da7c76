"""A slice narrows every page, by words, expressions, neighbours and the tags of reviews."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from app.choice import Choice, slice_mask
from app.components.answers import EMPTY_SLICE
from coder_core.api import list_runs, open_run
from coder_core.api.retrieval import gain_in_words
from coder_core.api.reviews import Review, ReviewedSplit, append_review
from coder_core.evaluation.sampled import HALVES_SEED
from coder_core.runs.derived.blends import store_blends
from tests.support.pages import numbers
from tests.support.run_folders import write_run

DOGS = '"dog" in words and not "way 0" in caption'


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two runs on 60 images with dogs or cats."""
    folder = tmp_path_factory.mktemp("slices")
    animals = ("two cats", "a dog")
    captions = [f"{animals[i % 2]} in scene {i}, way {way}" for i in range(60) for way in range(5)]
    for name, noise in (("demo-baseline", 3.0), ("demo", 1.5)):
        write_run(folder, name, noise=noise, images=60, captions=captions, pictures=False)
    return folder


def test_the_table_of_slices_marks_gains_that_may_be_noise(root, opened):
    [table] = [rows for rows in opened(root, "slices").rows("slice") if rows]
    by_slice = {row["slice"]: row for row in table}
    half = np.random.default_rng(HALVES_SEED).permutation(60)[30:]  # of the images, odd ones with a dog
    assert by_slice["word “dog”"]["queries"] == str(5 * (half % 2).sum())
    assert by_slice["a number"]["queries"] == "150"  # the number of a scene
    assert {"word “dog”", "word “cats”", "7 to 10 words"} <= set(by_slice)
    ranks = open_run(root / "demo").ranks("dev")["t2i"].reshape(60, 5)[half[half % 2 == 1]]
    shown = by_slice["word “dog”"]["MRR / nDCG@10 of demo"]
    assert shown.split(" / ")[0] == f"{100 * (1 / (ranks + 1)).mean():.1f}"
    for row in table:
        gain = row["gain over demo-baseline"]
        low, high = map(float, re.findall(r"[+-][0-9.]+", gain)[1:])
        assert gain.endswith("] may be noise" if low <= 0 <= high else "]")


def test_slices_are_ordered_by_what_tuning_lost_beside_the_curve_of_blends(tmp_path, opened):
    animals = ("two cats", "a dog")
    captions = [f"{animals[i % 2]} in scene {i}, way {way}" for i in range(60) for way in range(5)]
    towers = {"image_tower": "clip", "text_tower": "clip", "image_tuning": "lora", "text_tuning": "lora"}
    for name, noise, settings in (("first", 3.0, {}), ("tuned", 1.5, towers)):
        write_run(
            tmp_path, name, noise=noise, images=60, captions=captions, pictures=False, settings=settings
        )
    app = opened(tmp_path, "slices", run="first", versus="tuned", slice_order="Most lost")
    ranks = {
        name: open_run(tmp_path / name).ranks("dev")["t2i"].reshape(60, 5) for name in ("first", "tuned")
    }
    discovery = np.random.default_rng(HALVES_SEED).permutation(60)[:30]
    lost = {
        name: ((ranks["first"] < 1).astype(int) - (ranks["tuned"] < 1))[discovery[discovery % 2 == odd]].sum()
        for odd, name in enumerate(("word “cats”", "word “dog”"))
    }
    [table] = [rows for rows in app.rows("slice") if rows]
    order = [row["slice"] for row in table if row["slice"] in lost]
    assert order == sorted(lost, key=lambda name: -lost[name])
    assert app.title[0].value.replace("\\", "").startswith("tuned against first: ")
    assert "--blend 0 0.25 0.5 0.75 1" in app.code[0].value
    run = open_run(tmp_path / "tuned")
    blends = {1.0: {"rsum": 300.0}, 0.0: {"rsum": 280.0}, 0.5: {"rsum": 310.0}}
    store_blends(run.path, "dev", run.analysis("dev"), blends)
    app.again()
    assert not app.code
    curve = next(figure for figure in app.figures() if "α" in figure["layout"]["xaxis"]["title"]["text"])
    assert list(numbers(curve["data"][0]["x"])) == [0, 0.5, 1]
    assert list(numbers(curve["data"][0]["y"])) == [280, 310, 300]
    assert app.saying("0.5", "310.0", "+10.0")


def test_the_worst_slices_are_below_the_overall_recall(root, opened):
    app = opened(root, "slices")
    [figure] = app.figures()
    overall = [line["x0"] for line in figure["layout"]["shapes"]][-1]  # of the last run
    ranks = open_run(root / "demo").ranks("dev")["t2i"]
    assert overall == pytest.approx(100 * (ranks == 0).mean())
    [table] = [rows for rows in app.rows("slice") if rows]
    recalls = {row["slice"]: float(row["R@1 of demo"].split()[0]) for row in table}
    worst = figure["layout"]["yaxis"]["ticktext"]
    assert worst
    assert max(recalls[name] for name in worst) <= overall
    assert {name for name, recall in recalls.items() if recall > overall + 0.1}, "some are above it"
    for trace in figure["data"]:
        recall = numbers(trace["x"])
        low = recall - numbers(trace["error_x"]["arrayminus"])
        high = recall + numbers(trace["error_x"]["array"])
        line = {"demo": overall}.get(trace["name"], figure["layout"]["shapes"][0]["x0"])
        faint = [opacity < 1 for opacity in trace["marker"]["opacity"]]
        assert faint == ((low <= line) & (line <= high)).tolist()


def test_a_slice_narrows_tables_and_figures(root, opened):
    last, base = (open_run(summary.path) for summary in list_runs(root))
    for page in ("retrieval", "diversity"):
        app = opened(root, page, slice=DOGS, outcome="All")
        assert app.saying(120, 300)
        [table] = [shown for shown in app.tables() if shown.get("range") == "1–50 of 120 captions"]
        assert all("dog" in json.dumps(row) for row in table["rows"])
    assert app.query_params["slice"] == DOGS
    y_titles = {figure["layout"]["yaxis"]["title"]["text"]: figure for figure in app.figures()}
    histogram = y_titles["captions per bin"]
    assert numbers(histogram["data"][1]["y"]).sum() == 120
    app = opened(root, "retrieval", slice=DOGS)
    inside = np.flatnonzero(slice_mask(last.summary, "dev", DOGS))
    assert gain_in_words(base, last, "dev", "t2i_r1", inside) in app.texts()
    hubness = app.change(look="hubs").rows("skewness")[0][0]
    assert hubness["mean"] == "20.0"  # ten results of 120 queries over 60 images
    app = opened(root, "similarity", slice=DOGS)
    assert app.saying(64, 120, "seed 0")
    assert "a dog in scene" in str(app.figures()[0])
    assert "two cats" not in str(app.figures()[0])


@pytest.mark.parametrize("page", ["retrieval", "diversity", "similarity", "joint", "clusters"])
def test_a_slice_without_matches_is_refused_and_shows_no_numbers(root, opened, page):
    app = opened(root, page, slice="zebra", map="PCA")
    assert app.answer() == EMPTY_SLICE
    assert not any((app.metric, app.figures(), app.tables(), app.header))


def test_the_slice_field_takes_words_and_neighbours_and_refuses_mistakes(root, opened):
    app = opened(root, "diversity").change(slice=' dog "way 3" ')  # a click after the spaces is not lost
    assert app.saying("“dog”", "“way 3”", 30, 300)
    number = app.value("caption")
    app.click("sample-similar")
    assert app.value("slice") == app.query_params["slice"] == f"{number} in neighbours"
    assert app.saying(51, 300)
    for mistake in ("dog in word", "__import__('os')"):
        assert not app.change(slice=mistake).saying(51, 300)
        assert app.number_input(key="caption").max == 299
    assert app.saying("__import__")


def test_review_tags_and_verdicts_select_slices(root, opened):
    file = root / "reviews.jsonl"
    key, text = ReviewedSplit.of(open_run(root / "demo"), "dev").pair(1, 7)
    append_review(file, Review(key, text, "too-vague", "anna", ("Odd <b>",)))
    try:
        for expression in ('"odd <b>" in tags', '"too-vague" in tags'):
            assert opened(root, "retrieval", slice=expression).saying(1, 300)
    finally:
        file.unlink()


def test_a_page_about_one_run_keeps_the_slice_of_the_sidebar(root):
    last, base = list_runs(root)
    solved = np.flatnonzero(open_run(root / "demo").ranks("dev")["t2i"] == 0)
    choice = Choice(base, last, "dev", "rank == 1", slice_run=last, mask=slice_mask(last, "dev", "rank == 1"))
    for page in (choice, replace(choice, second=None)):
        assert page.members("text").tolist() == solved.tolist()
