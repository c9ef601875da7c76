"""Exact ranks on a GPU against their float32 product and against a CPU: python -m benchmarks.gpu_ranks IMAGES CAPTIONS."""

import sys

import numpy as np
import torch

from benchmarks.timing import DEVICE, clock
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.relevance import Queries, Relevance
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair

WIDTH = 512
ROUNDS = 3
COMPARED = 500  # queries per direction that the CPU ranks too


def main(arguments: list[str]) -> int:
    """Print the ratio of each round, and whether ranks and lists equal those of a CPU. Return 1 if they do not."""
    images, captions = map(int, arguments)
    generator = torch.Generator().manual_seed(0)
    v = torch.nn.functional.normalize(torch.randn(images, WIDTH, generator=generator), dim=1)
    owner = np.arange(captions) % images
    noise = torch.randn(captions, WIDTH, generator=generator)
    w = torch.nn.functional.normalize(v[torch.from_numpy(owner)] + 0.1 * noise, dim=1)
    labels = Relevance.of_labels(owner, images)
    scores = check_scores([EmbeddingPair(v, w)], DEVICE)
    left = v.to(DEVICE)
    right = w.to(DEVICE)

    def product() -> None:
        for rows in left.split(4_096):
            for columns in right.split(65_536):
                rows @ columns.T

    for _ in range(ROUNDS):
        of_ranks = clock(lambda: rank(scores, labels)).wall
        of_product = clock(product).wall
        print(f"ranks {of_ranks:.2f} s, product {of_product:.2f} s, ratio {of_ranks / of_product:.2f}")

    random = np.random.default_rng(0)
    queries = Queries(
        *(np.sort(random.choice(count, min(COMPARED, count), False)) for count in (images, captions))
    )
    chosen = labels.of_queries(queries)
    here = rank(scores, chosen)
    there = rank(check_scores([EmbeddingPair(v, w)], "cpu"), chosen)
    same = all(
        np.array_equal(getattr(getattr(here, way), name), getattr(getattr(there, way), name))
        for way in ("i2t", "t2i")
        for name in ("first", "ties", "best")
    )
    print(
        f"{DEVICE} and CPU: {'the same' if same else 'DIFFERENT'} ranks, ties and lists of {COMPARED} queries a direction"
    )
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
