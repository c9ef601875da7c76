"""Learning from a second branch by imitation: what Deep Boosting Learning is compared with (Diao et al. 2024, table 2).

Each loss stands between the scores S^t of the branch that learns and S^a of another one, the anchor, which gets no
gradient. The paper adapts the published losses to image-text matching in a few words: rank and relational distillation
read the predicted scores directly; for mutual learning and DINO a pair counts as a class of its mini-batch, so that a
query's scores become shares of a softmax. What it leaves open is decided here as the cited work does, and said beside
each function. A query's list is its positive and its negatives; other captions of its image are neither, and left out.

One direction; call a loss for both and add.
"""

from __future__ import annotations

from itertools import permutations

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from coder_core.ops import full_precision, masked_mean

LEFT_OUT = -1e4  # a logit whose share is zero in float32 and float64, and whose logarithm is still a number
LIST_LENGTH = 4  # of the rank distillation: 4! = 24 orders; its cost grows with the factorial
NO_DISTANCE = 1e-8  # a query whose candidates are nearer than this on average has no relations to pass on


def rank_distillation(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, anchor_scores: Tensor, anchor_positive_scores: Tensor,
    *, temperature: float = 0.1, length: int = LIST_LENGTH,
) -> Tensor:  # fmt: skip
    """DR, the soft rank transfer of DarkRank: KL(P^a ‖ P^t) over the orders of a short list.

    Chen et al. 2018, DarkRank, arXiv:1707.01220. An order π of the list has the probability
    Π_i exp(s_π(i)) / Σ_{k ≥ i} exp(s_π(k)), with s = S / temperature (the paper's −α·d^β made of distances; here the
    score is read directly, as Diao et al. say). Open: which list. The query's positive and the negatives that the
    anchor scores highest, whose order is what could be learned.

    Args:
        scores: (Q, C) S^t.
        positive_scores: (Q,) S^t of each query's positive.
        negatives: (Q, C) bool; a query without any loses nothing.
        anchor_scores: (Q, C) S^a of the same queries and candidates.
        anchor_positive_scores: (Q,) S^a of each query's positive.
        temperature: > 0.
        length: of the list, 2 or more.

    Returns:
        (Q,) losses.
    """
    anchor = full_precision(anchor_scores).detach()
    count = min(length - 1, anchor.shape[1])
    columns = torch.where(negatives, anchor, float("-inf")).topk(count, dim=1).indices
    is_negative = negatives.gather(1, columns)
    lists = [
        _first(positive, torch.where(is_negative, of_all.gather(1, columns) / temperature, LEFT_OUT), temperature)
        for of_all, positive in (
            (anchor, full_precision(anchor_positive_scores).detach()),
            (full_precision(scores), full_precision(positive_scores)),
        )
    ]
    orders = torch.tensor(list(permutations(range(count + 1))), device=anchor.device)
    known, learned = (_log_chances(one, orders) for one in lists)
    return (known.exp() * (known - learned)).sum(dim=1)


def relational_distillation(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, anchor_scores: Tensor, anchor_positive_scores: Tensor,
) -> Tensor:  # fmt: skip
    """RKD by distances: the mean over a query's list of Huber(ψ^a − ψ^t), ψ = (1 − S) ÷ its mean over the list.

    Park et al. 2019, Relational Knowledge Distillation, arXiv:1904.05068, δ = 1. Open: the distance of a
    score, 1 − S; and over what the mean is taken, each query's own list instead of the mini-batch, so that a query's
    loss needs no other query. Arguments as for `rank_distillation`.
    """
    kept = _first(torch.ones_like(negatives[:, 0]), negatives)

    def relations(of_all: Tensor, positive: Tensor) -> Tensor:
        distances = 1 - _first(full_precision(positive), full_precision(of_all))
        mean = masked_mean(distances, kept)[:, None]
        return distances / torch.where(mean > NO_DISTANCE, mean, 1.0)

    known = relations(anchor_scores, anchor_positive_scores).detach()
    return masked_mean(huber_loss(relations(scores, positive_scores), known, reduction="none"), kept)


