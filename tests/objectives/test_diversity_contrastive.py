"""DCL_I, DCL and M-DCL: CODER eq. 4 to 6, and what sections 1.2 and 1.3 of the decisions settle."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from coder_core.objectives.diversity import anchor_diversity
from coder_core.objectives.diversity_contrastive import diversity_contrastive
from coder_core.objectives.pairs import (
    AllExcept,
    all_except_same_image,
    both_directions,
    same_image_negatives,
)
from coder_core.ops import normalise
from coder_core.training.memory.momentum import CoupledBank
from tests.reference import step as reference
from tests.reference.arithmetic import dot
from tests.reference.losses import diversity_contrastive as loss_of_one
from tests.reference.pairs import kept, negatives, transposed
from tests.reference.problems import Problem, random_problem
from tests.reference.ring import Ring

ONE_NEGATIVE = torch.tensor([[False, True]])
SWITCHES = [
    {"positive_scale": scale, "positive_clamp": clamp}
    for scale in ("one", "temperature")
    for clamp in ("clamp", "relu")
]


as_mask_and_list = pytest.mark.parametrize("negatives_of", [same_image_negatives, all_except_same_image])


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


def batch_and_bank(
    problem: Problem, negatives_of: Callable[..., Any], *, keep_same_image: bool = False, **switches: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """DCL and M-DCL of one direction as training computes them, and the diversity of its anchors."""
    ids, slots = problem.ids, problem.slot_ids
    diversity = anchor_diversity(
        (problem.scores, negatives_of(ids, ids)), (problem.bank_scores, negatives_of(ids, slots)), **switches
    )
    in_batch, in_bank = (
        negatives_of(ids, others, keep_same_image, positive_offset=offset)
        for others, offset in ((ids, 0), (slots, None))
    )
    return (
        diversity_contrastive(problem.scores, problem.scores.diagonal(), in_batch, diversity=diversity),
        diversity_contrastive(problem.bank_scores, problem.bank_positives, in_bank, diversity=diversity),
        diversity,
    )


@pytest.mark.parametrize("switches", SWITCHES)
@given(seed=st.integers(0, 10_000), temperature=st.floats(0.05, 1), margin=st.floats(-0.5, 0.8))
def test_both_directions_agree_with_the_loops(
    switches: dict[str, Any], seed: int, temperature: float, margin: float
) -> None:
    problem = random_problem(seed)
    ids, matrix = problem.ids.tolist(), problem.scores.tolist()
    masks, generator = negatives(ids, ids), torch.Generator().manual_seed(seed)
    diversity = 0.5 + 0.5 * torch.rand(len(ids), generator=generator, dtype=torch.float64)
    values = {"temperature": temperature, "margin": margin, **switches}
    directions = both_directions(problem.scores, problem.ids)
    for direction, rows in zip(directions, (matrix, transposed(matrix)), strict=True):
        expected = [
            loss_of_one(kept(row, masks[i]), row[i], diversity=float(diversity[i]), **values)
            for i, row in enumerate(rows)
        ]
        fast = diversity_contrastive(*direction, diversity=diversity, **values)
        assert fast.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)


@as_mask_and_list
@pytest.mark.parametrize("keep_same_image", [False, True])
@pytest.mark.parametrize("measure", ["std", "entropy"])
@given(seed=st.integers(0, 10_000), bank_share=st.sampled_from([0.0, 0.3, 0.5]))
@settings(max_examples=15)
def test_batch_and_bank_agree_with_the_loops(
    negatives_of: Callable[..., Any], keep_same_image: bool, measure: str, seed: int, bank_share: float
) -> None:
    """The bank's columns hold no positive; its score comes from outside and only enters the pull."""
    problem = random_problem(seed)
    ids, scores = problem.ids.tolist(), problem.scores.tolist()
    in_batch = reference.Side(scores, problem.scores.diagonal().tolist(), ids, positive_offset=0)
    in_bank = reference.Side(
        problem.bank_scores.tolist(), problem.bank_positives.tolist(), problem.slot_ids.tolist()
    )
    weights = reference.anchor_diversity(in_batch, in_bank, ids, kind=measure, bank_share=bank_share)
    expected = [
        reference.losses(side, ids, weights, keep_same_image=keep_same_image) for side in (in_batch, in_bank)
    ] + [weights]
    actual = batch_and_bank(
        problem, negatives_of, keep_same_image=keep_same_image, measure=measure, bank_share=bank_share
    )
    for fast, slow in zip(actual, expected, strict=True):
        assert fast.tolist() == pytest.approx(slow, rel=1e-10, abs=1e-10)


@as_mask_and_list
@pytest.mark.parametrize("measure", ["std", "entropy"])
def test_gradients_through_batch_bank_and_diversity(negatives_of: Callable[..., Any], measure: str) -> None:
    problem = random_problem(9)

    def losses(scores: Tensor, bank_scores: Tensor, bank_positives: Tensor) -> tuple[Tensor, ...]:
        moved = Problem(scores, problem.ids, bank_scores, bank_positives, problem.slot_ids)
        return batch_and_bank(moved, negatives_of, measure=measure, entropy_temperature=0.3, gradient=True)

    assert gradcheck(losses, problem.leaves)


