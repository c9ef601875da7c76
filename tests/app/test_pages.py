"""Every page with no run, one, two, a damaged one, and with values in the URL that mean nothing."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from app.choice import Choice, slice_mask
from app.judging import report_page
from coder_core.api import InputError, open_run, sampling
from coder_core.api.joint_space import score_separation
from coder_core.api.retrieval import likely_matches, sampled_space, text_vectors
from coder_core.api.reviews import Review, ReviewedSplit, append_review
from coder_core.api.saved_views import save_view, saved_views
from coder_core.evaluation import EmbeddingPair
from coder_core.runs.derived.hub_correction import correct_hubs
from tests.app.conftest import ROOTS
from tests.support.concept_runs import write_concept_run
from tests.support.pages import PAGES, Opened, shown_tables, table_rows, texts
from tests.support.run_folders import flip, write_run


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs; the sidebar begins with alpha and beta."""
    root = tmp_path_factory.mktemp("three") / "runs"
    for number, name in enumerate(("alpha", "beta", "gamma")):
        write_run(root, name, images=12, noise=1.0 + number)
    return root


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("page", [*PAGES, "start"])
def test_every_page_opens(roots: dict[str, Path], root: str, page: str, opened: Opened) -> None:
    app = opened(roots[root], page)
    assert app.title[0].value.endswith("?")
    if root == "none" and page != "start":
        assert "There is no evaluated run yet." in texts(app)


def test_without_a_run_the_app_begins_with_the_offer_to_train(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["none"], "")
    assert [button.label for button in app.button] == ["Train the demo"]
    assert app.title[0].value.startswith("Nothing is trained yet.")


def test_with_runs_the_start_page_leads_to_them(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "start")
    assert "Nothing is trained" not in app.title[0].value
    assert not app.button
    assert "There are trained runs." in texts(app)
    assert [link.proto.label for link in app.main.get("page_link")] == [
        "Open the overview",
        "Train a run of your own",
    ]


def test_a_damaged_run_is_named(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["damaged"], "overview")
    assert "torn" in texts(app)
    assert "config.toml" in texts(app)
    assert "torn" not in app.selectbox(key="run").options


@pytest.mark.parametrize("page", ["retrieval", "diversity", "joint"])
def test_a_damaged_array_is_named_and_not_shown(tmp_path: Path, page: str, opened: Opened) -> None:
    run = write_run(tmp_path / "runs", "torn", images=12, pictures=False)
    flip(run / "analysis" / "dev" / "text_embeddings.npy")
    app = opened(tmp_path / "runs", page)
    assert "text_embeddings.npy: is damaged" in texts(app)
    assert not app.get("plotly_chart")


def test_the_baseline_stands_first(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "overview")
    assert app.selectbox(key="run").value == "demo-baseline"
    assert app.selectbox(key="versus").value == "demo"


@pytest.mark.parametrize("page", PAGES)
def test_one_run_alone_can_be_chosen(roots: dict[str, Path], page: str, opened: Opened) -> None:
    app = opened(roots["two"], page)
    app.selectbox(key="versus").set_value("—").run()
    assert not app.exception


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("versus", "shown"), [("beta", {"gamma", "beta"}), ("—", {"gamma"})])
def test_a_link_opens_the_runs_it_names(
    three: Path, page: str, versus: str, shown: set[str], opened: Opened
) -> None:
    app = opened(three, page, run="gamma", versus=versus)
    assert (app.selectbox(key="run").value, app.selectbox(key="versus").value) == ("gamma", versus)
    said = [
        texts(app),
        *(button.label for button in app.button),
        *(one.proto.spec for one in app.get("plotly_chart")),
    ]
    assert {name for name in ("alpha", "beta", "gamma") if any(name in one for one in said)} == shown


@pytest.mark.parametrize("anchors", ["text", "image"])
@pytest.mark.parametrize("measure", ["std", "entropy"])
@pytest.mark.parametrize("over", ["split", "batch", "bank"])
def test_every_setting_of_diversity(
    roots: dict[str, Path], anchors: str, measure: str, over: str, opened: Opened
) -> None:
    app = opened(roots["two"], "diversity")
    for key, value in (("anchors", anchors), ("measure", measure), ("over", over)):
        app.segmented_control(key=key).set_value(value)
    for key, value in (("epsilon", 0.3), ("mu", 0.2), ("gamma", 0.1), ("tau", 0.05)):
        app.slider(key=key).set_value(value)
    app.run()
    assert not app.exception
    number = "caption" if anchors == "text" else "image"
    app.number_input(key=number).set_value(7).run()
    assert not app.exception
    assert f"{number.capitalize()} 7" in texts(app)


