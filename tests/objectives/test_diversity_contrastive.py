"""DCL_I, DCL and M-DCL: CODER eq. 4 to 6, and the decisions in docs/equations.md, sections 1.2 and 1.3."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from coder_core.objectives.diversity_contrastive import CoderLoss, anchor_diversity, diversity_contrastive
from coder_core.objectives.pairs import both_directions, same_image_negatives
from tests.reference import step as reference
from tests.reference.problems import Problem, random_problem

NOTHING = torch.zeros(1, 1, dtype=torch.bool)
PUSH = 0.1 * math.log(2)  # of a negative at the margin, which adds exp(0) = 1
WITH_TEMPERATURE = {"positive_scale": "temperature"}
RELU = {"positive_clamp": "relu"}


@pytest.mark.parametrize(
    ("positive", "negative", "switches", "value", "slope"),
    [
        (0.5, 0.3, {}, PUSH - math.log(1.5), -1 / 1.5),
        # as printed μ multiplies the positive term too: a pull ten times weaker
        (0.5, 0.3, WITH_TEMPERATURE, PUSH - 0.1 * math.log(1.5), -0.1 / 1.5),
        # a negative cosine: log 0.5 with slope 1/0.5; HAL's form has neither value nor gradient
        (-0.5, None, {}, -math.log(0.5), -2.0),
        (-0.5, None, RELU, 0.0, 0.0),
        # log(1 + S⁺) is cut at −1 + 1e−4
        (-1.0, None, {}, -math.log(1e-4), 0.0),
        (-1.5, None, {}, -math.log(1e-4), 0.0),
        # x reaches 14 with cosines, where exp overflows float16; far beyond, exp overflows float64
        *(
            (0.0, 0.3 + x / 10, {}, 0.1 * math.log1p(math.exp(-x)) + x / 10, -1.0)
            for x in (14.0, 1e2, 1e4, 1e8)
        ),
    ],
)
def test_by_hand(positive, negative, switches, value, slope):
    """The loss of one anchor, and its derivative by the positive's score."""
    positives = torch.tensor([positive], dtype=torch.float64, requires_grad=True)
    scores = torch.tensor([[0.0 if negative is None else negative]], dtype=torch.float64)
    loss = diversity_contrastive(scores, positives, NOTHING if negative is None else ~NOTHING, **switches)
    (gradient,) = torch.autograd.grad(loss.sum(), positives)
    assert loss.item() == pytest.approx(value)
    assert gradient.item() == pytest.approx(slope)


def batch_and_bank(problem, negatives_of=same_image_negatives, *, keep_same_image=False, **switches):
    """Return DCL and M-DCL of one direction as training computes them, and the diversity of its anchors."""
    sides = [(problem.scores, problem.scores.diagonal(), problem.ids, 0)]
    sides += [(problem.bank_scores, problem.bank_positives, problem.slot_ids, None)]
    measured = [(scores, negatives_of(problem.ids, candidates)) for scores, _, candidates, _ in sides]
    diversity = anchor_diversity(*measured, **switches)
    losses = []
    for scores, positives, candidates, offset in sides:
        exclusions = negatives_of(problem.ids, candidates, keep_same_image, positive_offset=offset)
        losses.append(diversity_contrastive(scores, positives, exclusions, diversity=diversity))
    return *losses, diversity


