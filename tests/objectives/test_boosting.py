"""RS, RM, AS and AM, with fixed and soft margins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from coder_core.objectives.boosting import (
    absolute_max,
    absolute_sum,
    relative_max,
    relative_sum,
    soft_margin,
    soft_negative_margin,
)
from coder_core.objectives.pairs import Direction, both_directions
from tests.reference import boosting as reference
from tests.reference.pairs import kept, negatives, transposed
from tests.reference.problems import Problem, random_problem

FORMS: dict[str, Callable[..., Tensor]] = {
    "rs": relative_sum, "rm": relative_max, "as": absolute_sum, "am": absolute_max,
}  # fmt: skip
ABSOLUTE = ("as", "am")
every_form = pytest.mark.parametrize("form", FORMS)
fixed_and_soft = pytest.mark.parametrize("soft", [False, True])
seeds = st.integers(0, 10_000)
margins = st.floats(0.01, 1)
shares = st.floats(0.05, 0.95)


def two_branches(seed: int) -> tuple[Problem, Tensor]:
    """A random problem of the target, and what the anchor says of the same pairs, without gradient."""
    problem = random_problem(seed)
    return problem, random_problem(seed + 1).scores.detach()


def directions(seed: int) -> list[tuple[Direction, Tensor, Tensor]]:
    """Both ways: the target's direction, the anchor's scores and its positives."""
    problem, anchor = two_branches(seed)
    both = zip(both_directions(problem.scores, problem.ids), both_directions(anchor, problem.ids), strict=True)
    return [(target, other.scores, other.positive_scores) for target, other in both]


def test_by_hand() -> None:
    """Target 0.5 | 0.6 0.4 0.1, anchor 0.4 | 0.3 0.2 0.3, γ = 0.2, α = 0.25, so γ₁ = 0.05 and γ₂ = 0.15.

    S^a⁺ − S^t⁺ = −0.1; S^t − S^a = 0.3, 0.2, −0.2: the first is the hardest. Relative hinges: 0.2 − 0.1 + 0.3 = 0.4,
    0.3 and 0. The positive's hinge is [0.05 − 0.1]₊ = 0, the negatives' 0.45, 0.35 and 0.
    """
    target = torch.tensor([[0.5, 0.6, 0.4, 0.1]])
    anchor = torch.tensor([[0.4, 0.3, 0.2, 0.3]])
    mask = torch.tensor([[False, True, True, True]])
    given_ = target, target[:, 0], mask, anchor, anchor[:, 0]
    assert relative_sum(*given_).item() == pytest.approx(0.7)
    assert relative_max(*given_).item() == pytest.approx(0.4)
    assert absolute_sum(*given_, split=0.25).item() == pytest.approx(0.8)
    assert absolute_max(*given_, split=0.25).item() == pytest.approx(0.45)


def test_the_hardest_negative_rose_most_above_the_anchor_and_need_not_score_best() -> None:
    """Negatives 0.6 and 0.2 of the target stand at 0.6 and 0.0 in the anchor: the second rose by 0.2."""
    target, anchor = torch.tensor([[0.5, 0.6, 0.2]]), torch.tensor([[0.5, 0.6, 0.0]])
    mask = torch.tensor([[False, True, True]])
    assert relative_max(target, target[:, 0], mask, anchor, anchor[:, 0]).item() == pytest.approx(0.4)
    assert absolute_max(target, target[:, 0], mask, anchor, anchor[:, 0]).item() == pytest.approx(0.1 + 0.3)


def test_the_pull_counts_for_every_negative_in_the_sum_and_once_in_the_hardest_form() -> None:
    """The target is the anchor, so γ₁ + γ₂ = γ for each of three negatives, or for the one."""
    scores = torch.tensor([[0.5, 0.6, 0.2, -0.4]])
    mask = torch.tensor([[False, True, True, True]])
    assert absolute_sum(scores, scores[:, 0], mask, scores, scores[:, 0]).item() == pytest.approx(0.6)
    assert absolute_max(scores, scores[:, 0], mask, scores, scores[:, 0]).item() == pytest.approx(0.2)


@every_form
@fixed_and_soft
@given(seed=seeds, margin=margins, split=shares)
def test_both_directions_agree_with_the_loops(form: str, soft: bool, seed: int, margin: float, split: float) -> None:
    problem, anchor = two_branches(seed)
    ids = problem.ids.tolist()
    masks = negatives(ids, ids)
    matrices = problem.scores.tolist(), anchor.tolist()
    ways = matrices, tuple(map(transposed, matrices))
    switches = {"margin": margin, "soft": soft} | ({"split": split} if form in ABSOLUTE else {})
    for (target, anchor_scores, anchor_positives), (rows, anchor_rows) in zip(directions(seed), ways, strict=True):
        expected = [
            reference.loss(
                form, kept(rows[i], masks[i]), kept(anchor_rows[i], masks[i]), rows[i][i], anchor_rows[i][i],
                margin=margin, split=split, is_soft=soft,
            )
            for i in range(len(rows))
        ]  # fmt: skip
        found = FORMS[form](*target, anchor_scores, anchor_positives, **switches)
        assert found.tolist() == pytest.approx(expected, abs=1e-12)


@given(seed=seeds, margin=st.floats(0, 1), split=st.floats(0, 1))
def test_relative_never_exceeds_absolute(seed: int, margin: float, split: float) -> None:
    """Eq. 11-13: [x + y]₊ ≤ [x]₊ + [y]₊, on any scores."""
    for target, anchor, positives in directions(seed):
        given_ = *target, anchor, positives
        for relative, absolute in ((relative_sum, absolute_sum), (relative_max, absolute_max)):
            low, high = relative(*given_, margin=margin), absolute(*given_, margin=margin, split=split)
            assert bool((low <= high + 1e-12).all())


@given(seed=seeds)
def test_the_hardest_form_is_the_largest_term_of_the_sum(seed: int) -> None:
    for target, anchor, positives in directions(seed):
        for hardest, summed in ((relative_max, relative_sum), (absolute_max, absolute_sum)):
            terms = []
            for column in range(target.scores.shape[1]):
                alone = torch.zeros_like(target.negatives)
                alone[:, column] = target.negatives[:, column]
                terms.append(summed(target.scores, target.positive_scores, alone, anchor, positives))
            found = hardest(*target, anchor, positives)
            assert found.tolist() == pytest.approx(torch.stack(terms).amax(0).tolist(), abs=1e-12)


@given(margin=margins)
def test_soft_margins_at_their_ends(margin: float) -> None:
    """γ(d) = 0 with a slope of −1, γ far below d; γ₂(−1) = 0 with a slope of 1, γ₂ far above."""
    for largest in (1.0, 2.0):
        end = torch.tensor([largest], dtype=torch.float64, requires_grad=True)
        value = soft_margin(end, margin, largest)
        (slope,) = torch.autograd.grad(value.sum(), end)
        assert value.item() == 0
        assert slope.item() == pytest.approx(-1)
    end = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    value = soft_negative_margin(end, margin)
    (slope,) = torch.autograd.grad(value.sum(), end)
    assert value.item() == 0
    assert slope.item() == pytest.approx(1)
    far = torch.tensor([100.0], dtype=torch.float64)
    assert soft_margin(-far, margin, 2.0).item() == pytest.approx(margin)
    assert soft_negative_margin(far, margin).item() == pytest.approx(margin)


@given(margin=margins, score=st.floats(-1, 1))
def test_soft_margins_lie_between_nothing_and_what_the_score_leaves_room_for(margin: float, score: float) -> None:
    """Never above γ and never above the distance to the end (the paper's theoretical maximum)."""
    at = torch.tensor(score, dtype=torch.float64)
    for value, room in (
        (soft_margin(at, margin, 1.0), 1 - score),
        (soft_margin(at * 2, margin, 2.0), 2 - 2 * score),
        (soft_negative_margin(at, margin), score + 1),
    ):
        assert 0 <= value.item() <= min(margin, room) + 1e-12


def test_a_soft_margin_of_nothing_is_nothing() -> None:
    scores = torch.tensor([-1.0, 0.0, 1.0, 2.0])
    assert soft_margin(scores, 0.0, 1.0).tolist() == [0.0] * 4
    assert soft_negative_margin(scores, 0.0).tolist() == [0.0] * 4


@every_form
@fixed_and_soft
def test_gradients(form: str, soft: bool) -> None:
    problem, anchor = two_branches(3)
    mask = both_directions(problem.scores, problem.ids)[0].negatives
    loss = partial(FORMS[form], soft=soft)
    assert gradcheck(lambda scores: loss(scores, scores.diagonal(), mask, anchor, anchor.diagonal()), problem.scores)


@every_form
def test_the_anchor_gets_no_gradient_not_through_soft_margins_either(form: str) -> None:
    problem, anchor = two_branches(5)
    anchor.requires_grad_()
    mask = both_directions(problem.scores, problem.ids)[0].negatives
    value = FORMS[form](problem.scores, problem.scores.diagonal(), mask, anchor, anchor.diagonal(), soft=True)
    value.sum().backward()
    assert anchor.grad is None
    assert problem.scores.grad is not None
    assert problem.scores.grad.abs().max() > 0


@every_form
def test_a_query_without_negatives_loses_nothing(form: str) -> None:
    scores = torch.zeros(1, 2, requires_grad=True)
    anchor = torch.ones(1, 2)
    value = FORMS[form](scores, scores[:, 0], torch.zeros(1, 2, dtype=torch.bool), anchor, anchor[:, 0])
    value.sum().backward()
    assert value.tolist() == [0.0]
    assert scores.grad is not None
    assert scores.grad.tolist() == [[0.0, 0.0]]


@every_form
def test_half_precision_is_raised(form: str) -> None:
    scores = torch.tensor([[0.5, 0.25]], dtype=torch.bfloat16)
    anchor = torch.tensor([[0.25, 0.5]], dtype=torch.bfloat16)
    mask = torch.tensor([[False, True]])
    assert FORMS[form](scores, scores[:, 0], mask, anchor, anchor[:, 0]).dtype == torch.float32
