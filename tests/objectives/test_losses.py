"""Every loss of a query: against its loop, by hand, its gradients, half precision and queries without negatives."""

import math
import re
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from coder_core import objectives
from coder_core.objectives import Direction, both_directions, npairs_hinge, pairwise_sigmoid
from coder_core.objectives.boosting import soft_margin, soft_negative_margin
from coder_core.objectives.diversity_contrastive import diversity_contrastive
from coder_core.objectives.pairs import same_image_negatives
from tests.reference import boosting, imitation
from tests.reference import losses as reference
from tests.reference.neighbourhood import npairs_hinge as weighted_npairs_hinge
from tests.reference.pairs import kept, negatives, transposed
from tests.reference.problems import random_problem


class Loss(NamedTuple):
    """Loss and its loop, on scores of a target and a teacher; the loop takes a query as two lists, positive first."""

    fast: Callable[..., Tensor]  # (target: Direction, teacher: Teacher, **switches)
    slow: Callable[..., float]  # (target: list, teacher: list, **switches)
    switches: dict[str, Any]


def alone(fast, slow, **switches):
    """Return a loss without a teacher, whose loop takes the negatives and the positive."""
    return Loss(
        lambda target, _, **values: fast(*target, **values),
        lambda target, _, **values: slow(target[1:], target[0], **values),
        switches,
    )


def boosted(name, soft):
    def slow(target, teacher, *, soft, **switches):
        branches = target[1:], teacher[1:], target[0], teacher[0]
        return boosting.loss(name, *branches, is_soft=soft, **{"split": 0.5, **switches})

    switches = {"margin": 0.2, "soft": soft} | ({"split": 0.5} if name in ("as", "am") else {})
    return Loss(BOOSTING[name], slow, switches)


def npairs_loop(row, positive, margin):
    return reference.triplet_sum(row, positive, margin) / (2 * 5)


def dcl(scores, positives, exclusions, **switches):
    """Return DCL with a diversity between 0.5 and 1 that has a gradient: 0.75 + S⁺ / 4."""
    diversity = 0.75 + positives / 4
    return diversity_contrastive(scores, positives, exclusions, diversity=diversity, **switches)


def dcl_loop(row, positive, **switches):
    return reference.diversity_contrastive(row, positive, diversity=0.75 + positive / 4, **switches)


FORMS = {"rs": "relative_sum", "rm": "relative_max", "as": "absolute_sum", "am": "absolute_max"}
BOOSTING = {form: getattr(objectives, name) for form, name in FORMS.items()}
two_temperatures = {"temperature": 0.3, "teacher_temperature": 0.2}
IMITATION = {
    "dr": Loss(objectives.rank_distillation, imitation.dr, {"temperature": 0.3, "length": 3}),
    "rkd": Loss(objectives.relational_distillation, imitation.rkd, {}),
    "dml": Loss(objectives.mutual_learning, imitation.dml, {"temperature": 0.3}),
    "dino": Loss(objectives.self_distillation, imitation.dino, two_temperatures),
    "dino-reversed": Loss(objectives.reversed_self_distillation, imitation.dino_reversed, two_temperatures),
}
sigmoids = (partial(loss, bias=-1.5) for loss in (pairwise_sigmoid, reference.pairwise_sigmoid))
LOSSES = {
    "triplet-sum": alone(objectives.triplet_sum, reference.triplet_sum, margin=0.2),
    "triplet-hardest": alone(objectives.triplet_hardest, reference.triplet_hardest, margin=0.2),
    "npairs": alone(npairs_hinge, npairs_loop, margin=0.2),
    "polynomial": alone(objectives.polynomial_hardest, reference.polynomial_hardest, margin=0.2),
    "infonce": alone(objectives.info_nce, reference.info_nce, temperature=0.1),
    "cmpm": alone(objectives.projection_matching, reference.projection_matching, temperature=0.1),
    "sigmoid": alone(*sigmoids, scale=0.2),
    **{f"{name}{'-soft' * soft}": boosted(name, soft) for name in BOOSTING for soft in (False, True)},
    **IMITATION,
}
for scale, clamp in product(("one", "temperature"), ("clamp", "relu")):
    pull = {"positive_scale": scale, "positive_clamp": clamp}
    LOSSES[f"dcl-{scale}-{clamp}"] = alone(dcl, dcl_loop, temperature=0.2, margin=0.3, **pull)
every_loss = pytest.mark.parametrize("name", LOSSES)
seeds = st.integers(0, 10_000)
margins = st.floats(0.01, 1)


def two_branches(seed):
    """Return a random problem for the target, and the teacher's scores of the same pairs, without gradient."""
    return random_problem(seed), random_problem(seed + 1).scores.detach()


