"""Distillation from a second branch: what Deep Boosting Learning is compared with (Diao et al. 2024, table II).

Each loss stands between the scores S^t of the branch that learns and S^a of its teacher, which gets no gradient. The
paper adapts the published losses to image-text matching in a few words: rank and relational distillation read the
predicted scores directly; for DINO (and mutual learning) a pair counts as a class of its mini-batch, so that a query's
scores become shares of a softmax. What it leaves open is decided here as the cited work does, and said beside each
function. A query's list is its positive and its negatives; other captions of its image are neither, and left out.

One direction; call a loss for both and add. Arguments of all are those of `rank_distillation`.
"""

from __future__ import annotations

from itertools import permutations

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from coder_core.objectives.pairs import LEFT_OUT, log_shares, positive_first
from coder_core.ops import full_precision, masked_mean

LIST_LENGTH = 4
"""Negatives of the rank distillation: 4! = 24 orders; its cost grows with the factorial."""
NO_DISTANCE = 1e-8
"""A query whose candidates are nearer than this on average has no relations to pass on."""


def rank_distillation(
    scores: Tensor,
    positive_scores: Tensor,
    negatives: Tensor,
    teacher_scores: Tensor,
    teacher_positive_scores: Tensor,
    *,
    temperature: float = 0.1,
    length: int = LIST_LENGTH,
) -> Tensor:
    """DR, the soft rank transfer of DarkRank: KL(P^a ‖ P^t) over the orders of a short list.

    Chen et al. 2018, DarkRank, arXiv:1707.01220. An order π of the list has the probability
    Π_i exp(s_π(i)) / Σ_{k ≥ i} exp(s_π(k)), with s = S / temperature (the paper's −α·d^β made of distances; here the
    score is read directly, as Diao et al. say). Open: which list. The query's positive and the negatives that the
    teacher scores highest, whose order is what could be learned.

    Args:
        scores: (Q, C) S^t.
        positive_scores: (Q,) S^t of each query's positive.
        negatives: (Q, C) bool; a query without any loses nothing.
        teacher_scores: (Q, C) S^a of the same queries and candidates.
        teacher_positive_scores: (Q,) S^a of each query's positive.
        temperature: > 0.
        length: of the list, 2 or more.

    Returns:
        (Q,) losses.

    >>> student, teacher = torch.tensor([[0.5, 0.5, 0.1]]), torch.tensor([[0.9, 0.1, 0.1]])
    >>> rank_distillation(student, student[:, 0], torch.tensor([[False, True, True]]), teacher, teacher[:, 0])
    tensor([2.0219])
    """
    teacher = full_precision(teacher_scores).detach()
    count = min(length - 1, teacher.shape[1])
    columns = torch.where(negatives, teacher, float("-inf")).topk(count, dim=1).indices
    is_negative = negatives.gather(1, columns)
    orders = torch.tensor(list(permutations(range(count + 1))), device=teacher.device)

    def log_chances(of_all: Tensor, positive: Tensor) -> Tensor:
        """(Q, L!) log-probability of every order: Σ_i of a choice among those not yet chosen."""
        others = torch.where(is_negative, of_all.gather(1, columns) / temperature, LEFT_OUT)
        in_order = positive_first(positive / temperature, others)[:, orders]
        remaining = in_order.flip(-1).logcumsumexp(-1).flip(-1)
        return (in_order - remaining).sum(-1)

    of_teacher = log_chances(teacher, full_precision(teacher_positive_scores).detach())
    of_student = log_chances(full_precision(scores), full_precision(positive_scores))
    return (of_teacher.exp() * (of_teacher - of_student)).sum(dim=1)


