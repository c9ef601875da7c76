"""Diversity: CODER eq. 3, supplement eq. 16, and the decisions in docs/equations.md, section 1.1."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from coder_core.objectives import diversity, diversity_contrastive
from coder_core.objectives.pairs import same_image_negatives
from tests.reference import diversity as reference
from tests.reference.pairs import kept, negatives
from tests.reference.problems import random_problem

EVERY = torch.ones(1, 2, dtype=torch.bool)
BOTH = (diversity.diversity_std, diversity.diversity_entropy)


def everything(scores):
    return torch.ones_like(scores, dtype=torch.bool)


@pytest.mark.parametrize("row", [[0.1, 0.3], [0.0, 0.2], [-0.4, -0.2]])
def test_by_hand(row):
    """A deviation of 0.1 = ε gives raw = 1 + 1/e, equal negatives 1.

    The sample's deviation would be 0.141; the supplement's E[S] − E[S]² is −0.39 for the last row, without a root.
    """
    scores = torch.tensor([row, [0.5, 0.5]], dtype=torch.float64)
    top = 1 + math.exp(-1)
    raw = diversity.diversity_std(scores, everything(scores), epsilon=0.1, normalise=False)
    assert raw.tolist() == pytest.approx([top, 1.0])
    assert diversity.diversity_std(scores, everything(scores)).tolist() == pytest.approx([1.0, 1 / top])


def test_entropy_by_hand_and_at_the_printed_temperature():
    """Four equal negatives have 2 bits: raw = 1 + exp(−0.1 / 2)."""
    scores = torch.full((1, 4), 0.25, dtype=torch.float64)
    assert diversity.negative_spread(scores, everything(scores), "entropy").item() == pytest.approx(2.0)
    raw = diversity.diversity_entropy(scores, everything(scores), normalise=False)
    assert raw.item() == pytest.approx(1 + math.exp(-0.05))
    # Cosines of 127 negatives, spread as after training: differences appear in the fourth digit only
    noise = torch.randn(64, 127, generator=torch.Generator().manual_seed(0))
    scores = (noise * torch.linspace(0.05, 0.2, 64)[:, None] + 0.2).clamp(-1, 1)
    kinds = (diversity.diversity_entropy(scores, everything(scores), temperature=t) for t in (1.0, 0.05))
    literal, sharp = (1 - values.min().item() for values in kinds)
    assert literal < 1e-3
    assert sharp > 5 * literal


@given(seed=st.integers(0, 10_000), epsilon=st.floats(0.01, 1), temperature=st.floats(0.05, 2))
def test_diversity_matches_reference_loops(seed, epsilon, temperature):
    problem = random_problem(seed)
    mask = same_image_negatives(problem.ids, problem.slot_ids)
    loops = negatives(problem.ids.tolist(), problem.slot_ids.tolist())
    rows = [kept(*row) for row in zip(problem.bank_scores.tolist(), loops, strict=True)]
    entropy = partial(diversity.diversity_entropy, temperature=temperature)
    spreads = {diversity.diversity_std: list(map(reference.deviation, rows))}
    spreads[entropy] = [reference.entropy(row, temperature) for row in rows]
    for function, values in spreads.items():
        raw = [reference.raw(spread, epsilon) for spread in values]
        for normalise, expected in ((False, raw), (True, reference.normalised(raw))):
            fast = function(problem.bank_scores, mask, epsilon=epsilon, normalise=normalise)
            assert fast.tolist() == pytest.approx(expected, rel=1e-10)


def test_only_negatives_count_and_batch_and_bank_are_averaged_raw():
    """Values at the positive and in slots of the anchor's image, even NaN, change nothing."""
    mask = same_image_negatives(torch.tensor([5, 6]), torch.tensor([5, 5, 7, 8, 6]))
    scores = torch.rand(2, 5, generator=torch.Generator().manual_seed(0))
    spoiled = torch.where(mask, scores, float("nan"))
    for function in BOTH:
        assert torch.equal(function(scores, mask), function(spoiled, mask))
        assert function(scores.half(), mask).dtype == torch.float32
    # The raw values are averaged, then normalised: with raw (1, 2) and (1.5, 1), (1.25, 1.5) becomes (0.83, 1)
    batch = torch.tensor([[0.5, 0.5], [0.1, 0.9]])
    bank = torch.tensor([[0.2, 0.6], [0.4, 0.4]])
    raw, bank_raw = (
        diversity.diversity_std(rows, everything(rows), normalise=False) for rows in (batch, bank)
    )

    def blend(negatives=None, **share):
        negatives = everything(bank) if negatives is None else negatives
        return diversity.anchor_diversity((batch, everything(batch)), (bank, negatives), **share)

    for share in (0.0, 0.3, 0.5, 1.0):
        averages = (1 - share) * raw + share * bank_raw
        torch.testing.assert_close(blend(bank_share=share), averages / averages.max())
    assert torch.equal(blend(), blend(bank_share=0.5))
    # an anchor without bank negatives keeps its batch value
    averages = torch.stack([raw[0], (raw[1] + bank_raw[1]) / 2])
    torch.testing.assert_close(blend(torch.tensor([[False] * 2, [True] * 2])), averages / averages.max())


