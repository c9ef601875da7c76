"""The trainer's form of DCL and M-DCL is the plain one, in values and gradients."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from coder_core.objectives import diversity, fused
from coder_core.objectives.diversity_contrastive import diversity_contrastive
from coder_core.objectives.pairs import same_image_negatives
from coder_core.ops import masked_std
from tests.reference import step as reference
from tests.reference.problems import Problem, random_problem

KINDS: list[Any] = ["none", "std", "entropy"]
SEEDS = st.integers(0, 10_000)


def candidates(problem: Problem, keep_same_image: bool = False) -> tuple[fused.Candidates, fused.Candidates]:
    return (
        fused.batch_candidates(problem.scores, problem.ids, problem.ids, keep_same_image=keep_same_image),
        fused.bank_candidates(
            problem.bank_scores, problem.bank_positives, problem.ids, problem.slot_ids, keep_same_image=keep_same_image
        ),
    )


def plain_terms(problem: Problem, kind: str, keep_same_image: bool, diversity_gradient: bool) -> tuple[Tensor, Tensor]:
    """The same losses from the plain functions."""
    weight = None
    if kind != "none":
        measure = diversity.raw_diversity_std if kind == "std" else diversity.raw_diversity_entropy
        in_bank = same_image_negatives(problem.ids, problem.slot_ids)
        raw = diversity.blend_raw(
            measure(problem.scores, same_image_negatives(problem.ids, problem.ids)),
            measure(problem.bank_scores, in_bank),
            has_bank=in_bank.any(dim=1),
        )
        weight = diversity.normalise_by_largest(raw)
        weight = weight if diversity_gradient else weight.detach()
    negatives = same_image_negatives(problem.ids, problem.ids, keep_same_image)
    slots = same_image_negatives(problem.ids, problem.slot_ids, keep_same_image, positive_offset=None)
    return (
        diversity_contrastive(problem.scores, problem.scores.diagonal(), negatives, diversity=weight),
        diversity_contrastive(problem.bank_scores, problem.bank_positives, slots, diversity=weight),
    )


@pytest.mark.parametrize("keep_same_image", [False, True])
@pytest.mark.parametrize("diversity_gradient", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
@settings(max_examples=25)
def test_values_and_gradients_are_those_of_the_plain_functions(
    kind: Any, diversity_gradient: bool, keep_same_image: bool, seed: int
) -> None:
    problem = random_problem(seed)
    terms = fused.dcl_terms(
        *candidates(problem, keep_same_image), diversity=kind, diversity_gradient=diversity_gradient
    )
    assert terms.bank is not None
    results = []
    for batch, bank in ((terms.batch, terms.bank), plain_terms(problem, kind, keep_same_image, diversity_gradient)):
        loss = (batch + 2 * bank).square().mean()
        results.append((batch, bank, *torch.autograd.grad(loss, problem.leaves)))
    for fast, plain in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("keep_same_image", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS, bank_share=st.sampled_from([0.0, 0.3, 0.5]), scale=st.sampled_from(["one", "temperature"]))
@settings(max_examples=25)
def test_both_directions_agree_with_the_loops(
    kind: Any, keep_same_image: bool, seed: int, bank_share: float, scale: Any
) -> None:
    problem = random_problem(seed)
    ids = problem.ids.tolist()
    for scores in (problem.scores, problem.scores.T):
        problem.scores = scores
        terms = fused.dcl_terms(
            *candidates(problem, keep_same_image), diversity=kind, bank_share=bank_share, positive_scale=scale
        )
        in_batch = reference.Side(scores.tolist(), scores.diagonal().tolist(), ids, positive_offset=0)
        in_bank = reference.Side(
            problem.bank_scores.tolist(), problem.bank_positives.tolist(), problem.slot_ids.tolist()
        )
        weights = reference.anchor_diversity(in_batch, in_bank, ids, kind=kind, bank_share=bank_share)
        for fast, side in ((terms.batch, in_batch), (terms.bank, in_bank)):
            expected = reference.losses(side, ids, weights, keep_same_image=keep_same_image, positive_scale=scale)
            assert fast is not None
            assert fast.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)
        if kind != "none":
            assert terms.diversity is not None
            assert terms.diversity.tolist() == pytest.approx(weights, rel=1e-10)


@given(seed=SEEDS)
def test_pairs_are_the_complement_of_the_mask(seed: int) -> None:
    problem = random_problem(seed)
    for keep_same_image in (False, True):
        for side, ids, offset in zip(
            candidates(problem, keep_same_image), (problem.ids, problem.slot_ids), (0, None), strict=True
        ):
            mask = torch.ones_like(side.scores, dtype=torch.bool)
            mask[side.outside_sum] = False
            expected = same_image_negatives(problem.ids, ids, keep_same_image, positive_offset=offset)
            assert torch.equal(mask, expected)
            mask = torch.ones_like(side.scores, dtype=torch.bool)
            mask[side.outside_statistics] = False
            assert torch.equal(mask, same_image_negatives(problem.ids, ids))


def test_pairs_found_by_one_direction_serve_the_other() -> None:
    problem = random_problem(4)
    batch, bank = candidates(problem)
    shared = (
        fused.batch_candidates(problem.scores, problem.ids, problem.ids, same_image=batch.outside_sum),
        fused.bank_candidates(
            problem.bank_scores, problem.bank_positives, problem.ids, problem.slot_ids, same_image=bank.outside_sum
        ),
    )
    for own, given_pairs in zip((batch, bank), shared, strict=True):
        assert given_pairs.outside_sum is own.outside_sum
        assert given_pairs.outside_statistics is own.outside_statistics
    assert torch.equal(fused.dcl_terms(*shared).batch, fused.dcl_terms(batch, bank).batch)


def test_the_own_image_never_enters_the_statistics_even_when_the_loss_keeps_it() -> None:
    """Moving a same-image score moves the literal loss, not the diversity."""
    problem = random_problem(0)
    problem.ids = torch.tensor([0, 0, 1, 2, 3])
    moved = problem.scores.detach().clone()
    moved[0, 1] += 0.5
    results = []
    for scores in (problem.scores.detach(), moved):
        side = fused.batch_candidates(scores, problem.ids, problem.ids, keep_same_image=True)
        results.append(fused.dcl_terms(side))
    before, after = results
    assert before.diversity is not None
    assert after.diversity is not None
    assert torch.equal(before.diversity, after.diversity)
    assert before.batch[0] < after.batch[0]


def test_diversity_carries_no_gradient_by_default() -> None:
    problem = random_problem(2)
    default = fused.dcl_terms(*candidates(problem)).diversity
    trained = fused.dcl_terms(*candidates(problem), diversity_gradient=True).diversity
    assert default is not None
    assert trained is not None
    assert not default.requires_grad
    assert trained.requires_grad


def test_a_bank_counts_in_the_diversity_even_when_its_loss_is_off() -> None:
    """CODER Table 3, row 3."""
    problem = random_problem(2)
    batch, bank = candidates(problem)
    with_bank = fused.dcl_terms(batch, bank, bank_loss=False)
    alone = fused.dcl_terms(batch)
    assert with_bank.bank is None
    assert alone.bank is None
    assert with_bank.diversity is not None
    assert alone.diversity is not None
    assert not torch.allclose(with_bank.diversity, alone.diversity)


def test_an_empty_bank_leaves_the_batch_diversity_and_the_pull() -> None:
    problem = random_problem(3)
    problem.slot_ids = torch.full_like(problem.slot_ids, -1)
    batch, bank = candidates(problem)
    terms = fused.dcl_terms(batch, bank)
    alone = fused.dcl_terms(batch)
    assert terms.bank is not None
    assert torch.equal(terms.batch, alone.batch)
    torch.testing.assert_close(terms.bank, -torch.log1p(problem.bank_positives))


def test_splitting_the_anchors_over_processes_changes_nothing() -> None:
    """Two halves of the rows, each with the offset of its positives and the maximum of both."""
    problem = random_problem(8, queries=6)
    whole = fused.dcl_terms(*candidates(problem))
    raws: list[Tensor] = []
    sides = []
    for rows in (slice(0, 3), slice(3, 6)):
        ids = problem.ids[rows]
        sides.append(
            (
                fused.batch_candidates(problem.scores[rows], ids, problem.ids, positive_offset=rows.start),
                fused.bank_candidates(problem.bank_scores[rows], problem.bank_positives[rows], ids, problem.slot_ids),
            )
        )

    def remember(raw: Tensor) -> Tensor:
        raws.append(raw)
        return raw.amax()

    for batch, bank in sides:
        fused.dcl_terms(batch, bank, largest=remember)
    top = torch.cat(raws).amax()
    halves = [fused.dcl_terms(batch, bank, largest=lambda _: top) for batch, bank in sides]
    torch.testing.assert_close(torch.cat([half.batch for half in halves]), whole.batch, rtol=1e-10, atol=1e-10)
    banks = [half.bank for half in halves if half.bank is not None]
    assert whole.bank is not None
    torch.testing.assert_close(torch.cat(banks), whole.bank, rtol=1e-10, atol=1e-10)


@given(seed=SEEDS)
def test_spread_is_the_masked_deviation(seed: int) -> None:
    problem = random_problem(seed)
    mask = same_image_negatives(problem.ids, problem.slot_ids)
    pairs = fused.same_image_pairs(problem.ids, problem.slot_ids)
    scores = problem.bank_scores.detach()
    torch.testing.assert_close(fused.spread_std(scores, pairs), masked_std(scores, mask), rtol=1e-10, atol=1e-12)


def test_gradients_of_the_scaled_sum() -> None:
    problem = random_problem(1)
    pairs = fused.same_image_pairs(problem.ids, problem.slot_ids)
    generator = torch.Generator().manual_seed(0)
    scale, shift = torch.rand(2, len(problem.ids), generator=generator, dtype=torch.float64)
    assert gradcheck(
        lambda s, a, b: fused.log1p_sum_exp_scaled(s, a, b, pairs),
        (problem.bank_scores, (1 + 5 * scale).requires_grad_(), shift.requires_grad_()),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_through_everything(kind: Any) -> None:
    problem = random_problem(9)

    def losses(scores: Tensor, bank_scores: Tensor, bank_positives: Tensor) -> tuple[Tensor, Tensor]:
        moved = Problem(scores, problem.ids, bank_scores, bank_positives, problem.slot_ids)
        terms = fused.dcl_terms(
            *candidates(moved), diversity=kind, diversity_gradient=True, temperature=0.3, entropy_temperature=0.3
        )
        assert terms.bank is not None
        return terms.batch, terms.bank

    assert gradcheck(losses, problem.leaves)


def test_backward_twice_gives_the_same_gradient() -> None:
    """The backward pass must not spoil what it kept."""
    problem = random_problem(6)
    loss = fused.dcl_terms(*candidates(problem)).batch.sum()
    first = torch.autograd.grad(loss, problem.scores, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(loss, problem.scores)[0])


def test_the_scores_are_left_as_they_were() -> None:
    problem = random_problem(6)
    before = problem.bank_scores.detach().clone()
    fused.dcl_terms(*candidates(problem))
    assert torch.equal(problem.bank_scores, before)


@pytest.mark.parametrize("exponent", [14.0, 1e3, 1e6])
def test_large_exponents_are_their_own_logarithm(exponent: float) -> None:
    scores = torch.tensor([[0.0, exponent]], dtype=torch.float32, requires_grad=True)
    pairs = fused.Pairs(torch.tensor([0]), torch.tensor([0]))
    total = fused.log1p_sum_exp_scaled(scores, torch.ones(1), torch.zeros(1), pairs)
    total.backward()
    assert total.item() == pytest.approx(exponent, rel=1e-6)
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx([0.0, 1.0], abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_raised_also_under_autocast(dtype: torch.dtype) -> None:
    problem = random_problem(1)
    low = Problem(
        problem.scores.detach().to(dtype).requires_grad_(),
        problem.ids,
        problem.bank_scores.detach().to(dtype).requires_grad_(),
        problem.bank_positives.detach().to(dtype),
        problem.slot_ids,
    )
    high = Problem(low.scores.float(), low.ids, low.bank_scores.float(), low.bank_positives.float(), low.slot_ids)
    with torch.autocast("cpu", dtype=dtype):
        terms = fused.dcl_terms(*candidates(low))
    expected = fused.dcl_terms(*candidates(high))
    assert terms.batch.dtype == torch.float32
    torch.testing.assert_close(terms.batch, expected.batch)
    terms.batch.sum().backward()
    assert low.scores.grad is not None
    assert low.scores.grad.isfinite().all()


def test_an_unknown_kind_is_refused() -> None:
    kind: Any = "variance"
    with pytest.raises(ValueError, match='diversity must be "none", "std" or "entropy", got \'variance\''):
        fused.dcl_terms(candidates(random_problem(0))[0], diversity=kind)
