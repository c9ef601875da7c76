"""The Clusters page: offered, opened, prototypes beside offline clusters."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from app import charts
from app.charts import LIGHT
from coder_core.api import open_run
from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from tests.support.concept_runs import write_concept_run
from tests.support.pages import Opened, labels, table_rows, texts
from tests.support.run_folders import write_prototypes, write_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("clusters") / "runs"
    for name, noise in (("demo-baseline", 3.0), ("demo", 1.5)):
        write_run(base, name, noise=noise, images=20)
        make_clusters(base / name, "dev", ClusterSettings(6))
    write_run(base, "other", images=20, seed=5)
    return base


def test_clusters_are_offered_for_the_runs_that_have_none(root: Path, opened: Opened) -> None:
    app = opened(root, "clusters")
    assert labels(app, "Cluster ") == ["Cluster demo-baseline and demo"]
    assert "Offline k-means" in texts(app)


@pytest.mark.parametrize("kind", ["centre", "edge", "apart"])
def test_everything_about_one_cluster(root: Path, kind: str, opened: Opened) -> None:
    app = opened(root, "clusters", k="6")
    assert app.number_input(key="k").value == 6
    assert "AMI of the two runs" in texts(app)
    app.segmented_control(key="members").set_value(kind).run()
    assert not app.exception
    grids = [part.proto.body for part in app.get("html") if 'class="cl-card' in part.proto.body]
    assert grids  # members, and pairs between two clusters: every picture once, with a caption on hover
    for grid in grids:
        shown = re.findall(r'class="cl-card">.*?data-image="(\d+)"><img [^>]*title="scene [^"]*"', grid)
        assert len(set(shown)) == len(shown) == grid.count('class="cl-card')
    first = app.number_input(key="cluster").value
    app.button(key="cluster-next").click().run()
    assert app.number_input(key="cluster").value != first
    app.text_input(key="slice").set_value("image <= 3 or image == 12").run()
    [table] = table_rows(app, "of the slice")
    inside = [int(row["of the slice"]) for row in table]
    assert sum(inside) == 25
    assert inside == sorted(inside, reverse=True)
    grids = [part.proto.body for part in app.get("html") if 'class="cl-card' in part.proto.body]
    shown = {int(number) for grid in grids for number in re.findall(r'data-image="(\d+)"', grid)}
    assert shown <= {0, 1, 2, 3, 12}
    app.segmented_control(key="clusters-run").set_value("demo-baseline").run()
    assert not app.exception
    app.selectbox(key="versus").set_value("—").run()
    assert not app.exception
    assert "by chance" in texts(app)


def test_a_damaged_clustering_is_named(root: Path, opened: Opened) -> None:
    place, _ = make_clusters(root / "demo", "dev", ClusterSettings(7))
    make_clusters(root / "demo-baseline", "dev", ClusterSettings(7))
    (place.path / "centroids.npy").write_bytes(b"short")
    app = opened(root, "clusters", k="7")
    assert "centroids.npy" in texts(app)
    assert labels(app, "Cluster ") == ["Cluster demo"]


def test_the_map_can_be_coloured_by_cluster(root: Path, opened: Opened) -> None:
    for name in ("demo", "demo-baseline"):
        make_clusters(root / name, "dev", ClusterSettings())
    app = opened(root, "joint", map="PCA", colour="cluster", area="a:-9,-9,9,-9,9,9,-9,9")
    assert app.selectbox(key="colour").value == "cluster"
    assert not app.exception


def test_prototypes_stand_before_offline_clusters(root: Path, tmp_path: Path, opened: Opened) -> None:
    write_run(tmp_path, "pgc", images=20)
    run = open_run(tmp_path / "pgc")
    rng = np.random.default_rng(0)
    write_prototypes(
        run,
        run.path,
        centroids=np.asarray(run.embeddings("dev")[0][:9]),
        pairs=rng.integers(0, 5, 100),
        cosines=rng.random(100),
        images=rng.integers(0, 9, 20),
        texts=rng.integers(0, 9, 100),
        members=np.arange(9),
    )
    app = opened(tmp_path, "clusters")
    assert app.segmented_control(key="clusters-of").value == "learned"
    assert "CODER eq. 7" in texts(app)
    assert not labels(app, "Cluster ")
    app.number_input(key="cluster").set_value(8).run()
    assert "Cluster 8 contains no pair of this split." in texts(app)


def test_concepts_stand_beside_the_words(tmp_path: Path, opened: Opened) -> None:
    make_clusters(write_concept_run(tmp_path, "both"), "dev", ClusterSettings(3))
    app = opened(tmp_path, "clusters", k="3")
    assert "Marking concepts, by attention" in texts(app)
    app = opened(tmp_path, "joint")
    assert "shows the instance embeddings" in texts(app)


def test_the_opened_cluster_has_a_ring() -> None:
    import pandas as pd

    table = pd.DataFrame(
        {"cluster": [4, 2], "size": [9, 5], "agreement": [50.0, 80.0], "words": ["<b>a", "b"]}
    )
    figure = charts.cluster_map(table, 2, LIGHT)
    assert list(figure.data[1].x) == [5]
    assert "<b>a" not in figure.data[0].text[0]
    assert len(charts.cluster_map(table, None, LIGHT).data) == 1
