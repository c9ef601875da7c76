"""BTR with all negatives and with the hardest."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from coder_core.objectives.pairs import both_directions
from coder_core.objectives.triplet import triplet_hardest, triplet_sum
from tests.reference import losses as reference
from tests.reference.pairs import kept, negatives, transposed
from tests.reference.problems import random_problem

BOTH = [(triplet_sum, reference.triplet_sum), (triplet_hardest, reference.triplet_hardest)]


def test_by_hand() -> None:
    """Positive 0.5, negatives 0.6, 0.4 and 0.1, margin 0.2: hinges 0.3, 0.1 and 0."""
    scores = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    mask = torch.tensor([[False, True, True, True]])
    positives = scores[:, 0]
    assert triplet_sum(scores, positives, mask).item() == pytest.approx(0.4)
    assert triplet_hardest(scores, positives, mask).item() == pytest.approx(0.3)


@pytest.mark.parametrize(("fast", "slow"), BOTH)
@given(seed=st.integers(0, 10_000), margin=st.floats(0, 1))
def test_both_directions_agree_with_the_loops(
    fast: Callable[..., Tensor], slow: Callable[..., float], seed: int, margin: float
) -> None:
    problem = random_problem(seed)
    ids = problem.ids.tolist()
    matrix = problem.scores.tolist()
    directions = both_directions(problem.scores, problem.ids)
    for direction, rows in zip(directions, (matrix, transposed(matrix)), strict=True):
        expected = [
            slow(kept(row, mask), row[anchor], margin)
            for anchor, (row, mask) in enumerate(zip(rows, negatives(ids, ids), strict=True))
        ]
        assert fast(*direction, margin=margin).tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("loss", [triplet_sum, triplet_hardest])
def test_gradients(loss: Callable[..., Tensor]) -> None:
    problem = random_problem(3)
    mask = both_directions(problem.scores, problem.ids)[0].negatives
    assert gradcheck(lambda scores: loss(scores, scores.diagonal(), mask), problem.scores)


@pytest.mark.parametrize("loss", [triplet_sum, triplet_hardest])
def test_an_anchor_without_negatives_loses_nothing(loss: Callable[..., Tensor]) -> None:
    scores = torch.zeros(1, 2, requires_grad=True)
    value = loss(scores, scores[:, 0], torch.zeros(1, 2, dtype=torch.bool))
    value.sum().backward()
    assert value.tolist() == [0.0]
    assert scores.grad is not None
    assert scores.grad.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("loss", [triplet_sum, triplet_hardest])
def test_half_precision_is_raised(loss: Callable[..., Tensor]) -> None:
    scores = torch.tensor([[0.5, 0.25]], dtype=torch.bfloat16)
    assert loss(scores, scores[:, 0], torch.tensor([[False, True]])).dtype == torch.float32
