"""Mutual learning: two branches that train together imitate each other's shares. One direction; call it for both."""

from __future__ import annotations

from torch import Tensor

from coder_core.objectives.pairs import log_shares


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

    Args:
        scores: (Q, C) S^t, of the branch that learns.
        positive_scores: (Q,) S^t of each query's positive.
        negatives: (Q, C) bool; a query without any loses nothing.
        teacher_scores: (Q, C) S^a of the same queries and candidates; no gradient reaches them.
        teacher_positive_scores: (Q,) S^a of each query's positive.
        temperature: > 0.

    Returns:
        (Q,) losses.

    >>> student, teacher = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.9, 0.1]])
    >>> mutual_learning(student, student[:, 0], torch.tensor([[False, True]]), teacher, teacher[:, 0])
    tensor([0.6901])
    """
    of_teacher = log_shares(teacher_scores, teacher_positive_scores, negatives, temperature).detach()
    of_student = log_shares(scores, positive_scores, negatives, temperature)
    return (of_teacher.exp() * (of_teacher - of_student)).sum(dim=1)
