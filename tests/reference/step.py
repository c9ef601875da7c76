"""DCL and M-DCL of one direction, put together from the single-anchor loops."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.reference import diversity as spreads
from tests.reference.losses import diversity_contrastive
from tests.reference.pairs import Matrix, kept, literal_negatives, negatives


@dataclass
class Side:
    """Scores against the batch or a bank. `positive_offset` is None against a bank."""

    scores: Matrix
    positives: Sequence[float]
    ids: Sequence[int]
    positive_offset: int | None = None


def raw_diversity(side, query_ids, kind, epsilon, temperature):
    """Raw diversity of every anchor, and how many negatives it came from."""
    rows = [kept(*row) for row in zip(side.scores, negatives(query_ids, side.ids), strict=True)]
    values = [spreads.deviation(row) if kind == "std" else spreads.entropy(row, temperature) for row in rows]
    return [spreads.raw(value, epsilon) for value in values], [len(row) for row in rows]


def anchor_diversity(batch, bank, query_ids, *, kind, epsilon=0.1, entropy_temperature=1.0, bank_share=0.5):
    """Diversity of every anchor: spread, squashed, averaged over batch and bank, then divided by the largest."""
    if kind == "none":
        return [1.0] * len(query_ids)
    raws, _ = raw_diversity(batch, query_ids, kind, epsilon, entropy_temperature)
    if bank is not None:
        bank_raws, sizes = raw_diversity(bank, query_ids, kind, epsilon, entropy_temperature)
        raws = spreads.blended(raws, bank_raws, sizes, bank_share)
    return spreads.normalised(raws)


def losses(side, query_ids, diversity, *, keep_same_image, **switches):
    """The loss of every anchor against one side."""
    mask = negatives(query_ids, side.ids)
    if keep_same_image:
        mask = literal_negatives(query_ids, side.ids, side.positive_offset)
    return [
        diversity_contrastive(kept(row, is_negative), positive, diversity=weight, **switches)
        for row, is_negative, positive, weight in zip(
            side.scores, mask, side.positives, diversity, strict=True
        )
    ]
