"""DCL in the batch plus M-DCL against two banks, forward and backward, against its four matrix products.

    python -m benchmarks --only objectives --threads 1

The four products are the two score matrices against the banks and their gradients with respect to the anchors
(batch × bank × D each); the batch's own scores are 32 times smaller. Several threads measure well on an idle machine
only: on a busy one they wait for one another with their processors spinning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.timing import Line, at_most, in_turn, milliseconds, no_bar
from coder_core.objectives.diversity import anchor_diversity
from coder_core.objectives.diversity_contrastive import diversity_contrastive
from coder_core.objectives.pairs import Negatives, all_except_same_image, same_image_negatives
from coder_core.ops import normalise

BAR = 1.25
BATCH, BANK, SIZE = 128, 4_096, 1_024
IMAGES = 29_000  # of Flickr30K's train split


class Step(NamedTuple):
    """Embeddings of one training step; images and texts in this order."""

    anchors: tuple[Tensor, Tensor]
    keys: tuple[Tensor, Tensor]
    banks: tuple[Tensor, Tensor]
    image_ids: Tensor
    slot_ids: Tensor


def make_step() -> Step:
    """Random embeddings of the sizes of CODER on Flickr30K."""
    generator = torch.Generator().manual_seed(0)

    def embeddings(rows: int) -> tuple[Tensor, Tensor]:
        images, texts = (normalise(torch.randn(rows, SIZE, generator=generator) + 0.3) for _ in range(2))
        return images, texts

    def ids(rows: int) -> Tensor:
        return torch.randint(IMAGES, (rows,), generator=generator)

    images, texts = embeddings(BATCH)
    return Step(
        (images.requires_grad_(), texts.requires_grad_()),
        embeddings(BATCH),
        embeddings(BANK),
        ids(BATCH),
        ids(BANK),
    )


def four_products(step: Step) -> None:
    """The scores against both banks, and products of the shape of their gradients."""
    with torch.no_grad():
        for anchors, bank in zip(step.anchors, reversed(step.banks), strict=True):
            scores = anchors @ bank.mT
            scores @ bank


def losses(step: Step, negatives_of: Callable[..., Negatives]) -> None:
    """The step's losses and their gradients; `negatives_of` makes a mask, or the list that training takes."""
    images, texts = step.anchors
    in_batch = images @ texts.mT
    in_banks = [anchors @ bank.mT for anchors, bank in zip(step.anchors, reversed(step.banks), strict=True)]
    batch_negatives = negatives_of(step.image_ids, step.image_ids)
    bank_negatives = negatives_of(step.image_ids, step.slot_ids)
    total = torch.zeros(())
    directions = zip(step.anchors, reversed(step.keys), in_banks, (in_batch, in_batch.mT), strict=True)
    for anchors, partners, against_bank, scores in directions:
        diversity = anchor_diversity((scores, batch_negatives), (against_bank, bank_negatives))
        for all_scores, positives, negatives in (
            (scores, scores.diagonal(), batch_negatives),
            (against_bank, (anchors * partners).sum(1), bank_negatives),
        ):
            total = (
                total + diversity_contrastive(all_scores, positives, negatives, diversity=diversity).mean()
            )
    torch.autograd.grad(total, step.anchors)


def lines(rounds: int) -> list[Line]:
    """The losses ÷ their four products."""
    step = make_step()
    programs: dict[str, Callable[[int], object]] = {
        "products": lambda _: four_products(step),
        "trained": lambda _: losses(step, all_except_same_image),
        "masks": lambda _: losses(step, same_image_negatives),
    }
    taken = in_turn(programs, rounds, warm_up=5)
    name = "DCL + two bank losses"
    note = f"products {milliseconds(taken['products']):.1f} ms"
    return [
        at_most(f"{name} ÷ four products", BAR, taken["trained"], taken["products"], note),
        no_bar(f"{name}, negatives as masks ÷ four products", taken["masks"], taken["products"]),
    ]