@pytest.mark.parametrize("keep_same_image", [False, True])
@pytest.mark.parametrize("measure", ["std", "entropy"])
@given(seed=st.integers(0, 10_000), bank_share=st.sampled_from([0.0, 0.3, 0.5]))
@settings(max_examples=15)
def test_batch_and_bank_match_reference_loops(keep_same_image, measure, seed, bank_share):
    """The bank's columns hold no positive; the positive's score is given separately and only enters the pull."""
    problem = random_problem(seed)
    switches = {"measure": measure, "bank_share": bank_share}
    ids = problem.ids.tolist()
    positives = problem.scores.diagonal().tolist()
    in_batch = reference.Side(problem.scores.tolist(), positives, ids, positive_offset=0)
    bank = problem.bank_scores, problem.bank_positives, problem.slot_ids
    in_bank = reference.Side(*(part.tolist() for part in bank))
    weights = reference.anchor_diversity(in_batch, in_bank, ids, kind=measure, bank_share=bank_share)
    loop = partial(reference.losses, query_ids=ids, diversity=weights, keep_same_image=keep_same_image)
    actual = batch_and_bank(problem, keep_same_image=keep_same_image, **switches)
    for fast, slow in zip(actual, (loop(in_batch), loop(in_bank), weights), strict=True):
        assert fast.tolist() == pytest.approx(slow, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("measure", ["std", "entropy"])
def test_gradients_through_batch_bank_and_diversity(measure):
    problem = random_problem(9)

    def losses(scores, bank_scores, bank_positives):
        moved = Problem(scores, problem.ids, bank_scores, bank_positives, problem.slot_ids)
        return batch_and_bank(moved, measure=measure, entropy_temperature=0.3, gradient=True)

    assert gradcheck(losses, problem.leaves)


def test_banks_without_negatives_unit_diversity_and_non_negatives_change_nothing():
    problem = random_problem(3)

    def none_in_bank(ids, candidates, *others, **switches):
        mask = same_image_negatives(ids, candidates, *others, **switches)
        return mask if candidates is problem.ids else torch.zeros_like(mask)

    _, in_bank, diversity = batch_and_bank(problem, none_in_bank)
    of_batch = problem.scores, same_image_negatives(problem.ids, problem.ids)
    assert torch.equal(diversity, anchor_diversity(of_batch))
    torch.testing.assert_close(in_bank, -torch.log1p(problem.bank_positives))
    direction = both_directions(random_problem(1).scores, random_problem(1).ids)[0]
    ones = torch.ones(len(direction.scores), dtype=torch.float64)
    assert torch.equal(diversity_contrastive(*direction), diversity_contrastive(*direction, diversity=ones))
    # HAL and USER leave exp(−γ/μ) = 0.05 in place of the positive; here an anchor without negatives sums to 0
    scores = torch.tensor([[0.5]], dtype=torch.float64)
    assert diversity_contrastive(scores, torch.zeros(1, dtype=torch.float64), NOTHING).item() == 0.0
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


def test_splitting_the_anchors_or_repeating_backward_changes_nothing():
    """Two halves of the rows, each normalised by the maximum of both."""
    problem = random_problem(8, queries=6)

    def sides(rows):
        ids = problem.ids[rows]
        return [
            (problem.scores[rows], same_image_negatives(ids, problem.ids)),
            (problem.bank_scores[rows], same_image_negatives(ids, problem.slot_ids)),
        ]

    raws = []
    halves = [sides(slice(0, 3)), sides(slice(3, 6))]
    for half in halves:
        anchor_diversity(*half, largest=lambda raw: raws.append(raw) or raw.amax())
    top = torch.cat(raws).amax()
    actual = torch.cat([anchor_diversity(*half, largest=lambda _: top) for half in halves])
    torch.testing.assert_close(actual, anchor_diversity(*sides(slice(None))), rtol=1e-10, atol=1e-10)
    # The backward pass must not change the tensors that it saved
    problem = random_problem(6)
    before = problem.scores.detach().clone()
    loss = batch_and_bank(problem)[0].sum()
    first = torch.autograd.grad(loss, problem.scores, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(loss, problem.scores)[0])
    assert torch.equal(problem.scores, before)


@pytest.mark.parametrize(("negative", "gains"), [(0.4, True), (0.1, False)])
def test_low_diversity_sharpens_around_the_margin(negative, gains):
    """A negative's gradient is its weight: above γ = 0.3 it grows as the diversity falls."""
    scores = torch.full((2, 1), negative, requires_grad=True)
    diversity = torch.tensor([0.5, 1])
    positives = torch.full((2,), 0.5)
    mask = torch.ones(2, 1) > 0
    loss = diversity_contrastive(scores, positives, mask, diversity=diversity)
    low, high = torch.autograd.grad(loss.sum(), scores)[0].flatten().tolist()
    assert (low > high) == gains


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32_even_under_autocast(dtype):
    """Sixteen negatives at 1 with μ·div = 0.05 put exp(14)·16 in the sum: far over float16's 65504."""
    scores = torch.ones(1, 17).to(dtype)
    mask = torch.tensor([[False] + [True] * 16])
    diversity = torch.tensor([0.5], dtype=dtype)
    with torch.autocast("cpu", dtype=dtype):
        loss = diversity_contrastive(scores, scores[:, 0], mask, diversity=diversity)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(0.1 * (14 + math.log(16)) - math.log(2), rel=1e-5)


def test_diversity_is_detached_by_default():
    """If it is detached, scores receive only the loss's own gradient. The default settings are the paper's."""
    usual = CoderLoss()
    assert (usual.temperature, usual.margin, usual.epsilon, usual.entropy_temperature) == (0.1, 0.3, 0.1, 1.0)
    problem = random_problem(4)
    direction = both_directions(problem.scores, problem.ids)[0]
    gradients = []
    for gradient in (False, True):
        diversity = batch_and_bank(problem, gradient=gradient)[2]
        assert diversity.requires_grad == gradient
        loss = diversity_contrastive(*direction, diversity=diversity).sum()
        gradients += torch.autograd.grad(loss, problem.scores)
    assert not torch.allclose(*gradients)
