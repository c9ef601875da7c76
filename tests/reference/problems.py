"""Random batches and banks of scores, small enough for loops."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Problem:
    """Scores (float64, with gradients) of one direction's anchors against a batch and a bank. Ids repeat, so that some
    entries are of the same image; some slots are empty (id −1). Row i's positive in the batch is column i."""

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
    """Draw scores between −0.99 and 0.99, and ids."""
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
