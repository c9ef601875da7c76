"""InfoNCE."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from coder_core.objectives.info_nce import info_nce
from coder_core.objectives.pairs import both_directions
from tests.reference import losses as reference
from tests.reference.pairs import kept, negatives, transposed
from tests.reference.problems import random_problem


def test_by_hand() -> None:
    """Positive and negative equal: probability 1/2, whatever the temperature."""
    scores = torch.tensor([[0.4, 0.4]])
    mask = torch.tensor([[False, True]])
    assert info_nce(scores, scores[:, 0], mask, temperature=0.05).item() == pytest.approx(math.log(2))


@given(seed=st.integers(0, 10_000), temperature=st.floats(0.05, 2))
def test_both_directions_agree_with_the_loops(seed: int, temperature: float) -> None:
    problem = random_problem(seed)
    ids = problem.ids.tolist()
    matrix = problem.scores.tolist()
    for direction, rows in zip(both_directions(problem.scores, problem.ids), (matrix, transposed(matrix)), strict=True):
        expected = [
            reference.info_nce(kept(row, mask), row[anchor], temperature)
            for anchor, (row, mask) in enumerate(zip(rows, negatives(ids, ids), strict=True))
        ]
        assert info_nce(*direction, temperature=temperature).tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_equals_cross_entropy_when_every_other_candidate_is_a_negative() -> None:
    scores = random_problem(1).scores
    mask = ~torch.eye(len(scores), dtype=torch.bool)
    expected = torch.nn.functional.cross_entropy(scores / 0.07, torch.arange(len(scores)), reduction="none")
    torch.testing.assert_close(info_nce(scores, scores.diagonal(), mask, temperature=0.07), expected)


def test_gradients() -> None:
    problem = random_problem(2)
    mask = both_directions(problem.scores, problem.ids)[0].negatives
    assert gradcheck(lambda scores: info_nce(scores, scores.diagonal(), mask, temperature=0.2), problem.scores)


def test_large_scores_stay_finite() -> None:
    scores = torch.tensor([[0.0, 1e4]])
    assert info_nce(scores, scores[:, 0], torch.tensor([[False, True]]), temperature=0.1).item() == pytest.approx(1e5)


def test_without_negatives_there_is_no_loss() -> None:
    scores = torch.zeros(1, 2)
    assert info_nce(scores, scores[:, 0], torch.zeros(1, 2, dtype=torch.bool), temperature=0.1).tolist() == [0.0]


@pytest.mark.parametrize("temperature", [0.0, -0.1, math.nan])
def test_a_temperature_that_is_not_positive_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature must be > 0"):
        info_nce(torch.zeros(1, 1), torch.zeros(1), torch.ones(1, 1, dtype=torch.bool), temperature=temperature)