def test_ambiguity_by_the_captions_alone_stands_beside_diversity(
    roots: dict[str, Path], opened: Opened
) -> None:
    from coder_core.api import open_run, rank_correlation
    from coder_core.api.diversity import fitting_images

    app = opened(roots["two"], "diversity")
    assert "Images it fits" not in texts(app)
    app.toggle(key="fits").set_value(True).run()
    assert not app.exception
    run = open_run(roots["two"] / "demo")
    fits = fitting_images(run, "dev")
    assert fits is not None
    assert len(fits) == run.count("dev", "text")
    rho = rank_correlation(run.diversity("dev")["diversity"], pd.Series(fits))
    assert f"demo {rho:+.2f}" in texts(app)
    app.segmented_control(key="anchors").set_value("image").run()
    assert not app.exception
    assert "fits" not in [toggle.key for toggle in app.toggle]


def test_next_and_previous_walk_the_ranking(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "diversity")
    first = app.number_input(key="caption").value
    app.button(key="caption-next").click().run()
    second = app.number_input(key="caption").value
    assert second != first
    app.button(key="caption-previous").click().run()
    assert app.number_input(key="caption").value == first


def test_sliders_begin_at_what_training_used_and_say_so(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "diversity")
    assert [app.slider(key=key).value for key in ("epsilon", "mu", "gamma", "tau")] == [0.1, 0.1, 0.3, 1.0]
    assert "demo-baseline did not use CODER’s eq. 4" in texts(app)
    assert "demo: ε 0.1, μ 0.1, γ 0.3, measured by standard deviation" in texts(app)
    assert texts(app).count("μ = 0.1\n") == 2
    app.slider(key="mu").set_value(0.25).run()
    assert texts(app).count("μ = 0.25\n") == 2


@pytest.mark.parametrize("ranked", ["second", "first", "fell", "rose"])
def test_anchors_can_be_ranked_by_what_changed(roots: dict[str, Path], ranked: str, opened: Opened) -> None:
    app = opened(roots["two"], "diversity")
    app.segmented_control(key="ranked").set_value(ranked).run()
    assert not app.exception
    from coder_core.api import diversity_changes, open_run

    first, second = (open_run(roots["two"] / name).diversity("dev") for name in ("demo-baseline", "demo"))
    moves = diversity_changes(first, second)["change"]
    order = {"second": second["spread"], "first": first["spread"], "fell": moves, "rose": -moves}[ranked]
    expected = int(order.argsort(kind="stable").iloc[1])
    app.number_input(key="caption").set_value(int(order.argsort(kind="stable").iloc[0])).run()
    app.button(key="caption-next").click().run()
    assert app.number_input(key="caption").value == expected


def test_words_that_no_caption_holds(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "diversity")
    app.text_input(key="words").set_value("zebra").run()
    assert "No caption or file name contains all of these words." in texts(app)
    assert "caption" not in [number.key for number in app.number_input]  # nothing is open
    app.text_input(key="words").set_value("scene 7 told").run()
    assert int(app.number_input(key="caption").value or 0) in range(35, 40)
    assert not app.exception


@pytest.mark.parametrize("root", ["one", "two"])
def test_likely_matches_are_a_filter_and_a_number_beside_the_labels(
    roots: dict[str, Path], root: str, opened: Opened
) -> None:
    app = opened(roots[root], "retrieval")
    assert "likely matches" not in texts(app)
    app.toggle(key="likely").set_value(True).run()
    assert not app.exception
    run = open_run(roots[root] / "demo")
    vectors = text_vectors(run, "dev")
    assert vectors is not None
    guesses = likely_matches(run, "dev", "t2i", vectors)
    labelled, with_likely = guesses.recall(1)
    assert f"demo {labelled:.1f} % by the labels, {with_likely:.1f} % with likely matches" in texts(app)
    query = int(np.flatnonzero(guesses.likely().any(1))[0])
    app = opened(roots[root], "retrieval", **{"query-text": str(query)})
    assert "a guess)" not in texts(app)
    app.toggle(key="guess").set_value(True).run()
    paths = sorted(path for path in roots[root].iterdir() if path.is_dir())
    marks = [likely_matches(open_run(path), "dev", "t2i", vectors).likely()[query].sum() for path in paths]
    assert texts(app).count("likely match (a guess)") == sum(marks) > 0
    app.toggle(key="likely").set_value(True).run()
    shown = app.number_input(key="query-text") if guesses.probably_right(1).any() else None
    assert shown is None or guesses.probably_right(1)[int(shown.value or 0)]


