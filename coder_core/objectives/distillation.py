"""Distillation from a second branch: the baselines of Deep Boosting Learning (Diao et al. 2024, table II).

Each loss compares the scores S^t of the branch that learns with S^a of its teacher, which gets no gradient. The paper
adapts the published losses to image-text matching in a few words: rank and relational distillation use the predicted
scores directly; for DINO (and mutual learning) each pair of the mini-batch is a class, so a query's scores become
softmax shares. Details that it leaves open follow the cited work and are marked "Open" in each function. A query's list
is its positive and its negatives; other captions of its image are left out.

Each loss covers one direction; add both. `target`, `teacher` and the result are those of `boosting.py`; temperatures
are > 0 and divide the scores before a softmax.
"""

from itertools import permutations

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from coder_core.objectives.pairs import (
    LEFT_OUT,
    Direction,
    Teacher,
    check_branches,
    log_shares,
    positive_first,
)
from coder_core.ops import full_precision, masked_mean

LIST_LENGTH = 4  # of rank distillation, positive included: 4! = 24 orders; the cost grows with the factorial
NO_DISTANCE = 1e-8  # a list with a smaller mean distance has no relations to transfer and is not rescaled


def rank_distillation(
    target: Direction, teacher: Teacher, *, temperature: float = 0.1, length: int = LIST_LENGTH
) -> Tensor:
    """Compute DR, the soft rank transfer of DarkRank: KL(P^a ‖ P^t) over the orders of a short list.

    Chen et al. 2018, DarkRank, arXiv:1707.01220. An order π of the list has the probability
    Π_i exp(s_π(i)) / Σ_{k ≥ i} exp(s_π(k)), with s = S / temperature (DarkRank uses −α·d^β of distances; Diao et al.
    use the score directly). Open: which list. Here it is the query's positive and the negatives that the teacher scores
    highest, whose order the target can learn.

    Args:
        length: length of the list, 2 or more.

    >>> scores, teacher = torch.tensor([[0.5, 0.5, 0.1]]), torch.tensor([[0.9, 0.1, 0.1]])
    >>> target = Direction(scores, scores[:, 0], torch.tensor([[False, True, True]]))
    >>> rank_distillation(target, (teacher, teacher[:, 0]))
    tensor([2.0219])
    """
    check_branches(target, teacher)
    scores, positive_scores = (full_precision(values).detach() for values in teacher)
    count = min(length - 1, scores.shape[1])
    columns = torch.where(target.negatives, scores, float("-inf")).topk(count, dim=1).indices
    is_negative = target.negatives.gather(1, columns)
    orders = torch.tensor(list(permutations(range(count + 1))), device=scores.device)

    def log_chances(of_all: Tensor, positive: Tensor) -> Tensor:
        """Return (Q, L!) log-probabilities of all orders: sums over successive choices among the remaining entries."""
        of_negatives = torch.where(is_negative, of_all.gather(1, columns) / temperature, LEFT_OUT)
        in_order = positive_first(positive / temperature, of_negatives)[:, orders]
        remaining = in_order.flip(-1).logcumsumexp(-1).flip(-1)
        return (in_order - remaining).sum(-1)

    of_teacher = log_chances(scores, positive_scores)
    of_student = log_chances(full_precision(target.scores), full_precision(target.positive_scores))
    return (of_teacher.exp() * (of_teacher - of_student)).sum(dim=1)


