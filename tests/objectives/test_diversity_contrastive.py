"""DCL_I, DCL and M-DCL: CODER eq. 4 to 6, and what sections 1.2 and 1.3 of the decisions settle."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from coder_core.objectives.diversity_contrastive import diversity_contrastive
from coder_core.objectives.pairs import both_directions, same_image_negatives
from tests.reference import losses as reference
from tests.reference.pairs import kept, negatives, transposed
from tests.reference.problems import random_problem

ONE_NEGATIVE = torch.tensor([[False, True]])
SWITCHES = [
    {"positive_scale": scale, "positive_clamp": clamp}
    for scale in ("one", "temperature")
    for clamp in ("clamp", "relu")
]


def loss_of(negative: float, *, positive: float = 0.5, diversity: float = 1.0, **switches: Any) -> float:
    scores = torch.tensor([[positive, negative]], dtype=torch.float64)
    weight = torch.tensor([diversity], dtype=torch.float64)
    return diversity_contrastive(scores, scores[:, 0], ONE_NEGATIVE, diversity=weight, **switches).item()


def weight_of(negative: float, diversity: float) -> float:
    """Gradient of the loss with respect to the one negative."""
    scores = torch.tensor([[0.5, negative]], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([diversity], dtype=torch.float64)
    loss = diversity_contrastive(scores, scores.detach()[:, 0], ONE_NEGATIVE, diversity=weight)
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    return gradient[0, 1].item()


def test_by_hand() -> None:
    """A negative at the margin adds exp(0) = 1: 0.1·log 2 − log 1.5 with the positive at 0.5."""
    assert loss_of(0.3) == pytest.approx(0.1 * math.log(2) - math.log(1.5))


def test_one_unit_above_the_margin_by_hand() -> None:
    """S − γ = 0.05 and μ·div = 0.05 make the exponent 1."""
    assert loss_of(0.35, diversity=0.5) == pytest.approx(0.1 * math.log(1 + math.e) - math.log(1.5))


@pytest.mark.parametrize("switches", SWITCHES)
@given(seed=st.integers(0, 10_000), temperature=st.floats(0.05, 1), margin=st.floats(-0.5, 0.8))
def test_both_directions_agree_with_the_loops(
    switches: dict[str, Any], seed: int, temperature: float, margin: float
) -> None:
    problem = random_problem(seed)
    ids = problem.ids.tolist()
    diversity = 0.5 + 0.5 * torch.rand(len(ids), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    matrix = problem.scores.tolist()
    given_values = {"temperature": temperature, "margin": margin, **switches}
    directions = both_directions(problem.scores, problem.ids)
    for direction, rows in zip(directions, (matrix, transposed(matrix)), strict=True):
        expected = [
            reference.diversity_contrastive(kept(row, mask), row[anchor], diversity=own, **given_values)
            for anchor, (row, mask, own) in enumerate(zip(rows, negatives(ids, ids), diversity.tolist(), strict=True))
        ]
        fast = diversity_contrastive(*direction, diversity=diversity, **given_values)
        assert fast.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_against_a_bank_the_positive_is_the_partner_key() -> None:
    """The bank's columns hold no positive; its score comes from outside and only enters the pull."""
    problem = random_problem(5)
    mask = same_image_negatives(problem.ids, problem.slot_ids)
    loops = negatives(problem.ids.tolist(), problem.slot_ids.tolist())
    expected = [
        reference.diversity_contrastive(kept(row, is_negative), positive)
        for row, is_negative, positive in zip(
            problem.bank_scores.tolist(), loops, problem.bank_positives.tolist(), strict=True
        )
    ]
    fast = diversity_contrastive(problem.bank_scores, problem.bank_positives, mask)
    assert fast.tolist() == pytest.approx(expected, rel=1e-10)


def test_no_diversity_is_a_diversity_of_one() -> None:
    direction = both_directions(random_problem(1).scores, random_problem(1).ids)[0]
    ones = torch.ones(len(direction.scores), dtype=torch.float64)
    assert torch.equal(diversity_contrastive(*direction), diversity_contrastive(*direction, diversity=ones))


def test_the_positive_is_absent_from_the_sum_exactly() -> None:
    """HAL and USER leave exp(−γ/μ) = 0.05 in place of the positive; here an anchor without negatives sums to 0."""
    scores = torch.tensor([[0.5]], dtype=torch.float64)
    loss = diversity_contrastive(scores, torch.zeros(1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.bool))
    assert loss.item() == 0.0
    assert math.exp(-0.3 / 0.1) == pytest.approx(0.05, abs=1e-3)


def test_what_is_no_negative_changes_neither_value_nor_gradient() -> None:
    mask = torch.tensor([[False, True, False]])
    results = []
    for filler in (0.0, 0.9, float("nan")):
        scores = torch.tensor([[filler, 0.4, filler]], requires_grad=True)
        loss = diversity_contrastive(scores, torch.tensor([0.5]), mask)
        (gradient,) = torch.autograd.grad(loss.sum(), scores)
        results.append((loss.item(), gradient[0].tolist()))
    assert results[0] == results[1]
    assert results[0][0] == results[2][0]
    assert results[0][1][0] == results[0][1][2] == 0.0