def test_likely_matches_of_a_large_split_are_those_of_a_sample_and_said_so(
    roots: dict[str, Path], tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(roots["one"] / "demo", tmp_path / "demo")
    monkeypatch.setattr(sampling, "SCORES_AT_MOST", 20 * 100 - 1)
    monkeypatch.setattr(sampling, "QUERIES_AT_MOST", 30)
    run = open_run(tmp_path / "demo")
    sample, fitted = run.query_sample("dev"), run.sample("dev")
    assert sample is not None
    assert fitted is not None
    space = sampled_space(run, "dev", fitted)
    assert space is not None
    guesses = likely_matches(run, "dev", "t2i", space, sample.texts)
    labelled, with_likely = guesses.recall(1)
    app = opened(tmp_path, "retrieval", likely="true")
    said = texts(app)
    assert "from a random sample of 30 of 100 captions, which the table holds: demo " in said
    assert f"demo {labelled:.1f} % by the labels, {with_likely:.1f} % with likely matches" in said
    outside = int(np.setdiff1d(np.arange(20), sample.images)[0])
    app.text_input(key="slice").set_value(f"image == {outside}").run()
    assert "There is no such query from a random sample of 30 of 100 captions" in texts(app)
    every = likely_matches(
        run, "dev", "t2i", space
    ).likely()  # a query that is opened need not be of the sample
    query = int(np.setdiff1d(np.flatnonzero(every.any(1)), sample.texts)[0])
    app = opened(tmp_path, "retrieval", **{"query-text": str(query), "guess": "true"})
    assert texts(app).count("likely match (a guess)") == every[query].sum() > 0
    app = opened(tmp_path, "reviews")
    app.segmented_control(key="queue").set_value("likely").run()
    assert "From a random sample of 30 of 100 captions." in texts(app)


def test_judgements_beside_the_data_stand_beside_the_labels(three: Path, opened: Opened) -> None:
    run = open_run(three / "gamma")
    owner, best, ranks = (
        run.image_of_text("dev"),
        np.asarray(run.analysis("dev").text_best),
        run.ranks("dev")["t2i"],
    )
    missed = np.flatnonzero(ranks > 0)
    first = int(missed[0])
    fits = f"{owner[first]}.png#{first % 5}\t{best[first][0]}.png\n"
    file, crowd = three / "positives.tsv", three / "CrowdFlowerAnnotations.txt"
    asked = {"run": "beta", "versus": "gamma", "look": "Judgements"}
    app = opened(three, "retrieval", **asked)
    assert "judged" not in [toggle.key for toggle in app.toggle]
    assert "Queries by outcome" in [header.value for header in app.header]  # for a view that is not there
    try:
        file.write_text(fits)
        crowd.write_text("elsewhere.png\tother.png#0\t1\t3\t0\n")
        app = opened(three, "retrieval", **asked)
        assert not app.exception
        assert "By the judgements of positives.tsv" in [header.value for header in app.header]
        assert "CrowdFlower" not in texts(app)  # it is about other splits
        [rows] = table_rows(app, "mAP@R")
        [row] = [row for row in rows if (row["run"], row["direction"]) == ("gamma", "text → image")]
        right = 100 * (ranks == 0).mean()
        assert (row["labels R@1"], row["judges R@1"]) == (f"{right:.1f}", f"{right + 100 / len(owner):.1f}")
        assert app.number_input(key="query-text").value == first
        assert texts(app).count("✓ judged") >= 1
        page = report_page([run.summary], "dev")
        assert "By the judgements of positives.tsv" in page
        assert f"--positives {file}" in page
        app = opened(three, "retrieval", **asked, slice=f'"scene {(owner[first] + 1) % 12}" in caption')
        assert "No such failure exists." in texts(app)
        app = opened(three, "retrieval", run="gamma", versus="—")
        app.toggle(key="judged").set_value(True).run()
        assert app.number_input(key="query-text").value == first
        crowd.write_text(f"{best[first][1]}.png\t{owner[first]}.png#{first % 5}\t1\t3\t0\n")
        app = opened(three, "retrieval", **asked, **{"judged-by": "CrowdFlowerAnnotations.txt"})
        assert "By the judgements of CrowdFlowerAnnotations.txt" in [header.value for header in app.header]
        file.write_text(f"{fits}<b>{first}</b>\n")
        app = opened(three, "retrieval", **asked)
        assert not app.exception
        assert "positives.tsv line 2: is" in texts(app)
        assert f"<b>{first}" not in texts(app)
    finally:
        file.unlink()
        crowd.unlink(missing_ok=True)


def test_cocos_judgements_are_offered_for_its_images(
    tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Path(str(find_spec("eccv_caption").submodule_search_locations[0])) / "data"  # type: ignore[union-attr,index]
    images = list(json.loads((package / "eccv_image_to_caption.json").read_text()))[:12]
    write_run(
        tmp_path / "runs", "coco", images=12, pictures=False, picture_names=[f"{name}.jpg" for name in images]
    )
    app = opened(tmp_path / "runs", "retrieval", look="Judgements")
    assert "By the judgements of ECCV Caption" in [header.value for header in app.header]
    assert "the k-th caption of an image is taken for" in texts(app)
    app = opened(tmp_path / "runs", "retrieval", look="Judgements", **{"judged-by": "CxC"})
    assert "By the judgements of CxC" in [header.value for header in app.header]
    [rows] = table_rows(app, "mAP@R")
    assert [row["queries"] for row in rows] == ["12", "60"]
    monkeypatch.setattr("coder_core.api.retrieval.judged.PACKAGE", "eccv_caption_that_is_not_there")
    app = opened(tmp_path / "runs", "retrieval", look="Judgements")
    assert "By the judgements" not in str([header.value for header in app.header])


@pytest.mark.parametrize("root", ["one", "two"])
@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_every_setting_of_retrieval(
    roots: dict[str, Path], root: str, direction: str, opened: Opened
) -> None:
    app = opened(roots[root], "retrieval")
    app.segmented_control(key="direction").set_value("text" if direction == "t2i" else "image")
    app.segmented_control(key="at").set_value("5").run()
    choices = ("fixed", "broken", "both wrong", "both right") if root == "two" else ("found", "missed")
    for choice in choices:
        app.segmented_control(key="outcome" if root == "two" else "answer").set_value(choice).run()
        assert not app.exception


@pytest.mark.parametrize("root", ["one", "two", "imported", "no pictures"])
@pytest.mark.parametrize("direction", ["text", "image"])
def test_near_misses_and_hubs(roots: dict[str, Path], root: str, direction: str, opened: Opened) -> None:
    app = opened(roots[root], "retrieval")
    app.segmented_control(key="direction").set_value(direction)
    app.segmented_control(key="look").set_value("near").run()
    assert "Smallest margins" in "".join(item.value for item in app.header)
    app.segmented_control(key="calls").set_value("held").run()
    assert not app.exception
    app.segmented_control(key="look").set_value("hubs").run()
    app.segmented_control(key="k").set_value("5").run()
    assert not app.exception
    assert "skewness" in texts(app)


def test_a_view_is_saved_under_a_name_and_listed(tmp_path: Path, opened: Opened) -> None:
    write_run(tmp_path, "demo", images=20)
    app = opened(tmp_path, "retrieval", run="demo", slice="length > 3", at="5")
    app.text_input(key="view-name").set_value("<b>mine</b>").run()
    app.button(key="save-view").click().run()
    assert not app.exception
    assert saved_views(tmp_path) == {"<b>mine</b>": saved_views(tmp_path)["<b>mine</b>"]}
    address = saved_views(tmp_path)["<b>mine</b>"]
    assert address.startswith("retrieval?")
    assert {"run=demo", "slice=length+%3E+3", "at=5"} <= set(address.split("?")[1].split("&"))
    assert f'<a href="{html.escape(address)}" target="_self">&lt;b&gt;mine&lt;/b&gt;</a>' in texts(app)
    app.text_input(key="view-name").set_value("<b>mine</b>").run()
    app.button(key="save-view").click().run()
    assert "exists" in texts(app)
    app.button(key="remove-view-0").click().run()
    assert saved_views(tmp_path) == {}
    app = opened(tmp_path, "", run="demo")  # the first page is the overview under another path
    app.text_input(key="view-name").set_value("first").run()
    app.button(key="save-view").click().run()
    assert saved_views(tmp_path)["first"].startswith("overview?")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ('{"a": "https://x.org/?y"}', "something else"),
        ('{"a": "javascript:1"}', "something else"),
        ('["a"]', "something else"),
        ('{"a": 3}', "something else"),
        ('{"": "joint?run=a"}', "something else"),
    ],
)
def test_a_file_of_views_that_holds_something_else_is_named(
    tmp_path: Path, content: str, said: str, opened: Opened
) -> None:
    (tmp_path / ".views.json").write_text(content)
    with pytest.raises(InputError, match=said):
        saved_views(tmp_path)
    with pytest.raises(InputError, match=said):
        save_view(tmp_path, "b", "joint?run=a")
    assert (tmp_path / ".views.json").read_text() == content