def relational_distillation(target: Direction, teacher: Teacher) -> Tensor:
    """Compute distance-wise RKD: a list's mean of Huber(ψ^a − ψ^t), where ψ = (1 − S) ÷ its mean over the list.

    Park et al. 2019, Relational Knowledge Distillation, arXiv:1904.05068, δ = 1. Open: the distance of a score, here
    1 − S; and the range of the mean, here each query's own list instead of the mini-batch, so that a query's loss
    does not depend on other queries.

    >>> scores, teacher = torch.tensor([[0.8, 0.4, 0.4]]), torch.tensor([[0.9, 0.2, 0.2]])
    >>> target = Direction(scores, scores[:, 0], torch.tensor([[False, True, True]]))
    >>> relational_distillation(target, (teacher, teacher[:, 0]))
    tensor([0.0159])
    """
    check_branches(target, teacher)
    in_list = positive_first(torch.ones_like(target.negatives[:, 0]), target.negatives)

    def relations(of_all: Tensor, positive: Tensor) -> Tensor:
        distances = 1 - positive_first(full_precision(positive), full_precision(of_all))
        mean = masked_mean(distances, in_list)[:, None]
        return distances / torch.where(mean > NO_DISTANCE, mean, 1.0)

    scores, positive_scores = teacher
    of_teacher = relations(scores, positive_scores).detach()
    of_student = relations(target.scores, target.positive_scores)
    return masked_mean(huber_loss(of_student, of_teacher, reduction="none"), in_list)


def self_distillation(
    target: Direction, teacher: Teacher, *, temperature: float = 0.1, teacher_temperature: float = 0.04
) -> Tensor:
    """Compute DINO's cross-entropy −Σ P^a log P^t with a sharper teacher. Caron et al. 2021, arXiv:2104.14294, eq. 3.

    Open: DINO's centring by the running mean of the teacher's outputs. It is left out: a class here is a pair of one
    mini-batch and has no running mean, and the matching loss already prevents the collapse that centring prevents. The
    default temperatures are DINO's.

    >>> scores, teacher = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.9, 0.1]])
    >>> self_distillation(Direction(scores, scores[:, 0], torch.tensor([[False, True]])), (teacher, teacher[:, 0]))
    tensor([0.6931])
    """
    of_teacher, of_student = _log_shares_of_both(target, teacher, temperature, teacher_temperature)
    return -(of_teacher.exp() * of_student).sum(dim=1)


def reversed_self_distillation(
    target: Direction, teacher: Teacher, *, temperature: float = 0.1, teacher_temperature: float = 0.04
) -> Tensor:
    """Compute DINO*, the reverse divergence KL(P^t ‖ P^a) (table II).

    Open: the text swaps the two sides of a cross-entropy, but the table names an inverse divergence. The two differ by
    the entropy of P^t, which has a gradient. This is the divergence, as in the projection loss that the paper cites for
    it (`projection_matching`).

    >>> scores, teacher = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.6, 0.4]])
    >>> target = Direction(scores, scores[:, 0], torch.tensor([[False, True]]))
    >>> reversed_self_distillation(target, (teacher, teacher[:, 0]))
    tensor([1.8136])
    """
    of_teacher, of_student = _log_shares_of_both(target, teacher, temperature, teacher_temperature)
    return (of_student.exp() * (of_student - of_teacher)).sum(dim=1)


def mutual_learning(target: Direction, teacher: Teacher, *, temperature: float = 0.1) -> Tensor:
    """Compute DML, KL(P^a ‖ P^t) of the branches' shares. Zhang et al. 2018, Deep Mutual Learning, arXiv:1706.00384.

    It is mutual if both branches learn, each with the other as its teacher. Open in Diao et al. 2024, where it is a
    baseline: the scale of a score in the softmax. Here cosines are divided by a temperature, because without one every
    list is nearly uniform.

    >>> scores, teacher = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.9, 0.1]])
    >>> mutual_learning(Direction(scores, scores[:, 0], torch.tensor([[False, True]])), (teacher, teacher[:, 0]))
    tensor([0.6901])
    """
    of_teacher, of_student = _log_shares_of_both(target, teacher, temperature, temperature)
    return (of_teacher.exp() * (of_teacher - of_student)).sum(dim=1)


def _log_shares_of_both(
    target: Direction, teacher: Teacher, temperature: float, teacher_temperature: float
) -> tuple[Tensor, Tensor]:
    scores, positive_scores = teacher
    of_teacher = log_shares(scores, positive_scores, target.negatives, teacher_temperature).detach()
    of_student = log_shares(target.scores, target.positive_scores, target.negatives, temperature)
    return of_teacher, of_student
