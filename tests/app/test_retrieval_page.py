"""The Retrieval page: outcomes, near misses, hubs, judgements, likely matches, and queries of one's own."""

from __future__ import annotations

import io
import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from app.judging import report_page
from app.views.queries import LIKELY
from coder_core.api import open_run, sampling
from coder_core.api.retrieval import likely_matches, sampled_space, text_vectors
from coder_core.evaluation.sources import EmbeddingPair
from coder_core.runs.derived.hub_correction import correct_hubs
from tests.support.pages import Opened, headings, refusals, saying, shown_tables, table_rows, texts
from tests.support.run_folders import write_run


@pytest.mark.parametrize("root", ["one", "two"])
def test_likely_matches_are_a_filter_and_a_number_beside_the_labels(
    roots: dict[str, Path], root: str, opened: Opened
) -> None:
    app = opened(roots[root], "retrieval")
    app.toggle(key="likely").set_value(True).run()
    assert not app.exception
    run = open_run(roots[root] / "demo")
    vectors = text_vectors(run, "dev")
    assert vectors is not None
    guesses = likely_matches(run, "dev", "t2i", vectors)
    labelled, with_likely = guesses.recall(1)
    assert saying(app, "demo", f"{labelled:.1f} %", f"{with_likely:.1f} %")
    query = int(np.flatnonzero(guesses.likely().any(1))[0])
    app = opened(roots[root], "retrieval", **{"query-text": str(query)})
    assert LIKELY not in texts(app)
    app.toggle(key="guess").set_value(True).run()
    paths = sorted(path for path in roots[root].iterdir() if path.is_dir())
    marks = [likely_matches(open_run(path), "dev", "t2i", vectors).likely()[query].sum() for path in paths]
    assert texts(app).count(LIKELY) == sum(marks) > 0
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
    assert saying(app, 30, 100, "demo", f"{labelled:.1f} %", f"{with_likely:.1f} %")
    outside = int(np.setdiff1d(np.arange(20), sample.images)[0])
    app.text_input(key="slice").set_value(f"image == {outside}").run()
    assert saying(app, 30, 100)
    assert "query-text" not in [number.key for number in app.number_input]
    every = likely_matches(
        run, "dev", "t2i", space
    ).likely()  # a query that is opened need not be of the sample
    query = int(np.setdiff1d(np.flatnonzero(every.any(1)), sample.texts)[0])
    app = opened(tmp_path, "retrieval", **{"query-text": str(query), "guess": "true"})
    assert texts(app).count(LIKELY) == every[query].sum() > 0
    app = opened(tmp_path, "reviews")
    app.segmented_control(key="queue").set_value("likely").run()
    assert saying(app, 30, 100)


def test_judgements_beside_the_data_are_shown_beside_the_labels(tmp_path: Path, opened: Opened) -> None:
    three = tmp_path
    for name, noise in (("beta", 2.0), ("gamma", 3.0)):
        write_run(three, name, images=12, noise=noise)
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
    assert "positives.tsv" not in headings(app)
    try:
        file.write_text(fits)
        crowd.write_text("elsewhere.png\tother.png#0\t1\t3\t0\n")
        app = opened(three, "retrieval", **asked)
        assert not app.exception
        assert "positives.tsv" in headings(app)
        assert "CrowdFlower" not in texts(app)  # it is about other splits
        [rows] = table_rows(app, "mAP@R")
        [row] = [row for row in rows if (row["run"], row["direction"]) == ("gamma", "text → image")]
        right = 100 * (ranks == 0).mean()
        assert (row["labels R@1"], row["judges R@1"]) == (f"{right:.1f}", f"{right + 100 / len(owner):.1f}")
        assert app.number_input(key="query-text").value == first
        assert texts(app).count("✓ judged") >= 1
        page = report_page([run.summary], "dev")
        assert "positives.tsv" in page
        assert f"--positives {file}" in page
        app = opened(three, "retrieval", **asked, slice=f'"scene {(owner[first] + 1) % 12}" in caption')
        assert refusals(app)
        app = opened(three, "retrieval", run="gamma", versus="—")
        app.toggle(key="judged").set_value(True).run()
        assert app.number_input(key="query-text").value == first
        crowd.write_text(f"{best[first][1]}.png\t{owner[first]}.png#{first % 5}\t1\t3\t0\n")
        app = opened(three, "retrieval", **asked, **{"judged-by": "CrowdFlowerAnnotations.txt"})
        assert "CrowdFlowerAnnotations.txt" in headings(app)
        file.write_text(f"{fits}<b>{first}</b>\n")
        app = opened(three, "retrieval", **asked)
        assert not app.exception
        assert saying(app, "positives.tsv", "line 2")
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
    assert "ECCV Caption" in headings(app)
    app = opened(tmp_path / "runs", "retrieval", look="Judgements", **{"judged-by": "CxC"})
    assert "CxC" in headings(app)
    [rows] = table_rows(app, "mAP@R")
    assert [row["queries"] for row in rows] == ["12", "60"]
    monkeypatch.setattr("coder_core.api.retrieval.judged.PACKAGE", "eccv_caption_that_is_not_there")
    app = opened(tmp_path / "runs", "retrieval", look="Judgements")
    assert "ECCV Caption" not in headings(app)


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
    near = headings(app)
    app.segmented_control(key="calls").set_value("held").run()
    assert not app.exception
    app.segmented_control(key="look").set_value("hubs").run()
    app.segmented_control(key="k").set_value("5").run()
    assert not app.exception
    assert headings(app) != near
    assert saying(app, "skewness")


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
        assert f"{correction.metrics[f'{way}_r1']:.1f} %" in headings(app)
        assert saying(app, "R@1", "demo")
        numbers = [item for item in app.number_input if item.key == f"query-{direction}"]
        assert bool(numbers) == bool(len(rows))
        assert not numbers or numbers[0].value in rows


