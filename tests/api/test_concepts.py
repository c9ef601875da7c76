"""The api of a run with a concept branch: everything ranks by the mixture; concepts, graph and attention as tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import InputError, Run, margins, open_run
from tests.support.concept_runs import NAMES, some_concepts, two_branches, write_concept_run
from tests.support.run_folders import write_run

BETA = 0.6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(write_concept_run(tmp_path_factory.mktemp("runs"), "both", beta=BETA))


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    """(n, m) of eq. 8, each cosine on its own."""
    found, _ = two_branches(30)
    assert found.second is not None
    return BETA * found.images @ found.texts.T + (1 - BETA) * found.second[0] @ found.second[1].T


def test_scores_are_the_mixture_of_both_cosines(run: Run, scores: np.ndarray) -> None:
    np.testing.assert_allclose(
        run.similarity([3, 0], [9, 4, 1], split="dev"), scores[[3, 0]][:, [9, 4, 1]], atol=1e-6
    )
    v, w = run.scoring("dev")
    np.testing.assert_allclose(v @ w.T, scores, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), 1, atol=1e-6)
    assert run.scoring("dev")[0] is v  # put together once
    assert run.embeddings("dev")[0].shape == (30, 32)


def test_a_search_ranks_by_the_mixture_and_agrees_with_the_ranks_of_the_analysis(
    run: Run, scores: np.ndarray
) -> None:
    ranks = run.ranks("dev")
    instance, _ = two_branches(30)
    for text in (0, 77, 149):
        found = run.search(text, split="dev", modality="text", top=30)
        np.testing.assert_array_equal(found["candidate"], np.argsort(-scores[:, text], kind="stable"))
        assert found.loc[found["match"], "place"].item() == ranks["t2i"][text] + 1
        row = run.scoring("dev")[1][text]
        np.testing.assert_array_equal(run.search(row, split="dev", top=30)["candidate"], found["candidate"])
    by_mixture = np.argsort(-scores, axis=0)
    assert (by_mixture != np.argsort(-(instance.images @ instance.texts.T), axis=0)).any()


def test_margins_are_those_of_the_mixture(run: Run, scores: np.ndarray) -> None:
    table = margins(run, "dev", "t2i")
    owner = run.image_of_text("dev")
    np.testing.assert_allclose(table["match_score"], scores[owner, np.arange(150)], atol=1e-5)
    assert ((table["margin"] < 0) == (table["rank"] > 1)).all()


def test_a_run_without_the_branch_scores_by_its_embeddings(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "runs", "plain", images=12))
    assert run.concepts("dev") is None
    assert run.scoring("dev")[0] is run.embeddings("dev")[0]


def test_the_table_of_concepts(run: Run) -> None:
    view = run.concepts("dev")
    assert view is not None
    assert view.beta == BETA
    table = view.table()
    assert list(zip(table["word"], table["kind"], strict=True)) == NAMES
    assert table["count"].tolist() == [5, 3, 2, 2, 2]
    assert table["forms"][0] == "dog, dogs"
    graph = some_concepts().graph(threshold=0.3, rescaled=True) > 0
    np.testing.assert_array_equal(table["reads"], graph.sum(1) - 1)
    np.testing.assert_array_equal(table["read_by"], graph.sum(0) - 1)


def test_edges_carry_their_weight_and_the_probability_behind_it(run: Run) -> None:
    view = run.concepts("dev")
    assert view is not None
    edges = view.edges()
    knowledge = some_concepts()
    graph = knowledge.graph(threshold=0.3, rescaled=True)
    assert len(edges) == (graph > 0).sum() - 5
    assert (edges["concept"] != edges["neighbour"]).all()
    for edge in edges.itertuples():
        assert edge.weight == graph[edge.concept, edge.neighbour]
        assert edge.together == knowledge.together[edge.concept, edge.neighbour]
        assert edge.probability == edge.together / knowledge.occurrences[edge.concept]
    assert edges["weight"].is_monotonic_decreasing


def test_attention_of_a_sample_and_where_two_disagree(run: Run) -> None:
    view = run.concepts("dev")
    assert view is not None
    found, _ = two_branches(30)
    assert found.image_attention is not None
    assert found.text_attention is not None
    table = view.attention("text", 17, top=3)
    expected = found.text_attention[17].astype(np.float32)
    assert table["attention"].tolist() == sorted(expected.tolist(), reverse=True)[:3]
    assert table["word"].tolist() == [NAMES[row][0] for row in table["concept"]]
    both = view.disagreement(3, 17)
    difference = found.image_attention[3].astype(np.float32) - expected
    np.testing.assert_allclose(both["difference"], difference[both["concept"]])
    assert both["difference"].abs().is_monotonic_decreasing
    readers = view.readers(2, "image", top=4)
    assert readers["sample"][0] == found.image_attention[:, 2].argmax()
    assert len(readers) == 4


def test_samples_and_concepts_that_are_not_there(run: Run) -> None:
    view = run.concepts("dev")
    assert view is not None
    for modality, number, last in (("image", 30, 29), ("text", -1, 149)):
        with pytest.raises(InputError, match=f"0 to {last}"):
            view.attention(modality, number)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="concept 5: is not in the run; expected 0 to 4"):
        view.readers(5, "image")


def test_torch_is_not_imported(run: Run) -> None:
    program = (
        "import sys; from coder_core.api import *\n"
        f"run = open_run({str(run.path)!r})\n"
        "run.search(3, split='dev'); run.concepts('dev').edges(); run.concepts('dev').attention('image', 1)\n"
        "print('torch' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert ended.stdout.strip() == "False"
