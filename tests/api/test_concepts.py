"""A run with a concept branch: everything ranks by the mixture; concepts, attention and graph against slow loops."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from coder_core.api import InputError, concepts, margins, open_run
from coder_core.api.concept_attention import pair_concepts
from coder_core.api.concepts import graph_of, neighbourhood, shared_attention, strongest
from tests.api.conftest import BETA
from tests.support.run_folders import CONCEPTS, some_concepts, two_branches, write_run


@pytest.fixture(scope="module")
def view(both):
    return both.concepts("dev")


def test_scores_searches_and_margins_use_the_mixture_of_both_branches(both, run):
    """The scores are those of eq. 8, from each branch's cosines."""
    branches, _ = two_branches(30)
    (images, texts) = branches.second
    instance = branches.images @ branches.texts.T
    scores = BETA * instance + (1 - BETA) * images @ texts.T
    similarity = both.similarity([3, 0], [9, 4, 1], split="dev")
    np.testing.assert_allclose(similarity, scores[[3, 0]][:, [9, 4, 1]], atol=1e-6)
    v, w = both.scoring("dev")
    np.testing.assert_allclose(v @ w.T, scores, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), 1, atol=1e-6)
    assert both.scoring("dev")[0] is v  # concatenated once and kept
    assert both.embeddings("dev")[0].shape == (30, 32)
    assert run.concepts("dev") is None  # without the branch the scores are those of the embeddings
    assert run.scoring("dev")[0] is run.embeddings("dev")[0]
    for text in (0, 77, 149):
        results = both.search(text, split="dev", modality="text", top=30)
        np.testing.assert_array_equal(results["candidate"], np.argsort(-scores[:, text], kind="stable"))
        assert results.loc[results["match"], "place"].item() == both.ranks("dev")["t2i"][text] + 1
        again = both.search(both.scoring("dev")[1][text], split="dev", top=30)
        np.testing.assert_array_equal(again["candidate"], results["candidate"])
    assert (np.argsort(-scores, axis=0) != np.argsort(-instance, axis=0)).any()
    table = margins(both, "dev", "t2i")
    own = scores[both.image_of_text("dev"), np.arange(150)]
    np.testing.assert_allclose(table["match_score"], own, atol=1e-5)
    assert ((table["margin"] < 0) == (table["rank"] > 1)).all()


def test_concept_table_and_edges_match_the_graph(view):
    assert view.beta == BETA
    table = view.table()
    edges = view.edges()
    assert list(zip(table["word"], table["kind"], strict=True)) == CONCEPTS
    assert table["count"].tolist() == [5, 3, 2, 2, 2]
    assert table["forms"][0] == "dog, dogs"
    knowledge = some_concepts()
    graph = knowledge.graph(threshold=0.3, rescaled=True)
    np.testing.assert_array_equal(table["reads"], (graph > 0).sum(1) - 1)
    np.testing.assert_array_equal(table["read_by"], (graph > 0).sum(0) - 1)
    assert len(edges) == (graph > 0).sum() - 5
    assert (edges["concept"] != edges["neighbour"]).all()
    for edge in edges.itertuples():
        together = knowledge.together[edge.concept, edge.neighbour]
        assert (edge.weight, edge.together) == (graph[edge.concept, edge.neighbour], together)
        assert edge.probability == together / knowledge.occurrences[edge.concept]
    assert edges["weight"].is_monotonic_decreasing


def test_pairs_readers_and_perplexity_match_the_attention(both, view, monkeypatch):
    branches, _ = two_branches(30)
    pair, common, effective = pair_concepts(both, "dev", 17, top=5)
    rows = np.array([branches.image_attention[3], branches.text_attention[17]], float)
    rows /= rows.sum(1, keepdims=True)
    assert pair["word"].tolist() == [CONCEPTS[concept][0] for concept in np.argsort(-rows.sum(0))]
    np.testing.assert_allclose(pair[["image", "text"]].T, rows[:, pair["concept"]], atol=1e-3)
    assert common == pytest.approx(100 * rows.min(0).sum(), abs=0.1)
    assert list(effective.values()) == pytest.approx(np.exp(-(rows * np.log(rows)).sum(1)), abs=0.01)
    readers = view.readers(2, "image", top=4)["sample"]
    assert (readers[0], len(readers)) == (branches.image_attention[:, 2].argmax(), 4)
    with pytest.raises(InputError, match=r"concept 5: .*0 to 4"):
        view.readers(5, "image")
    monkeypatch.setattr(concepts, "PIECE", 7)
    summary = concepts.summarise_attention(view, "text")
    rows = view.rows("text", slice(None)).astype(float)
    rows /= rows.sum(1, keepdims=True)
    entropy = [-sum(p * np.log(p) for p in row if p > 0) for row in rows]
    np.testing.assert_allclose(summary.perplexity, np.exp(entropy), rtol=1e-9)
    np.testing.assert_array_equal(summary.first, rows.argmax(1))
    np.testing.assert_allclose(summary.share, rows.max(1))
    assert summary.mean.sum() == pytest.approx(1)
    some = concepts.summarise_attention(view, "text", np.array([3, 77]))
    np.testing.assert_array_equal(some.perplexity, summary.perplexity[[3, 77]])
    assert 1 <= summary.named <= 5


