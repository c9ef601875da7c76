"""The Joint space page: maps at once, maps on demand, selections from the URL."""

import json
import sys

import numpy as np
import pytest

from app import jobs
from app.components.space_map.component import NO_WEBGL
from coder_core.api import Run, open_run
from coder_core.api.joint_space import distribution_distance, modality_gap
from coder_core.api.sampling import draw_sample
from coder_core.api.training import JobFolder
from coder_core.console.output import JobProgress, ProgressFile
from coder_core.geometry.settings import LayoutSettings
from coder_core.runs.derived.compute import make_layouts
from tests.app.conftest import write_pair
from tests.app.test_jobs import until_over
from tests.console.test_processes import WAIT
from tests.support.pages import column, numbers
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
    assert app.maps()
    assert not (root / ".work").exists()
    assert app.saying(120, 2, 10)  # points, runs, seconds
    assert not app.change(map="pca").labels("Compute")


def test_every_colour_with_everything_selected(root, opened):
    app = opened(root, "joint", map="PCA", area=EVERYTHING, focus="caption-7", colour="words")
    assert app.value("colour") == "words"
    assert app.saying(120, 120, 20, 100)
    assert app.saying("Caption 7", "image 1")
    assert app.saying(60, 100)  # lines, pairs
    [shown] = app.maps()
    assert len(shown["lines"]) == 60
    assert all(image < 20 <= caption for image, caption in shown["lines"])
    assert shown["focus"] == 27
    assert column(shown["lit"], np.uint32).tolist() == [*range(120)]
    gaps = [f"{modality_gap(open_run(root / name), 'dev'):.3f}" for name in ("demo-baseline", "demo")]
    assert [metric.value for metric in app.metric] == gaps
    for name in ("demo-baseline", "demo"):
        assert f"distributions {distribution_distance(open_run(root / name), 'dev'):.3f} apart" in app.texts()
    [table] = app.tables()
    assert table["range"].startswith("1–50 of 120 ")
    names = [column["label"] for column in table["columns"]]
    assert {"rank (demo)", "rank (demo-baseline)"} <= set(names)
    assert len([name for name in names if "gain" in name]) == 1
    columns = ("words", "modality", "rank", "gain", "diversity", "similarity", "hubness")
    changed = [app.change(colour=column).maps()[0] for column in columns]
    assert len({json.dumps([each["legend"], each["maps"]]) for each in changed}) == len(columns)
    assert len({each["maps"][0]["plane"] for each in changed}) == 1  # the browser fetches places once
    by_rank = changed[2]
    ranks = open_run(root / "demo").ranks("dev")
    ranks = np.concatenate([ranks["i2t"], ranks["t2i"]])
    codes = column(by_rank["maps"][1]["codes"], np.uint8)
    assert (np.diff(codes[np.argsort(ranks)].astype(int)) >= 0).all()
    assert codes[ranks.argmin()] < codes[ranks.argmax()]


def test_a_browser_without_webgl_gets_a_sentence_and_the_plain_map(root, opened):
    app = opened(root, "joint", map="PCA", area=EVERYTHING, focus="caption-7", colour="words")
    app.app.session_state[NO_WEBGL] = "this browser has no WebGL"
    app.again()
    assert not app.maps()
    assert app.saying("without WebGL", "this browser has no WebGL")
    lines = [trace for trace in app.figures()[0]["data"] if trace["mode"] == "lines"]
    assert [len(numbers(trace["x"])) for trace in lines] == [3 * 60] * 2
    columns = ("words", "modality", "rank", "gain", "diversity", "similarity", "hubness")
    changed = [app.change(colour=column).figures()[0] for column in columns]
    figures = {json.dumps(figure, ensure_ascii=False) for figure in changed}
    assert len(figures) == len(columns)
    assert all("caption 7 · image 1 · 1.png<br>scene 1, told in way 2" in figure for figure in figures)
    assert app.change(find="<b>unicorn</b>").saying("“<b>unicorn</b>”")


def test_arrows_lead_between_the_maps_and_neighbours_surround_the_open_sample(root, opened):
    app = opened(root, "joint", map="PCA", focus="caption-7", arrows="true")
    [shown] = app.maps()
    arrows = column(shown["arrows"]["column"], np.uint32).reshape(-1, 2)
    ranks = [open_run(root / name).ranks("dev") for name in ("demo-baseline", "demo")]
    before, after = (np.concatenate([of_run["i2t"], of_run["t2i"]]) for of_run in ranks)
    gains = (before - after)[arrows[:, 0]]
    assert sorted(arrows[:, 0]) == [*range(120)]
    assert arrows[:, 1][gains.argmax()] > arrows[:, 1][gains.argmin()]
    v, w = open_run(root / "demo").embeddings("dev")
    cosines = np.concatenate([v, w]) @ w[7]
    cosines[27] = -1
    assert shown["near"] == np.argsort(-cosines, kind="stable")[: len(shown["near"])].tolist()
    [table] = app.tables()
    assert [row["cells"][0] for row in table["rows"][:3]] == [
        f"{value:.3f}" for value in np.sort(cosines)[:-4:-1]
    ]


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
    app.query_params["find"] = "<b>unicorn</b>"
    assert app.again().saying("“<b>unicorn</b>”")
    assert "<b>unicorn</b>" in app.maps()[0]["note"]


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


def test_diversity_of_a_large_split_is_known_for_a_sample_and_everything_is_drawn(
    tmp_path, opened, monkeypatch
):
    root = write_pair(tmp_path / "runs")
    run = open_run(root / "demo")
    drawn = draw_sample(20, run.image_of_text("dev"), points=60, scores=100)
    monkeypatch.setattr(Run, "points_sample", lambda self, split, **_: drawn)
    app = opened(root, "joint", map="PCA", area=EVERYTHING, colour="diversity")
    assert app.saying(120, 120, 20, 100)
    [shown] = app.maps()
    known = np.flatnonzero(column(shown["maps"][1]["codes"], np.uint8) < len(shown["palette"]) - 1)
    assert known.tolist() == [*drawn.images, *(20 + drawn.texts)]
    assert "none" in shown["legend"]["title"]


def test_a_slice_lights_its_captions_and_their_images(root, opened):
    app = opened(root, "joint", run=["demo"], slice="image == 3")
    [shown] = app.maps()
    images = open_run(root / "demo").count("dev", "image")
    lit = column(shown["base"], np.uint32).tolist()
    assert lit == [3, *range(images + 15, images + 20)]