def test_a_slice_filters_every_page(tmp_path: Path, opened: Opened) -> None:
    captions = [
        f"{'a dog' if image % 2 else 'two cats'} in scene {image}, way {way}"
        for image in range(60)
        for way in range(5)
    ]
    for name, noise in (("demo-baseline", 3.0), ("demo", 1.5)):
        write_run(tmp_path, name, noise=noise, images=60, captions=captions, pictures=False)
    app = opened(tmp_path, "slices")
    [table] = [rows for rows in table_rows(app, "slice") if rows]
    by_slice = {row["slice"]: row for row in table}
    assert by_slice['"dog" in words']["queries"] == "150"
    assert by_slice["numbers"]["queries"] == "300"  # the number of a scene
    assert {'"dog" in words', '"cats" in words', "7 <= length <= 10"} <= set(by_slice)
    for row in table:
        low, high = map(float, re.findall(r"[+-][0-9.]+", row["gain over demo-baseline"])[1:])
        assert row["is it noise?"] == ("may be noise" if low <= 0 <= high else "beyond noise")
    asked = '"dog" in words and not "way 0" in caption'
    for page in ("retrieval", "diversity"):
        app = opened(tmp_path, page, slice=asked)
        assert "120 of 300 captions on every page" in texts(app)
        [table] = [shown for shown in shown_tables(app) if shown["rows"]]
        assert "1–50 of 120 captions" in json.dumps(table, ensure_ascii=False)
        assert all("dog" in json.dumps(row) for row in table["rows"])
    assert app.query_params["slice"] == asked
    app = opened(tmp_path, "similarity", slice=asked)
    assert "64 of the slice’s 120 pairs, drawn at random with seed 0." in texts(app)
    assert "relative to the most diverse anchor shown; a training batch draws both from all pairs." in texts(
        app
    )
    matrix = app.get("plotly_chart")[0].proto.spec
    assert "a dog in scene" in matrix
    assert "two cats" not in matrix
    app.text_input(key="slice").set_value("image == 3").run()
    assert "holds captions of a single image" in texts(app)
    app = opened(tmp_path, "diversity", slice='dog "way 3"')
    assert "With “dog” and “way 3”: 30 of 300 captions on every page" in texts(app)
    number = app.number_input(key="caption").value
    app.button(key="sample-similar").click().run()
    assert app.text_input(key="slice").value == app.query_params["slice"] == f"{number} in neighbours"
    assert "51 of 300 captions on every page" in texts(app)
    app.text_input(key="slice").set_value("dog in word").run()
    assert "put them in quotes: &quot;dog in word&quot;. Nothing is filtered." in texts(app)
    key, text = ReviewedSplit.of(open_run(tmp_path / "demo"), "dev").pair(1, 7)
    append_review(tmp_path / "reviews.jsonl", Review(key, text, "too-vague", "anna", ("Odd <b>",)))
    for asked in ('"odd <b>" in tags', '"too-vague" in tags'):
        app = opened(tmp_path, "retrieval", slice=asked)
        assert "1 of 300 captions on every page" in texts(app)
    base, last = (open_run(tmp_path / name).summary for name in ("demo-baseline", "demo"))
    solved = np.flatnonzero(open_run(tmp_path / "demo").ranks("dev")["t2i"] == 0)
    choice = Choice(base, last, "dev", "rank == 1", slice_run=last, mask=slice_mask(last, "dev", "rank == 1"))
    for page in (
        choice,
        replace(choice, second=None),
    ):  # a page about one run keeps the slice of the sidebar's last
        assert page.members("text").tolist() == solved.tolist()
    app = opened(tmp_path, "retrieval", slice="__import__('os')")
    assert "Nothing is filtered" in texts(app)
    app = opened(tmp_path, "overview")
    rows = [row for rows in table_rows(app, "answered") for row in rows]
    right = {name: open_run(tmp_path / name).ranks("dev")["t2i"] < 1 for name in ("demo-baseline", "demo")}
    assert {row["run"]: row["answered"] for row in rows} == {
        name: f"{int(own.sum()):,}" for name, own in right.items()
    }
    only = int((right["demo"] & ~right["demo-baseline"]).sum())
    assert next(row for row in rows if row["run"] == "demo")["not by demo-baseline"] == f"{only:,}"


