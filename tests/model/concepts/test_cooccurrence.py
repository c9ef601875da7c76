"""Counts → probabilities → graph, by hand and against loops; every decision about them."""

from __future__ import annotations

import numpy as np
import pytest

from coder_core.model.concepts.knowledge import (
    GraphNorm,
    concept_graph,
    conditional,
    connect,
    count_together,
    normalise_graph,
    rescale,
)
from tests.reference import concepts as reference

DOG, BALL, RED = 0, 1, 2


def random_captions(seed: int, concepts: int = 9) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [random.integers(0, concepts, random.integers(0, 6)).tolist() for _ in range(40)]


def test_counts_by_hand() -> None:
    """ "dog, ball, dog", "dog, red", "ball", "": a caption counts once, and nothing stands together with itself."""
    together, occurrences = count_together([[DOG, BALL, DOG], [DOG, RED], [BALL], []], 3)
    assert together.tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert occurrences.tolist() == [2, 2, 1]


def test_the_probability_of_the_neighbour_given_the_concept() -> None:
    """P_ij = B_ij / N_i is P(C_j | C_i): a guitar always with a man, a man seldom with a guitar."""
    man, guitar = 0, 1
    probability = conditional(*count_together([[man, guitar], [man], [man], [man]], 2))
    assert probability[guitar, man] == 1.0
    assert probability[man, guitar] == 0.25


def test_a_concept_no_caption_holds_has_no_neighbours() -> None:
    together, occurrences = count_together([[0, 1]], 3)
    assert conditional(together, occurrences)[2].tolist() == [0, 0, 0]
    assert concept_graph(together, occurrences)[2].tolist() == [0, 0, 1]


def test_the_rescaled_threshold_is_a_raw_probability_of_0168() -> None:
    assert rescale(np.array(0.0)) == 0.0
    assert rescale(np.array(0.167)) < 0.3 < rescale(np.array(0.169))
    raw = np.array([[0.0, 0.2], [0.16, 0.0]])
    assert connect(rescale(raw), threshold=0.3).tolist() == [[0, 1], [0, 0]]
    assert connect(raw, threshold=0.3).tolist() == [[0, 0], [0, 0]]  # the literal reading


def test_the_threshold_itself_is_connected() -> None:
    assert connect(np.array([[0.3, 0.2999]]), threshold=0.3).tolist() == [[1, 0]]


def test_a_column_of_degree_zero_stays_zero_and_every_concept_keeps_itself() -> None:
    """Concepts 0 and 1 point at each other, 2 points at 0 and nothing at 2: D = (2, 1, 0)."""
    graph = normalise_graph(np.array([[0, 1, 0], [1, 0, 0], [1, 0, 0]], dtype=float))
    edge = 1 / np.sqrt(2)
    np.testing.assert_allclose(graph, [[1, edge, 0], [edge, 1, 0], [0, 0, 1]], rtol=1e-6)
    assert np.isfinite(graph).all()


def test_the_other_readings_keep_the_edges_of_a_concept_nothing_points_at() -> None:
    """The same edges: rows have degrees (1, 1, 1), columns (2, 1, 0); with loops rows have (2, 2, 2)."""
    edges = np.array([[0, 1, 0], [1, 0, 0], [1, 0, 0]], dtype=float)
    root = 1 / np.sqrt(2)
    expected = [[1, 1, 0], [root, 1, 0], [root, 0, 1]]
    np.testing.assert_allclose(normalise_graph(edges, "rows-columns"), expected, rtol=1e-6)
    np.testing.assert_allclose(normalise_graph(edges, "cvse"), (edges + np.eye(3)) / 2, rtol=1e-6)
    with pytest.raises(ValueError, match="norm must be"):
        normalise_graph(edges, "rows")  # type: ignore[arg-type]


@pytest.mark.parametrize("norm", ["columns", "rows-columns", "cvse"])
@pytest.mark.parametrize("rescaled", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_graph_agrees_with_the_loops(seed: int, rescaled: bool, norm: GraphNorm) -> None:
    captions = random_captions(seed)
    together, occurrences = count_together(captions, 9)
    pairs, single = reference.together(captions, 9)
    assert together.tolist() == pairs
    assert occurrences.tolist() == single
    graph = concept_graph(together, occurrences, threshold=0.25, rescaled=rescaled, norm=norm)
    np.testing.assert_allclose(graph, reference.graph(pairs, single, 0.25, rescaled, norm), rtol=1e-6)
    assert graph.dtype == np.float32
    assert 0 < (graph - np.eye(9) > 0).sum() < 72
