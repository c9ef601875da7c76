"""The Reviews page and verdicts on cards, without a browser: what is recorded, what it changes, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app import judging as reviews
from app.choice import Choice
from app.components.enlarged import captions_html
from app.components.words import gain_cell
from coder_core.api import list_runs, open_run
from coder_core.api.reviews import ReviewedSplit, reviewed_recall
from coder_core.data.reviews import Review, append_review, read_reviews
from tests.support.pages import Opened, labels, table_rows, texts
from tests.support.run_folders import write_run


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One run of 20 images; the reviews of its data, which is built in, lie beside the runs."""
    monkeypatch.delenv("CODER_REVIEWS", raising=False)
    write_run(tmp_path / "runs", "demo", images=20, noise=3.0)
    return tmp_path / "runs"


def click(app: AppTest, key: str) -> None:
    app.button(key=key).click().run()
    assert not app.exception


def test_a_queue_steps_on_and_undo_brings_the_pair_back(root: Path, opened: Opened) -> None:
    app, file = opened(root, "reviews", reviewer="anna", queue="Near misses"), root / "reviews.jsonl"
    assert "Nothing is judged yet." in texts(app)
    assert not file.exists(), "looking writes nothing"
    click(app, "queue-also-matches")
    [review] = read_reviews(file).all
    assert (review.verdict, review.reviewer) == ("also-matches", "anna")
    assert "1 of 50 judged or skipped" in str(app.get("progress")[0].proto)
    click(app, "queue-skip")
    assert "2 of 50 judged or skipped" in str(app.get("progress")[0].proto)
    click(app, "queue-undo-last")
    assert read_reviews(file).verdicts == {}
    assert len(file.read_text().splitlines()) == 2
    assert "1 of 50 judged or skipped" in str(app.get("progress")[0].proto)


@pytest.mark.parametrize("queue", ["ambiguous", "near", "likely"])
def test_a_queue_holds_the_captions_of_the_slice(root: Path, queue: str) -> None:
    [run] = list_runs(root)
    every, inside = reviews.queue(run, "dev", queue), np.arange(40, 90)
    chosen = reviews.queue(run, "dev", queue, inside)
    assert chosen
    assert {caption for _, caption in chosen} <= set(inside.tolist())
    assert [pair for pair in every if pair[1] in inside] == chosen[: sum(pair[1] in inside for pair in every)]


def test_a_wrong_caption_is_about_its_own_image_whatever_it_is_shown_with(root: Path, opened: Opened) -> None:
    app = opened(root, "reviews", queue="Near misses")
    click(app, "queue-wrong-caption")
    run = open_run(root / "demo")
    split = ReviewedSplit.of(run, "dev")
    [review] = read_reviews(root / "reviews.jsonl").all
    caption = list(run.captions("dev")).index(review.caption)
    assert review.image == split.keys[run.image_of_text("dev")[caption]]
    assert "1 of 50 judged or skipped" in str(app.get("progress")[0].proto)


def test_the_page_tells_what_was_judged_what_it_changes_and_how_reviewers_agree(
    root: Path, opened: Opened
) -> None:
    run, file = open_run(root / "demo"), root / "reviews.jsonl"
    split, captions = ReviewedSplit.of(run, "dev"), run.captions("dev")
    missed = int(np.flatnonzero(run.ranks("dev")["t2i"] > 0)[0])
    first = int(run.analysis("dev").text_best[missed, 0])
    for who in ("anna", "ben"):
        append_review(file, Review(split.keys[first], captions[missed], "also-matches", who))
        append_review(
            file, Review(split.keys[3], captions[run.captions_of("dev", 3)[0]], "wrong-caption", who)
        )
    append_review(file, Review(split.keys[4], "", "duplicate", "anna", ("twice",), "**the same** as `5`"))
    append_review(file, Review("elsewhere.jpg", "a caption of train", "too-vague", "ben"))
    app = opened(root, "reviews", reviewer="ben")
    [judged] = table_rows(app, "tags")
    assert len(judged) == 6
    assert judged[1] | {"time": ""} == {
        "verdict": "duplicate",
        "reviewer": "anna",
        "tags": "twice",
        "note": "**the same** as `5`",
        "time": "",
    }
    [recall] = table_rows(app, "R@1 labels")
    table = reviewed_recall(run, "dev", split, read_reviews(file)).set_index(["direction", "queries"])
    assert len(recall) == 4
    changed = table.loc[("t2i", "changed")]
    assert changed["count"] == 1, "the caption judged wrong has no positive left"
    assert (changed["labels_1"], changed["reviewed_1"]) == (0.0, 100.0)
    assert float(recall[2]["R@1 reviewed"]) == pytest.approx(
        table.loc[("t2i", "all"), "reviewed_1"], abs=0.05
    )
    row = table.loc[("t2i", "all")]
    assert recall[2]["change of R@1"] == gain_cell(
        row["reviewed_1"] - row["labels_1"], row["low_1"], row["high_1"]
    )
    [agreement] = table_rows(app, "Cohen’s κ")
    assert agreement[0] == {
        "reviewer": "anna",
        "and": "ben",
        "pairs": "2",
        "same verdict": "100.0 %",
        "Cohen’s κ": "1.00",
    }
    app.selectbox(key="by").set_value("ben").run()
    assert len(table_rows(app, "tags")[0]) == 3
    app.text_input(key="words").set_value("TRAIN").run()
    assert [row["verdict"] for row in table_rows(app, "tags")[0]] == ["too vague"]
    assert "evaluate" in app.code[0].value
    assert "--reviews" in app.code[0].value
    owner = int(run.image_of_text("dev")[missed])
    app = opened(root, "reviews", reviewer="ben", slice=f"image == {owner}")
    assert [row["verdict"] for row in table_rows(app, "tags")[0]] == ["also matches"] * 2
    own = np.asarray(run.captions_of("dev", owner))
    table = reviewed_recall(run, "dev", split, read_reviews(file), own).set_index(["direction", "queries"])
    assert [row["number"] for row in table_rows(app, "R@1 labels")[0]] == ["1", str(len(own)), "1"]
    right, hits = (run.ranks("dev")["t2i"][own] < 1), table.loc[("t2i", "all")]
    assert hits["labels_1"] == pytest.approx(100 * right.mean())
    assert hits["reviewed_1"] == pytest.approx(100 * (right | (own == missed)).mean())