def test_attention_shared_by_a_caption_and_its_image(view, tmp_path):
    """Two images by hand: one reads a single concept, the other all five equally, and so do their captions."""
    owner = np.repeat(np.arange(30), 5)
    shared = shared_attention(view, owner)
    for text in (0, 7, 149):
        words, image = (view.rows(m, np.array([n]))[0] for m, n in (("text", text), ("image", text // 5)))
        expected = np.minimum(words / words.sum(), image / image.sum()).sum()
        assert shared.own[text] == pytest.approx(expected, rel=1e-5)
    assert (shared.own <= 1 + 1e-9).all()
    np.testing.assert_array_equal(shared_attention(view, owner, np.array([7])).own, shared.own[[7]])
    rows = np.array([[0, 1, 0, 0, 0], [0.2] * 5], np.float16)
    attention = rows, np.repeat(rows, 5, axis=0)
    clear = open_run(write_run(tmp_path, "clear", images=2, attention=attention, concepts=CONCEPTS)).concepts(
        "dev"
    )
    np.testing.assert_allclose(concepts.summarise_attention(clear, "image").perplexity, [1, 5], rtol=1e-6)
    shared = shared_attention(clear, owner[:10])
    np.testing.assert_allclose(shared.own, 1)
    np.testing.assert_allclose(shared.other, 0.2)  # with two images, the other one is the random one


def test_graphs_show_the_strongest_or_neighbouring_concepts_apart_from_each_other(view):
    table = view.table().assign(read=[1.0, 5.0, 2.0, 4.0, 3.0])
    most_edges = (table["reads"] + table["read_by"]).idxmax()
    choices = {("captions", "", 2): [0, 1], ("read", "", 3): [1, 3, 4], ("captions", "motion", 9): [4]}
    for choice, expected in (choices | {("edges", "", 1): [most_edges]}).items():
        assert strongest(table, *choice).tolist() == expected
    rows = [(0, 1, 0.2, 1), (3, 0, 0.9, 2), (0, 3, 0.5, 3), (2, 4, 1.0, 4)]
    edges = pd.DataFrame(rows, columns=["concept", "neighbour", "weight", "together"])
    for concept, count, expected in ((0, 9, [0, 3, 1]), (0, 2, [0, 3]), (7, 9, [7])):
        assert neighbourhood(edges, concept, count).tolist() == expected
    edges.loc[4] = (0, 4, 0.8, 1)  # by weight, then by how often both occur together
    edges.loc[5] = (5, 0, 0.8, 2)
    assert neighbourhood(edges, 0, 9).tolist() == [0, 3, 5, 4, 1]
    graph = graph_of(view, np.arange(5))
    places = graph.nodes[["x", "y"]].to_numpy()
    assert ((places >= 0) & (places <= 1)).all()
    assert np.linalg.norm(places[:, None] - places[None], axis=-1)[~np.eye(5, dtype=bool)].min() > 0.05
    assert len(graph.edges) == len(view.edges())
    np.testing.assert_array_equal(places, graph_of(view, np.arange(5)).nodes[["x", "y"]])
    alone = graph_of(view, np.array([1]))
    assert (len(alone.edges), len(alone.nodes)) == (0, 1)
    assert alone.nodes[["x", "y"]].to_numpy().tolist() == [[0.05, 0.02]]  # the first place of the lowest row
    for some in combinations(range(5), 3):
        part = graph_of(view, np.array(some))
        joined = part.nodes["concept"].isin({*part.edges["concept"], *part.edges["neighbour"]})
        assert part.nodes["y"][~joined].max() < 0.1 or joined.all()
        assert part.nodes["y"][joined].min() > 0.1 or joined.all() or not joined.any()
        assert part.nodes[["x", "y"]].to_numpy().max() <= 1
    assert len(graph_of(view, np.array([], dtype=int)).nodes) == 0


@pytest.mark.parametrize(
    "spots",
    [
        [[0.5, 0.5], [0.52, 0.5], [0.5, 0.53]],
        [[0.5, 0.5], [0.5, 0.5]],
        [[0.0, 0.0], [0.01, 0.0], [0.0, 0.02], [1.0, 1.0]],
    ],
)
def test_marks_that_overlap_are_pushed_apart_and_others_stay(spots):
    """No two are closer than a mark with its name is wide and high, and all stay on the drawing."""
    before = np.array(spots)
    after = concepts._apart(before, np.array([1.0, 1.0]))
    for first, second in combinations(range(len(spots)), 2):
        apart = np.abs(after[first] - after[second]) / concepts.ROOM
        assert apart.max() > 0.99
    assert after.min() >= 0
    assert after.max() <= 1
    far = np.array([[0.1, 0.1], [0.9, 0.1], [0.1, 0.9]])
    np.testing.assert_array_equal(concepts._apart(far, np.array([1.0, 1.0])), far)
