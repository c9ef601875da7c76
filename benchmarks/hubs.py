"""Two corrections for hubs compared: nearest neighbour normalization, which `evaluate --hub-correction` does, and dual bank
Sinkhorn normalization (DBSN; Pan et al., ACM MM 2025).

    python -m benchmarks.hubs RUN [RUN …]

Both lower the scores of a candidate by a bias that depends on the candidate only. NNN's is the mean of its k largest scores
with train queries. DBSN's is −τ·log v, with v from Sinkhorn's iterations that scale exp(S / τ) of a bank of queries (rows)
and of the candidates with a bank of further candidates (columns) until all rows, and all columns, have equal sums. The
banks are drawn from train. Size and strength (k or τ, and α) are chosen by R@1 + R@5 + R@10 on one half of dev's
queries and reported on the other half, both ways; each correction has 20 settings.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from coder_core.evaluation.hub_correction import NEIGHBOURS, STRENGTHS, hub_biases
from coder_core.evaluation.metrics import RECALL_AT
from coder_core.evaluation.sources import EmbeddingPair, mixed_embeddings
from coder_core.model.encode import encode_split
from coder_core.model.reader import TRAIN, data_folder, read_splits
from coder_core.runs.load import load_model

DEV = "dev"
TEMPERATURES = (0.01, 0.02, 0.05, 0.1, 0.2)  # τ
ITERATIONS = 10
MOST_TEXTS = 6_000  # of the banks
MOST_IMAGES = 3_000
WAYS = ("text→image", "image→text")
METHODS = ("as it is", "NNN", "DBSN")


@dataclass(frozen=True)
class Direction:
    """One direction of retrieval: Q queries of dev, C candidates, and the banks from train."""

    scores: np.ndarray  # (Q, C)
    relevant: np.ndarray  # (Q, C) bool
    half: np.ndarray  # (Q,) 0 or 1: the half of dev to which the query's image belongs
    candidates: np.ndarray  # (C, D) embeddings
    train_queries: np.ndarray  # all of them, for NNN
    query_bank: np.ndarray
    candidate_bank: np.ndarray


def sinkhorn_biases(scores: np.ndarray, temperature: float, count: int) -> np.ndarray:
    """Return (count,) −τ·log v of the first columns of (M, N) scores of a query bank with candidates.

    >>> sinkhorn_biases(np.float32([[0.9, 0.9, 0.1], [0.9, 0.1, 0.9]]), 0.1, 1)[0] > 0
    True
    """
    logits = torch.from_numpy(scores / temperature)
    rows, columns = logits.shape
    log_v = torch.zeros(columns, dtype=logits.dtype)
    for _ in range(ITERATIONS):
        log_u = -torch.logsumexp(logits + log_v, 1) - np.log(rows)
        log_v = -torch.logsumexp(logits + log_u[:, None], 0) - np.log(columns)
    return (-temperature * log_v[:count]).numpy()


def first_ranks(scores: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """Return (Q,) ranks of the best relevant candidate; ties count against it."""
    best = np.where(relevant, scores, -np.inf).max(1, keepdims=True)
    return ((scores >= best) & ~relevant).sum(1)


def recall(ranks: np.ndarray) -> float:
    """Return R@1 + R@5 + R@10."""
    return float(sum(100 * (ranks < k).mean() for k in RECALL_AT))


def corrected_ranks(way: Direction) -> dict[str, list[np.ndarray]]:
    """Return the ranks with every setting of every method; the first are those without a correction."""
    as_it_is = first_ranks(way.scores, way.relevant)
    nearest = hub_biases([EmbeddingPair(way.candidates, way.train_queries)], NEIGHBOURS)
    both_banks = np.concatenate([way.candidates, way.candidate_bank])
    of_banks = way.query_bank @ both_banks.T
    count = len(way.candidates)
    biases = {
        "NNN": list(nearest.T),
        "DBSN": [sinkhorn_biases(of_banks, temperature, count) for temperature in TEMPERATURES],
    }
    ranks = {"as it is": [as_it_is]}
    for method, found in biases.items():
        tried = [way.scores - strength * bias for bias in found for strength in STRENGTHS]
        ranks[method] = [as_it_is, *(first_ranks(scores, way.relevant) for scores in tried)]
    return ranks


def on_other_half(tried: Sequence[np.ndarray], half: np.ndarray) -> float:
    """Return R@1 + R@5 + R@10, the mean of both halves, each with the setting that is best on the other one."""
    sums = []
    for reported in (0, 1):
        best = max(tried, key=lambda ranks: recall(ranks[half != reported]))
        sums.append(recall(best[half == reported]))
    return sum(sums) / 2


def directions(
    images: Mapping[str, np.ndarray], texts: Mapping[str, np.ndarray], owner: np.ndarray
) -> list[Direction]:
    """Return both directions of dev, in the order of `WAYS`.

    Args:
        images, texts: split → embeddings whose inner products are the scores.
        owner: (m,) image of every caption of dev.
    """
    random = np.random.default_rng(0)
    image_bank = images[TRAIN][random.permutation(len(images[TRAIN]))[:MOST_IMAGES]]
    text_bank = texts[TRAIN][random.permutation(len(texts[TRAIN]))[:MOST_TEXTS]]
    scores = images[DEV] @ texts[DEV].T
    relevant = np.arange(len(scores))[:, None] == owner
    half = np.arange(len(scores)) % 2
    return [
        Direction(scores.T, relevant.T, half[owner], images[DEV], texts[TRAIN], text_bank, image_bank),
        Direction(scores, relevant, half, texts[DEV], images[TRAIN], image_bank, text_bank),
    ]


def compare(run: Path) -> dict[str, list[float]]:
    """Return R@1 + R@5 + R@10 of every method, text→image and image→text."""
    model = load_model(run)
    folder = data_folder(model.config.data.data)
    splits = read_splits(model.config, folder, model.towers, (TRAIN, DEV)).splits
    images = {}
    texts = {}
    for name, split in splits.items():
        embedded = encode_split(model.model, split, model.reader.encode(split.captions))
        images[name] = embedded.images
        texts[name] = embedded.texts
        if embedded.second is not None:
            concept_images, concept_texts = embedded.second
            images[name] = mixed_embeddings(embedded.images, concept_images, model.config.model.beta)
            texts[name] = mixed_embeddings(embedded.texts, concept_texts, model.config.model.beta)

    sums: dict[str, list[float]] = {method: [] for method in METHODS}
    for way in directions(images, texts, splits[DEV].image_of_text):
        for method, tried in corrected_ranks(way).items():
            sums[method].append(on_other_half(tried, way.half))

    return sums


def main(runs: Sequence[str]) -> int:
    """Print R@sum of every run and method, with both directions' shares of it."""
    table = Table(
        "run", *METHODS, title=f"R@sum ({' + '.join(WAYS)}) on the half of dev that was not chosen on"
    )
    for run in runs:
        sums = compare(Path(run))
        cells = [
            f"{sum(sums[method]):.1f} ({' + '.join(f'{way:.1f}' for way in sums[method])})"
            for method in METHODS
        ]
        table.add_row(Path(run).name, *cells)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
