"""The Joint space page: maps at once, maps on demand, selections from the URL."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from app import jobs
from app.ask import all_runs
from coder_core.api import Run, open_run
from coder_core.api.sampling import draw_points_sample
from coder_core.geometry.settings import LayoutSettings
from coder_core.runs.derived.compute import make_layouts
from tests.support.pages import Opened, labels, shown_tables, texts
from tests.support.run_folders import write_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("joint") / "runs"
    for name, noise in (("demo-baseline", 3.0), ("demo", 1.5)):
        write_run(base, name, noise=noise, images=20)
    write_run(base, "smaller", images=12, pictures=False)
    return base


EVERYTHING = "a:-9,-9,9,-9,9,9,-9,9"


def test_a_map_is_offered_never_begun_and_pca_is_shown_meanwhile(root: Path, opened: Opened) -> None:
    app = opened(root, "joint")
    assert labels(app, "Compute") == ["Compute the UMAP map"]
    assert not (root / ".work").exists()
    assert "as close as possible to that of demo-baseline, at the same size" in texts(app)
    assert "120 points of 2 runs take about 10 seconds on a two-core machine" in texts(app)
    app.segmented_control(key="map").set_value("pca").run()
    assert not app.exception
    assert not labels(app, "Compute")


@pytest.mark.parametrize(
    "column", ["modality", "rank", "gain", "diversity", "similarity", "hubness", "words"]
)
def test_every_colour_with_everything_selected(root: Path, column: str, opened: Opened) -> None:
    app = opened(root, "joint", map="PCA", area=EVERYTHING, focus="caption-7", colour=column)
    assert app.selectbox(key="colour").value == column
    assert "120 of 120 selected: 20 images, 100 captions." in texts(app)
    assert "Caption 7 of image 1" in texts(app)
    figure = json.dumps(json.loads(app.get("plotly_chart")[0].proto.spec), ensure_ascii=False)
    assert "caption 7 · image 1 · 1.png<br>scene 1, told in way 2" in figure
    [table] = shown_tables(app)
    assert table["range"] == "1–50 of 120 samples"
    names = [column["label"] for column in table["columns"]]
    assert {"rank (demo)", "rank (demo-baseline)"} <= set(names)
    assert names.count("gain") == len([name for name in names if "gain" in name]) == 1


def test_one_run_alone_and_an_empty_area(root: Path, opened: Opened) -> None:
    app = opened(root, "joint", area="a:50,50,60,50,60,60")
    app.selectbox(key="versus").set_value("—").run()
    assert not app.exception
    assert "This area contains no point." in texts(app)
    app.text_input(key="slice").set_value("image == 3").run()
    app.query_params["area"] = EVERYTHING
    app.run()
    assert "6 of 120 selected: 1 image, 5 captions." in texts(app)
    assert "The slice does not narrow where points lie" in texts(app)
    assert "gain" not in app.selectbox(key="colour").options


@pytest.mark.parametrize("method", ["PCA", "t-SNE"])
@pytest.mark.parametrize(
    ("shown", "count", "lines"),
    [
        ("Images", "20 of 20 selected: 20 images.", 0),
        ("Captions", "100 of 100 selected: 100 captions.", 0),
        ("Both, centred", "120 of 120 selected: 20 images, 100 captions.", 1),
    ],
)
def test_one_modality_alone_or_both_centred(
    root: Path, opened: Opened, method: str, shown: str, count: str, lines: int
) -> None:
    modalities = shown.lower().removeprefix("both, ")
    if method == "t-SNE":
        settings = LayoutSettings("tsne", perplexity=5.0, modalities=modalities)  # type: ignore[arg-type]
        make_layouts([root / name for name in ("demo-baseline", "demo")], "dev", settings)
    everything = "a:-999,-999,999,-999,999,999,-999,999"
    query = {"map": method, "modalities": shown, "area": everything, "find": "told", "perplexity": "5"}
    app = opened(root, "joint", **query)
    assert not labels(app, "Compute")
    assert count in texts(app)
    assert len([toggle for toggle in app.toggle if toggle.key == "lines"]) == lines
    [table] = shown_tables(app)
    kinds = {"Images": {"image"}, "Captions": {"caption"}}.get(shown, {"image", "caption"})
    assert {row["sample"]["name"].split()[0] for row in table["rows"]} == kinds
    matched = {"Images": "20 images", "Captions": "100 captions"}.get(shown, "20 images and 100 captions")
    assert f"“told” matches {matched}, marked by rings." in texts(app)
    app.segmented_control(key="modalities").set_value(
        "both"
    ).run()  # another map: its areas would be meaningless
    assert " selected: " not in texts(app)


def test_a_single_match_is_opened_and_nothing_is_said_plainly(root: Path, opened: Opened) -> None:
    app = opened(root, "joint", map="PCA", find="caption 7")
    assert "“caption 7” matches 1 caption, marked by rings." in texts(app)
    assert "Caption 7 of image 1" in texts(app)
    app.text_input(key="find").set_value("<b>unicorn</b>").run()
    assert "Nothing on the map matches “&lt;b&gt;unicorn&lt;/b&gt;”" in texts(app)


def test_runs_on_other_samples_are_not_laid_over_each_other(root: Path, opened: Opened) -> None:
    app = opened(root, "joint", area=EVERYTHING)
    app.selectbox(key="run").set_value("demo").run()
    app.selectbox(key="versus").set_value("smaller").run()
    assert not app.exception
    assert "evaluated on different samples" in texts(app)
    assert "100 captions" in texts(app)


def test_a_kept_map_is_shown_and_a_damaged_one_is_named(root: Path, opened: Opened) -> None:
    runs = [root / name for name in ("demo-baseline", "demo")]
    made = make_layouts(runs, "dev", LayoutSettings("tsne", perplexity=10.0))
    app = opened(root, "joint", map="t-SNE", perplexity="10")
    assert not labels(app, "Compute")
    file = made[1][0].path / "plane.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    app = opened(root, "joint", map="t-SNE", perplexity="10")
    assert "damaged" in texts(app)
    assert "plane.npy" in texts(app)
    assert labels(app, "Compute")


def ended(name: str) -> None:
    end = time.monotonic() + 60
    while (job := jobs.current(name)) is not None and job.running:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_the_command_runs_beside_the_app_and_can_be_cancelled(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODER_CHECKPOINTS", str(root))
    run = next(run for run in all_runs() if run.name == "demo")
    command = jobs.module_command("coder_core.project", str(run.path), "--split", "dev", "--method", "pca")
    assert command[:5] == (sys.executable, "-P", "-u", "-m", "coder_core.project")
    jobs.start_work(command, "layout-test")
    ended("layout-test")
    assert jobs.how_it_ended("layout-test") == ""
    job = jobs.current("layout-test")
    assert job is not None
    assert job.progress is not None
    assert job.progress.state == "finished"
    assert list((root / "demo" / "derived" / "dev").iterdir())
    assert open_run(root / "demo").splits == ("dev",)
    wait = (sys.executable, "-c", "import time; time.sleep(60)")
    jobs.start_work(wait, "layout-wait")
    assert (waiting := jobs.current("layout-wait")) is not None
    assert waiting.running
    jobs.stop("layout-wait")
    ended("layout-wait")
    assert jobs.how_it_ended("layout-wait") == jobs.CANCELLED
    failing = jobs.module_command("coder_core.cluster", str(root / "demo"), "--clusters", "9999")
    jobs.start_work(failing, "clusters-test")
    ended("clusters-test")
    assert "at most one for every pair" in jobs.how_it_ended("clusters-test")
    jobs.forget("layout-wait")
    assert jobs.how_it_ended("layout-wait") == ""


def test_a_large_split_is_opened_by_a_sample_and_looked_at_whole_when_asked(
    tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "runs"
    for name, noise in (("demo-baseline", 3.0), ("demo", 1.5)):
        write_run(root, name, noise=noise, images=20)
    drawn = draw_points_sample(20, open_run(root / "demo").image_of_text("dev"), points=60, scores=100)
    assert drawn is not None
    monkeypatch.setattr(Run, "points_sample", lambda self, split, **_: drawn)
    inside, outside = int(drawn.images[-1]), int(np.setdiff1d(np.arange(20), drawn.images)[0])
    app = opened(root, "joint", map="PCA", area=EVERYTHING, focus=f"image-{inside}")
    assert "60 of 120 samples, drawn at random: 10 of 20 images" in texts(app)
    assert "60 of 60 selected: 10 images, 50 captions." in texts(app)
    assert f"Image {inside}" in texts(app)
    app.query_params["focus"] = f"image-{outside}"
    app.run()
    assert "The map does not show it" in texts(app)
    app.toggle(key="everything").set_value(True).run()
    assert not app.exception
    assert "120 of 120 selected: 20 images, 100 captions." in texts(app)
