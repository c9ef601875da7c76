"""The Reviews page and verdicts on cards, without a browser: what is recorded, what it changes, what is refused."""

import numpy as np
import pytest

from app import judging
from app.choice import Choice
from app.components.enlarged import captions_html
from app.components.words import gain_cell
from coder_core.api import list_runs, open_run
from coder_core.api.data_quality import LEVELS, mismatches
from coder_core.api.reviews import ReviewedSplit, reviewed_recall
from coder_core.config.schema import Config
from coder_core.data.reviews import Review, append_review, read_reviews
from tests.reference.graded import metric
from tests.support.run_folders import write_configured, write_halves, write_run
from tests.support.tiny_runs import changed


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Folder with a run of 20 images; its data is built in, so its reviews are stored beside the runs."""
    monkeypatch.delenv("CODER_REVIEWS", raising=False)
    write_run(tmp_path / "my runs", "demo", images=20, noise=3.0, pictures=False)
    return tmp_path / "my runs"


@pytest.fixture
def file(root):
    return root / "reviews.jsonl"


def test_a_cleaned_run_shows_only_verdicts_stored_beside_the_runs(root, file, monkeypatch):
    config = changed(Config(name="clean"), data="demo", clean=True, reviews="/etc/clean-cleaned.jsonl")
    write_configured(root, config)
    [run] = [run for run in list_runs(root) if run.name == "clean"]
    monkeypatch.setenv("CODER_CHECKPOINTS", str(root))
    assert judging.file_of(run) == file, "there is none beside the runs"
    (root / "clean-cleaned.jsonl").touch()
    assert judging.file_of(run) == root / "clean-cleaned.jsonl"
    monkeypatch.setenv("CODER_REVIEWS", str(root / "mine.jsonl"))
    assert judging.file_of(run) == root / "mine.jsonl"


def done(app):
    """Return the number of pairs in the queue that are judged or skipped."""
    return int(app.get("progress")[0].proto.text.split(" of 50")[0].split()[-1])


def test_a_queue_advances_and_undo_brings_the_pair_back(file, root, opened):
    app = opened(root, "reviews", reviewer="anna", queue="Near misses")
    assert not file.exists(), "looking writes nothing"
    app.click("queue-also-matches")
    [review] = read_reviews(file).all
    assert (review.verdict, review.reviewer) == ("also-matches", "anna")
    assert (done(app), done(app.click("queue-skip"))) == (1, 2)
    assert done(app.click("queue-undo-last")) == 1
    assert read_reviews(file).verdicts, "the skip was taken back, and not the verdict before it"
    assert done(app.click("queue-undo-last")) == 0
    assert read_reviews(file).verdicts == {}
    assert len(file.read_text().splitlines()) == 2
    assert done(app.click("queue-wrong-caption")) == 1  # it is about the caption's own image
    run = open_run(root / "demo")
    [review] = read_reviews(file).standing
    caption = list(run.captions("dev")).index(review.caption)
    assert review.image == ReviewedSplit.of(run, "dev").keys[run.image_of_text("dev")[caption]]


def test_a_queue_contains_only_captions_of_the_slice(root):
    [run] = list_runs(root)
    for queue in ("ambiguous", "near", "likely"):
        every = judging.queue(run, "dev", queue)
        inside = np.arange(40, 90)
        sliced = judging.queue(run, "dev", queue, inside)
        assert sliced
        assert {caption for _, caption in sliced} <= set(inside.tolist())
        both = [pair for pair in every if pair[1] in inside]
        assert both == sliced[: len(both)]


def test_a_queue_contains_every_text_once(tmp_path):
    texts = [f"caption {k}" if k % 5 < 4 else "some shapes" for k in range(100)]
    write_run(tmp_path, "demo", images=20, noise=3.0, pictures=False, captions=texts)
    [run] = list_runs(tmp_path)
    for queue in judging.QUEUES:
        pairs = judging.queue(run, "dev", queue)
        judged = [texts[caption] for _, caption in pairs]
        if queue == "estimate":  # equal texts may have different first results
            judged = [(image, texts[caption]) for image, caption in pairs]
        assert len(judged) == len(set(judged)) > 10


def test_likely_wrong_captions_are_a_queue_the_most_suspicious_first(tmp_path, opened):
    """A tenth of the captions was exchanged; people judge those that look like random pairs."""
    root = tmp_path / "runs"
    [_, folder], exchanged = write_halves(root)
    scored = mismatches(open_run(folder), "train")
    likely = scored.loc[scored["level"] == LEVELS[0], "caption"].tolist()
    [run] = [run for run in list_runs(root) if run.name == folder.name]
    queue = judging.queue(run, "train", "wrong")
    assert [caption for _, caption in queue] == likely
    assert len(queue) > 5
    assert exchanged[[caption for _, caption in queue]].all()
    app = opened(
        root, "reviews", run=folder.name, split="train", reviewer="anna", queue=judging.QUEUES["wrong"]
    )
    app.click("queue-wrong-caption")
    [review] = read_reviews(root / "reviews.jsonl").all
    assert review.caption == open_run(folder).captions("train")[queue[0][1]]


@pytest.fixture
def missed(file, root):
    """A caption whose first result matches it, too, by two reviewers; they agree on a wrong caption of image 3."""
    run = open_run(root / "demo")
    split = ReviewedSplit.of(run, "dev")
    captions = run.captions("dev")
    missed = int(np.flatnonzero(run.ranks("dev")["t2i"] > 0)[0])
    first = int(run.analysis("dev").text_best[missed, 0])
    wrong = captions[run.captions_of("dev", 3)[0]]
    for who in ("anna", "ben"):
        append_review(file, Review(split.keys[first], captions[missed], "also-matches", who))
        append_review(file, Review(split.keys[3], wrong, "wrong-caption", who))
    append_review(file, Review(split.keys[4], "", "duplicate", "anna", ("twice",), "**the same** as `5`"))
    append_review(file, Review("elsewhere.jpg", "a caption of train", "too-vague", "ben"))
    return missed


def test_verdicts_and_the_agreement_of_reviewers_are_listed(missed, file, root, opened):
    file.write_text(f'{file.read_text()}{{"version')
    app = opened(root, "reviews", reviewer="ben")
    assert f"{file} line 7" in app.texts()
    [judged] = app.rows("tags")
    row = {"verdict": "duplicate", "reviewer": "anna", "tags": "twice", "note": "**the same** as `5`"}
    assert (len(judged), judged[1] | row) == (6, judged[1])
    [[agreement]] = app.rows("Cohen’s κ")
    assert list(agreement.values()) == ["anna", "ben", "2", "100.0 %", "1.00"]
    assert len(app.change(verdict_by="ben").rows("tags")[0]) == 3
    assert [row["verdict"] for row in app.change(verdict_words="TRAIN").rows("tags")[0]] == ["too vague"]
    assert app.code[0].value.endswith(f"evaluate '{root}/demo' --split dev --reviews '{file}'")


def test_recall_by_verdicts_follows_the_slice(missed, file, root, opened):
    run = open_run(root / "demo")

    def recall_of(*captions):
        table = reviewed_recall(run, "dev", ReviewedSplit.of(run, "dev"), read_reviews(file), *captions)
        return table.set_index(["direction", "queries"])

    table = recall_of()
    changed = table.loc[("t2i", "changed")]
    row = table.loc[("t2i", "all")]
    assert changed["count"] == 1, "the caption judged wrong has no positive left"
    assert (changed["labels_1"], changed["reviewed_1"]) == (0.0, 100.0)
    best = run.best("dev", "t2i")[missed].tolist()
    own = int(run.image_of_text("dev")[missed])
    for by, matches in (("labels", [own]), ("reviewed", [own, best[0]])):
        for name, key in (("mrr", "mrr"), ("ndcg", "ndcg10")):
            expected = 100 * metric(name, 10, best, dict.fromkeys(matches, 1))
            assert changed[f"{by}_{key}"] == pytest.approx(expected)
    [recall] = opened(root, "reviews", reviewer="ben").rows("R@1 labels")
    assert len(recall) == 4
    assert float(recall[2]["R@1 reviewed"]) == pytest.approx(row["reviewed_1"], abs=0.05)
    gain = gain_cell(row["reviewed_1"] - row["labels_1"], row["low_1"], row["high_1"])
    assert recall[2]["change of R@1"] == gain
    owner = int(run.image_of_text("dev")[missed])
    app = opened(root, "reviews", reviewer="ben", slice=f"image == {owner}")
    assert [row["verdict"] for row in app.rows("tags")[0]] == ["also matches"] * 2
    captions = np.asarray(run.captions_of("dev", owner))
    assert [row["number"] for row in app.rows("R@1 labels")[0]] == ["1", str(len(captions)), "1"]
    right = run.ranks("dev")["t2i"][captions] < 1
    hits = recall_of(captions).loc[("t2i", "all")]
    expected = (100 * right.mean(), 100 * (right | (captions == missed)).mean())
    assert (hits["labels_1"], hits["reviewed_1"]) == pytest.approx(expected)
    none = recall_of(run.captions_of("dev", 3)[:1]).loc[("t2i", "all")]  # the caption judged wrong
    assert none[["count", "labels_1", "low_1", "high_1"]].fillna(-1).tolist() == [0, -1, -1, -1]


def test_samples_can_be_judged_on_other_pages(file, root, opened):
    app = opened(root, "retrieval", reviewer="anna")
    assert app.texts().count("data-review=") > 20
    app.click("sample-too-vague")
    assert [review.verdict for review in read_reviews(file).all] == ["too-vague"]
    note = "<img src=x onerror=alert(1)>"
    app.change(sample_tags="colour, , <b>x</b>", sample_note=note).click("sample-save")
    last = read_reviews(file).standing[0]
    assert (last.verdict, last.tags, last.note) == ("too-vague", ("colour", "<b>x</b>"), note)
    assert "&lt;img src=x onerror=alert(1)&gt;" in app.texts()
    assert "<b>x</b>" not in app.texts()
    for _ in range(2):
        app.click("sample-undo")
    assert read_reviews(file).standing == ()
    assert "sample-undo" not in app.keys("button")


def test_an_invalid_review_file_is_named(file, root, opened):
    file.write_text('{"verdict": "wrong"}\n')
    for page in ("reviews", "diversity"):
        app = opened(root, page)
        assert app.saying("reviews.jsonl", "line 1", "version")
        assert not [key for key in app.keys("button") if key.endswith("too-vague")]


def test_verdicts_go_to_the_configured_file_unless_it_is_a_link(root, opened, monkeypatch, tmp_path):
    monkeypatch.setenv("CODER_REVIEWS", str(tmp_path / "mine.jsonl"))
    app = opened(root, "diversity").click("sample-label-right")
    assert [review.verdict for review in read_reviews(tmp_path / "mine.jsonl").all] == ["label-right"]
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    monkeypatch.setenv("CODER_REVIEWS", str(tmp_path / "link.jsonl"))
    app.click("sample-duplicate")
    assert any("link.jsonl" in refusal for refusal in app.refusals())
    assert not (tmp_path / "elsewhere.jsonl").exists()


def test_large_pictures_and_cells_can_be_judged(file, root, opened):
    [run] = list_runs(root)
    markup = captions_html(Choice(run, None, "dev"), 3)
    assert markup.count('data-review="too-vague" data-pair="3 ') == markup.count('data-open="caption-') == 5
    pair = {"pair-image": "2", "pair-caption": "20", "batch-of": "Selection", "chosen": "10, 20"}
    opened(root, "similarity", **pair).click("pair-also-matches")
    [review] = read_reviews(file).all
    assert review.pair == ReviewedSplit.of(open_run(root / "demo"), "dev").pair(2, 20)


def test_letters_are_shortcuts_only_on_the_reviews_page(root, opened):
    for page in ("reviews", "retrieval", "diversity", "similarity", "data"):
        letters = {button.proto.shortcut.upper() for button in opened(root, page).button} & set("MWVDLU")
        assert letters >= {"W", "V", "D"} if page == "reviews" else not letters


def test_verdicts_on_drawn_results_estimate_recall(tmp_path, opened, monkeypatch):
    root = tmp_path / "runs"
    folder = write_run(root, "demo", images=20, noise=3.0, pictures=False)
    file = tmp_path / "reviews.jsonl"
    monkeypatch.setenv("CODER_REVIEWS", str(file))
    [run] = list_runs(root)
    pairs = judging.queue(run, "dev", "estimate")
    app = opened(root, "reviews", reviewer="anna", queue=judging.QUEUES["estimate"])
    labels = open_run(folder).metrics["dev"]["t2i_r1"]
    assert app.saying("R@1 of the captions", f"{labels:.1f} by the labels", "20 more verdicts")
    opened_split = ReviewedSplit.of(open_run(folder), "dev")
    for number, (image, caption) in enumerate(pairs):
        verdict = "also-matches" if number % 3 == 0 else "label-right"
        append_review(file, Review(*opened_split.pair(image, caption), verdict, "anna"))
    app = opened(root, "reviews", reviewer="anna", queue=judging.QUEUES["estimate"])
    found = judging.recall_by_people(run, "dev", None)
    assert found.verdicts >= len(pairs)
    assert labels < found.low < found.recall < found.high
    assert app.saying(
        f"{found.recall:.1f}", f"{found.low:.1f}, {found.high:.1f}", f"{found.verdicts} verdicts"
    )
