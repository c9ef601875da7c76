"""Losses of a query's own scores: triplet, n-pairs, InfoNCE, sigmoid, CMPM and the polynomial loss."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from coder_core.objectives import (
    both_directions,
    info_nce,
    npairs_hinge,
    pairwise_sigmoid,
    polynomial_hardest,
    projection_matching,
    triplet_hardest,
    triplet_sum,
)
from tests.reference import losses as reference
from tests.reference.neighbourhood import npairs_hinge as weighted_npairs_hinge
from tests.reference.pairs import kept, negatives, transposed
from tests.reference.problems import random_problem


class Loss(NamedTuple):
    """A loss, its loop over the negatives of one query, and its one parameter."""

    fast: Callable[..., Tensor]
    slow: Callable[..., float]
    parameter: str


LOSSES = {
    "triplet-sum": Loss(triplet_sum, reference.triplet_sum, "margin"),
    "triplet-hardest": Loss(triplet_hardest, reference.triplet_hardest, "margin"),
    "npairs": Loss(
        npairs_hinge, lambda row, positive, m: reference.triplet_sum(row, positive, m) / (2 * 5), "margin"
    ),
    "infonce": Loss(info_nce, reference.info_nce, "temperature"),
    "sigmoid": Loss(
        partial(pairwise_sigmoid, bias=-1.5), partial(reference.pairwise_sigmoid, bias=-1.5), "scale"
    ),
    "cmpm": Loss(projection_matching, reference.projection_matching, "temperature"),
    "polynomial": Loss(polynomial_hardest, reference.polynomial_hardest, "margin"),
}
every_loss = pytest.mark.parametrize("name", LOSSES)
of_a_softmax = pytest.mark.parametrize("name", ["infonce", "cmpm"])
FOUR = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
OTHERS = torch.tensor([[False, True, True, True]])


def one_pair(name: str, scores: Tensor, value: float = 0.1) -> Tensor:
    """The loss with the positive in column 0 and a negative in column 1."""
    loss = LOSSES[name]
    return loss.fast(scores, scores[:, 0], torch.tensor([[False, True]]), **{loss.parameter: value})


@every_loss
@given(seed=st.integers(0, 10_000), value=st.floats(0.05, 1))
def test_both_directions_agree_with_the_loops(name: str, seed: int, value: float) -> None:
    fast, slow, parameter = LOSSES[name]
    problem = random_problem(seed)
    masks, matrix = negatives(problem.ids.tolist(), problem.ids.tolist()), problem.scores.tolist()
    ways = zip(both_directions(problem.scores, problem.ids), (matrix, transposed(matrix)), strict=True)
    for direction, rows in ways:
        expected = [slow(kept(row, masks[i]), row[i], value) for i, row in enumerate(rows)]
        assert fast(*direction, **{parameter: value}).tolist() == pytest.approx(expected, rel=1e-10, abs=1e-9)


@every_loss
def test_gradients(name: str) -> None:
    fast, _, parameter = LOSSES[name]
    problem = random_problem(3)
    mask = both_directions(problem.scores, problem.ids)[0].negatives
    assert gradcheck(lambda scores: fast(scores, scores.diagonal(), mask, **{parameter: 0.2}), problem.scores)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "sigmoid"])
def test_a_query_without_negatives_loses_nothing(name: str) -> None:
    fast, _, parameter = LOSSES[name]
    scores = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    value = fast(scores, scores[:, 0], torch.zeros(1, 2, dtype=torch.bool), **{parameter: 0.2})
    value.sum().backward()
    assert value.tolist() == pytest.approx([0.0], abs=1e-7)
    assert scores.grad is not None
    assert scores.grad.abs().max().item() == pytest.approx(0)


@pytest.mark.parametrize("name", ["infonce", "cmpm", "sigmoid"])
def test_gradients_of_a_learned_scale_and_bias(name: str) -> None:
    """Scores of what is no negative may be anything, NaN included: the sigmoid's scale does not see them."""
    problem = random_problem(3)
    mask = both_directions(problem.scores, problem.ids)[0].negatives
    scale, bias = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (3.0, -1.5))

    def loss(scores: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        if name == "sigmoid":
            hidden = torch.where(mask, scores, math.nan)
            return pairwise_sigmoid(hidden, scores.diagonal(), mask, scale=scale, bias=bias)
        return LOSSES[name].fast(scores, scores.diagonal(), mask, temperature=1 / scale) + 0 * bias

    assert gradcheck(loss, (problem.scores, scale, bias))


def test_the_sigmoid_by_hand_keeps_the_positive_of_a_query_without_negatives() -> None:
    """The scores of the papers' start: 10 · 0.5 − 10 of the positive, 10 · (0.6, 0.4, 0.1) − 10 of the others."""
    of_positive = math.log(1 + math.exp(5))
    others = sum(math.log(1 + math.exp(logit)) for logit in (-4, -6, -9))
    start = {"scale": 10.0, "bias": -10.0}
    assert pairwise_sigmoid(FOUR, FOUR[:, 0], OTHERS, **start).item() == pytest.approx(of_positive + others)
    assert pairwise_sigmoid(FOUR, FOUR[:, 0], OTHERS & False, **start).item() == pytest.approx(of_positive)


def test_the_mean_over_the_images_is_the_printed_sigmoid_loss() -> None:
    """−1/|B| Σ_i Σ_j log σ(z_ij (s·S_ij + b)), z = 1 for a pair and −1 otherwise (eq. 2 without same-image pairs)."""
    scores = random_problem(1).scores.detach()
    pair = torch.eye(len(scores), dtype=torch.bool)
    signs = torch.where(pair, 1.0, -1.0)
    printed = -torch.nn.functional.logsigmoid(signs * (4 * scores - 2)).sum() / len(scores)
    ours = pairwise_sigmoid(scores, scores.diagonal(), ~pair, scale=4.0, bias=-2.0).mean()
    torch.testing.assert_close(ours, printed)


@every_loss
def test_half_precision_is_raised(name: str) -> None:
    assert one_pair(name, torch.tensor([[0.5, 0.25]], dtype=torch.bfloat16)).dtype == torch.float32


@of_a_softmax
@pytest.mark.parametrize("temperature", [0.0, -0.1, math.nan])
def test_a_temperature_that_is_not_positive_is_refused(name: str, temperature: float) -> None:
    with pytest.raises(ValueError, match=f"temperature must be > 0, got {temperature}"):
        one_pair(name, torch.zeros(1, 2), temperature)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (triplet_sum, 0.3 + 0.1),
        (triplet_hardest, 0.3),
        (npairs_hinge, (0.3 + 0.1) / 8),  # four candidates
        (polynomial_hardest, (0.5 - 0.35 + 0.05) + (0.03 - 0.24 + 0.324)),
    ],
)
def test_by_hand(loss: Callable[..., Tensor], expected: float) -> None:
    """Positive 0.5, negatives 0.6, 0.4 and 0.1, margin 0.2: hinges 0.3, 0.1 and 0."""
    assert loss(FOUR, FOUR[:, 0], OTHERS, margin=0.2).item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "expected"), [("infonce", math.log(2)), ("cmpm", math.log(0.5) + 0.5 * math.log(1e8))]
)
def test_two_equal_candidates_by_hand(name: str, expected: float) -> None:
    """Both have a share of one half: −log ½, and ½ log ½ + ½ log(½ / 1e-8)."""
    assert one_pair(name, torch.full((1, 2), 0.4, dtype=torch.float64)).item() == pytest.approx(
        expected, abs=1e-6
    )