def test_next_failure_is_a_failure(roots: dict[str, Path], opened: Opened) -> None:
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
    first, second = (
        int(open_run(roots["two"] / name).ranks("dev")["t2i"][3]) + 1 for name in ("demo-baseline", "demo")
    )
    app = opened(roots["two"], "retrieval")
    app.number_input(key="query-text").set_value(3).run()
    assert saying(app, "rank", first)
    assert saying(app, "rank", second)
    assert saying(app, f"{first - second:+,}")


def test_every_result_links_to_its_diversity(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "retrieval")
    state = "run=demo-baseline&amp;versus=demo&amp;split=dev&amp;anchors="
    assert texts(app).count(f'href="diversity?{state}Images&amp;image=') == 20  # ten results of two runs
    assert texts(app).count(f'href="diversity?{state}Captions&amp;caption=') == 1


@pytest.mark.parametrize(
    "content",
    [b"<html><script>alert(1)</script></html>", b"", b"\x89PNG\r\n\x1a\n" + bytes(200), bytes(10_000_001)],
    ids=["html", "empty", "torn", "large"],
)
def test_an_upload_that_is_no_picture_is_refused(
    roots: dict[str, Path], content: bytes, opened: Opened
) -> None:
    app = opened(roots["two"], "retrieval")
    app.segmented_control(key="ask").set_value("picture").run()
    assert refusals(app)
    app.file_uploader(key="picture").upload("<b>x</b>.png", content, "image/png").run()
    [refusal] = refusals(app)
    assert ("10,000,000" in refusal) == (len(content) > 10_000_000)
    assert "<b>x" not in refusal
    assert not app.exception


@pytest.mark.parametrize(
    ("root", "runs"), [("two", ("demo-baseline", "demo")), ("imported", ("clip-pictures", "—"))]
)
def test_a_picture_asks_through_a_nearly_equal_sample_or_not_at_all(
    roots: dict[str, Path], root: str, runs: tuple[str, str], opened: Opened
) -> None:
    app = opened(roots[root], "retrieval", run=runs[0], versus=runs[1])
    app.segmented_control(key="ask").set_value("picture").run()
    pictures, shown = roots["two"].parent / "two-pictures", 1 + (runs[1] != "—")
    app.file_uploader(key="picture").upload("mine.png", (pictures / "7.png").read_bytes(), "image/png").run()
    assert len(saying(app, "image 7", "query")) >= shown
    assert saying(app, "caption 35", "image 7", "7.png")
    assert 'class="cl-match' not in texts(app)  # they match image 7, not the picture that was given
    buffer = io.BytesIO()
    Image.effect_noise((64, 48), 90).convert("RGB").save(buffer, "PNG")
    app.file_uploader(key="picture").upload("other.png", buffer.getvalue(), "image/png").run()
    assert len([refusal for refusal in refusals(app) if "0.95" in refusal]) == shown
    assert not saying(app, "image 7", "query")
    assert 'class="cl-card' not in texts(app)
    assert not app.exception


def test_a_free_text_needs_a_run_with_a_model(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["one"], "retrieval")
    app.segmented_control(key="ask").set_value("text").run()
    before = refusals(app)
    app.text_input(key="text").set_value("a red ring").run()
    assert refusals(app) != before
    assert len(refusals(app)) == 1
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
    [refusal] = refusals(app)  # the other run has no such query
    assert "clip" in refusal
    app.text_input(key="query-words").set_value("nothing").run()
    assert shown_tables(app) == []
    assert not app.exception
