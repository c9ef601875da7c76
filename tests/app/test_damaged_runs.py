"""Runs whose files hold values of other kinds: named on the page, and everything else lists and opens."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from coder_core.api import InputError, list_runs, open_run
from coder_core.runs.files.lines import seal_line
from coder_core.runs.files.manifest import render_manifest
from coder_core.runs.files.status import write_status
from tests.support.pages import Opened, texts
from tests.support.run_folders import cut, reseal, write_run

DIFFERENCES = "Differences between the configurations"
VALUES: tuple[Any, ...] = (True, "![x](y)", [[["x"]]], {"a": {}})


def spoil(document: dict[str, Any], value: Any, depth: int) -> dict[str, Any]:
    """Every value at this depth replaced."""
    if depth == 0:
        return dict.fromkeys(document, value)
    return {key: spoil(part, value, depth - 1) if isinstance(part, dict) else part for key, part in document.items()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A good pair among runs with wrong values in configuration, manifest, status and history."""
    root = tmp_path / "runs"
    for name in ("good", "good-baseline"):
        write_run(root, name, images=8, pictures=False)
    for number, value in enumerate(VALUES):
        for depth in (0, 1):
            config = write_run(root, f"config-{depth}-{number}", images=4, pictures=False)
            changed = spoil(tomllib.loads((config / "config.toml").read_text()), value, depth)
            (config / "config.toml").write_text(tomli_w.dumps(changed))
            reseal(config)
            manifest = write_run(root, f"manifest-{depth}-{number}", images=4, pictures=False) / "analysis" / "dev"
            changed = json.loads((manifest / "manifest.json").read_text())
            changed |= {"metrics": spoil({"metrics": changed["metrics"]}, value, depth)["metrics"]}
            (manifest / "manifest.json").write_bytes(render_manifest(changed))
        status = write_run(root, f"status-{number}", images=4, pictures=False)
        values = dict.fromkeys(("state", "pid", "step", "steps", "message"), value)
        (status / "status.json").write_text(seal_line(values))
        history = write_run(root, f"history-{number}", images=4, pictures=False)
        with (history / "history.jsonl").open("a") as file:
            record = dict.fromkeys(("epoch", "step", "rsum", "metrics"), value)
            file.write(seal_line({"event": "epoch"} | record) + "\n")
    return root


@pytest.mark.parametrize("page", ["", "overview", "start", "train", "diversity"])
def test_pages_name_damaged_runs_and_show_the_others(opened: Opened, root: Path, page: str) -> None:
    app = opened(root, page, curves=["good", "history-0", "history-1", "status-0"])
    said = texts(app)
    if page != "start":
        assert {"good", "good-baseline"} <= set(app.selectbox(key="run").options)
    if page in ("", "overview"):
        assert "config-0-0</b>" in said
        assert "manifest-0-1</b>" in said


@pytest.mark.parametrize("page", ["overview", "diversity", "similarity", "joint", "clusters", "retrieval"])
def test_an_analysis_that_cannot_be_opened_is_named_on_the_page(opened: Opened, tmp_path: Path, page: str) -> None:
    write_run(tmp_path / "runs", "good", images=8, pictures=False)
    torn = write_run(tmp_path / "runs", "torn", images=8, pictures=False)
    cut(torn / "analysis" / "dev" / "image_ranks.npy")
    app = opened(tmp_path / "runs", page, run="torn", versus="—")
    assert app.selectbox(key="run").value == "torn"
    assert "image_ranks.npy" in texts(app)
    app.selectbox(key="run").set_value("good")
    if page == "overview":
        app.multiselect(key="curves").set_value(["good"])
    app.run()
    assert not app.exception
    assert ("image_ranks.npy" in texts(app)) == (page == "overview")  # whose table lists every run


def test_the_overview_names_a_torn_run_and_a_lost_history_in_place(opened: Opened, tmp_path: Path) -> None:
    """The sections below show the other runs."""
    good, torn = (write_run(tmp_path / "runs", name, images=8, pictures=False) for name in ("good", "torn"))
    cut(torn / "analysis" / "dev" / "image_ranks.npy")
    write_status(good, "finished", step=30, steps=30, evaluated=3)
    (good / "history.jsonl").unlink()
    app = opened(tmp_path / "runs", "overview", run="good", versus="—", curves=["good", "torn"])
    said = texts(app)
    assert "torn</b> — " in said
    assert "image_ranks.npy" in said
    assert f"{good / 'history.jsonl'}: lacks 3 of 3 finished epochs" in said
    headings = [heading.value for heading in app.subheader]
    assert headings[-2:] == ["How well are matching pairs separated from the others?", DIFFERENCES]
    separation = next(table.value for table in app.dataframe if "matching pairs" in table.value)
    assert list(separation["run"]) == ["good"]


def test_metrics_of_another_run_are_not_shown(opened: Opened, tmp_path: Path) -> None:
    """A manifest exchanged for that of another run is intact in itself."""
    write_run(tmp_path / "runs", "good", images=20, pictures=False)
    exchanged = write_run(tmp_path / "runs", "exchanged", images=20, pictures=False, seed=1, noise=4)
    for name in ("manifest.json", "captions.json"):
        shutil.copy(tmp_path / "runs" / "good" / "analysis" / "dev" / name, exchanged / "analysis" / "dev" / name)
    summary = next(run for run in list_runs(tmp_path / "runs") if run.name == "exchanged")
    assert summary.metrics == {}
    assert "_ranks.npy: is damaged" in summary.damage
    with pytest.raises(InputError, match=r"\.npy: is damaged"):
        open_run(exchanged).metrics("dev")
    app = opened(tmp_path / "runs", "overview", run="exchanged", versus="—")
    assert "exchanged</b> — " in texts(app)
    table = next(frame.value for frame in app.dataframe if "R@sum" in frame.value)
    assert table.set_index("run")["R@sum"].isna()["exchanged"]
