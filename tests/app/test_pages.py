"""Every page with no run, one, two, a damaged one, and with values in the URL that mean nothing."""

from pathlib import Path

import pytest

from tests.app.conftest import ROOTS
from tests.support.concept_runs import write_concept_run
from tests.support.pages import PAGES, Opened, Roots
from tests.support.run_folders import write_run

STRANGE = ("../../etc", "/etc/passwd", "-rf", "a\nb", "<script>alert(1)</script>", "9" * 400, "inf", "-5")
PARAMETERS = {
    "diversity": ("caption", "image", "epsilon", "anchors", "also"),
    "retrieval": ("query-text", "anchors", "also", "at"),
    "similarity": (
        *("anchors", "batch-of", "order", "pairs", "draw", "mu", "gamma", "epsilon"),
        *("pair-image", "pair-caption", "chosen"),
    ),
    "concepts": ("concept", "caption", "count", "kind", "by", "part", "first", "pairs-of"),
}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs; the sidebar begins with alpha and beta."""
    root = tmp_path_factory.mktemp("three") / "runs"
    for number, name in enumerate(("alpha", "beta", "gamma")):
        write_run(root, name, images=12, noise=1.0 + number)
    return root


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("page", [*PAGES, "start"])
def test_every_page_opens(roots: Roots, root: str, page: str, opened: Opened) -> None:
    app = opened(roots[root], page)
    assert app.title[0].value.endswith("?")
    assert len(app.refusals()) == 1 or root != "none" or page == "start"


def test_the_first_page_offers_to_train_or_leads_to_the_runs(roots: Roots, opened: Opened) -> None:
    assert len(opened(roots["none"], "").button) == 1
    app = opened(roots["two"], "start")
    assert not app.button
    assert len(app.main.get("page_link")) == 2


def test_the_baseline_is_first_and_a_damaged_run_is_named(roots: Roots, opened: Opened) -> None:
    app = opened(roots["two"], "overview")
    assert (app.value("run"), app.value("versus")) == ("demo-baseline", "demo")
    assert app.change(versus="—").query_params["versus"] == "—"
    app = opened(roots["damaged"], "overview")
    assert app.saying("torn", "config.toml")
    assert "torn" not in app.selectbox(key="run").options


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("versus", "shown"), [("beta", {"gamma", "beta"}), ("—", {"gamma"})])
def test_a_link_opens_its_runs(three: Path, page: str, versus: str, shown: set[str], opened: Opened) -> None:
    app = opened(three, page, run="gamma", versus=versus)
    assert (app.value("run"), app.value("versus")) == ("gamma", versus)
    drawn = [app.texts(), *(button.label for button in app.button), str(app.figures())]
    assert {name for name in ("alpha", "beta", "gamma") if any(name in text for text in drawn)} == shown


@pytest.mark.parametrize("page", ["overview", "diversity", "similarity", "joint", "retrieval", "slices"])
def test_every_figure_is_a_table_too_on_request(roots: Roots, page: str, opened: Opened) -> None:
    app = opened(roots["two"], page, values="true", map="PCA")
    assert app.value("values")
    figures = {chart.proto.alt for chart in app.get("plotly_chart")}
    values = [table for table in app.tables() if table["label"] == "values"]
    assert figures
    assert {table["columns"][-1]["label"] for table in values} == figures
    assert all(table["rows"] for table in values)
    app.change(values=False)
    assert [table for table in app.tables() if table["label"] == "values"] == []


@pytest.mark.parametrize("page", PAGES)
def test_runs_on_other_samples_are_not_compared(tmp_path: Path, page: str, opened: Opened) -> None:
    for name, images in (("one", 12), ("other", 14)):
        write_run(tmp_path / "runs", name, images=images, pictures=False)
    app = opened(tmp_path / "runs", page)
    assert any("one" in refusal and "other" in refusal for refusal in app.refusals())


@pytest.mark.parametrize("value", STRANGE)
@pytest.mark.parametrize("page", PARAMETERS)
def test_strange_values_change_nothing(
    roots: Roots, tmp_path: Path, page: str, value: str, opened: Opened
) -> None:
    root = roots["two"]
    if page == "concepts":
        root = write_concept_run(tmp_path / "runs", "one").parent
    plain, strange = opened(root, page), opened(root, page, **dict.fromkeys(PARAMETERS[page], value))
    for key in ("run", "split"):
        assert strange.value(key) == plain.value(key)
    assert len(strange.figures()) == len(plain.figures()) > 0
    assert "<script>" not in strange.texts()


@pytest.mark.parametrize("value", STRANGE)
def test_strange_runs_and_splits_show_nothing(roots: Roots, value: str, opened: Opened) -> None:
    app = opened(roots["two"], "diversity", run=value, versus=value, split=value)
    assert app.refusals()
    assert "<script>" not in app.texts()
    assert not app.figures()
