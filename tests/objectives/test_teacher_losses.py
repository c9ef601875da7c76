"""Losses against a teacher: RS, RM, AS and AM of boosting with fixed and soft margins; DR, RKD, DML, DINO and DINO*."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from coder_core.objectives import (
    Direction,
    absolute_max,
    absolute_sum,
    both_directions,
    mutual_learning,
    rank_distillation,
    relational_distillation,
    relative_max,
    relative_sum,
    reversed_self_distillation,
    self_distillation,
)
from coder_core.objectives.boosting import soft_margin, soft_negative_margin
from coder_core.objectives.pairs import Teacher
from tests.reference import boosting, imitation
from tests.reference.pairs import kept, negatives, transposed
from tests.reference.problems import Problem, random_problem

T, A = 0.3, 0.2  # temperatures of the student and of the teacher


class Form(NamedTuple):
    """A loss, its loop over two lists of one query, the positive first, and the switches of both."""

    fast: Callable[..., Tensor]
    slow: Callable[..., float]
    switches: dict[str, Any]


def boosted(name: str, fast: Callable[..., Tensor], soft: bool) -> Form:
    def slow(target: Sequence[float], teacher: Sequence[float], *, soft: bool, **switches: float) -> float:
        branches = target[1:], teacher[1:], target[0], teacher[0]
        return boosting.loss(name, *branches, is_soft=soft, **{"split": 0.5, **switches})

    return Form(fast, slow, {"margin": 0.2, "soft": soft} | ({"split": 0.5} if name in ("as", "am") else {}))


BOOSTING = {"rs": relative_sum, "rm": relative_max, "as": absolute_sum, "am": absolute_max}
two_temperatures = {"temperature": T, "teacher_temperature": A}
IMITATION = {
    "dr": Form(rank_distillation, imitation.dr, {"temperature": T, "length": 3}),
    "rkd": Form(relational_distillation, imitation.rkd, {}),
    "dml": Form(mutual_learning, imitation.dml, {"temperature": T}),
    "dino": Form(self_distillation, imitation.dino, two_temperatures),
    "dino-reversed": Form(reversed_self_distillation, imitation.dino_reversed, two_temperatures),
}
FORMS = IMITATION | {
    f"{name}{'-soft' * soft}": boosted(name, fast, soft)
    for name, fast in BOOSTING.items()
    for soft in (False, True)
}
every_form = pytest.mark.parametrize("form", FORMS)
seeds = st.integers(0, 10_000)
margins = st.floats(0.01, 1)


def two_branches(seed: int) -> tuple[Problem, Tensor]:
    """A random problem of the target, and the teacher's scores of the same pairs, without gradient."""
    problem = random_problem(seed)
    return problem, random_problem(seed + 1).scores.detach()


def directions(seed: int) -> list[tuple[Direction, Teacher]]:
    """Return the target's direction and the teacher's scores, both ways."""
    problem, teacher = two_branches(seed)
    targets, teachers = (both_directions(scores, problem.ids) for scores in (problem.scores, teacher))
    return [(target, other[:2]) for target, other in zip(targets, teachers, strict=True)]


def first_positive(loss: Callable[..., Tensor], target: Tensor, teacher: Tensor, **switches: Any) -> Tensor:
    """The loss with the positive in column 0 and negatives in all others."""
    mask = torch.ones_like(target, dtype=torch.bool)
    mask[:, 0] = False
    return loss(Direction(target, target[:, 0], mask), (teacher, teacher[:, 0]), **switches)


@every_form
@given(seed=seeds, margin=margins, split=st.floats(0.05, 0.95))
def test_both_directions_agree_with_the_loops(form: str, seed: int, margin: float, split: float) -> None:
    fast, slow, switches = FORMS[form]
    drawn = {"margin": margin, "split": split}
    switches = switches | {name: value for name, value in drawn.items() if name in switches}
    problem, teacher = two_branches(seed)
    masks = negatives(problem.ids.tolist(), problem.ids.tolist())
    matrices = problem.scores.tolist(), teacher.tolist()
    ways = matrices, tuple(map(transposed, matrices))
    for (target, others), branches in zip(directions(seed), ways, strict=True):
        expected = [
            slow(*([rows[i][i], *kept(rows[i], mask)] for rows in branches), **switches)
            for i, mask in enumerate(masks)
        ]
        assert fast(target, others, **switches).tolist() == pytest.approx(expected, abs=1e-10)