def mutual_learning(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, anchor_scores: Tensor, anchor_positive_scores: Tensor,
    *, temperature: float = 0.1,
) -> Tensor:  # fmt: skip
    """DML, KL(P^a ‖ P^t) of the two branches' shares. Zhang et al. 2018, Deep Mutual Learning, arXiv:1706.00384.

    Mutual where both branches learn: each then takes the other as its anchor. Open: the scale of a score in the
    softmax. Cosines are divided by a temperature, without which every list is nearly uniform. Arguments as for
    `rank_distillation`.
    """
    known, learned = _both_log_shares(
        scores, positive_scores, negatives, anchor_scores, anchor_positive_scores, temperature, temperature
    )
    return (known.exp() * (known - learned)).sum(dim=1)


def self_distillation(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, anchor_scores: Tensor, anchor_positive_scores: Tensor,
    *, temperature: float = 0.1, anchor_temperature: float = 0.04,
) -> Tensor:  # fmt: skip
    """DINO, the cross-entropy −Σ P^a log P^t, the anchor sharper. Caron et al. 2021, arXiv:2104.14294, eq. 3.

    Open: its centre, the running mean of the anchor's outputs. It is left out: a class here is a pair of one mini-batch
    and has no running mean; against the collapse that it prevents stands the matching loss. Arguments as for
    `rank_distillation`; the temperatures are DINO's.
    """
    known, learned = _both_log_shares(
        scores, positive_scores, negatives, anchor_scores, anchor_positive_scores, temperature, anchor_temperature
    )
    return -(known.exp() * learned).sum(dim=1)


def reversed_self_distillation(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, anchor_scores: Tensor, anchor_positive_scores: Tensor,
    *, temperature: float = 0.1, anchor_temperature: float = 0.04,
) -> Tensor:  # fmt: skip
    """DINO*, KL(P^t ‖ P^a): the divergence the other way round (table II).

    Open: the text exchanges the two sides of a cross-entropy, the table speaks of an inverse divergence. They differ
    by the entropy of P^t, which has a gradient here; the divergence is taken, as in the projection loss that the paper
    cites for it (`projection.py`). Arguments as for `self_distillation`.
    """
    known, learned = _both_log_shares(
        scores, positive_scores, negatives, anchor_scores, anchor_positive_scores, temperature, anchor_temperature
    )
    return (learned.exp() * (learned - known)).sum(dim=1)


def _first(positive: Tensor, others: Tensor, divisor: float | None = None) -> Tensor:
    """(Q,), (Q, C) -> (Q, 1 + C): the positive at the head of its list."""
    return torch.cat([(positive if divisor is None else positive / divisor)[:, None], others], dim=1)


def _both_log_shares(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, anchor_scores: Tensor, anchor_positive_scores: Tensor,
    temperature: float, anchor_temperature: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """log P^a without gradient, and log P^t, (Q, 1 + C) each."""

    def log_shares(of_all: Tensor, positive: Tensor, divisor: float) -> Tensor:
        others = torch.where(negatives, full_precision(of_all) / divisor, LEFT_OUT)
        return torch.log_softmax(_first(full_precision(positive), others, divisor), dim=1)

    known = log_shares(anchor_scores, anchor_positive_scores, anchor_temperature).detach()
    return known, log_shares(scores, positive_scores, temperature)


def _log_chances(logits: Tensor, orders: Tensor) -> Tensor:
    """(Q, L), (L!, L) -> (Q, L!) log-probability of every order: Σ_i of a choice among those not yet chosen."""
    in_order = logits[:, orders]
    remaining = in_order.flip(-1).logcumsumexp(-1).flip(-1)
    return (in_order - remaining).sum(-1)