@pytest.mark.parametrize("direction", ["text", "image"])
def test_what_hub_correction_mends_is_listed(
    roots: dict[str, Path], tmp_path: Path, direction: str, opened: Opened
) -> None:
    shutil.copytree(roots["one"] / "demo", tmp_path / "demo")
    run = open_run(tmp_path / "demo")
    analysis = run.analysis("dev")
    pair = EmbeddingPair(np.array(analysis.image_embeddings), np.array(analysis.text_embeddings))
    owner = np.asarray(analysis.image_of_text)
    correction, _ = correct_hubs(tmp_path / "demo", "dev", "dev", lambda name: ([pair], owner))
    app = opened(tmp_path, "retrieval")
    app.segmented_control(key="direction").set_value(direction)
    app.segmented_control(key="look").set_value("hubs").run()
    app.segmented_control(key="k").set_value("1").run()
    way = "t2i" if direction == "text" else "i2t"
    before, after = run.ranks("dev")[way], getattr(correction, f"{direction}_ranks")
    for shown, rows in (
        ("mended", np.flatnonzero((before > 0) & (after == 0))),
        ("broken", np.flatnonzero((before == 0) & (after > 0))),
    ):
        app.segmented_control(key="hub-queries").set_value(shown).run()
        assert not app.exception
        headings = "".join(item.value for item in app.header)
        assert f"→ {correction.metrics[f'{way}_r1']:.1f} % with scores corrected for hubs" in headings
        assert "R@1 of demo with the correction against that without: " in texts(app)
        numbers = [item for item in app.number_input if item.key == f"query-{direction}"]
        assert bool(numbers) == bool(len(rows))
        assert not numbers or numbers[0].value in rows


