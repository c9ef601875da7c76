"""The Data page: mismatched pairs, the check of pictures and captions as a job, duplicates, leaks, empty captions."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
import streamlit as st
from PIL import Image

from app import jobs
from coder_core.api import Run, open_run
from coder_core.api.data_quality import VERDICTS, cross_fitted, splits_of_run
from coder_core.api.sampling import draw_sample
from coder_core.data.content import check_content
from coder_core.runs.analysis.write import write_analysis
from tests.support.pages import Opened, labels, shown_tables, table_rows, texts
from tests.support.run_folders import reseal, write_halves, write_run
from tests.support.visits import PATIENCE, Visit, picture

CHECK = "Check pictures and captions"


def until_over(name: str) -> None:
    end = time.monotonic() + 60
    while (job := jobs.current(name)) is not None and job.running:
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of dev whose pictures hold a copy and a torn file, with the train split of its data beside it, which has a
    picture and a caption of dev."""
    base = tmp_path_factory.mktemp("data-page")
    captions = [f"view {i} from place {k}" for i in range(10) for k in range(5)]
    captions[7], captions[23] = "<Two> dogs on the beach", "a picture"
    write_run(base / "runs", "demo", images=10, captions=captions)
    write_run(base / "runs", "demo-baseline", images=10, noise=2.0, captions=captions)
    pictures = base / "runs-pictures"
    for number in range(10):
        colours = np.random.default_rng(number).integers(0, 256, (5, 6, 3), dtype=np.uint8)
        Image.fromarray(colours).resize((160, 120), Image.Resampling.BICUBIC).save(pictures / f"{number}.png")
    shutil.copy(pictures / "3.png", pictures / "8.png")
    (pictures / "5.png").write_bytes((pictures / "5.png").read_bytes()[:300])
    data = base / "demo-data"
    (data / "images").mkdir(parents=True)
    for split, texts_of, names in (
        ("dev", captions, [f"{i}.png" for i in range(10)]),
        ("train", ["two DOGS on beach", *(f"train caption {i}" for i in range(4))], ["seen.png"]),
    ):
        np.save(data / f"{split}_ims.npy", np.ones((len(names), 2, 3), np.float32))
        (data / f"{split}_caps.txt").write_text("".join(f"{caption}\n" for caption in texts_of))
        (data / f"{split}_ids.txt").write_text("".join(f"{name}\n" for name in names))
    Image.open(pictures / "1.png").resize((96, 72)).save(data / "images" / "seen.png")
    return base / "runs"


