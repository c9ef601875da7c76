"""Random batches and banks of scores, small enough for loops."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Problem:
    """One direction's anchors against a batch and a bank, all float64 and ready for gradients. Ids repeat, so
    same-image entries occur; some slots are empty. Row i's positive is column i."""

    scores: Tensor
    ids: Tensor
    bank_scores: Tensor
    bank_positives: Tensor
    slot_ids: Tensor

    @property
    def leaves(self):
        """Tensors that gradients are taken with respect to."""
        return self.scores, self.bank_scores, self.bank_positives


def random_problem(seed, *, queries=5, slots=9, images=6):
    """Cosines between -1 and 1."""
    generator = torch.Generator().manual_seed(seed)

    def cosines(*shape):
        values = torch.rand(*shape, generator=generator, dtype=torch.float64) * 1.98 - 0.99
        return values.requires_grad_()

    return Problem(
        scores=cosines(queries, queries),
        ids=torch.randint(images, (queries,), generator=generator),
        bank_scores=cosines(queries, slots),
        bank_positives=cosines(queries),
        slot_ids=torch.randint(-1, images, (slots,), generator=generator),
    )