def test_the_polynomial_passes_over_far_negatives_and_perfect_positives() -> None:
    scores = torch.tensor([[0.5, 0.2, 0.1], [1.0, 0.9, 0.1]], dtype=torch.float64)
    mask = torch.tensor([[False, True, True]] * 2)
    assert polynomial_hardest(scores, scores[:, 0], mask).tolist() == [0, 0]


def test_info_nce_is_cross_entropy_when_every_other_candidate_is_a_negative() -> None:
    scores = random_problem(1).scores
    mask = ~torch.eye(len(scores), dtype=torch.bool)
    expected = torch.nn.functional.cross_entropy(scores / 0.07, torch.arange(len(scores)), reduction="none")
    torch.testing.assert_close(info_nce(scores, scores.diagonal(), mask, temperature=0.07), expected)


def test_large_scores_stay_finite() -> None:
    assert one_pair("infonce", torch.tensor([[0.0, 1e4]])).item() == pytest.approx(1e5)


@given(seed=st.integers(0, 10_000), margin=st.floats(0, 1))
def test_the_weighted_mean_of_both_directions_of_npairs_is_equation_1(seed: int, margin: float) -> None:
    problem = random_problem(seed)
    alpha = torch.rand(5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    out, back = (npairs_hinge(*way, margin=margin) for way in both_directions(problem.scores, problem.ids))
    expected = weighted_npairs_hinge(problem.scores.tolist(), problem.ids.tolist(), alpha.tolist(), margin)
    assert (alpha * (out + back)).mean().item() == pytest.approx(expected, abs=1e-12)