def test_a_sample_on_other_pages_has_the_buttons_and_a_card_the_menu(root: Path, opened: Opened) -> None:
    app = opened(root, "retrieval", reviewer="anna")
    before = texts(app)
    assert before.count("data-review=") > 20
    click(app, "sample-too-vague")
    [review] = read_reviews(root / "reviews.jsonl").all
    assert review.verdict == "too-vague"
    assert "sample-undo" in [button.key for button in app.button]
    app.text_input(key="sample-tags").set_value("colour, , <b>x</b>")
    app.text_area(key="sample-note").set_value("<img src=x onerror=alert(1)>").run()
    click(app, "sample-save")
    last = read_reviews(root / "reviews.jsonl").standing[0]
    assert (last.verdict, last.tags, last.note) == (
        "too-vague",
        ("colour", "<b>x</b>"),
        "<img src=x onerror=alert(1)>",
    )
    assert "&lt;img src=x onerror=alert(1)&gt;" in texts(app)
    assert "<b>x</b>" not in texts(app)
    click(app, "sample-undo")
    click(app, "sample-undo")
    assert read_reviews(root / "reviews.jsonl").standing == ()
    assert "sample-undo" not in [button.key for button in app.button]


@pytest.mark.parametrize("page", ["reviews", "diversity"])
def test_a_file_that_holds_something_else_is_named(root: Path, opened: Opened, page: str) -> None:
    (root / "reviews.jsonl").write_text('{"verdict": "wrong"}\n')
    app = opened(root, page)
    assert "reviews.jsonl line 1: key version" in texts(app)
    assert labels(app, "Too vague") == []


def test_the_file_may_be_named_when_the_app_starts_and_refused_verdicts_are_said(
    root: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CODER_REVIEWS", str(tmp_path / "mine.jsonl"))
    app = opened(root, "diversity")
    click(app, "sample-label-right")
    assert [review.verdict for review in read_reviews(tmp_path / "mine.jsonl").all] == ["label-right"]
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    monkeypatch.setenv("CODER_REVIEWS", str(tmp_path / "link.jsonl"))
    click(app, "sample-duplicate")
    assert "The verdict was not recorded." in texts(app)
    assert "is a link to" in texts(app)
    assert not (tmp_path / "elsewhere.jsonl").exists()


def test_the_large_picture_and_a_cell_of_the_matrix_can_be_judged(root: Path, opened: Opened) -> None:
    [run] = list_runs(root)
    markup = captions_html(Choice(run, None, "dev"), 3)
    assert markup.count('data-review="too-vague" data-pair="3 ') == 5
    assert markup.count(">similar captions</a>") == 5
    assert "&amp;slice=17+in+neighbours" in markup
    pair = {"pair-image": "2", "pair-caption": "20", "batch-of": "Selection", "chosen": "10, 20"}
    app = opened(root, "similarity", **pair)
    click(app, "pair-also-matches")
    [review] = read_reviews(root / "reviews.jsonl").all
    split = ReviewedSplit.of(open_run(root / "demo"), "dev")
    assert review.pair == split.pair(2, 20)
