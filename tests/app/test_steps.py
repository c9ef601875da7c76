"""A step in a tab's history shows what loading the document shows; see test_links_browser.py for what the browser adds."""

from functools import partial

import pytest
from streamlit.commands import execution_control
from streamlit.runtime.scriptrunner import RerunData
from streamlit.testing.v1 import local_script_runner

from app.address import renamed
from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from tests.app.conftest import write_pair
from tests.app.test_links_browser import CHANGED, DEFAULT, IN_BROWSER
from tests.support.pages import FIELDS


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Folder of two runs with clusters."""
    root = write_pair(tmp_path_factory.mktemp("steps") / "runs")
    for name in DEFAULT["run"]:
        make_clusters(root / name, "dev", ClusterSettings(4))
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
            # AppTest forgets the navigation, and begins each run by `frame.pages.require`
            for asker in (local_script_runner, execution_control):
                patch.setattr(asker, "RerunData", stepped)
            return app.again()

    return take


def shown(app):
    """Return what a page shows: its title, the values of its controls, and the address."""
    controls = {item.key: item.value for kind in FIELDS for item in getattr(app, kind) if item.key}
    return app.answer(), controls, dict(app.query_params)


@pytest.mark.parametrize("page", [page for page in CHANGED if page not in IN_BROWSER])
def test_a_step_in_the_history_shows_what_loading_the_document_shows(pair, opened, step, page):
    """Also if it stays on the page, or leads to one of whose controls another page has a former name."""
    changed = DEFAULT | renamed(page, {key: [value] for key, value in CHANGED[page].items()})
    app = opened(pair, page, **changed)
    loaded = shown(app)
    assert changed.keys() <= loaded[2].keys()
    usual = shown(step(app, page, **DEFAULT))
    assert usual != loaded
    assert shown(step(app, page, **changed)) == loaded
    assert shown(step(app, page, **DEFAULT)) == usual
    step(app, "retrieval", **DEFAULT, direction=["Image → captions"], at=["5"])
    assert shown(step(app, page, **changed)) == loaded
