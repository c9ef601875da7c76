"""DCL and M-DCL of whole batches, built from the loops of a single anchor."""

from dataclasses import dataclass

from tests.reference import diversity as spreads
from tests.reference.losses import diversity_contrastive
from tests.reference.pairs import kept, literal_negatives, negatives


@dataclass
class Side:
    """Scores of the anchors against the batch or a bank; `positive_offset` is None for a bank."""

    scores: list[list[float]]
    positives: list[float]
    ids: list[int]
    positive_offset: int | None = None


def raw_diversity(side, query_ids, kind, epsilon, temperature):
    """Return every anchor's raw diversity and number of negatives."""
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
    """Return every anchor's loss against one side."""
    mask = negatives(query_ids, side.ids)
    if keep_same_image:
        mask = literal_negatives(query_ids, side.ids, side.positive_offset)
    rows = map(kept, side.scores, mask)
    return [
        diversity_contrastive(row, positive, diversity=weight, **switches)
        for row, positive, weight in zip(rows, side.positives, diversity, strict=True)
    ]


def coupled(queries, keys, bank, ids, bank_ids, *, kind, **switches):
    """Return DCL in the batch and M-DCL against the bank (0 while it is empty), summed over anchors and directions.

    Embeddings are (2, B, D), the bank (2, slots, D); a positive in the bank is the partner's key of this step.
    """
    totals = [0.0, 0.0]
    for way in (0, 1):
        scores = queries[way] @ queries[1 - way].T
        sides = [Side(scores.tolist(), scores.diagonal().tolist(), ids, 0), None]
        if bank_ids:
            positives = (queries[way] * keys[1 - way]).sum(1).tolist()
            sides[1] = Side((queries[way] @ bank[1 - way].T).tolist(), positives, bank_ids)
        diversity = anchor_diversity(*sides, ids, kind=kind)
        for number, side in enumerate(side for side in sides if side):
            totals[number] += sum(losses(side, ids, diversity, keep_same_image=False, **switches))
    return totals
