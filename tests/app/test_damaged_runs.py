"""Runs whose files hold values of wrong types: pages name them, and list and open everything else."""

import json
import shutil
import tomllib
from itertools import cycle, pairwise

import numpy as np
import pytest
import streamlit as st

from coder_core.api import InputError, list_runs, open_run
from coder_core.files.sealed import render_manifest
from coder_core.runs.record import run_key, seal_line, write_status
from tests.support.pages import PAGES
from tests.support.run_folders import (
    cut,
    flip,
    reseal,
    synthetic,
    write_document,
    write_embeddings,
    write_run,
)

VALUES = (True, "![x](y)", [[["x"]]], {"a": {}})


def small(root, *names, images=8, **options):
    """Write runs without pictures."""
    return [write_run(root, name, images=images, pictures=False, **options) for name in names]


FAULTS = {"cut": ("image_ranks.npy", cut), "flipped": ("text_embeddings.npy", flip)}
FAULTS |= {"shortened": ("captions.json", cut), "torn": ("images.json", cut)}
"""Run → file of its analysis, and function that damages it."""


def spoil(document, value, depth):
    """Replace every value at this depth."""
    if depth == 0:
        return dict.fromkeys(document, value)
    parts = {key: part for key, part in document.items() if isinstance(part, dict)}
    return document | {key: spoil(part, value, depth - 1) for key, part in parts.items()}


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory):
    """Folder with a good pair among runs with wrong values in configuration, manifest, status and history."""
    root = tmp_path_factory.mktemp("spoilt") / "runs"
    small(root, "good", "good-baseline")
    for number, value in enumerate(VALUES):
        for depth in (0, 1):
            config, manifest = small(root, f"config-{depth}-{number}", f"manifest-{depth}-{number}", images=4)
            changed = spoil(tomllib.loads((config / "config.toml").read_text()), value, depth)
            write_document(config / "config.toml", changed)
            file = manifest / "analysis" / "dev" / "manifest.json"
            changed = json.loads(file.read_text())
            changed |= {"metrics": spoil({"metrics": changed["metrics"]}, value, depth)["metrics"]}
            write_document(file, changed)
        status, history = small(root, f"status-{number}", f"history-{number}", images=4)
        values = dict.fromkeys(("state", "pid", "step", "steps", "message"), value)
        write_document(status / "status.json", values)
        with (history / "history.jsonl").open("a") as lines:
            record = dict.fromkeys(("epoch", "step", "rsum", "metrics"), value)
            lines.write(seal_line({"event": "epoch"} | record, run_key(history)) + "\n")
    return root


@pytest.mark.parametrize("page", ["", "overview", "start", "train", "diversity"])
def test_pages_name_damaged_runs_and_show_the_others(opened, spoilt, page):
    app = opened(spoilt, page, curves=["good", "history-0", "history-1", "status-0"])
    if page != "start":
        assert {"good", "good-baseline"} <= set(app.multiselect(key="run").options)
    if page in ("", "overview"):
        assert app.saying("manifest-0-1")


def test_runs_with_unknown_configurations_are_shown(opened, spoilt):
    """Every value of a section, or every section, is of a type that this version does not know."""
    names = [f"config-{depth}-{number}" for depth in (0, 1) for number in range(len(VALUES))]
    for first, second in pairwise(names):
        app = opened(spoilt, "overview", run=first, versus=second, split="dev")
        assert app.value("run") == [first, second]
        assert app.saying(f"{first} has settings that this version does not know")
        assert not any("opened" in refusal for refusal in app.refusals())
        assert app.figures()


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """Folder with a good pair, the second without history, beside one run for each of FAULTS."""
    root = tmp_path_factory.mktemp("faulty") / "runs"
    _, good = small(root, "good-baseline", "good")
    write_status(good, "finished", step=30, steps=30, evaluated=3)
    (good / "history.jsonl").unlink()
    for (file, damage_it), folder in zip(FAULTS.values(), small(root, *FAULTS), strict=True):
        damage_it(folder / "analysis" / "dev" / file)
    return root