def test_a_negative_above_the_margin_weighs_more_when_diversity_is_low() -> None:
    assert weight_of(0.4, diversity=0.5) > weight_of(0.4, diversity=1.0)


def test_a_negative_below_the_margin_weighs_less_when_diversity_is_low() -> None:
    assert weight_of(0.1, diversity=0.5) < weight_of(0.1, diversity=1.0)


def test_the_positive_term_is_unscaled_unless_asked() -> None:
    """As printed μ multiplies it too: the pull at S⁺ is then 0.1 / (1 + S⁺) instead of 1 / (1 + S⁺)."""
    push = 0.1 * math.log(2)
    assert loss_of(0.3) == pytest.approx(push - math.log(1.5))
    assert loss_of(0.3, positive_scale="temperature") == pytest.approx(push - 0.1 * math.log(1.5))


@pytest.mark.parametrize(("clamp", "value", "slope"), [("clamp", math.log(0.5), -2.0), ("relu", 0.0, 0.0)])
def test_the_pull_on_a_negative_cosine(clamp: Any, value: float, slope: float) -> None:
    """At S⁺ = −0.5: log 0.5 with slope 1/0.5; the compatibility form has neither value nor gradient."""
    positive = torch.tensor([-0.5], dtype=torch.float64, requires_grad=True)
    none = torch.zeros(1, 1, dtype=torch.bool)
    loss = diversity_contrastive(torch.zeros(1, 1, dtype=torch.float64), positive, none, positive_clamp=clamp)
    (gradient,) = torch.autograd.grad(loss.sum(), positive)
    assert loss.item() == pytest.approx(-value)
    assert gradient.item() == pytest.approx(slope)


def test_a_cosine_of_minus_one_is_finite() -> None:
    """log(1 + S⁺) is cut at −1 + 1e−4."""
    positive = torch.tensor([-1.0, -1.5], requires_grad=True)
    loss = diversity_contrastive(torch.zeros(2, 1), positive, torch.zeros(2, 1, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(loss.sum(), positive)
    assert loss.tolist() == pytest.approx([-math.log(1e-4)] * 2, rel=1e-3)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("exponent", [14.0, 100.0, 1e4, 1e8])
def test_large_exponents_are_their_own_logarithm(exponent: float) -> None:
    """x reaches 14 with cosines, where exp overflows float16; far beyond, exp overflows float64."""
    scores = torch.tensor([[0.0, 0.3 + exponent * 0.1]], dtype=torch.float64)
    loss = diversity_contrastive(scores, scores[:, 0], ONE_NEGATIVE)
    assert loss.item() == pytest.approx(0.1 * math.log1p(math.exp(-exponent)) + 0.1 * exponent)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_raised_also_under_autocast(dtype: torch.dtype) -> None:
    """Sixteen negatives at 1 with μ·div = 0.05 put exp(14)·16 in the sum: far over float16's 65504."""
    scores = torch.ones(1, 17).to(dtype)
    mask = torch.tensor([[False] + [True] * 16])
    diversity = torch.tensor([0.5], dtype=dtype)
    with torch.autocast("cpu", dtype=dtype):
        loss = diversity_contrastive(scores, scores[:, 0], mask, diversity=diversity)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(0.1 * (14 + math.log(16)) - math.log(2), rel=1e-5)


@pytest.mark.parametrize("switches", SWITCHES)
def test_gradients(switches: dict[str, Any]) -> None:
    problem = random_problem(11)
    mask = same_image_negatives(problem.ids, problem.slot_ids)
    diversity = torch.linspace(0.55, 1, len(mask), dtype=torch.float64, requires_grad=True)
    assert gradcheck(
        lambda s, p, d: diversity_contrastive(s, p, mask, diversity=d, temperature=0.2, **switches),
        (problem.bank_scores, problem.bank_positives, diversity),
    )


def test_a_detached_diversity_is_a_constant() -> None:
    """The caller decides: detached, scores receive only the loss's own gradient."""
    problem = random_problem(4)
    direction = both_directions(problem.scores, problem.ids)[0]
    spread = problem.scores.std(dim=1) + 0.5
    fixed = torch.autograd.grad(
        diversity_contrastive(*direction, diversity=spread.detach()).sum(), problem.scores, retain_graph=True
    )[0]
    trained = torch.autograd.grad(diversity_contrastive(*direction, diversity=spread).sum(), problem.scores)[0]
    assert not torch.allclose(fixed, trained)


def test_impossible_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="temperature must be > 0, got 0"):
        loss_of(0.3, temperature=0)
    with pytest.raises(ValueError, match='positive_scale must be "one" or "temperature", got \'two\''):
        loss_of(0.3, positive_scale="two")
    with pytest.raises(ValueError, match='positive_clamp must be "clamp" or "relu", got \'none\''):
        loss_of(0.3, positive_clamp="none")
