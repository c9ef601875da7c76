"""What a branch learns from another by imitation: DR, RKD, DML, DINO and DINO*."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from coder_core.objectives.mutual_learning import (
    mutual_learning,
    rank_distillation,
    relational_distillation,
    reversed_self_distillation,
    self_distillation,
)
from coder_core.objectives.pairs import both_directions
from tests.objectives.test_boosting import directions, two_branches
from tests.reference import cooperation as reference
from tests.reference.pairs import kept, negatives, transposed

T, A = 0.3, 0.2  # temperatures
Slow = Callable[[Sequence[float], Sequence[float]], float]
FORMS: dict[str, tuple[Callable[..., Tensor], dict[str, float], Slow]] = {
    "dr": (rank_distillation, {"temperature": T, "length": 3}, lambda t, a: reference.dr(t, a, T, 3)),
    "rkd": (relational_distillation, {}, reference.rkd),
    "dml": (mutual_learning, {"temperature": T}, lambda t, a: reference.dml(t, a, T)),
    "dino": (
        self_distillation, {"temperature": T, "anchor_temperature": A}, lambda t, a: reference.dino(t, a, T, A)
    ),
    "dino-reversed": (
        reversed_self_distillation, {"temperature": T, "anchor_temperature": A},
        lambda t, a: reference.dino_reversed(t, a, T, A),
    ),
}  # fmt: skip
every_form = pytest.mark.parametrize("form", FORMS)
seeds = st.integers(0, 10_000)


@every_form
@given(seed=seeds)
def test_both_directions_agree_with_the_loops(form: str, seed: int) -> None:
    fast, switches, slow = FORMS[form]
    problem, anchor = two_branches(seed)
    ids = problem.ids.tolist()
    matrices = problem.scores.tolist(), anchor.tolist()
    ways = matrices, tuple(map(transposed, matrices))
    for (target, scores, positives), (rows, known) in zip(directions(seed), ways, strict=True):
        expected = []
        for i, mask in enumerate(negatives(ids, ids)):
            lists = ([one[i][i], *kept(one[i], mask)] for one in (rows, known))
            expected.append(slow(*lists))
        assert fast(*target, scores, positives, **switches).tolist() == pytest.approx(expected, abs=1e-10)


@every_form
def test_gradients_reach_the_learner_alone(form: str) -> None:
    fast, switches, _ = FORMS[form]
    problem, anchor = two_branches(3)
    anchor.requires_grad_()
    mask = both_directions(problem.scores, problem.ids)[0].negatives

    def loss(scores: Tensor) -> Tensor:
        return fast(scores, scores.diagonal(), mask, anchor, anchor.diagonal(), **switches)

    loss(problem.scores).sum().backward()
    assert anchor.grad is None
    anchor.requires_grad_(False)
    assert gradcheck(loss, problem.scores)


@every_form
@given(seed=seeds)
def test_nothing_is_better_than_to_be_the_anchor(form: str, seed: int) -> None:
    """Except that DINO's anchor is sharper: with equal temperatures its floor is the anchor's own entropy."""
    fast, switches, _ = FORMS[form]
    if "anchor_temperature" in switches:
        switches = {**switches, "anchor_temperature": T}
    for target, scores, positives in directions(seed):
        imitated = fast(scores, positives, target.negatives, scores, positives, **switches)
        found = fast(*target, scores, positives, **switches)
        assert bool((imitated <= found + 1e-12).all())
        if form != "dino":
            assert imitated.abs().max().item() == pytest.approx(0, abs=1e-12)


@given(seed=seeds)
def test_dino_is_dml_and_the_anchors_entropy_where_both_are_equally_sharp(seed: int) -> None:
    for target, scores, positives in directions(seed):
        given_ = *target, scores, positives
        ours = self_distillation(*given_, temperature=T, anchor_temperature=T)
        entropy = self_distillation(scores, positives, target.negatives, scores, positives, temperature=T,
                                    anchor_temperature=T)  # fmt: skip
        expected = mutual_learning(*given_, temperature=T) + entropy
        assert ours.tolist() == pytest.approx(expected.tolist(), abs=1e-10)


def test_rank_distillation_reads_the_negatives_the_anchor_scores_highest() -> None:
    """A list of two: the chance that the positive comes first is a logistic function of its lead, in both branches."""
    target = torch.tensor([[0.5, 0.1, 0.9]], dtype=torch.float64)
    anchor = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    mask = torch.tensor([[False, True, True]])

    def first(lead: float) -> float:
        return 1 / (1 + math.exp(-lead))

    known, learned = first(0.2), first(0.4)
    expected = known * math.log(known / learned) + (1 - known) * math.log((1 - known) / (1 - learned))
    found = rank_distillation(target, target[:, 0], mask, anchor, anchor[:, 0], temperature=1.0, length=2)
    assert found.item() == pytest.approx(expected)


@every_form
def test_a_query_without_negatives_loses_nothing(form: str) -> None:
    fast, switches, _ = FORMS[form]
    scores = torch.zeros(1, 2, requires_grad=True)
    anchor = torch.full((1, 2), 0.5)
    value = fast(scores, scores[:, 0], torch.zeros(1, 2, dtype=torch.bool), anchor, anchor[:, 0], **switches)
    value.sum().backward()
    assert value.tolist() == [0.0]
    assert scores.grad is not None
    assert scores.grad.tolist() == [[0.0, 0.0]]


@every_form
def test_half_precision_is_raised(form: str) -> None:
    fast, switches, _ = FORMS[form]
    scores = torch.tensor([[0.5, 0.25]], dtype=torch.bfloat16)
    anchor = torch.tensor([[0.25, 0.5]], dtype=torch.bfloat16)
    value = fast(scores, scores[:, 0], torch.tensor([[False, True]]), anchor, anchor[:, 0], **switches)
    assert value.dtype == torch.float32
    assert value.isfinite().all()


def test_relations_of_candidates_at_no_distance_are_finite() -> None:
    scores = torch.ones(1, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[False, True, True]])
    value = relational_distillation(scores, scores[:, 0], mask, scores.detach(), scores[:, 0].detach())
    value.sum().backward()
    assert value.item() == 0
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
