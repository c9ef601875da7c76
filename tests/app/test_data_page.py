"""The Data page: mismatched pairs, the check of pictures and captions as a job, duplicates, leaks, empty captions."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import streamlit as st
from PIL import Image

from app import jobs
from app.views.data import may_have_seen
from coder_core.api import Run, RunSummary, open_run
from coder_core.api.data_quality import CLEAN_ABOVE, LEVELS, cross_fitted, error_probability, splits_of_run
from coder_core.api.retrieval import likely_matches, text_vectors
from coder_core.api.sampling import draw_sample
from coder_core.data.content.report import check_content
from tests.app.test_jobs import until_over
from tests.support.run_folders import (
    configure,
    import_run_folder,
    synthetic,
    write_embeddings,
    write_halves,
    write_run,
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Runs on dev, whose pictures include a copy and a damaged file; the train split of their data shares a picture and
    a caption with dev."""
    base = tmp_path_factory.mktemp("data-page")
    captions = [f"view {i} from place {k}" for i in range(10) for k in range(5)]
    captions[7] = "<Two> dogs on the beach"
    captions[23] = "a picture"
    for name, noise in (("demo", 1.0), ("demo-baseline", 2.0)):
        write_run(base / "runs", name, images=10, noise=noise, captions=captions)
    pictures = base / "runs-pictures"
    data = base / "demo-data"
    names = [f"{i}.png" for i in range(10)]
    for number, name in enumerate(names):
        colours = np.random.default_rng(number).integers(0, 256, (5, 6, 3), dtype=np.uint8)
        Image.fromarray(colours).resize((160, 120), Image.Resampling.BICUBIC).save(pictures / name)
    shutil.copy(pictures / "3.png", pictures / "8.png")
    (pictures / "5.png").write_bytes((pictures / "5.png").read_bytes()[:300])
    (data / "images").mkdir(parents=True)
    seen = ["two DOGS on beach", *(f"train caption {i}" for i in range(4))]
    for split, lines, files in (("dev", captions, names), ("train", seen, ["seen.png"])):
        np.save(data / f"{split}_ims.npy", np.ones((len(files), 2, 3), np.float32))
        (data / f"{split}_caps.txt").write_text("\n".join(lines) + "\n")
        (data / f"{split}_ids.txt").write_text("\n".join(files) + "\n")
    Image.open(pictures / "1.png").resize((96, 72)).save(data / "images" / "seen.png")
    return base / "runs"


@pytest.fixture(autouse=True)
def _data(root, monkeypatch):
    monkeypatch.setenv("CODER_DEMO", str(root.parent / "demo-data"))