@given(seed=st.integers(0, 10_000))
def test_diversity_exceeds_one_half_and_its_maximum_is_exactly_one(seed):
    scores = random_problem(seed).scores.detach()
    mask = ~torch.eye(len(scores), dtype=torch.bool)
    for function in BOTH:
        values = function(scores, mask)
        raw = function(scores, mask, normalise=False)
        assert 0.5 < values.min() < values.max() + 1e-9
        assert values.max() == 1
        assert 1 <= raw.min() <= raw.max() < 2


def test_low_spread_means_low_diversity_and_entropy_ranks_inversely():
    """The formula's direction, against one section of the supplement: similar negatives give the lowest value.

    Around one mean, the more the scores spread the smaller their entropy.
    """
    spreads = torch.linspace(0.05, 0.9, 6, dtype=torch.float64)
    scores = torch.stack([-spreads, torch.zeros_like(spreads), spreads], dim=1)
    rising = list(range(6))
    assert diversity.diversity_std(scores, everything(scores)).argsort().tolist() == rising
    assert diversity.diversity_entropy(scores, everything(scores)).argsort().tolist() == rising[::-1]


def test_zero_spread_has_zero_gradient_and_large_scores_do_not_cancel():
    """The third anchor's negatives are equal; an anchor without negatives has the lowest raw value."""
    scores = torch.rand(3, 3, generator=torch.Generator().manual_seed(0))
    scores[2] = 0.2
    scores.requires_grad_()
    mask = torch.tensor([[False] * 3, [True] * 3, [True] * 3])
    for function in BOTH:
        raw = function(scores, mask, normalise=False)
        (gradient,) = torch.autograd.grad(raw.sum(), scores)
        assert raw[0].item() == 1.0
        assert gradient[0].tolist() == [0.0, 0.0, 0.0]
        assert gradient[1].isfinite().all()
        assert gradient[2].tolist() == pytest.approx([0.0] * 3, abs=1e-7)
    # E[S²] − E[S]² in float32 gives 0 or worse at 4096 ± 0.01; around the mean it is right
    scores = torch.tensor([[4095.99, 4096.01]])
    exact = float(scores[0, 1].double() - scores[0, 0].double()) / 2
    assert diversity.negative_spread(scores, EVERY).item() == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize(("function", "switches"), zip(BOTH, ({}, {"temperature": 0.3}), strict=True))
def test_gradients(normalise, function, switches):
    problem = random_problem(7)
    mask = same_image_negatives(problem.ids, problem.slot_ids)
    values = partial(function, negatives=mask, normalise=normalise, **switches)
    assert gradcheck(values, problem.bank_scores)


def test_invalid_diversity_parameters_are_refused():
    scores = torch.zeros(1, 2)
    for name, value, call in (
        ("epsilon", 0, partial(diversity.diversity_std, scores, EVERY)),
        ("temperature", -1, partial(diversity.diversity_entropy, scores, EVERY)),
        ("bank_share", 1.5, partial(diversity.anchor_diversity, (scores, EVERY))),
        ("measure", "variance", partial(diversity.anchor_diversity, (scores, EVERY))),
    ):
        with pytest.raises(ValueError, match=f"{name} must be"):
            call(**{name: value})
    with pytest.raises(ValueError, match=r"\(1, 2\): give"):
        diversity.negative_spread(torch.zeros(2, 2), EVERY)


def test_the_deviation_on_a_gpu_is_that_of_the_cpu():
    """A GPU gets no list of what is excluded, so the deviation is computed in another way."""
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(6, 9, generator=random, dtype=torch.float64)
    mask = torch.rand(6, 9, generator=random) < 0.6
    mask[2] = False
    mask[3] = torch.arange(9) == 4
    expected = diversity.negative_spread(scores, mask)
    actual = diversity_contrastive._masked_deviation(torch.where(mask, scores, 0.0), mask)
    torch.testing.assert_close(actual, expected)
    assert actual[2:4].tolist() == [0, 0]
