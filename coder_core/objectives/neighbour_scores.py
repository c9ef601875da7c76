"""Neighbour diversity and neighbour discrepancy of complementary samples: DIV and DIS, before Γ.

Thomas and Kovashka, "Emphasizing Complementary Samples for Non-literal Cross-modal Retrieval", CVPR workshops 2022,
eq. 2 and 4. Neighbours are found once, between captions in a fixed text space; what is measured is how the model embeds
them, the images and the captions each on their own. Nothing here carries a gradient.

    p  pairs, one for each caption      N  neighbours of a caption, −1 where there are fewer
    M  rows of embeddings               a score is the mean cosine, before Γ

For one unit vector a sample both double sums collapse into means, exactly:
(1/N²) Σ_r Σ_c ⟨s'_r, s'_c⟩ = ‖mean of the neighbours‖² and (1/N²) Σ_r ⟨s''_r, s⟩ = ⟨mean of the neighbours of the
neighbours, s⟩; and that last mean is a mean of sums already taken.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

ABSENT = -1  # Fills a table of neighbours where a caption has fewer

COLUMNS_AT_ONCE = 128
"""Sum over some of the embeddings' columns, so that no second copy of all embeddings is held."""


class NeighbourScores(NamedTuple):
    """Mean cosines of every pair's neighbourhood in one modality, Γ left out."""

    diversity: Tensor  # (p,) ‖mean of the neighbours‖²: 1 where all neighbours are embedded alike
    discrepancy: Tensor  # (p,) cosine of a sample with its neighbours' neighbours, on average


def neighbour_scores(
    embeddings: Tensor,
    is_embedded: Tensor,
    row_of_caption: Tensor,
    neighbours: Tensor,
    second_neighbours: Tensor,
) -> NeighbourScores:
    """Compute eq. 4 and 2 without Γ, for every pair at once.

    A neighbour without an embedding yet is left out. A pair without any neighbour or without an embedding of its own
    has no score; it gets the mean of the others, which weighs it like the average pair.

    Args:
        embeddings: (M, D) unit rows of one modality.
        is_embedded: (M,) bool, which of them are known.
        row_of_caption: (p,) int64, the row of `embeddings` that belongs to each caption.
        neighbours: (p, N) int64 captions.
        second_neighbours: (p, K) int64, of each caption the neighbours that count when it is itself a neighbour:
            `neighbours` for the whole double sum, or some of them (`sample_neighbours`).

    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> neighbours = torch.tensor([[1, 2], [0, 2], [0, 1]])
    >>> neighbour_scores(rows, torch.ones(3, dtype=torch.bool), torch.arange(3), neighbours, neighbours)
    NeighbourScores(diversity=tensor([1.0000, 0.5000, 0.5000]), discrepancy=tensor([0.5000, 0.7500, 0.7500]))
    """
    first_rows, second_rows = _rows(row_of_caption, neighbours), _rows(row_of_caption, second_neighbours)
    counted = is_embedded.to(embeddings.dtype)[:, None]
    first_count = sum_over_neighbours(counted, first_rows)
    second_count = sum_over_neighbours(sum_over_neighbours(counted, second_rows), neighbours)
    diversity, discrepancy = embeddings.new_zeros(2, len(row_of_caption))
    for start in range(0, embeddings.shape[1], COLUMNS_AT_ONCE):
        block = torch.where(is_embedded[:, None], embeddings[:, start : start + COLUMNS_AT_ONCE], 0.0)
        first = sum_over_neighbours(block, first_rows)
        inner = first if second_neighbours is neighbours else sum_over_neighbours(block, second_rows)
        diversity += (first / first_count.clamp_min(1)).square().sum(1)
        second = sum_over_neighbours(inner, neighbours) / second_count.clamp_min(1)
        discrepancy += (second * block[row_of_caption]).sum(1)
    has_first = first_count[:, 0] > 0
    has_second = (second_count[:, 0] > 0) & is_embedded[row_of_caption]
    return NeighbourScores(_fill_with_mean(diversity, has_first), _fill_with_mean(discrepancy, has_second))


def sum_over_neighbours(values: Tensor, rows: Tensor) -> Tensor:
    """Sum the (M, D) values over each row's neighbours: (p, N) int64 `rows`, of which −1 adds nothing -> (p, D).

    >>> sum_over_neighbours(torch.tensor([[1.0], [10.0]]), torch.tensor([[0, 1], [1, -1]]))
    tensor([[11.],
            [10.]])
    """
    padded = torch.cat([values, values.new_zeros(1, values.shape[1])])
    return embedding_bag(torch.where(rows < 0, len(values), rows), padded, mode="sum")


def sample_neighbours(neighbours: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw `count` of every caption's neighbours without repetition.

    The paper draws at most 1,000 of a sample's N² neighbours of neighbours. Drawing 1,000 / N of every neighbour is the
    same number, equally spread over the neighbours, and lets captions share what was summed.

    Returns:
        (p, min(count, N)) int64 of (p, N) `neighbours`; −1 where a caption has fewer.

    >>> sample_neighbours(torch.tensor([[4, -1, -1]]), 2, torch.Generator().manual_seed(0))
    tensor([[ 4, -1]])
    """
    if count >= neighbours.shape[1]:
        return neighbours
    chance = torch.rand(neighbours.shape, generator=generator, device=neighbours.device)
    columns = torch.where(neighbours < 0, 2.0, chance).topk(count, dim=1, largest=False).indices
    return neighbours.gather(1, columns)


def _rows(row_of_caption: Tensor, captions: Tensor) -> Tensor:
    """The rows of a modality's embeddings that belong to captions; −1 stays."""
    return torch.where(captions < 0, ABSENT, row_of_caption[captions.clamp_min(0)])


def _fill_with_mean(scores: Tensor, defined: Tensor) -> Tensor:
    if bool(defined.all()):
        return scores
    mean = scores[defined].mean() if bool(defined.any()) else scores.new_zeros(())
    return torch.where(defined, scores, mean)