def directions(seed):
    """Return the target's direction and the teacher's scores, both ways."""
    problem, teacher = two_branches(seed)
    targets, teachers = (both_directions(scores, problem.ids) for scores in (problem.scores, teacher))
    return [(target, other[:2]) for target, other in zip(targets, teachers, strict=True)]


def of_row(name, target, teacher=None, **switches):
    """Return the loss with the positive in column 0 and negatives in all others; the default teacher is the target.

    Forms of boosting take their defaults.
    """
    fast, _, usual = LOSSES[name]
    usual = {} if name in BOOSTING else usual
    teacher = target if teacher is None else teacher
    is_negative = (torch.arange(target.shape[1]) > 0).expand_as(target)
    return fast(Direction(target, target[:, 0], is_negative), (teacher, teacher[:, 0]), **usual | switches)


@every_loss
@given(seed=seeds, margin=margins, temperature=st.floats(0.05, 1), split=st.floats(0.05, 0.95))
def test_both_directions_match_reference_loops(name, seed, margin, temperature, split):
    fast, slow, switches = LOSSES[name]
    drawn = {"margin": margin, "temperature": temperature, "scale": temperature, "split": split}
    switches = switches | {switch: value for switch, value in drawn.items() if switch in switches}
    problem, teacher = two_branches(seed)
    masks = negatives(problem.ids.tolist(), problem.ids.tolist())
    matrices = problem.scores.tolist(), teacher.tolist()
    ways = matrices, tuple(map(transposed, matrices))
    for (target, taught), branches in zip(directions(seed), ways, strict=True):
        queries = ([[rows[i][i], *kept(rows[i], mask)] for rows in branches] for i, mask in enumerate(masks))
        expected = [slow(*query, **switches) for query in queries]
        assert fast(target, taught, **switches).tolist() == pytest.approx(expected, rel=1e-10, abs=1e-9)


@every_loss
def test_gradients_reach_only_the_student_even_with_soft_margins(name):
    fast, _, switches = LOSSES[name]
    problem, teacher = two_branches(3)
    teacher.requires_grad_()
    exclusions = same_image_negatives(problem.ids, problem.ids)

    def loss(scores):
        target = Direction(scores, scores.diagonal(), exclusions)
        return fast(target, (teacher, teacher.diagonal()), **switches)

    loss(problem.scores).sum().backward()
    assert teacher.grad is None
    assert problem.scores.grad.abs().max() > 0
    teacher.requires_grad_(False)
    assert gradcheck(loss, problem.scores)


@every_loss
def test_a_query_without_negatives_has_no_loss(name):
    """Half precision is raised to float32."""
    scores = torch.tensor([[0.5, 0.25]], dtype=torch.bfloat16)
    value = of_row(name, scores, scores.flip(1))
    assert value.dtype == torch.float32
    assert value.isfinite().all()
    if not name.startswith(("sigmoid", "dcl")):
        scores = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
        teacher = torch.full((1, 2), 0.5, dtype=torch.float64)
        target = Direction(scores, scores[:, 0], torch.zeros(1, 2, dtype=torch.bool))
        value = LOSSES[name].fast(target, (teacher, teacher[:, 0]), **LOSSES[name].switches)
        value.sum().backward()
        assert value.tolist() == pytest.approx([0.0], abs=1e-7)
        assert scores.grad.abs().max().item() == pytest.approx(0)


def test_invalid_switches_are_refused():
    cases = [(name, "temperature", value) for name in ("infonce", "cmpm") for value in (0.0, -0.1, math.nan)]
    switches = {"temperature": 0, "positive_scale": "two", "positive_clamp": "none"}
    for name, switch, value in cases + [("dcl-one-clamp", *switch) for switch in switches.items()]:
        with pytest.raises(ValueError, match=f"{switch} must be .*{value}"):
            of_row(name, torch.zeros(1, 2), **{switch: value})


@every_loss
@pytest.mark.parametrize("changed", [0, 1, 2])
def test_arguments_of_other_sizes_are_refused(name, changed):
    """Torch would broadcast a column of positives, or a mask for one query, to all queries."""
    right = [torch.zeros(3, 4), torch.zeros(3), torch.ones(3, 4) > 0]
    wrong = list(right)
    wrong[changed] = right[1][:, None] if changed == 1 else right[changed][:1]
    has_teacher = name in IMITATION or name.removesuffix("-soft") in BOOSTING
    fast, _, switches = LOSSES[name]
    for target, teacher in [(wrong, right)] + [(right, wrong)] * (has_teacher and changed < 2):
        with pytest.raises(ValueError, match=re.escape(str(tuple(wrong[changed].shape)))):
            fast(Direction(*target), tuple(teacher[:2]), **switches)


