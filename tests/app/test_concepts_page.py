"""The Concepts page: graph, readings, pairs and readers of runs with a concept branch; what is absent in others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app import charts
from app.charts import LIGHT
from coder_core.api import open_run
from coder_core.api.concepts import graph_of, summarise_attention
from tests.support.concept_runs import write_concept_run
from tests.support.pages import Opened, texts
from tests.support.run_folders import damage, import_run_folder, write_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("concepts") / "runs"
    write_concept_run(base, "one")
    write_concept_run(base, "two", beta=0.8)
    for name in ("plain", "other"):
        write_run(base, name, images=30, captions=[f"scene {i}" for i in range(150)])
    import_run_folder(base, "clip", images=30)
    damage(write_concept_run(base, "torn"))
    return base


def shown(opened: Opened, root: Path, run: str, versus: str, page: str = "concepts", **query: str) -> AppTest:
    """A page opened by a link that names these two runs."""
    app = opened(root, page, run=run, versus=versus, **query)
    assert (app.selectbox(key="run").value, app.selectbox(key="versus").value) == (run, versus)
    return app


def test_two_runs_with_concepts_stand_side_by_side(root: Path, opened: Opened) -> None:
    app = shown(opened, root, "one", "two")
    said = texts(app)
    assert "Both runs have the same graph" in said
    assert "top, captions: " in said
    assert said.count("training captions (") == 2  # the chosen concept's readers in either run
    app.segmented_control(key="by").set_value("read").run()  # the attention of two runs differs: two graphs
    assert "Both runs have the same graph" not in texts(app)
    app.segmented_control(key="pairs-of").set_value("one").run()
    assert not app.exception


def test_every_control(root: Path, opened: Opened) -> None:
    app = shown(opened, root, "one", "—", concept="ball", caption="7")
    assert app.selectbox(key="concept").value == "ball"
    assert "Top readers of “ball”" in app.header[-2].value
    assert "Caption 7 of image 1" in texts(app)
    app.segmented_control(key="kind").set_value("motion").run()
    assert "1 of 1 concepts" in texts(app)
    assert "is not among them" in texts(app)
    app.segmented_control(key="part").set_value("around").run()
    assert not app.exception
    app.segmented_control(key="first").set_value("most").run()
    app.button(key="caption-next").click().run()
    assert not app.exception
    found = open_run(root / "one").concepts("dev")
    assert found is not None
    best = found.readers(2, "image", top=1)["attention"][0]
    assert f"{best:.3f}" in texts(app)
    app.text_input(key="slice").set_value("image == 4").run()
    said = texts(app)
    read = np.median(summarise_attention(found, "text", np.arange(20, 25)).perplexity)
    assert f"per caption: {read:.1f} " in said
    assert "The slice does not narrow the concept graph and the list of all concepts." in said
    [best] = found.readers(2, "image", within=np.array([4]))["attention"]
    grids = [
        part.proto.body
        for part in app.get("html")
        if 'class="cl-grid' in part.proto.body or 'class="cl-list' in part.proto.body
    ]
    assert [grid.count('class="cl-card') for grid in grids] == [1, 5]
    assert f"{best:.3f}" in grids[0]


def test_a_run_without_concepts_is_named_and_the_other_shown(root: Path, opened: Opened) -> None:
    app = shown(opened, root, "plain", "two")
    assert app.selectbox(key="run").value == "plain"
    assert "plain was trained without a concept branch. Only two is shown." in texts(app)
    assert "Concept graph" in [item.value for item in app.header]


@pytest.mark.parametrize(
    ("run", "versus", "said"),
    [
        ("plain", "—", ["plain was trained without a concept branch."]),
        ("clip", "—", ["clip holds imported embeddings"]),
        ("plain", "other", ["plain and other were trained without a concept branch."]),
    ],
)
def test_what_is_absent_and_which_preset_has_it(
    root: Path, run: str, versus: str, said: list[str], opened: Opened
) -> None:
    app = shown(opened, root, run, versus)
    assert [sentence for sentence in said if sentence not in texts(app)] == []
    assert "coder-flickr8k" in texts(app)
    assert not app.header


@pytest.mark.parametrize("value", ["../../etc", "<script>alert(1)</script>", "9" * 400, "inf"])
def test_strange_values_in_the_url_change_nothing(root: Path, value: str, opened: Opened) -> None:
    keys = ("concept", "caption", "count", "kind", "by", "part", "first", "pairs-of")
    app = shown(opened, root, "one", "two", **dict.fromkeys(keys, value))
    assert "<script>" not in texts(app)
    assert app.selectbox(key="concept").value in ("dog", "grass", "ball", "red", "run")


def test_a_caption_leads_to_its_concepts(root: Path, opened: Opened) -> None:
    app = shown(opened, root, "one", "—", "diversity", caption="7")
    assert 'href="concepts?run=one&amp;versus=%E2%80%94&amp;split=dev&amp;caption=7"' in texts(app)
    app = shown(opened, root, "plain", "—", "diversity", caption="7")
    assert 'href="concepts?' not in texts(app)


def test_the_graph_draws_every_kind_every_edge_and_the_ring(root: Path) -> None:
    view = open_run(root / "one").concepts("dev")
    assert view is not None
    graph = graph_of(view, np.arange(5))
    figure = charts.concept_graph(graph.nodes, graph.edges, 2, LIGHT)
    marks = [trace for trace in figure.data if trace.mode == "markers+text"]
    assert [trace.name for trace in marks] == ["objects", "properties", "motions"]
    assert len({trace.marker.color for trace in marks}) == len({trace.marker.symbol for trace in marks}) == 3
    assert sum(len(trace.x) for trace in figure.data if trace.mode == "lines+markers") == 3 * len(graph.edges)
    ring = next(trace for trace in figure.data if trace.mode == "markers")
    assert list(ring.x) == graph.nodes.loc[graph.nodes["concept"] == 2, "x"].tolist()


def test_bars_count_every_sample_once_and_sides_have_their_sign() -> None:
    figure = charts.concepts_read({"a": np.array([0.99999, 1.0, 3.0, 500.0])}, "captions", LIGHT)
    assert sum(figure.data[0].y) == pytest.approx(100)
    assert figure.data[0].customdata[0] == 2
    pair = pd.DataFrame(
        {"word": ["<b>a", "b"], "kind": ["object", "motion"], "image": [0.7, 0], "text": [0.1, 0.9]}
    )
    left, right = charts.side_by_side(pair, LIGHT).data[:2]
    assert list(left.x) == [-70]
    assert list(right.x) == pytest.approx([10])
    assert "<b>" not in left.y[0]
