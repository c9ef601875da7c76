"""Diversity: CODER eq. 3, supplement eq. 16, and what section 1.1 of the decisions settles."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from coder_core.objectives import diversity
from coder_core.objectives.pairs import same_image_negatives
from tests.reference import diversity as reference
from tests.reference.pairs import kept, negatives
from tests.reference.problems import random_problem

EVERY = torch.ones(1, 2, dtype=torch.bool)


def everything(scores: Tensor) -> Tensor:
    return torch.ones_like(scores, dtype=torch.bool)


def test_by_hand() -> None:
    """Negatives 0.1 and 0.3: mean 0.2, deviation 0.1 = ε, so raw = 1 + 1/e. Equal negatives: raw = 1."""
    scores = torch.tensor([[0.1, 0.3], [0.5, 0.5]], dtype=torch.float64)
    raw = diversity.diversity_std(scores, everything(scores), epsilon=0.1, normalise=False)
    top = 1 + math.exp(-1)
    assert raw.tolist() == pytest.approx([top, 1.0])
    assert diversity.diversity_std(scores, everything(scores)).tolist() == pytest.approx([1.0, 1 / top])


def test_entropy_by_hand() -> None:
    """Four equal negatives have 2 bits: raw = 1 + exp(−0.1 / 2)."""
    scores = torch.full((1, 4), 0.25, dtype=torch.float64)
    assert diversity.entropy(scores, everything(scores)).item() == pytest.approx(2.0)
    raw = diversity.diversity_entropy(scores, everything(scores), normalise=False)
    assert raw.item() == pytest.approx(1 + math.exp(-0.05))


@given(seed=st.integers(0, 10_000), epsilon=st.floats(0.01, 1), temperature=st.floats(0.05, 2))
def test_agrees_with_the_loops(seed: int, epsilon: float, temperature: float) -> None:
    problem = random_problem(seed)
    mask = same_image_negatives(problem.ids, problem.slot_ids)
    loops = negatives(problem.ids.tolist(), problem.slot_ids.tolist())
    rows = [kept(*row) for row in zip(problem.bank_scores.tolist(), loops, strict=True)]
    of_std = [reference.raw(reference.deviation(row), epsilon) for row in rows]
    of_entropy = [reference.raw(reference.entropy(row, temperature), epsilon) for row in rows]
    scores = problem.bank_scores.detach()
    for normalise, expected in ((False, of_std), (True, reference.normalised(of_std))):
        fast = diversity.diversity_std(scores, mask, epsilon=epsilon, normalise=normalise)
        assert fast.tolist() == pytest.approx(expected, rel=1e-10)
    for normalise, expected in ((False, of_entropy), (True, reference.normalised(of_entropy))):
        fast = diversity.diversity_entropy(scores, mask, epsilon=epsilon, temperature=temperature, normalise=normalise)
        assert fast.tolist() == pytest.approx(expected, rel=1e-10)


def test_only_negatives_enter() -> None:
    """Whatever stands at the positive, in an own-image slot or in an empty slot, NaN included, changes nothing."""
    ids, slots = torch.tensor([5, 6]), torch.tensor([5, -1, 7, 8, 6])
    mask = same_image_negatives(ids, slots)
    scores = torch.rand(2, 5, generator=torch.Generator().manual_seed(0))
    spoiled = torch.where(mask, scores, float("nan"))
    assert torch.equal(diversity.diversity_std(scores, mask), diversity.diversity_std(spoiled, mask))
    assert torch.equal(diversity.diversity_entropy(scores, mask), diversity.diversity_entropy(spoiled, mask))


def test_the_variance_is_that_of_the_population() -> None:
    """Of 0 and 0.2: population deviation 0.1; the sample's would be 0.141."""
    raw = diversity.raw_diversity_std(torch.tensor([[0.0, 0.2]]), EVERY, epsilon=0.1)
    assert raw.item() == pytest.approx(1 + math.exp(-1), rel=1e-6)


def test_a_negative_mean_is_no_trouble() -> None:
    """The supplement's E[S] − E[S]² is −0.39 here, without a root; a shift must not change the spread."""
    scores = torch.tensor([[-0.4, -0.2]], dtype=torch.float64)
    assert diversity.raw_diversity_std(scores, EVERY).item() == pytest.approx(1 + math.exp(-1))


@given(seed=st.integers(0, 10_000))
def test_the_range_is_half_to_one_and_the_largest_is_exactly_one(seed: int) -> None:
    scores = random_problem(seed).scores.detach()
    mask = ~torch.eye(len(scores), dtype=torch.bool)
    for function in (diversity.diversity_std, diversity.diversity_entropy):
        values = function(scores, mask)
        assert values.max().item() == 1.0
        assert values.min().item() > 0.5
        raw = function(scores, mask, normalise=False)
        assert raw.min().item() >= 1.0
        assert raw.max().item() < 2.0