def test_next_failure_is_a_failure(roots: dict[str, Path], opened: Opened) -> None:
    from coder_core.api import open_run

    ranks = open_run(roots["two"] / "demo").ranks("dev")["t2i"]
    app = opened(roots["two"], "retrieval")
    assert app.title[0].value == "Which run retrieves better, demo-baseline or demo?"
    walked = []
    for _ in range(3):
        app.button(key="query-text-failure-1").click().run()
        walked.append(int(app.number_input(key="query-text").value or 0))
    assert len(set(walked)) == 3
    assert (ranks[walked] >= 1).all()
    app.button(key="query-text-failure--1").click().run()
    assert app.number_input(key="query-text").value == walked[1]


def test_the_rank_change_of_a_query_is_told(roots: dict[str, Path], opened: Opened) -> None:
    from coder_core.api import open_run

    first, second = (
        int(open_run(roots["two"] / name).ranks("dev")["t2i"][3]) + 1 for name in ("demo-baseline", "demo")
    )
    app = opened(roots["two"], "retrieval")
    app.number_input(key="query-text").set_value(3).run()
    assert f"match at rank {first}" in texts(app)
    assert f"match at rank {second}" in texts(app)
    assert f"gain: {first - second:+,} " in texts(app)


def test_every_result_links_to_its_diversity(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "retrieval")
    state = "run=demo-baseline&amp;versus=demo&amp;split=dev&amp;anchors="
    assert texts(app).count(f'href="diversity?{state}Images&amp;image=') == 20  # ten results of two runs
    assert texts(app).count(f'href="diversity?{state}Captions&amp;caption=') == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<html><script>alert(1)</script></html>", "cannot be decoded"),
        (b"", "cannot be decoded"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "cannot be decoded"),
        (bytes(10_000_001), "at most 10,000,000"),
    ],
)
def test_an_upload_that_is_no_picture_is_refused_with_a_sentence(
    roots: dict[str, Path], content: bytes, said: str, opened: Opened
) -> None:
    app = opened(roots["two"], "retrieval")
    app.segmented_control(key="ask").set_value("picture").run()
    assert "No picture yet." in texts(app)
    app.file_uploader(key="picture").upload("<b>x</b>.png", content, "image/png").run()
    assert "This file cannot be used." in texts(app)
    assert said in texts(app)
    assert "<b>x</b>" not in texts(app).replace("<b>This file cannot be used.</b>", "")
    assert not app.exception


