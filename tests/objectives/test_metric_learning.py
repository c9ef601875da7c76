"""CMPM and the polynomial loss."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from coder_core.objectives.cmpm import projection_matching
from coder_core.objectives.pairs import both_directions
from coder_core.objectives.polynomial import polynomial_hardest
from tests.reference import losses as reference
from tests.reference.pairs import kept, negatives, transposed
from tests.reference.problems import random_problem

LOSSES: dict[str, tuple[Callable[..., Tensor], Callable[..., float], str]] = {
    "cmpm": (projection_matching, reference.projection_matching, "temperature"),
    "polynomial": (polynomial_hardest, reference.polynomial_hardest, "margin"),
}
every_loss = pytest.mark.parametrize("name", LOSSES)


@every_loss
@given(seed=st.integers(0, 10_000), value=st.floats(0.05, 1))
def test_both_directions_agree_with_the_loops(name: str, seed: int, value: float) -> None:
    fast, slow, switch = LOSSES[name]
    problem = random_problem(seed)
    ids = problem.ids.tolist()
    matrix = problem.scores.tolist()
    ways = zip(both_directions(problem.scores, problem.ids), (matrix, transposed(matrix)), strict=True)
    for direction, rows in ways:
        expected = [
            slow(kept(row, mask), row[i], value)
            for i, (row, mask) in enumerate(zip(rows, negatives(ids, ids), strict=True))
        ]
        assert fast(*direction, **{switch: value}).tolist() == pytest.approx(expected, abs=1e-9)


def test_projection_matching_by_hand() -> None:
    """Two candidates with equal scores: p = ½, so ½ log ½ + ½ log(½ / 1e-8)."""
    scores = torch.tensor([[0.4, 0.4]], dtype=torch.float64)
    found = projection_matching(scores, scores[:, 0], torch.tensor([[False, True]]))
    assert found.item() == pytest.approx(math.log(0.5) + 0.5 * math.log(1e8), abs=1e-6)


def test_the_polynomial_by_hand() -> None:
    """Positive 0.5: 0.5 − 0.35 + 0.05 = 0.2. Hardest negative 0.6: 0.03 − 0.24 + 0.324 = 0.114; at 0.2 none is near."""
    scores = torch.tensor([[0.5, 0.6, 0.1], [0.5, 0.2, 0.1], [1.0, 0.9, 0.1]], dtype=torch.float64)
    mask = torch.tensor([[False, True, True]] * 3)
    assert polynomial_hardest(scores, scores[:, 0], mask).tolist() == pytest.approx([0.314, 0, 0])


@every_loss
def test_gradients(name: str) -> None:
    problem = random_problem(3)
    mask = both_directions(problem.scores, problem.ids)[0].negatives
    assert gradcheck(lambda scores: LOSSES[name][0](scores, scores.diagonal(), mask), problem.scores)


@every_loss
def test_an_anchor_without_negatives_loses_nothing(name: str) -> None:
    scores = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    value = LOSSES[name][0](scores, scores[:, 0], torch.zeros(1, 2, dtype=torch.bool))
    value.sum().backward()
    assert value.tolist() == pytest.approx([0.0], abs=1e-7)
    assert scores.grad is not None
    assert scores.grad.abs().max().item() == pytest.approx(0)


@every_loss
def test_half_precision_is_raised(name: str) -> None:
    scores = torch.tensor([[0.5, 0.25]], dtype=torch.bfloat16)
    assert LOSSES[name][0](scores, scores[:, 0], torch.tensor([[False, True]])).dtype == torch.float32


def test_a_temperature_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="temperature must be > 0, got 0"):
        projection_matching(torch.zeros(1, 2), torch.zeros(1), torch.ones(1, 2, dtype=torch.bool), temperature=0.0)