def test_low_spread_is_low_diversity() -> None:
    """The formula's direction, against one section of the supplement: look-alike negatives come out lowest."""
    scores = torch.tensor([[0.30, 0.31, 0.29], [0.1, 0.3, 0.5], [-0.9, 0.9, 0.0]])
    values = diversity.diversity_std(scores, everything(scores)).tolist()
    assert values[0] < values[1] < values[2]


def test_entropy_ranks_opposite_to_the_deviation() -> None:
    """Around one mean, the more the scores spread the smaller their entropy."""
    spreads = torch.linspace(0.05, 0.9, 6, dtype=torch.float64)
    scores = torch.stack([-spreads, torch.zeros_like(spreads), spreads], dim=1)
    by_deviation = diversity.diversity_std(scores, everything(scores)).argsort()
    by_entropy = diversity.diversity_entropy(scores, everything(scores)).argsort()
    assert by_deviation.tolist() == by_entropy.flip(0).tolist()


def test_entropy_at_the_printed_temperature_hardly_varies() -> None:
    """Cosines of 127 negatives, spread as after training: differences appear in the fourth digit only."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.linspace(0.05, 0.2, 64)[:, None]
    scores = (torch.randn(64, 127, generator=generator) * spread + 0.2).clamp(-1, 1)
    literal = diversity.diversity_entropy(scores, everything(scores), temperature=1.0)
    sharp = diversity.diversity_entropy(scores, everything(scores), temperature=0.05)
    assert 1 - literal.min().item() < 1e-3
    assert 1 - sharp.min().item() > 5 * (1 - literal.min().item())


def test_batch_and_bank_are_averaged_raw_and_normalised_once() -> None:
    """Raw (1, 2) and (1.5, 1): averages (1.25, 1.5), so (0.83, 1). Normalising first would give (0.75, 0.83)."""
    batch, bank = torch.tensor([1.0, 2.0]), torch.tensor([1.5, 1.0])
    blend = diversity.blend_raw(batch, bank)
    assert blend.tolist() == [1.25, 1.5]
    assert diversity.normalise_by_largest(blend).tolist() == pytest.approx([1.25 / 1.5, 1.0])
    assert diversity.blend_raw(batch, bank, bank_share=0.0).tolist() == batch.tolist()


def test_an_anchor_without_bank_negatives_keeps_its_batch_value() -> None:
    blend = diversity.blend_raw(
        torch.tensor([1.2, 1.4]), torch.tensor([1.0, 1.8]), has_bank=torch.tensor([False, True])
    )
    assert blend.tolist() == pytest.approx([1.2, 1.6])


def test_the_largest_may_come_from_other_processes() -> None:
    raw = torch.tensor([1.1, 1.3, 1.7, 1.2])
    whole = diversity.normalise_by_largest(raw)
    halves = [diversity.normalise_by_largest(half, raw.amax()) for half in raw.split(2)]
    assert torch.equal(torch.cat(halves), whole)


def test_an_anchor_without_negatives_has_the_lowest_raw_value_and_a_zero_gradient() -> None:
    scores = torch.rand(2, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    mask = torch.tensor([[False, False, False], [True, True, True]])
    for function in (diversity.raw_diversity_std, diversity.raw_diversity_entropy):
        raw = function(scores, mask)
        (gradient,) = torch.autograd.grad(raw.sum(), scores)
        assert raw[0].item() == 1.0
        assert gradient.isfinite().all()
        assert gradient[0].tolist() == [0.0, 0.0, 0.0]


def test_equal_negatives_give_a_finite_zero_gradient() -> None:
    scores = torch.full((1, 3), 0.2, requires_grad=True)
    (gradient,) = torch.autograd.grad(diversity.raw_diversity_std(scores, everything(scores)).sum(), scores)
    assert gradient.tolist() == [[0.0, 0.0, 0.0]]


def test_gradients() -> None:
    problem = random_problem(7)
    mask = same_image_negatives(problem.ids, problem.slot_ids)
    for normalise in (False, True):
        assert gradcheck(lambda s, n=normalise: diversity.diversity_std(s, mask, normalise=n), problem.bank_scores)
        assert gradcheck(
            lambda s, n=normalise: diversity.diversity_entropy(s, mask, temperature=0.3, normalise=n),
            problem.bank_scores,
        )


def test_half_precision_is_raised() -> None:
    scores = torch.tensor([[0.25, 0.5]], dtype=torch.float16)
    assert diversity.diversity_std(scores, EVERY).dtype == torch.float32
    assert diversity.diversity_entropy(scores, EVERY).dtype == torch.float32


def test_impossible_parameters_are_refused() -> None:
    scores = torch.zeros(1, 2)
    with pytest.raises(ValueError, match="epsilon must be > 0, got 0"):
        diversity.diversity_std(scores, EVERY, epsilon=0)
    with pytest.raises(ValueError, match="temperature must be > 0, got -1"):
        diversity.diversity_entropy(scores, EVERY, temperature=-1)
    with pytest.raises(ValueError, match=r"bank_share must be in \[0, 1\], got 1.5"):
        diversity.blend_raw(scores[0], scores[0], bank_share=1.5)