@pytest.mark.parametrize("modality", [0, 1])
def test_every_step_meets_the_whole_queue_before_its_own_keys(modality: int) -> None:
    """Anchors of one modality, the other's bank; batches of 3 wrap around 7 slots. Image ids repeat after 8."""
    generator = torch.Generator().manual_seed(modality)
    bank, ring = CoupledBank(7, 4).double(), Ring(7)

    def unit_rows() -> Tensor:
        return normalise(torch.randn(3, 4, generator=generator, dtype=torch.float64))

    for step in range(6):
        anchors, keys = unit_rows(), (unit_rows(), unit_rows())
        ids = torch.arange(step * 3, (step + 1) * 3) % 8
        partners, slots = keys[1 - modality], (bank.images, bank.texts)[1 - modality]
        problem = Problem(
            anchors @ partners.T, ids, anchors @ slots.T, (anchors * partners).sum(1), bank.image_ids
        )
        _, in_bank, diversity = batch_and_bank(problem, all_except_same_image)

        in_ring = reference.Side(
            [[dot(row, entry[1 - modality]) for entry in ring.entries] for row in anchors.tolist()],
            problem.bank_positives.tolist(),
            [entry[2] for entry in ring.entries],
        )
        in_batch = reference.Side(problem.scores.tolist(), in_ring.positives, ids.tolist())
        weights = reference.anchor_diversity(in_batch, in_ring, ids.tolist(), kind="std")
        assert diversity.tolist() == pytest.approx(weights, rel=1e-10)
        expected = reference.losses(in_ring, ids.tolist(), weights, keep_same_image=False)
        assert in_bank.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)

        bank.enqueue(*keys, ids)
        ring.enqueue(zip(keys[0].tolist(), keys[1].tolist(), ids.tolist(), strict=True))
    assert bank.count == len(ring.entries) == 7


def test_diversity_carries_no_gradient_by_default() -> None:
    problem = random_problem(2)
    assert not batch_and_bank(problem, same_image_negatives)[2].requires_grad
    assert batch_and_bank(problem, same_image_negatives, gradient=True)[2].requires_grad


def test_an_empty_bank_leaves_the_batch_diversity_and_the_pull() -> None:
    problem = random_problem(3)
    problem.slot_ids = torch.full_like(problem.slot_ids, -1)
    _, in_bank, diversity = batch_and_bank(problem, all_except_same_image)
    assert torch.equal(
        diversity, anchor_diversity((problem.scores, all_except_same_image(problem.ids, problem.ids)))
    )
    torch.testing.assert_close(in_bank, -torch.log1p(problem.bank_positives))


def test_splitting_the_anchors_over_processes_changes_nothing() -> None:
    """Two halves of the rows, each normalised by the maximum of both."""
    problem = random_problem(8, queries=6)

    def sides(rows: slice) -> list[tuple[Tensor, AllExcept]]:
        ids = problem.ids[rows]
        return [
            (problem.scores[rows], all_except_same_image(ids, problem.ids)),
            (problem.bank_scores[rows], all_except_same_image(ids, problem.slot_ids)),
        ]

    raws: list[Tensor] = []
    halves = [sides(slice(0, 3)), sides(slice(3, 6))]
    for half in halves:
        anchor_diversity(*half, largest=lambda raw: raws.append(raw) or raw.amax())  # type: ignore[func-returns-value]
    top = torch.cat(raws).amax()
    actual = torch.cat([anchor_diversity(*half, largest=lambda _: top) for half in halves])
    torch.testing.assert_close(actual, anchor_diversity(*sides(slice(None))), rtol=1e-10, atol=1e-10)


def test_backward_twice_gives_the_same_gradient_and_the_scores_are_left_as_they_were() -> None:
    """The backward pass must not spoil what it kept."""
    problem = random_problem(6)
    before = problem.scores.detach().clone()
    loss = batch_and_bank(problem, all_except_same_image)[0].sum()
    first = torch.autograd.grad(loss, problem.scores, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(loss, problem.scores)[0])
    assert torch.equal(problem.scores, before)


def test_no_diversity_is_a_diversity_of_one() -> None:
    direction = both_directions(random_problem(1).scores, random_problem(1).ids)[0]
    ones = torch.ones(len(direction.scores), dtype=torch.float64)
    assert torch.equal(diversity_contrastive(*direction), diversity_contrastive(*direction, diversity=ones))


def test_the_positive_is_absent_from_the_sum_exactly() -> None:
    """HAL and USER leave exp(−γ/μ) = 0.05 in place of the positive; here an anchor without negatives sums to 0."""
    scores = torch.tensor([[0.5]], dtype=torch.float64)
    loss = diversity_contrastive(
        scores, torch.zeros(1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.bool)
    )
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


def test_low_diversity_sharpens_around_the_margin() -> None:
    assert weight_of(0.4, diversity=0.5) > weight_of(0.4, diversity=1.0)
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


@as_mask_and_list
@pytest.mark.parametrize("switches", SWITCHES)
def test_gradients(negatives_of: Callable[..., Any], switches: dict[str, Any]) -> None:
    problem = random_problem(11)
    exclusions = negatives_of(problem.ids, problem.slot_ids)
    diversity = torch.linspace(0.55, 1, len(problem.ids), dtype=torch.float64, requires_grad=True)
    assert gradcheck(
        lambda s, p, d: diversity_contrastive(s, p, exclusions, diversity=d, temperature=0.2, **switches),
        (problem.bank_scores, problem.bank_positives, diversity),
    )


def test_a_detached_diversity_is_a_constant() -> None:
    """The caller decides: detached, scores receive only the loss's own gradient."""
    problem = random_problem(4)
    direction = both_directions(problem.scores, problem.ids)[0]
    spread = problem.scores.std(dim=1) + 0.5
    gradients = []
    for diversity in (spread.detach(), spread):
        loss = diversity_contrastive(*direction, diversity=diversity).sum()
        gradients += torch.autograd.grad(loss, problem.scores, retain_graph=True)
    assert not torch.allclose(*gradients)


def test_impossible_parameters_are_refused() -> None:
    for name, value in (("temperature", 0), ("positive_scale", "two"), ("positive_clamp", "none")):
        with pytest.raises(ValueError, match=f"{name} must be .*{value}"):
            loss_of(0.3, **{name: value})
