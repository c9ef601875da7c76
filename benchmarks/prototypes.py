"""One pass of the online k-means over 29,000 vectors against the one product it cannot do without.

As in training: batches of 128 pairs, each assigned and then taken into the running means; and the same in batches of
1,024, as several processes have them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.timing import Line, at_most, in_turn
from coder_core.ops import normalise
from coder_core.training.memory.prototypes import Prototypes

BAR = 1.3
PAIRS, DIMENSION, COUNT = 29_000, 1_024, 1_000
BATCHES = (128, 1_024)
SPREAD = 1.0  # of a pair around its planted centre, as long as the centre itself


def lines(rounds: int, warm_up: int = 1) -> list[Line]:
    """A pass ÷ its product."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(COUNT, DIMENSION, generator=generator)
    owner = torch.randint(COUNT, (PAIRS,), generator=generator)
    vectors = normalise(centres[owner] + SPREAD * torch.randn(PAIRS, DIMENSION, generator=generator))
    ids = torch.arange(PAIRS)

    def one_pass(size: int) -> Callable[[int], object]:
        clusters = Prototypes(COUNT, DIMENSION, PAIRS, PAIRS)
        clusters.update(vectors, ids)

        def run(_: int) -> None:
            for part, own in zip(vectors.split(size), ids.split(size), strict=True):
                clusters.update(part, own, clusters.assign(part))

        return run

    table = normalise(centres).T.contiguous()
    programs: dict[str, Callable[[int], object]] = {"product": lambda _: vectors @ table}
    programs |= {str(size): one_pass(size) for size in BATCHES}
    taken = in_turn(programs, rounds, warm_up)
    what = f"k-means pass, {PAIRS:,} × {DIMENSION:,}, K = {COUNT:,}"
    return [
        at_most(f"{what}, batches of {size:,} ÷ its product", BAR, taken[str(size)], taken["product"])
        for size in BATCHES
    ]
