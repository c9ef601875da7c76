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
from coder_core.files.lines import seal_line
from coder_core.files.manifest import render_manifest
from coder_core.runs.status import write_status
from tests.support.pages import PAGES, Opened, table_rows, texts
from tests.support.run_folders import cut, flip, reseal, write_run

DIFFERENCES = "Differences between the configurations"
VALUES: tuple[Any, ...] = (True, "![x](y)", [[["x"]]], {"a": {}})


def spoil(document: dict[str, Any], value: Any, depth: int) -> dict[str, Any]:
    """Every value at this depth replaced."""
    if depth == 0:
        return dict.fromkeys(document, value)
    return {
        key: spoil(part, value, depth - 1) if isinstance(part, dict) else part
        for key, part in document.items()
    }


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
            manifest = (
                write_run(root, f"manifest-{depth}-{number}", images=4, pictures=False) / "analysis" / "dev"
            )
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
def test_an_analysis_that_cannot_be_opened_is_named_on_the_page(
    opened: Opened, tmp_path: Path, page: str
) -> None:
    write_run(tmp_path / "runs", "good", images=8, pictures=False)
    torn = write_run(tmp_path / "runs", "torn", images=8, pictures=False)
    cut(torn / "analysis" / "dev" / "image_ranks.npy")
    app = opened(tmp_path / "runs", page, run="torn", versus="—")
    assert app.selectbox(key="run").value == "torn"
    assert "image_ranks.npy" in texts(app)
    app.selectbox(key="run").set_value("good").run()
    assert not app.exception
    assert ("image_ranks.npy" in texts(app)) == (page == "overview")
    assert app.get("plotly_chart") or page == "clusters"


@pytest.fixture(scope="module", params=["text_embeddings.npy", "captions.json", "images.json"])
def halved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A good pair beside a run of which one file of the analysis has half its bytes; the folder and the file."""
    root = tmp_path_factory.mktemp("halved") / "runs"
    for name in ("good-baseline", "good", "torn"):
        folder = write_run(root, name, images=8, pictures=False)
    path = folder / "analysis" / "dev" / request.param
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return root, request.param


@pytest.mark.parametrize("page", PAGES)
def test_half_a_file_is_named_on_every_page(opened: Opened, halved: tuple[Path, str], page: str) -> None:
    root, file = halved
    said = texts(opened(root, page, run="torn", versus="good", split="dev"))
    assert "The analysis of torn is damaged." in said
    assert file in said
    assert "Runs that can be shown:" in said


def test_half_a_file_leaves_the_other_runs_alone(opened: Opened, halved: tuple[Path, str]) -> None:
    root, file = halved
    app = opened(root, "overview", run="good", versus="torn", split="dev", curves=["good-baseline"])
    assert "torn</b> — " in texts(app)
    assert "Only good and good-baseline are shown." in texts(app)
    assert "different samples" not in texts(app)
    assert file in texts(app)
    assert len(app.get("plotly_chart")) == 4
    app = opened(root, "retrieval", run="good-baseline", versus="good")
    assert "damaged" not in texts(app)


def test_a_file_halved_while_the_app_runs_is_noticed(opened: Opened, tmp_path: Path) -> None:
    """Also in a table that is mapped into memory, where reading past its end would kill the server."""
    import streamlit as st

    torn = write_run(tmp_path / "runs", "torn", images=8, pictures=False)
    app = opened(tmp_path / "runs", "retrieval")
    assert app.get("plotly_chart")
    cut(torn / "analysis" / "dev" / "text_embeddings.npy")
    st.cache_data.clear()  # the listing is kept for two seconds
    app.run()
    assert "The analysis of torn is damaged." in texts(app)


def test_a_run_that_cannot_be_shown_says_why(opened: Opened, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for name in ("good", "good-baseline", "new", "going", "flipped"):
        folder = write_run(root, name, images=8, pictures=False)
        if name in ("new", "going"):
            shutil.rmtree(folder / "analysis")
    write_status(root / "going", "running", step=1, steps=9)
    flip(root / "flipped" / "analysis" / "dev" / "text_embeddings.npy")
    for name, fact, way_out in (
        ("new", "new is not evaluated yet (state: finished).", "python -m coder_core.evaluate"),
        ("going", "going is still training.", "Train page"),
        ("gone", f"There is no run gone in {root}.", "another folder of runs"),
        ("flipped", "The analysis of flipped on dev is damaged.", "text_embeddings.npy"),
    ):
        app = opened(root, "diversity", run=name, versus="good", split="dev")
        assert app.selectbox(key="run").value == name
        assert fact in texts(app)
        assert way_out in texts(app)
        assert app.query_params["run"] in (name, [name])
        assert not app.get("plotly_chart")
        app = opened(root, "diversity", run="good", versus=name, split="dev")
        assert fact in texts(app)
        assert "Only good is shown." in texts(app)
        assert app.get("plotly_chart")
    app = opened(root, "diversity", run="good", versus="good-baseline", split="test")
    assert "good was not evaluated on test." in texts(app)
    assert app.selectbox(key="split").value == "test"


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
    headings = [heading.value for heading in app.header]
    assert headings[-2:] == ["How well are matching pairs separated from the others?", DIFFERENCES]
    [separation] = table_rows(app, "matching pairs")
    assert [row["run"] for row in separation] == ["good"]


def test_metrics_of_another_run_are_not_shown(opened: Opened, tmp_path: Path) -> None:
    """A manifest exchanged for that of another run is intact in itself."""
    write_run(tmp_path / "runs", "good", images=20, pictures=False)
    exchanged = write_run(tmp_path / "runs", "exchanged", images=20, pictures=False, seed=1, noise=4)
    for name in ("manifest.json", "captions.json"):
        shutil.copy(
            tmp_path / "runs" / "good" / "analysis" / "dev" / name, exchanged / "analysis" / "dev" / name
        )
    summary = next(run for run in list_runs(tmp_path / "runs") if run.name == "exchanged")
    assert summary.metrics == {}
    assert "_ranks.npy: is damaged" in summary.damaged["dev"]
    with pytest.raises(InputError, match=r"\.npy: is damaged"):
        open_run(exchanged).metrics("dev")
    app = opened(tmp_path / "runs", "overview", run="exchanged", versus="—")
    assert "The analysis of exchanged is damaged." in texts(app)
    app = opened(tmp_path / "runs", "overview", run="good", versus="—")
    assert "exchanged</b> — " in texts(app)
    assert ("exchanged", "–") in [
        (row["run"], row["R@sum"]) for rows in table_rows(app, "R@sum") for row in rows
    ]
