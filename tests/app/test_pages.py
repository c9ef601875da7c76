"""Every page with no run, one, two, a damaged one, and with values in the URL that mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.conftest import ROOTS
from tests.support.pages import PAGES, Opened, refusals, saying, shown_tables, texts
from tests.support.run_folders import flip, write_run

STRANGE = ["../../etc", "/etc/passwd", "-rf", "a\nb", "<script>alert(1)</script>", "9" * 400, "inf"]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs; the sidebar begins with alpha and beta."""
    root = tmp_path_factory.mktemp("three") / "runs"
    for number, name in enumerate(("alpha", "beta", "gamma")):
        write_run(root, name, images=12, noise=1.0 + number)
    return root


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("page", [*PAGES, "start"])
def test_every_page_opens(roots: dict[str, Path], root: str, page: str, opened: Opened) -> None:
    app = opened(roots[root], page)
    assert app.title[0].value.endswith("?")
    assert len(refusals(app)) == 1 or root != "none" or page == "start"


def test_the_first_page_offers_to_train_or_leads_to_the_runs(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["none"], "")
    assert [button.label for button in app.button] == ["Train the demo"]
    app = opened(roots["two"], "start")
    assert not app.button
    assert len(app.main.get("page_link")) == 2


def test_the_baseline_is_first_and_a_damaged_run_is_named(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "overview")
    assert (app.selectbox(key="run").value, app.selectbox(key="versus").value) == ("demo-baseline", "demo")
    app = opened(roots["damaged"], "overview")
    assert saying(app, "torn", "config.toml")
    assert "torn" not in app.selectbox(key="run").options


@pytest.mark.parametrize("page", ["retrieval", "diversity", "joint"])
def test_a_damaged_array_is_named_and_not_shown(tmp_path: Path, page: str, opened: Opened) -> None:
    run = write_run(tmp_path / "runs", "torn", images=12, pictures=False)
    flip(run / "analysis" / "dev" / "text_embeddings.npy")
    app = opened(tmp_path / "runs", page)
    assert saying(app, "text_embeddings.npy")
    assert not app.get("plotly_chart")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("versus", "shown"), [("beta", {"gamma", "beta"}), ("—", {"gamma"})])
def test_a_link_opens_the_runs_it_names(
    three: Path, page: str, versus: str, shown: set[str], opened: Opened
) -> None:
    app = opened(three, page, run="gamma", versus=versus)
    assert (app.selectbox(key="run").value, app.selectbox(key="versus").value) == ("gamma", versus)
    buttons = [button.label for button in app.button]
    figures = [chart.proto.spec for chart in app.get("plotly_chart")]
    drawn = [texts(app), *buttons, *figures]
    assert {name for name in ("alpha", "beta", "gamma") if any(name in one for one in drawn)} == shown


def test_one_run_alone_is_chosen_in_the_sidebar(roots: dict[str, Path], opened: Opened) -> None:
    app = opened(roots["two"], "overview")
    app.selectbox(key="versus").set_value("—").run()
    assert not app.exception
    assert app.query_params["versus"] == "—"


@pytest.mark.parametrize(
    "page", [name for name in PAGES if name not in ("weights", "concepts", "clusters", "data", "reviews")]
)
def test_every_figure_is_a_table_too_on_request(roots: dict[str, Path], page: str, opened: Opened) -> None:
    app = opened(roots["two"], page, values="true", map="PCA")
    assert app.sidebar.toggle(key="values").value
    figures = {chart.proto.alt for chart in app.get("plotly_chart")}
    values = [table for table in shown_tables(app) if table["label"] == "values"]
    assert figures
    assert {table["columns"][-1]["label"] for table in values} == figures
    assert all(table["rows"] for table in values)
    app.sidebar.toggle(key="values").set_value(False).run()
    assert [table for table in shown_tables(app) if table["label"] == "values"] == []


def test_runs_on_other_samples_are_not_compared(tmp_path: Path, opened: Opened) -> None:
    for name, images in (("one", 12), ("other", 14)):
        write_run(tmp_path / "runs", name, images=images, pictures=False)
    for page in PAGES:
        app = opened(tmp_path / "runs", page)
        assert any("one" in refusal and "other" in refusal for refusal in refusals(app))


@pytest.mark.parametrize("value", STRANGE)
@pytest.mark.parametrize("page", ["diversity", "retrieval"])
def test_strange_values_in_the_url_change_nothing(
    roots: dict[str, Path], page: str, value: str, opened: Opened
) -> None:
    keys = ("caption", "image", "epsilon", "anchors", "also", "at", "query-text")
    app = opened(roots["two"], page, **dict.fromkeys(keys, value))
    assert app.selectbox(key="run").value == "demo-baseline"
    assert app.selectbox(key="split").value == "dev"
    assert "<script>" not in texts(app)
    app = opened(roots["two"], page, **dict.fromkeys(("run", "versus", "split", *keys), value))
    assert refusals(app)
    assert "<script>" not in texts(app)
    assert not app.get("plotly_chart")