def test_mismatched_pairs_are_listed_and_opened(root, opened):
    app = opened(root, "data", run="demo-baseline", versus="demo")
    [rows] = app.rows("suspicion")
    assert len(rows) == 50
    scores = [float(row["suspicion"]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    looks = Counter(row["level"] for row in rows)
    assert {metric.label: int(metric.value) for metric in app.metric} == {v: looks[v] for v in LEVELS}
    first = app.value("pair-caption-number")
    assert app.saying(f"Caption {first}", f"image {first // 5}")
    pair = "run=demo-baseline&amp;run=demo&amp;split=dev"
    assert f"diversity?{pair}&amp;anchors=Captions&amp;caption={first}" in app.texts()
    assert app.change(scorer="demo-baseline").saying("By demo-baseline")
    assert not app.saying("trained on these pairs")
    app.change(scorer="+", slice='"place 2" in caption')
    assert [len(rows) for rows in app.rows("suspicion")] == [10 - 1]  # one is about dogs
    assert sum(int(metric.value) for metric in app.metric if metric.label in LEVELS) == 9
    app.change(slice="").change(pair_caption_number_words="dogs")
    assert [len(rows) for rows in app.rows("suspicion")] == [1]


def test_two_runs_trained_on_one_half_each_score_train(tmp_path, opened):
    [first, second], wrong = write_halves(tmp_path / "runs")
    (shutil.copytree(second, first.parent / "again") / "status.json").unlink()
    configure(first.parent / "again", training={"seed": 6})
    app = opened(first.parent, "data", run="half", versus="other-half", split="train")
    [rows] = app.rows("scored by")
    assert {row["scored by"] for row in rows} == {"half", "other-half"}
    assert wrong[app.value("pair-caption-number")]
    scores = cross_fitted(open_run(first), open_run(second))["score"]
    assert [float(row["suspicion"]) for row in rows] == [round(score, 1) for score in scores[: len(rows)]]
    assert not app.saying("half trained on these pairs")
    assert app.change(scorer="half").saying("half trained on these pairs")
    assert not app.rows("scored by")
    app = opened(first.parent, "data", run="half", versus="again", split="train")
    assert app.saying("half", "again", "--train-part")
    assert "+" not in app.segmented_control(key="scorer").options


def test_training_without_suspicious_pairs_is_offered(tmp_path, opened):
    """The page shows how many of all pairs a threshold leaves out, with any slice; a single run needs new scorers."""
    [first, second], wrong = write_halves(tmp_path / "runs")
    configure(shutil.copytree(first, first.parent / "whole"), data={"train_part": 1.0})
    import_run_folder(first.parent, "clip", images=20, split="train")
    blind = write_run(first.parent, "blind", images=20, pictures=False)
    write_embeddings(blind, *synthetic(20, noise=50.0), "train", captions=["a word"] * 100)
    probability = error_probability(cross_fitted(open_run(first), open_run(second))["random"].to_numpy())
    app = opened(first.parent, "data", run="half", versus="other-half", split="train", slice="length > 9")
    out = probability >= CLEAN_ABOVE
    assert 0 < out.sum() < 2 * wrong.sum()
    assert app.saying(out.sum(), len(wrong), f"{100 * probability[~out].mean():.1f}%")
    assert "scorers=half+and+other-half" in app.texts()
    assert "scorers=" not in app.change(scorer="half").texts()
    app = opened(first.parent, "data", run=["whole", "half", "other-half"], split="train")
    assert "name=whole-cleaned" in app.texts()  # settings of the run that is no scorer
    app = opened(first.parent, "data", run="clip", split="train")
    assert app.rows("suspicion")
    assert app.saying("clip", "--train-part")
    assert "-clean=" not in app.texts()
    app = opened(first.parent, "data", run="blind", split="train")
    assert "-clean=" not in app.change(clean_above=0.05).texts()  # it would leave nothing to train on


def test_the_content_check_can_be_cancelled_and_its_report_is_stored(root, opened, monkeypatch, tmp_path):
    monkeypatch.setenv("CODER_CACHE", str(tmp_path))
    st.cache_data.clear()
    st.cache_resource.clear()
    query = {"run": "demo", "versus": "—", "list": "Duplicate pictures"}
    app = opened(root, "data", **query)
    [key] = [key for key in app.keys("button") if key.startswith("begin-")]
    name = key.removeprefix("begin-")
    assert app.click(key).labels("Cancel") == ["Cancel"]
    jobs.stop(name)
    until_over(name)
    assert not list(tmp_path.glob("content/*.json"))
    train = root.parent / "demo-data" / "train_caps.txt"
    before = train.read_text()
    train.write_text(before.replace("train caption 3", "changed since the page read it"))
    app.again().click(key)
    until_over(name)
    assert jobs.how_it_ended(name) == ""
    assert key not in app.again().keys("button")
    app = opened(root, "data", **query)  # another visitor sees the stored report
    assert key not in app.keys("button")
    assert app.saying("train (1 images)", "dev (10 images)")
    train.write_text(before)
    st.cache_data.clear()
    st.cache_resource.clear()


def test_duplicates_leaks_and_bad_pictures_are_listed(root, opened):
    check_content(splits_of_run(open_run(root / "demo")))
    app = opened(root, "data", run="demo-baseline", versus="demo", list="Duplicate pictures")
    [rows] = app.rows("likeness")
    assert [row["splits"] for row in rows] == ["train, dev", "dev"]
    assert rows[1]["likeness"] == "100.0 %"
    assert app.saying("train", "image 0", "seen.png")
    assert app.texts().count('class="cl-sample"><') == app.texts().count("<img") == 2  # of train, too
    assert "1 of 2" in app.toggle(key="leaks").label
    app.change(leaks=True)
    assert [len(rows) for rows in app.rows("likeness")] == [1]
    app.change(list="captions")
    [rows] = app.rows("likeness")
    assert [row["caption"] for row in rows] == ["two DOGS on beach"]
    assert "&lt;Two&gt; dogs on the beach" in app.texts()
    assert "<Two>" not in app.texts()
    app.change(list="bad")
    [[row]] = app.rows("what is wrong")
    assert row["picture"] == "5.png"
    assert "broken: " in str(app.tables())


def test_empty_captions_are_empty_and_others_can_be_sorted(root, opened):
    app = opened(root, "data", run="demo", versus="—", list="Empty captions")
    [rows] = app.rows("content words")
    assert {row["content words"] for row in rows} == {"0"}
    assert rows[0]["words"] == "2"
    assert app.value("empty-caption") == 23
    app.change(list="little")
    [rows] = app.rows("content words")
    counts = [int(row["content words"]) for row in rows]
    assert len(rows) == 50
    assert counts == sorted(counts)
    assert counts[-1] > 0
    for order, column in (("generic", "plausible images"), ("diversity", "diversity in demo")):
        [rows] = app.change(empty_order=order).rows(column)
        values = [float(row[column]) for row in rows]
        assert values == sorted(values, reverse=order == "generic")


def test_data_and_review_pages_sample_a_large_split(root, opened, monkeypatch):
    drawn = draw_sample(10, open_run(root / "demo").image_of_text("dev"), scores=100)
    monkeypatch.setattr(Run, "sample", lambda self, split, **_: drawn)
    st.cache_resource.clear()
    for name, column in (("Mismatched pairs", "suspicion"), ("Says little", "content words")):
        app = opened(root, "data", run="demo", versus="—", list=name)
        assert app.saying(len(drawn.texts), 50, len(drawn.images))
        assert [len(rows) for rows in app.rows(column)] == [len(drawn.texts)]
    for queue, sampled in (("Most ambiguous", True), ("Near misses", True), ("Likely matches", False)):
        app = opened(root, "reviews", run="demo", versus="—", queue=queue)
        assert bool(app.saying("This split is large")) == sampled
    st.cache_resource.clear()


def test_unlabelled_matches_are_listed_likeliest_first_and_can_be_judged(root, opened):
    run = open_run(root / "demo")
    guesses = likely_matches(run, "dev", "t2i", text_vectors(run, "dev"))
    likely = guesses.likely()
    app = opened(root, "data", run="demo", versus="—", list="Unlabelled matches")
    [rows] = app.rows("other image")
    assert len(rows) == min(50, likely.any(1).sum()) > 0
    likeness = [float(row["likeness of captions"]) for row in rows]
    assert likeness == sorted(likeness, reverse=True)
    caption = app.value("unlabelled-caption")
    best = np.asarray(run.best("dev", "t2i"))[caption]
    assert int(rows[0]["other image"]) in best[likely[caption]]
    assert app.labels("Also matches")


def test_a_zero_shot_run_is_not_accused_of_having_trained_on_its_pairs():
    imported = {"state": "imported"}
    trained = RunSummary("trained", Path("trained"), "finished", config={"data": {}})
    assert may_have_seen(trained)
    assert may_have_seen(RunSummary("imported", Path("imported"), **imported))
    assert not may_have_seen(RunSummary("clip", Path("clip"), **imported, documents=frozenset({"towers"})))
