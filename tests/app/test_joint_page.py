"""The Joint space page: maps at once, maps on demand, selections from the URL."""

import json
import sys

import numpy as np
import pytest

from app import jobs
from coder_core.api import Run, open_run
from coder_core.api.joint_space import modality_gap
from coder_core.api.sampling import draw_sample
from coder_core.api.training import JobFolder
from coder_core.console.output import JobProgress, ProgressFile
from coder_core.geometry.settings import LayoutSettings
from coder_core.runs.derived.compute import make_layouts
from tests.app.conftest import write_pair
from tests.app.test_jobs import until_over
from tests.console.test_processes import WAIT
from tests.support.pages import numbers
from tests.support.run_folders import flip

EVERYTHING = "a:-9,-9,9,-9,9,9,-9,9"
FURTHER = "a:-999,-999,999,-999,999,999,-999,999"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("joint") / "runs")


def test_a_map_is_computed_only_on_request_and_pca_shown_meanwhile(tmp_path, opened):
    root = write_pair(tmp_path / "runs")
    app = opened(root, "joint")
    assert len(app.labels("Compute")) == 1
    assert app.figures()
    assert not (root / ".work").exists()
    assert app.saying(120, 2, 10)  # points, runs, seconds
    assert not app.change(map="pca").labels("Compute")


def test_every_colour_with_everything_selected(root, opened):
    app = opened(root, "joint", map="PCA", area=EVERYTHING, focus="caption-7", colour="words")
    assert app.value("colour") == "words"
    assert app.saying(120, 120, 20, 100)
    assert app.saying("Caption 7", "image 1")
    assert app.saying(60, 100)  # lines, pairs
    lines = [trace for trace in app.figures()[0]["data"] if trace["mode"] == "lines"]
    assert [len(numbers(trace["x"])) for trace in lines] == [3 * 60] * 2
    gaps = [f"{modality_gap(open_run(root / name), 'dev'):.3f}" for name in ("demo-baseline", "demo")]
    assert [metric.value for metric in app.metric] == gaps
    [table] = app.tables()
    assert table["range"].startswith("1–50 of 120 ")
    names = [column["label"] for column in table["columns"]]
    assert {"rank (demo)", "rank (demo-baseline)"} <= set(names)
    assert len([name for name in names if "gain" in name]) == 1
    columns = ("words", "modality", "rank", "gain", "diversity", "similarity", "hubness")
    changed = [app.change(colour=column).figures()[0] for column in columns]
    figures = {json.dumps(figure, ensure_ascii=False) for figure in changed}
    assert len(figures) == len(columns)
    assert all("caption 7 · image 1 · 1.png<br>scene 1, told in way 2" in figure for figure in figures)


def test_an_empty_area_and_a_single_run(root, opened):
    app = opened(root, "joint", area="a:50,50,60,50,60,60", versus="—")
    assert not app.tables()
    app.change(slice="image == 3")
    app.query_params["area"] = EVERYTHING
    assert app.again().saying(6, 120, 1, 5)
    assert "gain" not in app.selectbox(key="colour").options


@pytest.mark.parametrize(
    ("method", "shown", "images", "captions"),
    [("t-SNE", "Images", 20, 0), ("PCA", "Captions", 0, 100), ("t-SNE", "Both, centred", 20, 100)],
)
def test_maps_of_each_modality(root, opened, method, shown, images, captions):
    modalities = shown.lower().removeprefix("both, ")
    if method == "t-SNE":
        settings = LayoutSettings("tsne", perplexity=5.0, modalities=modalities)
        make_layouts([root / name for name in ("demo-baseline", "demo")], "dev", settings)
    query = {"map": method, "modalities": shown, "area": FURTHER, "find": "told", "perplexity": "5"}
    app = opened(root, "joint", **query)
    assert not app.labels("Compute")
    total = images + captions
    assert app.saying(total, total, *(count for count in (images, captions) if count))
    assert ("lines" in app.keys("toggle")) == (shown == "Both, centred")
    [table] = app.tables()
    kinds = {"image"} if not captions else {"caption"} if not images else {"image", "caption"}
    assert {row["sample"]["name"].split()[0] for row in table["rows"]} == kinds
    assert app.saying("“told”", *(count for count in (images, captions) if count))
    app.change(modalities="both")  # another map: its areas would be meaningless
    assert not app.saying("selected:")


def test_a_single_match_is_opened_and_an_unmatched_text_is_quoted(root, opened):
    app = opened(root, "joint", map="PCA", find="caption 7")
    assert app.saying("“caption 7”", 1)
    assert app.saying("Caption 7", "image 1")
    assert app.change(find="<b>unicorn</b>").saying("“<b>unicorn</b>”")


def test_a_stored_map_is_shown_and_a_damaged_one_is_named(root, opened):
    runs = [root / name for name in ("demo-baseline", "demo")]
    made = make_layouts(runs, "dev", LayoutSettings("tsne", perplexity=10.0))
    assert not opened(root, "joint", map="t-SNE", perplexity="10").labels("Compute")
    flip(made[1][0].path / "plane.npy")
    app = opened(root, "joint", map="t-SNE", perplexity="10")
    assert app.saying("plane.npy")
    assert app.labels("Compute")


def test_background_commands_finish_or_are_cancelled(root, monkeypatch):
    monkeypatch.setenv("CODER_CHECKPOINTS", str(root))
    options = (str(root / "demo"), "--split", "dev", "--method", "pca")
    command = jobs.module_command("coder_core.project", *options)
    assert command == (sys.executable, "-P", "-u", "-m", "coder_core.project", *options)
    jobs.start_work(command, "layout-test")
    jobs.start_work(WAIT, "layout-wait")
    assert jobs.current("layout-wait").running
    jobs.stop("layout-wait")
    for name, end in (("layout-wait", jobs.CANCELLED), ("layout-test", "")):
        until_over(name)
        assert jobs.how_it_ended(name) == end
    assert jobs.current("layout-test").progress.state == "finished"
    assert list((root / "demo" / "derived" / "dev").iterdir())
    failed = JobProgress(0.0, "failed", "failed", "more than 9,999")
    ProgressFile(JobFolder(jobs.folder_of("layout-wait")).progress_file).write(failed)
    assert jobs.how_it_ended("layout-wait") == failed.message
    jobs.forget("layout-wait")
    assert jobs.how_it_ended("layout-wait") == ""


def test_a_large_split_is_sampled(root, opened, monkeypatch):
    drawn = draw_sample(20, open_run(root / "demo").image_of_text("dev"), points=60, scores=100)
    monkeypatch.setattr(Run, "points_sample", lambda self, split, **_: drawn)
    inside = int(drawn.images[-1])
    outside = int(np.setdiff1d(np.arange(20), drawn.images)[0])
    app = opened(root, "joint", map="PCA", area=EVERYTHING, focus=f"image-{inside}", draw="3")
    assert app.saying(60, 120, 10, 20)
    assert app.saying(60, 60, 10, 50)
    assert app.saying(f"Image {inside}")
    app.query_params["focus"] = f"image-{outside}"
    assert app.again().saying("is not on the map")
    assert app.change(everything=True).saying(120, 120, 20, 100)