FOUR = [0.5, 0.6, 0.4, 0.1]
TAUGHT = [0.4, 0.3, 0.2, 0.3]
FIRST = [1 / (1 + math.exp(-lead)) for lead in (0.2, 0.4)]  # chance that the positive comes first
LEADS = [(chance, 1 - chance) for chance in FIRST]
SIGMOID_START = {"scale": 10, "bias": -10}
BY_HAND = [
    # margin 0.2: hinges 0.3, 0.1 and 0; four candidates
    ("triplet-sum", FOUR, None, {}, 0.3 + 0.1),
    ("triplet-hardest", FOUR, None, {}, 0.3),
    ("npairs", FOUR, None, {}, (0.3 + 0.1) / 8),
    ("polynomial", FOUR, None, {}, (0.5 - 0.35 + 0.05) + (0.03 - 0.24 + 0.324)),
    # distant negatives and a perfect positive are ignored
    ("polynomial", [0.5, 0.2, 0.1], None, {}, 0.0),
    ("polynomial", [0.5, 0.3, 0.1], None, {}, 0.0),  # exactly the margin away
    ("polynomial", [1.0, 0.9, 0.1], None, {}, 0.0),
    # two equal candidates have a share of one half: −log ½, and ½ log ½ + ½ log(½ / 1e-8); any score is finite
    ("infonce", [0.4, 0.4], None, {}, math.log(2)),
    ("cmpm", [0.4, 0.4], None, {}, math.log(0.5) + 0.5 * math.log(1e8)),
    ("infonce", [0.0, 1e4], None, {}, 1e5),
    # the papers' start, logits 10·S − 10; the positive's term stays without negatives
    ("sigmoid", FOUR, None, SIGMOID_START, sum(math.log(1 + math.exp(logit)) for logit in (5, -4, -6, -9))),
    ("sigmoid", [0.5], None, SIGMOID_START, math.log(1 + math.exp(5))),
    # γ = 0.2, α = 0.25: γ₁ = 0.05, γ₂ = 0.15. S^a⁺ − S^t⁺ = −0.1; S^t − S^a = 0.3, 0.2, −0.2, the first the hardest.
    # Relative hinges 0.4, 0.3 and 0; the positive's hinge is [0.05 − 0.1]₊ = 0, the negatives' 0.45, 0.35 and 0.
    ("rs", FOUR, TAUGHT, {}, 0.7),
    ("rm", FOUR, TAUGHT, {}, 0.4),
    ("as", FOUR, TAUGHT, {"split": 0.25}, 0.8),
    ("am", FOUR, TAUGHT, {"split": 0.25}, 0.45),
    # the hardest negative rose most above the teacher (by 0.2, not 0) and need not score best
    ("rm", [0.5, 0.6, 0.2], [0.5, 0.6, 0.0], {}, 0.4),
    ("am", [0.5, 0.6, 0.2], [0.5, 0.6, 0.0], {}, 0.1 + 0.3),
    # the pull counts for each of three negatives in the sum and once in the hardest form
    ("as", [0.5, 0.6, 0.2, -0.4], None, {}, 0.6),
    ("am", [0.5, 0.6, 0.2, -0.4], None, {}, 0.2),
    # only the negative that the teacher scores highest is used; leads of 0.2 and 0.4 over it
    ("dr", [0.5, 0.1, 0.9], [0.5, 0.3, 0.2], {"temperature": 1.0, "length": 2}, imitation.divergence(*LEADS)),
]


@pytest.mark.parametrize(("name", "target", "teacher", "switches", "expected"), BY_HAND)
def test_by_hand(name, target, teacher, switches, expected):
    """The positive first, then the negatives."""
    branches = (torch.tensor([row], dtype=torch.float64) for row in (target, teacher or target))
    assert of_row(name, *branches, **switches).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["infonce", "cmpm", "sigmoid"])
def test_gradients_of_a_learned_scale_and_bias(name):
    """Scores that are not of negatives may be anything, even NaN: the sigmoid's scale ignores them."""
    problem = random_problem(3)
    mask = both_directions(problem.scores, problem.ids)[0].negatives
    scale, bias = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (3.0, -1.5))

    def loss(scores, scale, bias):
        hidden = torch.where(mask, scores, math.nan) if name == "sigmoid" else scores
        direction = Direction(hidden, scores.diagonal(), mask)
        if name == "sigmoid":
            return pairwise_sigmoid(*direction, scale=scale, bias=bias)
        return LOSSES[name].fast(direction, None, temperature=1 / scale) + 0 * bias

    assert gradcheck(loss, (problem.scores, scale, bias))


