"""M-DCL over several steps of a bank: which keys are candidates when, and which key is the positive."""

import pytest
import torch
from torch import Tensor

from coder_core.memory.bank import CoupledBank
from coder_core.objectives import fused
from coder_core.ops import normalise
from tests.reference import step as reference
from tests.reference.ring import Ring

BATCH, SLOTS, SIZE, STEPS = 3, 7, 4, 6


def unit_rows(generator: torch.Generator) -> Tensor:
    return normalise(torch.randn(BATCH, SIZE, generator=generator, dtype=torch.float64))


def dot(first: list[float], second: list[float]) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("modality", [0, 1])
def test_every_step_meets_the_whole_queue_before_its_own_keys(modality: int) -> None:
    """Anchors of one modality, the other's bank; batches of 3 wrap around 7 slots. Image ids repeat after 8."""
    generator = torch.Generator().manual_seed(modality)
    bank, ring = CoupledBank(SLOTS, SIZE).double(), Ring(SLOTS)
    for step in range(STEPS):
        anchors = unit_rows(generator)
        keys = (unit_rows(generator), unit_rows(generator))
        ids = torch.arange(step * BATCH, (step + 1) * BATCH) % 8
        partners = keys[1 - modality]
        slots = (bank.images, bank.texts)[1 - modality]
        side = fused.bank_candidates(anchors @ slots.T, (anchors * partners).sum(1), ids, bank.image_ids)
        batch = fused.batch_candidates(anchors @ partners.T, ids, ids)
        terms = fused.dcl_terms(batch, side)

        rows = anchors.tolist()
        in_ring = reference.Side(
            [[dot(row, entry[1 - modality]) for entry in ring.entries] for row in rows],
            [dot(row, partner) for row, partner in zip(rows, partners.tolist(), strict=True)],
            [entry[2] for entry in ring.entries],
        )
        in_batch = reference.Side(
            [[dot(row, partner) for partner in partners.tolist()] for row in rows], in_ring.positives, ids.tolist()
        )
        weights = reference.anchor_diversity(in_batch, in_ring, ids.tolist(), kind="std")
        assert terms.bank is not None
        expected = reference.losses(in_ring, ids.tolist(), weights, keep_same_image=False)
        assert terms.bank.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)

        bank.enqueue(*keys, ids)
        ring.enqueue(zip(keys[0].tolist(), keys[1].tolist(), ids.tolist(), strict=True))
    assert bank.count == len(ring.entries) == SLOTS
