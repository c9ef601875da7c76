"""DCL in the batch plus M-DCL against two banks, forward and backward, as a ratio to its four matrix products.

    python -m benchmarks.objectives [--threads 1 2] [--rounds 60]

The four products are the two score matrices against the banks and their gradients with respect to the anchors
(batch × bank × D each); the batch's own scores are 32 times smaller. Everything is measured in turn, round by round, so
that a busy machine slows all of it alike; the ratios are medians over the rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor

from coder_core.cpu.products import use_onednn
from coder_core.objectives.diversity import anchor_diversity
from coder_core.objectives.diversity_contrastive import diversity_contrastive
from coder_core.objectives.pairs import Negatives, all_except_same_image, same_image_negatives
from coder_core.ops import normalise

LIMIT = 1.25
WARM_UP_ROUNDS = 5


@dataclass(frozen=True)
class Arguments:
    """What to measure.

    Args:
        batch: anchors of each modality.
        bank: slots of each bank.
        size: D, embedding size.
        threads: of torch, one block of rows each. On a busy machine only one thread measures well: several wait for
            one another with their processors spinning.
        rounds: measurements of each program.
        seed: of the embeddings.
    """

    batch: int = 128
    bank: int = 4096
    size: int = 1024
    threads: tuple[int, ...] = (1, 2)
    rounds: int = 60
    seed: int = 0


class Step(NamedTuple):
    """Embeddings of one training step; images and texts in this order."""

    anchors: tuple[Tensor, Tensor]
    keys: tuple[Tensor, Tensor]
    banks: tuple[Tensor, Tensor]
    image_ids: Tensor
    slot_ids: Tensor


class Seconds(NamedTuple):
    processor: float
    wall: float


def make_step(arguments: Arguments) -> Step:
    generator = torch.Generator().manual_seed(arguments.seed)
    images_in_data = 29_000

    def embeddings(rows: int) -> Tensor:
        return normalise(torch.randn(rows, arguments.size, generator=generator) + 0.3)

    def ids(rows: int) -> Tensor:
        return torch.randint(images_in_data, (rows,), generator=generator)

    return Step(
        anchors=(embeddings(arguments.batch).requires_grad_(), embeddings(arguments.batch).requires_grad_()),
        keys=(embeddings(arguments.batch), embeddings(arguments.batch)),
        banks=(embeddings(arguments.bank), embeddings(arguments.bank)),
        image_ids=ids(arguments.batch),
        slot_ids=ids(arguments.bank),
    )


def four_products(step: Step) -> None:
    with torch.no_grad():
        for anchors, bank in zip(step.anchors, reversed(step.banks), strict=True):
            scores = anchors @ bank.mT
            scores @ bank  # the shape of the gradient with respect to the anchors


def losses_with(negatives_of: Callable[..., Negatives]) -> Callable[[Step], Tensor]:
    """The step's losses, with negatives as a mask or as the list that training takes."""

    def losses(step: Step) -> Tensor:
        images, texts = step.anchors
        in_batch = images @ texts.mT
        batch_negatives = negatives_of(step.image_ids, step.image_ids)
        bank_negatives = negatives_of(step.image_ids, step.slot_ids)
        total = torch.zeros(())
        directions = zip(step.anchors, reversed(step.keys), reversed(step.banks), (in_batch, in_batch.mT), strict=True)
        for anchors, partners, bank, scores in directions:
            against_bank = anchors @ bank.mT
            diversity = anchor_diversity((scores, batch_negatives), (against_bank, bank_negatives))
            for of_all, positives, negatives in (
                (scores, scores.diagonal(), batch_negatives),
                (against_bank, (anchors * partners).sum(1), bank_negatives),
            ):
                total = total + diversity_contrastive(of_all, positives, negatives, diversity=diversity).mean()
        return total

    return losses


as_trained = losses_with(all_except_same_image)
with_masks = losses_with(same_image_negatives)


def train(losses: Callable[[Step], Tensor]) -> Callable[[Step], None]:
    def run(step: Step) -> None:
        torch.autograd.grad(losses(step), step.anchors)

    return run


def measure(programs: dict[str, Callable[[Step], None]], step: Step, rounds: int) -> dict[str, list[Seconds]]:
    """Run every program once a round, in turn; the first rounds warm up and are thrown away."""
    taken: dict[str, list[Seconds]] = {name: [] for name in programs}
    for turn in range(WARM_UP_ROUNDS + rounds):
        for name, program in programs.items():
            wall, processor = time.perf_counter(), time.process_time()
            program(step)
            seconds = Seconds(time.process_time() - processor, time.perf_counter() - wall)
            if turn >= WARM_UP_ROUNDS:
                taken[name].append(seconds)
    return taken


def median_of(kind: str, rounds: list[Seconds]) -> float:
    return statistics.median(getattr(own, kind) for own in rounds)


def median_ratio(kind: str, rounds: list[Seconds], limits: list[Seconds]) -> float:
    return statistics.median(
        getattr(own, kind) / getattr(limit, kind) for own, limit in zip(rounds, limits, strict=True)
    )


def add_rows(table: Table, threads: int, taken: dict[str, list[Seconds]], limit: str) -> None:
    for name, rounds in taken.items():
        times = [f"{median_of(kind, rounds) * 1e3:.2f}" for kind in Seconds._fields]
        ratios = [f"{median_ratio(kind, rounds, taken[limit]):.3f}" for kind in Seconds._fields]
        table.add_row(str(threads), name, *times, *ratios)
    table.add_section()


def main(arguments: Arguments) -> None:
    use_onednn()
    step = make_step(arguments)
    programs = {
        "four products": four_products,
        "as trained": train(as_trained),
        "negatives as masks": train(with_masks),
    }
    table = Table(
        "threads",
        "program",
        *("CPU ms", "wall ms", "CPU ÷ products", "wall ÷ products"),
        title=f"DCL + two bank losses, forward + backward: batch {arguments.batch}, bank {arguments.bank}, "
        f"D {arguments.size}, float32\nmedians of {arguments.rounds} rounds; bar: as trained <= {LIMIT}",
    )
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        add_rows(table, torch.get_num_threads(), measure(programs, step, arguments.rounds), "four products")
    Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
