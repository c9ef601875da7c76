"""Pages about small runs stay the same: words, rows, values of controls and numbers of figures, line by line.

A change that is not meant to alter pages leaves them equal. After one that is, look at what differs, then write them
anew: python -m tests.app.test_stored_pages
"""

import tempfile
from pathlib import Path

import pytest

from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from tests.app.conftest import write_pair
from tests.support.pages import open_page
from tests.support.run_folders import CONCEPTS, write_run
from tests.support.seen import differences, seen

STORED = Path(__file__).with_name("stored_pages")
ALONE = {"run": "demo", "versus": "—"}
SEVERAL = {"run": ["demo-baseline", "demo", "late"]}
# name → page, parameters of its address, and values of its controls
PAGES = {
    "overview": ("overview", {}, {}),
    "overview of three runs": ("overview", SEVERAL, {}),
    "overview of a slice": ("overview", {"slice": "image < 9"}, {}),
    "overview of one run": ("overview", ALONE, {}),
    "retrieval": ("retrieval", {}, {"outcome": "all", "direction": "image"}),
    "retrieval of one run": ("retrieval", ALONE, {"at": "5", "answer": "found"}),
    "retrieval of three runs": ("retrieval", SEVERAL, {"answered_by": "by none"}),
    "near misses": ("retrieval", {}, {"look": "near"}),
    "hubs": ("retrieval", {}, {"look": "hubs"}),
    "opened sample": ("retrieval", {"sample": "caption-4", "likely": "true"}, {}),
    "diversity": ("diversity", {}, {"anchors": "image"}),
    "diversity of one run": ("diversity", ALONE, {"measure": "entropy", "over": "bank"}),
    "similarity": ("similarity", {}, {}),
    "joint space": ("joint", {"map": "PCA"}, {}),
    "clusters": ("clusters", ALONE | {"cluster-count": "4"}, {}),
    "slices": ("slices", {}, {}),
    "data": ("data", ALONE, {}),
    "reviews": ("reviews", ALONE, {}),
    "concepts": ("concepts", {"run": "concepts"}, {}),
    "concepts of a pair": ("concepts", {"run": "concepts", "concept-caption": "7"}, {}),
}


def write_runs(root):
    """Write a pair of runs, one of them with clusters, a third one, and a run with concepts."""
    write_pair(root)
    write_run(root, "late", noise=2.0, images=20)
    write_run(root, "concepts", concepts=CONCEPTS, images=20, pictures=False)
    make_clusters(root / "demo", "dev", ClusterSettings(4))
    return root


def lines(monkeypatch, root, name):
    page, query, changes = PAGES[name]
    app = open_page(monkeypatch, root, page, **query)
    if changes:
        app.change(**changes)
    return seen(app, root, sidebar=name == "overview")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("pages") / "runs")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_it_was_stored(root, monkeypatch, name):
    expected = (STORED / f"{name}.txt").read_text("utf-8").splitlines()
    assert list(differences(lines(monkeypatch, root, name), expected)) == []


if __name__ == "__main__":
    STORED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        runs = write_runs(Path(folder) / "runs")
        for name in PAGES:
            text = "\n".join(lines(monkeypatch, runs, name))
            (STORED / f"{name}.txt").write_text(f"{text}\n", "utf-8")
