"""A step in a tab's history shows what loading the document shows; see test_links_browser.py for what the browser adds."""

from functools import partial

import pytest
from streamlit.runtime.scriptrunner import RerunData
from streamlit.testing.v1 import local_script_runner

from app.address import renamed
from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from tests.app.conftest import write_pair
from tests.app.test_links_browser import CHANGED, DEFAULT, IN_BROWSER
from tests.support.pages import FIELDS
from tests.support.run_folders import CONCEPTS, write_run

# page → its runs and its changed controls, where they are not those of the browser's tests
OTHERS = {
    "joint": (DEFAULT["run"], {"map": "PCA", "modalities": "Images", "colour": "hubness"}),
    "weights": (["combined", "opposite"], {"side": "Images", "ranked-weights": "Lowest first"}),
    "concepts": (["demo"], {"by": "Edges", "kind": "Objects"}),
    "train": (DEFAULT["run"], {"preset": "coder-demo", "name": "mine", "watch": "demo-baseline"}),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Folder of two runs with clusters."""
    root = write_pair(tmp_path_factory.mktemp("steps") / "runs")
    for name in DEFAULT["run"]:
        make_clusters(root / name, "dev", ClusterSettings(4))
    return root


@pytest.fixture(scope="module")
def conceptual(tmp_path_factory):
    """Folder of a run with concepts."""
    root = tmp_path_factory.mktemp("concepts")
    write_run(root, "demo", concepts=CONCEPTS, images=30)
    return root


@pytest.fixture
def step(monkeypatch):
    """Function that opens another address in the session of a page, as Back and Forward do."""
    stepped = partial(RerunData, is_history_navigation=True)

    def take(app, page, **values):
        app.query_params.clear()
        app.query_params.update(values)
        app.switch_page(f"pages/{page}.py")
        with monkeypatch.context() as patch:
            patch.setattr(local_script_runner, "RerunData", stepped)
            return app.again()

    return take


def shown(app):
    """Return what a page shows: its title, the values of its controls, and the address."""
    controls = {item.key: item.value for kind in FIELDS for item in getattr(app, kind) if item.key}
    return app.answer(), controls, dict(app.query_params)


@pytest.mark.parametrize("page", [page for page in CHANGED if page not in IN_BROWSER])
def test_a_step_in_the_history_shows_what_loading_the_document_shows(pair, opened, step, page):
    """Also if it stays on the page, or leads to one of whose controls another page has a former name."""
    changed = renamed(page, {key: [value] for key, value in CHANGED[page].items()})
    compare(opened(pair, page, **DEFAULT | changed), step, page, DEFAULT, changed)


@pytest.mark.parametrize("page", OTHERS)
def test_so_it_does_on_pages_about_other_runs(request, opened, step, page):
    of_page = {"weights": "weighted_root", "concepts": "conceptual"}
    root = request.getfixturevalue(of_page.get(page, "pair"))
    runs, values = OTHERS[page]
    usual = {"run": runs, "split": ["dev"]}
    changed = {key: [value] for key, value in values.items()}
    compare(opened(root, page, **usual | changed), step, page, usual, changed)


def test_the_title_of_train_is_about_the_run_that_a_link_names(pair, opened, step):
    for name in DEFAULT["run"]:
        app = opened(pair, "train", watch=[name])
        assert app.answer().startswith(f"{name} is")
    assert step(app, "train", watch=[DEFAULT["run"][0]]).answer().startswith(f"{DEFAULT['run'][0]} is")


def compare(app, step, page, usual, changed):
    """Assert that a loaded page with changed controls is shown again after steps to the page without them and to
    another page."""
    loaded = shown(app)
    assert (usual | changed).keys() <= loaded[2].keys()
    without = shown(step(app, page, **usual))
    assert without != loaded
    assert shown(step(app, page, **usual | changed)) == loaded
    assert shown(step(app, page, **usual)) == without
    step(app, "retrieval", **usual, direction=["Image → captions"], at=["5"])
    assert shown(step(app, page, **usual | changed)) == loaded