@every_form
def test_gradients_reach_the_student_alone_not_through_soft_margins_either(form: str) -> None:
    fast, _, switches = FORMS[form]
    problem, teacher = two_branches(3)
    teacher.requires_grad_()
    mask = both_directions(problem.scores, problem.ids)[0].negatives

    def loss(scores: Tensor) -> Tensor:
        return fast(Direction(scores, scores.diagonal(), mask), (teacher, teacher.diagonal()), **switches)

    loss(problem.scores).sum().backward()
    assert teacher.grad is None
    assert problem.scores.grad is not None
    assert problem.scores.grad.abs().max() > 0
    teacher.requires_grad_(False)
    assert gradcheck(loss, problem.scores)


@every_form
def test_a_query_without_negatives_loses_nothing(form: str) -> None:
    fast, _, switches = FORMS[form]
    scores = torch.zeros(1, 2, requires_grad=True)
    teacher = torch.full((1, 2), 0.5)
    target = Direction(scores, scores[:, 0], torch.zeros(1, 2, dtype=torch.bool))
    value = fast(target, (teacher, teacher[:, 0]), **switches)
    value.sum().backward()
    assert value.tolist() == [0.0]
    assert scores.grad is not None
    assert scores.grad.tolist() == [[0.0, 0.0]]


@every_form
def test_half_precision_is_raised(form: str) -> None:
    fast, _, switches = FORMS[form]
    scores = torch.tensor([[0.5, 0.25]], dtype=torch.bfloat16)
    value = first_positive(fast, scores, scores.flip(1), **switches)
    assert value.dtype == torch.float32
    assert value.isfinite().all()


def test_boosting_by_hand() -> None:
    """Target 0.5 | 0.6 0.4 0.1, teacher 0.4 | 0.3 0.2 0.3, γ = 0.2, α = 0.25, so γ₁ = 0.05 and γ₂ = 0.15.

    S^a⁺ − S^t⁺ = −0.1; S^t − S^a = 0.3, 0.2, −0.2: the first is the hardest. Relative hinges: 0.2 − 0.1 + 0.3 = 0.4,
    0.3 and 0. The positive's hinge is [0.05 − 0.1]₊ = 0, the negatives' 0.45, 0.35 and 0.
    """
    branches = torch.tensor([[0.5, 0.6, 0.4, 0.1]]), torch.tensor([[0.4, 0.3, 0.2, 0.3]])
    assert first_positive(relative_sum, *branches).item() == pytest.approx(0.7)
    assert first_positive(relative_max, *branches).item() == pytest.approx(0.4)
    assert first_positive(absolute_sum, *branches, split=0.25).item() == pytest.approx(0.8)
    assert first_positive(absolute_max, *branches, split=0.25).item() == pytest.approx(0.45)


def test_the_hardest_negative_rose_most_above_the_teacher_and_need_not_score_best() -> None:
    """Negatives 0.6 and 0.2 of the target stand at 0.6 and 0.0 in the teacher: the second rose by 0.2."""
    branches = torch.tensor([[0.5, 0.6, 0.2]]), torch.tensor([[0.5, 0.6, 0.0]])
    assert first_positive(relative_max, *branches).item() == pytest.approx(0.4)
    assert first_positive(absolute_max, *branches).item() == pytest.approx(0.1 + 0.3)


def test_the_pull_counts_for_every_negative_in_the_sum_and_once_in_the_hardest_form() -> None:
    """The target is its own teacher, so γ₁ + γ₂ = γ for each of three negatives, or for the one."""
    scores = torch.tensor([[0.5, 0.6, 0.2, -0.4]])
    assert first_positive(absolute_sum, scores, scores).item() == pytest.approx(0.6)
    assert first_positive(absolute_max, scores, scores).item() == pytest.approx(0.2)