@pytest.fixture(autouse=True)
def _data(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODER_DEMO", str(root.parent / "demo-data"))


def test_mismatched_pairs_are_listed_and_opened(root: Path, opened: Opened) -> None:
    app = opened(root, "data", run="demo-baseline", versus="demo")
    [rows] = table_rows(app, "suspicion")
    assert len(rows) == 50
    scores = [float(row["suspicion"]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert {row["looks"] for row in rows} <= set(VERDICTS)
    counts = {metric.label: int(metric.value) for metric in app.metric}
    assert list(counts) == list(VERDICTS)
    assert sum(counts.values()) == 50
    assert "“Judged by” chooses demo-baseline." in texts(app)
    first = app.number_input(key="pair-caption-number").value
    assert f"Caption {first} of image {first // 5}" in texts(app)
    assert (
        f"diversity?run=demo-baseline&amp;versus=demo&amp;split=dev&amp;anchors=Captions&amp;caption={first}"
        in texts(app)
    )
    app.segmented_control(key="judge").set_value("demo-baseline").run()
    assert "By demo-baseline." in texts(app)
    app = opened(root, "data", run="demo-baseline", versus="demo", slice='"place 2" in caption')
    assert [len(rows) for rows in table_rows(app, "suspicion")] == [10 - 1]  # one is about dogs
    assert sum(int(metric.value) for metric in app.metric if metric.label in VERDICTS) == 9
    app.text_input(key="slice").set_value("").run()
    app.text_input(key="pair-caption-number-words").set_value("dogs").run()
    assert [len(rows) for rows in table_rows(app, "suspicion")] == [1]
    assert not app.exception


def test_train_is_judged_by_two_runs_that_saw_one_half_each(tmp_path: Path, opened: Opened) -> None:
    [first, second], wrong = write_halves(tmp_path / "runs")
    shutil.copytree(second, first.parent / "again")
    document = (first.parent / "again" / "config.toml").read_text()
    (first.parent / "again" / "config.toml").write_text(document.replace("seed = 5", "seed = 6"))
    (first.parent / "again" / "status.json").unlink()
    reseal(first.parent / "again")
    app = opened(first.parent, "data", run="half", versus="other-half", split="train")
    assert "Every pair is judged by the run that did not see its image." in texts(app)
    assert "has learned their mistakes" not in texts(app)
    [rows] = table_rows(app, "judged by")
    assert {row["judged by"] for row in rows} == {"half", "other-half"}
    assert wrong[app.number_input(key="pair-caption-number").value]
    table = cross_fitted(open_run(first), open_run(second))
    assert [float(row["suspicion"]) for row in rows] == [
        round(score, 1) for score in table["score"][: len(rows)]
    ]
    app.segmented_control(key="judge").set_value("half").run()
    assert "half trained on these pairs and has learned their mistakes" in texts(app)
    assert not table_rows(app, "judged by")
    app = opened(first.parent, "data", run="half", versus="again", split="train")
    assert (
        "These two cannot: runs half and again did not train on complementary halves (half: --train-part"
        in texts(app)
    )
    assert "+" not in app.segmented_control(key="judge").options
    assert not app.exception


def test_the_check_is_a_job_that_can_be_cancelled_and_whose_report_is_kept(
    root: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CODER_CACHE", str(tmp_path))
    app = opened(root, "data", run="demo", versus="—", list="Duplicate pictures")
    assert labels(app, CHECK) == [CHECK]
    [button] = [button for button in app.button if button.label == CHECK]
    name = str(button.key).removeprefix("begin-")
    button.click().run()
    assert labels(app, "Cancel") == ["Cancel"]
    jobs.stop(name)
    until_over(name)
    assert not list(tmp_path.glob("content/*.json"))
    app.run()
    assert "The last attempt did not finish." in texts(app)
    train = root.parent / "demo-data" / "train_caps.txt"
    before = train.read_text()
    train.write_text(before.replace("train caption 3", "changed since the page read it"))
    [button] = [button for button in app.button if button.label == CHECK]
    button.click().run()
    until_over(name)
    assert (job := jobs.current(name)) is not None
    assert job.progress is not None
    assert job.progress.state == "finished", job.output
    app.run()
    for _ in range(2):  # the second time from the kept report, by another visitor
        assert not labels(app, CHECK)
        app = opened(root, "data", run="demo", versus="—", list="Duplicate pictures")
    assert "Compared: train (1 images), dev (10 images)." in texts(app)
    train.write_text(before)
    st.cache_data.clear()
    st.cache_resource.clear()


def test_duplicates_leaks_and_bad_pictures(root: Path, opened: Opened) -> None:
    check_content(splits_of_run(open_run(root / "demo")))
    app = opened(
        root, "data", run="demo-baseline", versus="demo", list="Duplicate pictures"
    )  # of the same data
    [rows] = table_rows(app, "likeness")
    assert [(row["splits"], row["likeness"]) for row in rows] == [
        ("train, dev", rows[0]["likeness"]),
        ("dev", "100.0 %"),
    ]
    assert "train · image 0 · seen.png" in texts(app)
    assert texts(app).count('class="cl-sample"><') == texts(app).count("<img") == 2  # of train, too
    leak = app.toggle(key="leaks")
    assert leak.label == "Only across splits (1 of 2)"
    leak.set_value(True).run()
    assert [len(rows) for rows in table_rows(app, "likeness")] == [1]
    app.segmented_control(key="list").set_value("captions").run()
    [rows] = table_rows(app, "likeness")
    assert [row["caption"] for row in rows] == ["two DOGS on beach"]
    assert "&lt;Two&gt; dogs on the beach" in texts(app)
    assert "<Two>" not in texts(app)
    app.segmented_control(key="list").set_value("bad").run()
    assert [[row["picture"] for row in rows] for rows in table_rows(app, "what is wrong")] == [["5.png"]]
    assert "broken: " in str(shown_tables(app))
    assert not app.exception


def test_empty_captions_in_every_order(root: Path, opened: Opened) -> None:
    app = opened(root, "data", run="demo", versus="—", list="Empty captions")
    [rows] = table_rows(app, "content words")
    assert (rows[0]["content words"], rows[0]["words"]) == ("0", "2")
    assert app.number_input(key="empty-caption").value == 23
    for order, column in (("generic", "images it fits"), ("diversity", "diversity in demo")):
        app.segmented_control(key="empty-order").set_value(order).run()
        assert not app.exception
        [rows] = table_rows(app, column)
        values = [float(row[column]) for row in rows]
        assert values == sorted(values, reverse=order == "generic")


def test_pairs_that_a_run_trained_on_are_judged_with_a_warning(
    root: Path, tmp_path: Path, opened: Opened
) -> None:
    shutil.copytree(root / "demo", tmp_path / "demo")
    a = open_run(root / "demo").analysis("dev")
    names = ("image_embeddings", "text_embeddings", "image_of_text", "captions", "image_names", "image_ranks")
    values = {name: getattr(a, name) for name in (*names, "text_ranks", "image_best", "text_best", "metrics")}
    write_analysis(tmp_path / "demo", "train", fingerprint="1" * 12, **values)
    warning = "demo trained on these pairs and has learned their mistakes"
    assert warning in texts(opened(tmp_path, "data", run="demo", versus="—", split="train"))
    assert warning not in texts(opened(tmp_path, "data", run="demo", versus="—", split="dev"))


def test_a_large_split_is_judged_by_a_sample(
    root: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = draw_sample(10, open_run(root / "demo").image_of_text("dev"), scores=100)
    assert drawn is not None
    monkeypatch.setattr(Run, "sample", lambda self, split, **_: drawn)
    st.cache_resource.clear()
    for name, column in (("Mismatched pairs", "suspicion"), ("Empty captions", "content words")):
        app = opened(root, "data", run="demo", versus="—", list=name)
        assert f"{len(drawn.texts)} of 50 captions, those of {len(drawn.images)} random images" in texts(app)
        assert [len(rows) for rows in table_rows(app, column)] == [len(drawn.texts)]
    for queue, sampled in (("Most ambiguous", True), ("Near misses", True), ("Likely matches", False)):
        app = opened(root, "reviews", run="demo", versus="—", queue=queue)
        assert ("This split is large" in texts(app)) == sampled
    st.cache_resource.clear()


@pytest.mark.browser
def test_the_page_in_a_browser(visit: Visit, runs: Path, listener: tuple[int, list[str]]) -> None:
    hostile = picture(listener[0], "run")
    for name in ("demo", hostile):
        check_content(splits_of_run(open_run(runs / name)))
    visit.open("data?run=demo-baseline&versus=demo", charts=False)
    visit.check_accessibility()
    visit.page.locator("tbody tr").nth(2).click()
    visit.page.wait_for_function("location.search.includes('pair-caption-number=')", timeout=PATIENCE)
    visit.shoot("data-light")
    visit.page.get_by_role("link", name="diversity", exact=True).first.click()
    visit.page.get_by_role("heading", name="Which anchors are ambiguous?").wait_for(timeout=PATIENCE)
    listener[1].clear()
    values = {"run": hostile, "versus": "—", "split": "dev", "list": "Duplicate captions"}
    visit.page.emulate_media(color_scheme="dark")
    visit.open("data?" + urlencode(values), charts=False)
    assert visit.page.locator(".cl-sample").count() > 1
    visit.check_accessibility()
    visit.shoot("data-dark")
    visit.check()
    assert listener[1] == []