def test_batch_losses_match_the_papers_and_rkd_is_finite_at_zero_distance():
    """InfoNCE is cross-entropy if every other candidate is a negative. The mean of the sigmoid over the
    images is −1/|B| Σ_i Σ_j log σ(z_ij (s·S_ij + b)), z = 1 for a pair and −1 otherwise (eq. 2 without same-
    image pairs)."""
    scores = random_problem(1).scores.detach()
    pair = torch.eye(len(scores), dtype=torch.bool)
    expected = torch.nn.functional.cross_entropy(scores / 0.07, torch.arange(len(scores)), reduction="none")
    actual = objectives.info_nce(scores, scores.diagonal(), ~pair, temperature=0.07)
    torch.testing.assert_close(actual, expected)
    signs = torch.where(pair, 1.0, -1.0)
    printed = -torch.nn.functional.logsigmoid(signs * (4 * scores - 2)).sum() / len(scores)
    ours = pairwise_sigmoid(scores, scores.diagonal(), ~pair, scale=4.0, bias=-2.0).mean()
    torch.testing.assert_close(ours, printed)
    scores = torch.ones(1, 3, dtype=torch.float64, requires_grad=True)
    value = of_row("rkd", scores, scores.detach())
    value.sum().backward()
    assert value.item() == 0
    assert scores.grad.isfinite().all()


@given(seed=seeds, margin=st.floats(0, 1))
def test_the_weighted_npairs_loss_matches_equation_1(seed, margin):
    problem = random_problem(seed)
    alpha = torch.rand(5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    out, back = (npairs_hinge(*way, margin=margin) for way in both_directions(problem.scores, problem.ids))
    expected = weighted_npairs_hinge(problem.scores.tolist(), problem.ids.tolist(), alpha.tolist(), margin)
    assert (alpha * (out + back)).mean().item() == pytest.approx(expected, abs=1e-12)


@given(seed=seeds, margin=st.floats(0, 1), split=st.floats(0, 1))
def test_relative_losses_never_exceed_absolute_ones(seed, margin, split):
    """Eq. 11-13: [x + y]₊ ≤ [x]₊ + [y]₊, on any scores."""
    for branches in directions(seed):
        for relative, absolute in (("rs", "as"), ("rm", "am")):
            low = BOOSTING[relative](*branches, margin=margin)
            assert bool((low <= BOOSTING[absolute](*branches, margin=margin, split=split) + 1e-12).all())


@given(margin=margins)
def test_soft_margins_at_their_ends(margin):
    """γ(d) = 0 with a slope of −1, γ far below d; γ₂(−1) = 0 with a slope of 1, γ₂ far above."""
    distances = (partial(soft_margin, largest=largest) for largest in (1.0, 2.0))
    ends = zip((*distances, soft_negative_margin), (1, 2, -1), (-1, -1, 1), strict=True)
    for function, at, expected in ends:
        end = torch.tensor([at], dtype=torch.float64, requires_grad=True)
        value = function(end, margin)
        (slope,) = torch.autograd.grad(value.sum(), end)
        assert (value.item(), slope.item()) == pytest.approx((0, expected), abs=0)
        far = torch.tensor([100.0 * expected], dtype=torch.float64)
        assert [function(far, size).item() for size in (margin, 0.0)] == pytest.approx([margin, 0])


@given(margin=margins, score=st.floats(-1, 1))
def test_soft_margins_never_exceed_gamma_or_the_remaining_distance(margin, score):
    """Never above γ and never above the distance to the end (the paper's theoretical maximum)."""
    at = torch.tensor(score, dtype=torch.float64)
    for value, room in (
        (soft_margin(at, margin, 1.0), 1 - score),
        (soft_margin(at * 2, margin, 2.0), 2 - 2 * score),
        (soft_negative_margin(at, margin), score + 1),
    ):
        assert 0 <= value.item() <= min(margin, room) + 1e-12


@pytest.mark.parametrize("name", IMITATION)
@given(seed=seeds)
def test_equalling_the_teacher_minimises_the_loss(name, seed):
    """DINO's teacher is sharper; with equal temperatures the loss is DML plus the teacher's entropy."""
    fast, _, switches = LOSSES[name]
    if "teacher_temperature" in switches:
        switches = {**switches, "teacher_temperature": switches["temperature"]}
    for target, taught in directions(seed):
        floor = fast(Direction(*taught, target.negatives), taught, **switches)
        actual = fast(target, taught, **switches)
        assert bool((floor <= actual + 1e-12).all())
        if name == "dino":
            expected = objectives.mutual_learning(target, taught, temperature=0.3) + floor
            assert actual.tolist() == pytest.approx(expected.tolist(), abs=1e-10)
        else:
            assert floor.abs().max().item() == pytest.approx(0, abs=1e-12)
