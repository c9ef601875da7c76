"""The Clusters page: clusters to compute, opened clusters, prototypes beside offline clusters."""

import re
import shutil

import numpy as np
import pandas as pd
import pytest

from app import charts
from app.charts import LIGHT
from coder_core.api import open_run
from coder_core.api.clusters import cluster_table, offline_clusters
from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from tests.support.run_folders import CONCEPTS, write_prototypes, write_run

NAMES = ("demo-baseline", "demo")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    base = tmp_path_factory.mktemp("clusters") / "runs"
    for name, noise in zip(NAMES, (3.0, 1.5), strict=True):
        make_clusters(write_run(base, name, noise=noise, images=20), "dev", ClusterSettings(6))
    write_run(base, "other", images=20, seed=5)
    return base


def test_every_control_of_the_clusters_page(root, opened):
    app = opened(root, "clusters", cluster_count="6")
    assert app.saying("AMI of the two runs")
    for kind in ("near", "edge", "apart", "between"):
        app.change(members=kind)
        assert app.cards()
        for grid in app.cards():  # members or pairs: every picture once, with a caption on hover
            shown = re.findall(
                r'class="cl-card" title="[^"]*">.*?data-image="(\d+)"><img [^>]*title="scene [^"]*"', grid
            )
            assert len(set(shown)) == len(shown) == grid.count('class="cl-card')
    orders = []
    for kind in ("near", "edge"):
        grids = app.change(members=kind, cluster=int(app.value("cluster"))).cards()
        orders.append(re.findall(r"([\d.]+) · scene", "".join(grids)))
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) != []
    assert app.value("cluster") != app.click("cluster-next").value("cluster")
    app.change(slice="image <= 3 or image == 12")
    [table] = app.rows("of the slice")
    inside = [int(row["of the slice"]) for row in table]
    assert sum(inside) == 25
    assert inside == sorted(inside, reverse=True)
    assert set(re.findall(r'data-image="(\d+)"', "".join(app.cards()))) <= {"0", "1", "2", "3", "12"}
    assert app.change(clusters_run="demo-baseline").change(run=["demo-baseline"]).saying("by chance")


def test_one_click_opens_the_pairs_that_disagree_in_the_cluster_with_the_lowest_agreement(root, opened):
    run = open_run(root / "demo")
    table = cluster_table(run, "dev", offline_clusters(run, "dev", ClusterSettings(6)).value)
    app = opened(root, "clusters", run=["demo"], cluster_count="6").click("lowest-agreement")
    assert table.set_index("cluster")["agreement"][app.value("cluster")] == table["agreement"].min() < 100
    assert app.value("members") == "apart"
    assert app.saying("image in", "caption in")


def test_a_damaged_clustering_is_named_and_maps_are_coloured_by_intact_ones(root, tmp_path, opened):
    root = shutil.copytree(root, tmp_path / "runs")
    assert opened(root, "clusters").labels("Cluster ") == ["Cluster demo-baseline and demo"]
    made = [make_clusters(root / name, "dev", ClusterSettings(7))[0] for name in NAMES]
    (made[1].path / "centroids.npy").write_bytes(b"short")
    app = opened(root, "clusters", cluster_count="7")
    assert app.saying("centroids.npy")
    assert app.labels("Cluster ") == ["Cluster demo"]
    for name in NAMES:
        make_clusters(root / name, "dev", ClusterSettings())
    app = opened(root, "joint", map="PCA", colour="cluster")
    assert app.value("colour") == "cluster"


def test_learned_prototypes_are_shown_instead_of_offline_clusters(root, tmp_path, opened):
    run = open_run(write_run(tmp_path, "pgc", images=20))
    labels = {"pairs": np.arange(100) % 5, "cosines": np.linspace(0, 1, 100), "members": np.arange(9)}
    labels |= {"images": np.arange(20) % 9, "texts": np.arange(100) % 9}
    write_prototypes(run, run.path, centroids=np.asarray(run.embeddings("dev")[0][:9]), **labels)
    app = opened(tmp_path, "clusters")
    assert app.value("clusters-of") == "learned"
    assert not app.labels("Cluster ")
    assert app.cards()
    app.change(cluster=8)
    assert app.saying("Cluster 8", "no pair")
    assert not app.cards()


def test_distinctive_concepts_of_clusters_are_listed(tmp_path, opened):
    make_clusters(write_run(tmp_path, "both", concepts=CONCEPTS, images=30), "dev", ClusterSettings(3))
    assert opened(tmp_path, "clusters", cluster_count="3").saying("Distinctive concepts")
    assert opened(tmp_path, "joint").saying("instance embeddings")


def test_the_opened_cluster_is_ringed():
    rows = [(4, 9, 50.0, "<b>a"), (2, 5, 80.0, "b")]
    table = pd.DataFrame(rows, columns=["cluster", "size", "agreement", "words"])
    figure = charts.cluster_map(table, 2, LIGHT)
    assert list(figure.data[1].x) == [5]
    assert "<b>a" not in figure.data[0].text[0]
    assert len(charts.cluster_map(table, None, LIGHT).data) == 1
