"""Neighbour diversity and neighbour discrepancy of complementary samples: DIV and DIS, before Γ.

Thomas and Kovashka, "Emphasizing Complementary Samples for Non-literal Cross-modal Retrieval", CVPR workshops 2022,
eq. 2 and 4. Neighbours are found once, between captions in a fixed text space; the scores measure how the model embeds
them, separately for images and for captions. Nothing here carries a gradient.

    p  pairs, one for each caption      N  neighbours of a caption, padded with −1
    M  rows of embeddings               a score is the mean cosine, before Γ

With one unit vector per sample, both double sums reduce exactly to means:
(1/N²) Σ_r Σ_c ⟨s'_r, s'_c⟩ = ‖mean of the neighbours‖² and (1/N²) Σ_r ⟨s''_r, s⟩ = ⟨mean of the neighbours of the
neighbours, s⟩. The last mean reuses the sums over each neighbour's neighbours.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

ABSENT = -1  # padding in a table of neighbours, for captions that have fewer

COLUMNS_AT_ONCE = 128
"""Columns of the embeddings summed at a time, which avoids a second copy of all embeddings."""


class NeighbourScores(NamedTuple):
    """Mean cosines of every pair's neighbourhood in one modality, without Γ."""

    diversity: Tensor  # (p,) ‖mean of the neighbours‖²: 1 if all neighbours have the same embedding
    discrepancy: Tensor  # (p,) mean cosine of a sample with its neighbours' neighbours


def neighbour_scores(
    embeddings: Tensor,
    is_embedded: Tensor,
    row_of_caption: Tensor,
    neighbours: Tensor,
    second_neighbours: Tensor,
) -> NeighbourScores:
    """Compute eq. 4 and 2 without Γ, for every pair at once.

    Neighbours that have no embedding yet are left out. A pair without any neighbour, or without an embedding of its
    own, gets the mean of the other pairs' scores, which weighs it like the average pair.

    Args:
        embeddings: (M, D) unit rows of one modality.
        is_embedded: (M,) bool, true for rows with a known embedding.
        row_of_caption: (p,) int64, the row of `embeddings` that belongs to each caption.
        neighbours: (p, N) int64 captions.
        second_neighbours: (p, K) int64, each caption's neighbours to use when the caption is itself a neighbour:
            `neighbours` for the whole double sum, or a sample of them (`sample_neighbours`).

    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> neighbours = torch.tensor([[1, 2], [0, 2], [0, 1]])
    >>> neighbour_scores(rows, torch.ones(3, dtype=torch.bool), torch.arange(3), neighbours, neighbours)
    NeighbourScores(diversity=tensor([1.0000, 0.5000, 0.5000]), discrepancy=tensor([0.5000, 0.7500, 0.7500]))
    """
    first_rows = _rows(row_of_caption, neighbours)
    second_rows = _rows(row_of_caption, second_neighbours)
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
    """Sum the (M, D) values over each row's neighbours, (p, N) int64 `rows`, where −1 adds nothing -> (p, D).

    >>> sum_over_neighbours(torch.tensor([[1.0], [10.0]]), torch.tensor([[0, 1], [1, -1]]))
    tensor([[11.],
            [10.]])
    """
    padded = torch.cat([values, values.new_zeros(1, values.shape[1])])
    return embedding_bag(torch.where(rows < 0, len(values), rows), padded, mode="sum")


def sample_neighbours(neighbours: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw `count` of every caption's neighbours without replacement.

    The paper draws at most 1,000 of a sample's N² neighbours of neighbours. Drawing 1,000 / N from every neighbour gives
    the same number, spread evenly over the neighbours, and lets captions share the sums.

    Returns:
        (p, min(count, N)) int64 from the (p, N) `neighbours`; −1 where a caption has fewer.

    >>> sample_neighbours(torch.tensor([[4, -1, -1]]), 2, torch.Generator().manual_seed(0))
    tensor([[ 4, -1]])
    """
    if count >= neighbours.shape[1]:
        return neighbours
    chance = torch.rand(neighbours.shape, generator=generator, device=neighbours.device)
    columns = torch.where(neighbours < 0, 2.0, chance).topk(count, dim=1, largest=False).indices
    return neighbours.gather(1, columns)


def _rows(row_of_caption: Tensor, captions: Tensor) -> Tensor:
    """Return the rows of a modality's embeddings that belong to captions; −1 stays −1."""
    return torch.where(captions < 0, ABSENT, row_of_caption[captions.clamp_min(0)])


def _fill_with_mean(scores: Tensor, defined: Tensor) -> Tensor:
    if bool(defined.all()):
        return scores
    mean = scores[defined].mean() if bool(defined.any()) else scores.new_zeros(())
    return torch.where(defined, scores, mean)
