"""The weighted bidirectional sum of hinges over all negatives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from coder_core.objectives.npairs import npairs_hinge
from coder_core.objectives.pairs import both_directions
from tests.reference import neighbourhood as reference
from tests.reference.problems import random_problem


def test_by_hand() -> None:
    """Positive 0.5, negatives 0.6, 0.4 and 0.1, margin 0.2, four candidates: (0.3 + 0.1 + 0) / 8."""
    scores = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    mask = torch.tensor([[False, True, True, True]])
    assert npairs_hinge(scores, scores[:, 0], mask, margin=0.2).item() == pytest.approx(0.05)


@given(seed=st.integers(0, 10_000), margin=st.floats(0, 1))
def test_the_weighted_mean_of_both_directions_is_equation_1(seed: int, margin: float) -> None:
    problem = random_problem(seed)
    alpha = torch.rand(5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    both = [npairs_hinge(*way, margin=margin) for way in both_directions(problem.scores, problem.ids)]
    expected = reference.npairs_hinge(problem.scores.tolist(), problem.ids.tolist(), alpha.tolist(), margin)
    assert (alpha * (both[0] + both[1])).mean().item() == pytest.approx(expected, abs=1e-12)


def test_gradients_run_through_the_scores_and_the_weights_only_multiply() -> None:
    problem = random_problem(3)
    mask = both_directions(problem.scores, problem.ids)[0].negatives
    alpha = torch.tensor([0.5, 2.0, 1.0, 0.1, 1.4], dtype=torch.float64)
    assert gradcheck(lambda scores: alpha * npairs_hinge(scores, scores.diagonal(), mask), problem.scores)


def test_half_precision_is_raised() -> None:
    scores = torch.tensor([[0.5, 0.25]], dtype=torch.bfloat16)
    assert npairs_hinge(scores, scores[:, 0], torch.tensor([[False, True]])).dtype == torch.float32
