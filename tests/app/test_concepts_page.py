"""The Concepts page: graph, readings, pairs and readers of runs with a concept branch; what it omits for others."""

import re

import numpy as np
import pandas as pd
import pytest

from app import charts
from app.charts import LIGHT
from app.components.answers import EMPTY_SLICE
from app.questions import GraphPart, concept_graph
from app.views.concepts import AT_CHANCE
from coder_core.api import open_run
from coder_core.api.concepts import graph_of, strongest, summarise_attention
from tests.support.run_folders import CAPTIONS_PER_IMAGE, CONCEPTS, damage, import_run_folder, write_run

NAMES = ["plain", "other"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    base = tmp_path_factory.mktemp("concepts") / "runs"
    write_run(base, "one", concepts=CONCEPTS, images=30)
    write_run(base, "two", beta=0.8, concepts=CONCEPTS, images=30)
    for name in NAMES:
        write_run(base, name, images=30, pictures=False)
    import_run_folder(base, "clip", images=30)
    damage(write_run(base, "torn", concepts=CONCEPTS, images=30))
    return base


def test_two_runs_with_concepts_are_shown_side_by_side(root, opened):
    app = opened(root, "concepts", run="one", versus="two")
    figures = len(app.get("plotly_chart"))
    assert app.texts().count("training captions (") == 2  # the concept's readers in either run
    app.change(by="read")  # the attention of two runs differs: two graphs instead of one
    assert len(app.get("plotly_chart")) == figures + 1
    app.change(concepts_of="pairs").change(pairs_of="one")


def test_every_control_of_the_concepts_page(root, opened):
    app = opened(root, "concepts", run="one", versus="—", concept="ball", concept_caption="7")
    assert app.saying("Caption 7", "image 1")  # a link to a caption opens its pair
    app.change(first="most").click("concept-caption-next")
    assert not any(table["narrow"] for table in app.tables())  # the list has the whole width
    [help_text] = [group.proto.help for group in app.get("button_group") if group.key == "first"]
    assert "in common" in help_text
    app.change(concepts_of="words")
    assert app.value("concept") == "ball"
    assert "“ball”" in app.header[-2].value
    assert app.change(kind="motion").saying("1 of 1 concepts")
    app.change(part="around")
    view = open_run(root / "one").concepts("dev")
    assert f"{view.readers(2, 'image', top=1)['attention'][0]:.3f}" in app.texts()
    app.change(slice="image == 4")
    read = np.median(summarise_attention(view, "text", np.arange(20, 25)).perplexity)
    [amounts] = app.rows("shared attention")
    assert amounts[0]["per caption: median (5–95 %)"].startswith(f"{read:.1f} ")
    [best] = view.readers(2, "image", within=np.array([4]))["attention"]
    assert [grid.count('class="cl-card') for grid in app.cards()] == [1, 5]
    assert f"{best:.3f}" in app.cards()[0]
    assert app.change(slice="zebra").answer() == EMPTY_SLICE
    assert not app.header


def test_the_chosen_concept_is_in_the_graph_and_chance_attention_is_noted(root, opened, tmp_path):
    words = [(f"word{i}", "object") for i in range(5)]
    attention = [np.repeat(np.eye(5), 6 * each, axis=0) for each in (1, CAPTIONS_PER_IMAGE)]
    write_run(tmp_path, "apart", attention=attention, concepts=words, images=30)
    shared = opened(tmp_path, "concepts")
    assert (
        AT_CHANCE in opened(root, "concepts", run="one", versus="—").title[0].value
    )  # its attention is random
    assert AT_CHANCE not in shared.title[0].value
    table = open_run(root / "one").concepts("dev").table().assign(read=0.0)
    weakest = int(strongest(table, "captions", "", 5)[-1])
    run = open_run(root / "one")
    part = GraphPart(weakest, around=False, by="captions", kind="", count=3)
    graph, total = concept_graph(run, "dev", part)
    assert (weakest in graph.nodes["concept"].tolist(), len(graph.nodes), total) == (True, 3, 5)


def test_runs_without_concepts_are_named_with_a_preset_and_only_others_linked(root, opened):
    for run, versus, named in (("plain", "—", ["plain"]), ("clip", "—", ["clip"]), ("plain", "other", NAMES)):
        app = opened(root, "concepts", run=run, versus=versus)
        assert app.saying(*named, "coder-flickr8k")
        assert not app.header
    app = opened(root, "concepts", run="plain", versus="two")
    assert app.value("run") == ["plain", "two"]
    assert app.saying("plain", "Only two")
    assert app.get("plotly_chart")
    [asked] = [part for part in app.parts() if 'class="cl-asked"' in part]
    assert re.findall('class="cl-run" title="([^"]*)"', asked) == ["two"]
    app = opened(root, "diversity", run="one", versus="—", caption="7")
    assert 'href="concepts?run=one&amp;split=dev&amp;concept-caption=7"' in app.texts()
    assert 'href="concepts?' not in app.change(run=["plain"]).texts()


def test_the_graph_draws_every_kind_every_edge_and_the_ring(root):
    graph = graph_of(open_run(root / "one").concepts("dev"), np.arange(5))
    figure = charts.concept_graph(graph.nodes, graph.edges, 2, LIGHT)
    marks = [trace for trace in figure.data if trace.mode == "markers+text"]
    assert [trace.name for trace in marks] == ["objects", "properties", "motions"]
    assert len({trace.marker.color for trace in marks}) == len({trace.marker.symbol for trace in marks}) == 3
    assert sum(len(trace.x) for trace in figure.data if trace.mode == "lines+markers") == 3 * len(graph.edges)
    ring = next(trace for trace in figure.data if trace.mode == "markers")
    assert list(ring.x) == graph.nodes.loc[graph.nodes["concept"] == 2, "x"].tolist()
    assert ring.marker.size > max(size for mark in marks for size in mark.marker.size) - 1  # around its mark


def test_words_of_the_graph_avoid_other_marks():
    """The second concept stands where the word of the first would; the third is alone."""
    nodes = pd.DataFrame({"concept": [0, 1, 2], "word": ["red", "blue", "far"], "kind": "object"})
    nodes = nodes.assign(x=[0.5, 0.5, 0.9], y=[0.5, 0.56, 0.1], count=9, reads=0, read_by=0)
    edges = pd.DataFrame({"concept": np.zeros(0, int), "neighbour": np.zeros(0, int)})
    [marks] = charts.concept_graph(nodes, edges, None, LIGHT).data
    assert list(marks.textposition) == ["bottom center", "top center", "top center"]


def test_bars_count_every_sample_once_and_left_bars_are_negative():
    figure = charts.concepts_read({"captions": {"a": np.array([0.99999, 1.0, 3.0, 500.0])}}, LIGHT)[0]
    assert sum(figure.data[0].y) == pytest.approx(100)
    assert figure.data[0].customdata[0] == 2
    words = [("<b>a", "object", 0.7, 0.1), ("b", "motion", 0, 0.9)]
    table = pd.DataFrame(words, columns=["word", "kind", "image", "text"])
    left, right = charts.side_by_side(table, LIGHT).data[:2]
    assert (*left.x, *right.x) == pytest.approx((-70, 10))
    assert "<b>" not in left.y[0]