@given(seed=seeds, margin=st.floats(0, 1), split=st.floats(0, 1))
def test_relative_never_exceeds_absolute(seed: int, margin: float, split: float) -> None:
    """Eq. 11-13: [x + y]₊ ≤ [x]₊ + [y]₊, on any scores."""
    for branches in directions(seed):
        for relative, absolute in ((relative_sum, absolute_sum), (relative_max, absolute_max)):
            low, high = relative(*branches, margin=margin), absolute(*branches, margin=margin, split=split)
            assert bool((low <= high + 1e-12).all())


@given(seed=seeds)
def test_the_hardest_form_is_the_largest_term_of_the_sum(seed: int) -> None:
    for target, teacher in directions(seed):
        for hardest, summed in ((relative_max, relative_sum), (absolute_max, absolute_sum)):
            terms = []
            for column in range(target.scores.shape[1]):
                alone = torch.zeros_like(target.negatives)
                alone[:, column] = target.negatives[:, column]
                terms.append(summed(target._replace(negatives=alone), teacher))
            largest = hardest(target, teacher)
            assert largest.tolist() == pytest.approx(torch.stack(terms).amax(0).tolist(), abs=1e-12)


@given(margin=margins)
def test_soft_margins_at_their_ends(margin: float) -> None:
    """γ(d) = 0 with a slope of −1, γ far below d; γ₂(−1) = 0 with a slope of 1, γ₂ far above."""
    falling_to_one, falling_to_two = (partial(soft_margin, largest=largest) for largest in (1.0, 2.0))
    ends: list[tuple[Callable[..., Tensor], float, float]] = [(falling_to_one, 1.0, -1)]
    ends += [(falling_to_two, 2.0, -1), (soft_negative_margin, -1.0, 1)]
    for function, at, expected in ends:
        end = torch.tensor([at], dtype=torch.float64, requires_grad=True)
        value = function(end, margin)
        (slope,) = torch.autograd.grad(value.sum(), end)
        assert value.item() == 0
        assert slope.item() == pytest.approx(expected)
        far = torch.tensor([100.0 * expected], dtype=torch.float64)
        assert function(far, margin).item() == pytest.approx(margin)


@given(margin=margins, score=st.floats(-1, 1))
def test_soft_margins_lie_between_nothing_and_what_the_score_leaves_room_for(
    margin: float, score: float
) -> None:
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


@pytest.mark.parametrize("form", IMITATION)
@given(seed=seeds)
def test_nothing_is_better_than_to_be_the_teacher(form: str, seed: int) -> None:
    """Except that DINO's teacher is sharper: with equal temperatures its floor is the teacher's own entropy."""
    fast, _, switches = FORMS[form]
    if "teacher_temperature" in switches:
        switches = {**switches, "teacher_temperature": T}
    for target, others in directions(seed):
        imitated = fast(Direction(*others, target.negatives), others, **switches)
        assert bool((imitated <= fast(target, others, **switches) + 1e-12).all())
        if form != "dino":
            assert imitated.abs().max().item() == pytest.approx(0, abs=1e-12)


@given(seed=seeds)
def test_dino_is_dml_and_the_teachers_entropy_where_both_are_equally_sharp(seed: int) -> None:
    dino = partial(self_distillation, temperature=T, teacher_temperature=T)
    for target, others in directions(seed):
        entropy = dino(Direction(*others, target.negatives), others)
        expected = mutual_learning(target, others, temperature=T) + entropy
        assert dino(target, others).tolist() == pytest.approx(expected.tolist(), abs=1e-10)


def test_rank_distillation_reads_the_negatives_the_teacher_scores_highest() -> None:
    """A list of two: the chance that the positive comes first is a logistic function of its lead, in both branches."""
    target = torch.tensor([[0.5, 0.1, 0.9]], dtype=torch.float64)
    teacher = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    of_teacher, of_student = (1 / (1 + math.exp(-lead)) for lead in (0.2, 0.4))
    expected = of_teacher * math.log(of_teacher / of_student)
    expected += (1 - of_teacher) * math.log((1 - of_teacher) / (1 - of_student))
    actual = first_positive(rank_distillation, target, teacher, temperature=1.0, length=2)
    assert actual.item() == pytest.approx(expected)


def test_relations_of_candidates_at_no_distance_are_finite() -> None:
    scores = torch.ones(1, 3, dtype=torch.float64, requires_grad=True)
    value = first_positive(relational_distillation, scores, scores.detach())
    value.sum().backward()
    assert value.item() == 0
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
