"""Attention summed up, and the part of the graph that is drawn, against slow loops over the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coder_core.api import ConceptView, open_run
from coder_core.api.concepts import graph_of, neighbourhood, shared_attention, strongest, summarise_attention
from tests.support.concept_runs import write_concept_run


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> ConceptView:
    found = open_run(write_concept_run(tmp_path_factory.mktemp("runs"), "both")).concepts("dev")
    assert found is not None
    return found


def test_the_effective_number_is_the_perplexity_of_the_attention(
    view: ConceptView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coder_core.api.concepts.PIECE", 7)
    found = summarise_attention(view, "text")
    for text in range(150):
        row = view.rows("text", np.array([text]))[0].astype(float)
        row /= row.sum()
        entropy = -sum(p * np.log(p) for p in row if p > 0)
        assert found.perplexity[text] == pytest.approx(np.exp(entropy), rel=1e-9)
        assert found.first[text] == row.argmax()
        assert found.share[text] == pytest.approx(row.max())
    assert found.mean.sum() == pytest.approx(1)
    some = summarise_attention(view, "text", np.array([3, 77]))
    np.testing.assert_array_equal(some.perplexity, found.perplexity[[3, 77]])
    assert 1 <= found.named <= 5


def test_one_concept_counts_one_and_all_alike_count_all(tmp_path: Path) -> None:
    """Image 0 and its captions read one concept, image 1 and its captions all five alike."""
    rows = np.array([[0, 1, 0, 0, 0], [0.2] * 5], np.float16)
    run = open_run(
        write_concept_run(tmp_path, "clear", images=2, attention=(rows, np.repeat(rows, 5, axis=0)))
    )
    view = run.concepts("dev")
    assert view is not None
    np.testing.assert_allclose(summarise_attention(view, "image").perplexity, [1, 5], rtol=1e-6)
    found = shared_attention(view, run.image_of_text("dev"))
    np.testing.assert_allclose(found.own, 1)
    np.testing.assert_allclose(found.other, 0.2)  # of two images the other one is the stranger


def test_what_a_caption_shares_with_its_image(view: ConceptView) -> None:
    owner = np.repeat(np.arange(30), 5)
    found = shared_attention(view, owner)
    for text in (0, 7, 149):
        words, image = (
            view.rows(m, np.array([n]))[0].astype(float) for m, n in (("text", text), ("image", text // 5))
        )  # type: ignore[arg-type]
        expected = sum(min(a / words.sum(), b / image.sum()) for a, b in zip(words, image, strict=True))
        assert found.own[text] == pytest.approx(expected)
    assert (found.own <= 1 + 1e-9).all()
    np.testing.assert_array_equal(shared_attention(view, owner, np.array([7])).own, found.own[[7]])


def test_the_strongest_concepts_by_each_strength(view: ConceptView) -> None:
    table = view.table().assign(read=[1.0, 5.0, 2.0, 4.0, 3.0])
    assert strongest(table, "captions", "", 2).tolist() == [0, 1]
    assert strongest(table, "read", "", 3).tolist() == [1, 3, 4]
    assert strongest(table, "captions", "motion", 9).tolist() == [4]
    assert strongest(table, "edges", "", 1).tolist() == [(table["reads"] + table["read_by"]).idxmax()]


def test_a_neighbourhood_holds_both_ends_of_every_edge() -> None:
    edges = pd.DataFrame(
        {
            "concept": [0, 3, 0, 2],
            "neighbour": [1, 0, 3, 4],
            "weight": [0.2, 0.9, 0.5, 1.0],
            "together": [1, 2, 3, 4],
        }
    )
    assert neighbourhood(edges, 0, 9).tolist() == [0, 3, 1]
    assert neighbourhood(edges, 0, 2).tolist() == [0, 3]
    assert neighbourhood(edges, 7, 9).tolist() == [7]


def test_every_concept_has_a_place_of_its_own_and_only_edges_inside_are_kept(view: ConceptView) -> None:
    graph = graph_of(view, np.arange(5))
    places = graph.nodes[["x", "y"]].to_numpy()
    assert ((places >= 0) & (places <= 1)).all()
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)[~np.eye(5, dtype=bool)]
    assert apart.min() > 0.05
    assert len(graph.edges) == len(view.edges())
    np.testing.assert_array_equal(places, graph_of(view, np.arange(5)).nodes[["x", "y"]])
    alone = graph_of(view, np.array([1]))
    assert len(alone.edges) == 0
    assert len(alone.nodes) == 1
    assert len(graph_of(view, np.array([], dtype=int)).nodes) == 0