@pytest.mark.parametrize(
    ("root", "runs", "reason"),
    [
        (
            "two",
            ("demo-baseline", "demo"),
            "It reads region features from files, so it cannot encode a new picture.",
        ),
        (
            "imported",
            ("clip-pictures", "—"),
            "It holds imported embeddings and no model, so it cannot encode a new pict",
        ),
    ],
)
def test_a_picture_asks_through_a_nearly_equal_sample_or_not_at_all(
    roots: dict[str, Path], root: str, runs: tuple[str, str], reason: str, opened: Opened
) -> None:
    app = opened(roots[root], "retrieval", run=runs[0], versus=runs[1])
    app.segmented_control(key="ask").set_value("picture").run()
    pictures, shown = roots["two"].parent / "two-pictures", 1 + (runs[1] != "—")
    app.file_uploader(key="picture").upload("mine.png", (pictures / "7.png").read_bytes(), "image/png").run()
    assert texts(app).count(reason) == shown
    assert texts(app).count("Using image 7 as the query instead:") == shown
    assert "caption 35 · image 7 · 7.png" in texts(app)
    assert "✓ match" not in texts(app)  # they match image 7, not the picture that was given
    buffer = io.BytesIO()
    Image.effect_noise((64, 48), 90).convert("RGB").save(buffer, "PNG")
    app.file_uploader(key="picture").upload("other.png", buffer.getvalue(), "image/png").run()
    assert (
        texts(app).count("There is no answer.")
        == texts(app).count("0.95 is needed, 1 is the same picture")
        == shown
    )
    assert "as the query instead" not in texts(app)
    assert "cl-card" not in texts(app).replace(".cl-card", "")
    assert not app.exception


@pytest.mark.parametrize(
    "page", [name for name in PAGES if name not in ("weights", "concepts", "clusters", "data", "reviews")]
)
def test_every_figure_stands_as_a_table_too_on_request(
    roots: dict[str, Path], page: str, opened: Opened
) -> None:
    app = opened(roots["two"], page, values="true", map="PCA")
    assert app.sidebar.toggle(key="values").value
    figures = {chart.proto.alt for chart in app.get("plotly_chart")}
    tables = {
        table["columns"][-1]["label"]: table for table in shown_tables(app) if table["label"] == "values"
    }
    assert figures
    assert set(tables) == figures
    assert [name for name, table in tables.items() if not table["rows"]] == []
    app.sidebar.toggle(key="values").set_value(False).run()
    assert [table for table in shown_tables(app) if table["label"] == "values"] == []


def test_runs_on_other_samples_are_not_compared(tmp_path: Path, opened: Opened) -> None:
    write_run(tmp_path / "runs", "a", images=12, pictures=False)
    write_run(tmp_path / "runs", "b", images=14, pictures=False)
    for page in PAGES:
        app = opened(tmp_path / "runs", page)
        assert "evaluated on different samples" in texts(app)


def test_the_overview_groups_runs_by_data_and_follows_the_sidebar(tmp_path: Path, opened: Opened) -> None:
    root = tmp_path / "runs"
    for name, images in (("a", 12), ("b", 12), ("c", 12), ("elsewhere", 14), ("new", 12)):
        folder = write_run(root, name, images=images, pictures=False)
    shutil.rmtree(folder / "analysis")
    app = opened(root, "overview", also=["c", "elsewhere", "new"])
    also = app.multiselect(key="also")
    assert also.options == ["c", "new", "elsewhere"]  # a name of the link stays
    assert "Runs on other samples of dev are not offered, here elsewhere." in also.help
    assert "a and elsewhere were evaluated on different samples of dev." in texts(app)
    assert "Only a, c and b are shown." in texts(app)
    assert "so only the Overview shows new." in texts(app)
    tables = [[row["run"] for row in rows] for rows in table_rows(app, "i→t R@1")]
    assert tables == [["a", "b", "c"], ["elsewhere"], ["new"]]
    assert "demo: 12 images, 60 captions" in texts(app)
    assert "demo: 14 images, 70 captions" in texts(app)
    assert "Without a sound evaluation on dev" in texts(app)
    app.selectbox(key="versus").set_value("c").run()
    assert app.multiselect(key="also").options == ["b", "new", "elsewhere"]
    assert app.multiselect(key="also").value == ["elsewhere", "new"]
    bars = next(chart.proto.spec for chart in app.get("plotly_chart"))
    assert [trace["name"] for trace in json.loads(bars)["data"]] == ["a", "c"]