def relational_distillation(
    scores: Tensor,
    positive_scores: Tensor,
    negatives: Tensor,
    teacher_scores: Tensor,
    teacher_positive_scores: Tensor,
) -> Tensor:
    """RKD by distances: the mean over a query's list of Huber(ψ^a − ψ^t), ψ = (1 − S) ÷ its mean over the list.

    Park et al. 2019, Relational Knowledge Distillation, arXiv:1904.05068, δ = 1. Open: the distance of a
    score, 1 − S; and over what the mean is taken, each query's own list instead of the mini-batch, so that a query's
    loss needs no other query.

    >>> student, teacher = torch.tensor([[0.8, 0.4, 0.4]]), torch.tensor([[0.9, 0.2, 0.2]])
    >>> relational_distillation(student, student[:, 0], torch.tensor([[False, True, True]]), teacher, teacher[:, 0])
    tensor([0.0159])
    """
    listed = positive_first(torch.ones_like(negatives[:, 0]), negatives)

    def relations(of_all: Tensor, positive: Tensor) -> Tensor:
        distances = 1 - positive_first(full_precision(positive), full_precision(of_all))
        mean = masked_mean(distances, listed)[:, None]
        return distances / torch.where(mean > NO_DISTANCE, mean, 1.0)

    of_teacher = relations(teacher_scores, teacher_positive_scores).detach()
    return masked_mean(huber_loss(relations(scores, positive_scores), of_teacher, reduction="none"), listed)


def self_distillation(
    scores: Tensor,
    positive_scores: Tensor,
    negatives: Tensor,
    teacher_scores: Tensor,
    teacher_positive_scores: Tensor,
    *,
    temperature: float = 0.1,
    teacher_temperature: float = 0.04,
) -> Tensor:
    """DINO, the cross-entropy −Σ P^a log P^t, the teacher sharper. Caron et al. 2021, arXiv:2104.14294, eq. 3.

    Open: its centre, the running mean of the teacher's outputs. It is left out: a class here is a pair of one
    mini-batch and has no running mean; against the collapse that it prevents stands the matching loss. The
    temperatures are DINO's.

    >>> student, teacher = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.9, 0.1]])
    >>> self_distillation(student, student[:, 0], torch.tensor([[False, True]]), teacher, teacher[:, 0])
    tensor([0.6931])
    """
    of_teacher = log_shares(teacher_scores, teacher_positive_scores, negatives, teacher_temperature).detach()
    of_student = log_shares(scores, positive_scores, negatives, temperature)
    return -(of_teacher.exp() * of_student).sum(dim=1)


def reversed_self_distillation(
    scores: Tensor,
    positive_scores: Tensor,
    negatives: Tensor,
    teacher_scores: Tensor,
    teacher_positive_scores: Tensor,
    *,
    temperature: float = 0.1,
    teacher_temperature: float = 0.04,
) -> Tensor:
    """DINO*, KL(P^t ‖ P^a): the divergence the other way round (table II).

    Open: the text exchanges the two sides of a cross-entropy, the table speaks of an inverse divergence. They differ
    by the entropy of P^t, which has a gradient here; the divergence is taken, as in the projection loss that the paper
    cites for it (`contrastive.py`).

    >>> student, teacher = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.6, 0.4]])
    >>> reversed_self_distillation(student, student[:, 0], torch.tensor([[False, True]]), teacher, teacher[:, 0])
    tensor([1.8136])
    """
    of_teacher = log_shares(teacher_scores, teacher_positive_scores, negatives, teacher_temperature).detach()
    of_student = log_shares(scores, positive_scores, negatives, temperature)
    return (of_student.exp() * (of_student - of_teacher)).sum(dim=1)


def mutual_learning(
    scores: Tensor,
    positive_scores: Tensor,
    negatives: Tensor,
    teacher_scores: Tensor,
    teacher_positive_scores: Tensor,
    *,
    temperature: float = 0.1,
) -> Tensor:
    """DML, KL(P^a ‖ P^t) of the two branches' shares. Zhang et al. 2018, Deep Mutual Learning, arXiv:1706.00384.

    Mutual where both branches learn: each then takes the other as its teacher. Open in Diao et al. 2024, who compare
    with it: the scale of a score in the softmax. Cosines are divided by a temperature, without which every list is
    nearly uniform.

    >>> student, teacher = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.9, 0.1]])
    >>> mutual_learning(student, student[:, 0], torch.tensor([[False, True]]), teacher, teacher[:, 0])
    tensor([0.6901])
    """
    of_teacher = log_shares(teacher_scores, teacher_positive_scores, negatives, temperature).detach()
    of_student = log_shares(scores, positive_scores, negatives, temperature)
    return (of_teacher.exp() * (of_teacher - of_student)).sum(dim=1)