@pytest.mark.parametrize(("page", "name"), zip(PAGES, cycle(FAULTS), strict=False))
def test_a_damaged_file_is_named_on_every_page(opened, faulty, page, name):
    without_figures = ("clusters", "concepts", "data", "reviews", "weights")  # nothing to show of these runs
    file, _ = FAULTS[name]
    app = opened(faulty, page, run=name, versus="good", split="dev")
    assert app.value("run") == [name, "good"]
    assert any(name in refusal and file in refusal for refusal in app.refusals())
    assert app.saying("good-baseline", "good")  # which runs can be shown
    app.change(run=[name])
    assert page == "overview" or not (app.figures() or app.maps())
    app.change(run=["good"])
    assert app.figures() or app.maps() or page in without_figures
    app = opened(faulty, page, run="good", versus=name, split="dev")
    assert app.saying(name, file)
    assert (app.saying("Only good") and (app.figures() or app.maps())) or page in without_figures
    if page == "overview":
        assert app.saying(faulty / "good" / "history.jsonl", 3, 3)
        [separation] = app.rows("matching pairs")
        assert [row["run"] for row in separation] == ["good"]


def test_a_file_truncated_while_the_app_runs_is_detected(opened, tmp_path):
    """Also in a table that is mapped into memory, where reading past its end would kill the server."""
    [torn] = small(tmp_path, "torn")
    app = opened(tmp_path, "retrieval")
    assert app.get("plotly_chart")
    cut(torn / "analysis" / "dev" / "text_embeddings.npy")
    st.cache_data.clear()  # the listing is kept for two seconds
    assert app.again().saying("torn", "text_embeddings.npy")


@pytest.mark.parametrize(
    ("name", "clue"),  # not evaluated, still training, and no run
    [("new", "coder-lab evaluate"), ("going", "Train page"), ("gone", "deleted or renamed")],
)
def test_runs_that_cannot_be_shown_are_named(opened, tmp_path, name, clue):
    small(tmp_path, "good")
    if name != "gone":
        [folder] = small(tmp_path, name)
        shutil.rmtree(folder / "analysis")
        if name == "going":
            write_status(folder, "running", step=1, steps=9)
    app = opened(tmp_path, "diversity", run=name, versus="good", split="dev")
    assert app.value("run") == [name, "good"]
    assert name in app.answer()
    assert clue in app.refusals()[0]
    for shown in (app, opened(tmp_path, "train", run=name, versus="good", split="dev")):  # the link stays
        assert shown.query_params["run"] == [name, "good"]
    assert 'href="?run=good&amp;' in app.texts()
    assert not app.figures()
    app = opened(tmp_path, "diversity", run="good", versus=name, split="dev")
    assert app.saying(name, "Only good")
    assert app.figures()
    app = opened(tmp_path, "diversity", run="good", versus="—", split="test")
    assert any("good" in refusal and "test" in refusal for refusal in app.refusals())
    assert app.value("split") == "test"


def test_metrics_of_another_run_are_not_shown(opened, tmp_path):
    """A manifest copied from another run passes its own checks."""
    [good] = small(tmp_path, "good", images=20)
    [exchanged] = small(tmp_path, "exchanged", images=20, seed=1, noise=4)
    for name in ("manifest.json", "captions.json"):
        shutil.copy(good / "analysis" / "dev" / name, exchanged / "analysis" / "dev" / name)
    [summary, _] = list_runs(tmp_path)
    assert (summary.name, summary.metrics) == ("exchanged", {})
    assert "_ranks.npy" in summary.damaged["dev"]
    with pytest.raises(InputError, match=r"\.npy"):
        open_run(exchanged).analysis("dev")
    app = opened(tmp_path, "overview", run="exchanged", versus="—")
    assert any("exchanged" in refusal for refusal in app.refusals())
    rows = {row["run"]: row["R@sum"] for rows in app.change(run=["good"]).rows("R@sum") for row in rows}
    assert rows["exchanged"] == "–"


def test_a_run_with_too_few_ranks_is_not_listed_with_valid_runs(opened, tmp_path):
    """One resealed run has ranks for too few images; a valid run has the same captions and one more image."""
    _, short, more = small(tmp_path, "good", "short", "more")
    file = short / "analysis" / "dev" / "image_ranks.npy"
    np.save(file, np.load(file)[:-1])
    manifest = json.loads((file.parent / "manifest.json").read_text())
    manifest["arrays"]["image_ranks"]["shape"] = [7]
    (file.parent / "manifest.json").write_bytes(render_manifest(manifest))
    reseal(file.parent)
    v, w, owner = synthetic(9, noise=1.0)
    captions = open_run(tmp_path / "good").analysis("dev").captions
    write_embeddings(more, v, w[:40], owner[:40], captions=captions)
    assert "image_ranks [7]" in {run.name: run.fault for run in list_runs(tmp_path)}["short"]
    rows_of_tables = opened(tmp_path, "overview", run="good", versus="—").rows("i→t R@1")
    assert [[row["run"] for row in rows] for rows in rows_of_tables] == [["good"], ["more"], ["short"]]