def test_similarities_of_any_number_of_runs_stand_side_by_side(tmp_path: Path, opened: Opened) -> None:
    root = tmp_path / "runs"
    for seed, name in enumerate(("a", "b", "c")):
        write_run(root, name, images=12, seed=seed, noise=1.0 + seed, pictures=False)
    captions = [f"scene {i}, told in way {k}" for i in range(12) for k in range(5)]
    write_concept_run(root, "both", images=12, captions=captions)
    app = opened(root, "overview", curves=["c", "both"])  # as older links have it
    assert app.multiselect(key="also").value == ["c", "both"]
    assert app.query_params["also"] == ["c", "both"]
    assert "curves" not in app.query_params
    [table] = table_rows(app, "matching pairs")
    assert [row["run"] for row in table] == ["a", "c", "both", "b"]
    run = open_run(root / "both")
    concepts, (v, w) = run.concepts("dev"), run.embeddings("dev")
    assert concepts is not None
    branches = run.analysis("dev").concepts
    assert branches is not None
    scores = 0.6 * v @ w.T + 0.4 * branches.image_embeddings @ branches.text_embeddings.T
    own = scores[run.image_of_text("dev"), np.arange(60)]
    md = own.mean() - (scores.sum() - own.sum()) / (scores.size - 60)
    exact = score_separation(run, "dev").mean_distance
    assert exact == pytest.approx(float(md), abs=1e-5)
    assert table[2]["MD"] == f"{exact:.3f}"
    assert len(app.get("plotly_chart")) == 4


def test_a_free_text_says_when_the_run_has_no_model(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["one"], "retrieval")
    app.segmented_control(key="ask").set_value("text").run()
    assert "No query yet." in texts(app)
    app.text_input(key="text").set_value("a red ring").run()
    assert "This run cannot answer this query." in texts(app)
    assert not app.exception


def test_what_an_imported_run_lacks_is_said(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["imported"], "overview", run="clip", versus="demo")
    assert "clip: imported embeddings, which have no configuration." in texts(app)
    assert "These runs are of different kinds" in texts(app)
    assert "clip: embeddings that another program computed" in texts(app)
    assert any('"imported"' in json.dumps(table) for table in shown_tables(app))
    app.selectbox(key="versus").set_value("—").run()
    assert "Imported embeddings have no training curves." in texts(app)
    app = opened(roots["imported"], "diversity", run="clip", versus="—")
    assert "clip is imported, so μ and γ start from its own similarities" in texts(app)
    app = opened(roots["imported"], "retrieval", run="clip", versus="—", ask="Free text")
    app.text_input(key="text").set_value("a red ring").run()
    assert "holds imported embeddings and no model" in texts(app)
    assert not app.exception


def test_without_pictures_ids_and_captions_take_their_place(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["no pictures"], "retrieval")
    assert texts(app).count('class="cl-card') == 10
    assert "<img" not in texts(app)
    best = int(open_run(roots["no pictures"] / "demo").search(0, split="dev")["candidate"][0])
    app.number_input(key="query-text").set_value(0).run()
    assert f"scene {best}, told in way 0\nscene {best}, told in way 1\n" in texts(app)
    assert f"image {best} · {best}.png" in texts(app)
    [table] = shown_tables(app)
    assert {row["sample"]["picture"] for row in table["rows"]} == {""}
    assert all(row["sample"]["small"].startswith("caption ") for row in table["rows"])


def test_saved_queries_of_an_imported_run_are_offered_and_answered(
    roots: dict[str, Path], opened: Opened
) -> None:
    app = opened(roots["imported"], "retrieval", run="clip-pictures", versus="clip", ask="Free text")
    [table] = shown_tables(app)
    assert [row["cells"] for row in table["rows"]] == [["query 0"], ["query 1"], ["query 2"]]
    app.text_input(key="text").set_value("query 2").run()
    assert shown_tables(app)[0]["picked"] == 2
    assert "<b>1</b>" in texts(app)
    assert texts(app).index("image 2 · 2.png") < texts(app).index("<b>2</b>")  # its own image comes first
    assert "1.000</span>" in texts(app)
    assert "run clip: holds imported embeddings and no model" in texts(app)  # the other run has no such query
    app.text_input(key="query-words").set_value("nothing").run()
    assert "No saved query contains all of these words." in texts(app)
    assert not app.exception


@pytest.mark.parametrize(
    "value", ["../../etc", "/etc/passwd", "-rf", "a\nb", "<script>alert(1)</script>", "9" * 400, "inf"]
)
@pytest.mark.parametrize("page", ["diversity", "retrieval"])
def test_strange_values_in_the_url_change_nothing(
    roots: dict[str, Path], page: str, value: str, opened: Opened
) -> None:
    keys = ("caption", "image", "epsilon", "anchors", "also", "at", "query-text")
    app = opened(roots["two"], page, **dict.fromkeys(keys, value))
    assert app.selectbox(key="run").value == "demo-baseline"
    assert app.selectbox(key="split").value == "dev"
    assert "<script>" not in texts(app)
    app = opened(roots["two"], page, **dict.fromkeys(("run", "versus", "split", *keys), value))
    assert "There is no run " in texts(app)
    assert "<script>" not in texts(app)
    assert not app.get("plotly_chart")
