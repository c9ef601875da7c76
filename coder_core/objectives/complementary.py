"""Complementary samples: neighbour scores DIV and DIS, the weights made of them, and losses within a modality.

Thomas and Kovashka, "Emphasizing Complementary Samples for Non-literal Cross-modal Retrieval", CVPR workshops 2022,
eq. 2-4 and 6-8. Neighbours are found once, between captions in a fixed text space; the scores measure how the model
embeds them, separately for images and for captions. Scores and weights carry no gradient.

    p  pairs, one for each caption      N  neighbours of a caption, padded with −1
    M  rows of embeddings               B  pairs of all processes in a batch, whose weights sum to λ

With one unit vector per sample, both double sums reduce exactly to means:
(1/N²) Σ_r Σ_c ⟨s'_r, s'_c⟩ = ‖mean of the neighbours‖² and (1/N²) Σ_r ⟨s''_r, s⟩ = ⟨mean of the neighbours of the
neighbours, s⟩. The last mean reuses the sums over each neighbour's neighbours.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from coder_core.objectives.triplet import npairs_hinge

Modalities = Literal["difference", "sum", "image", "text"]

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


def combined_weights(
    kind: str,
    diversity: Tensor,
    discrepancy: Tensor,
    pairs: Tensor | None = None,
    *,
    shares: tuple[float, float] = (1.0, 1.0),
    direction: int = -1,
    scale: float = 1.0,
    modalities: Modalities = "difference",
) -> Tensor:
    """Weigh a batch of pairs by the neighbour diversity and discrepancy of their images and captions.

    In plain terms: 1. image and caption each get an exponent β·Γ·DIV + γ·Γ·DIS; 2. a softmax over the batch turns the
    exponents into α_X and α_Y; 3. a second softmax, of |α_X − α_Y|, emphasises pairs whose modalities disagree.

    Args:
        kind, shares: see `combination_shares`.
        diversity, discrepancy: (p, 2) scores of the images and captions of all pairs.
        pairs: (B,) int64 numbers of the pairs to weigh; None weighs all.
        direction: Γ; −1 emphasises samples whose neighbours differ, 1 those whose neighbours agree, 0 none.
        scale: λ ÷ B, above 0.
        modalities: see `pair_weights`.

    Returns:
        (B,) weights, whose mean is `scale`.

    >>> diversity = torch.tensor([[0.9, 0.9], [0.1, 0.1]])  # the second pair's neighbours are spread out
    >>> combined_weights("diversity", diversity, diversity, modalities="sum")
    tensor([0.3590, 1.6410])
    """
    of_diversity, of_discrepancy = combination_shares(kind, diversity, discrepancy, validated=shares)
    if pairs is not None:
        diversity = diversity[pairs]
        discrepancy = discrepancy[pairs]
    exponents = direction * (of_diversity * diversity + of_discrepancy * discrepancy)
    size = scale * len(exponents)
    return pair_weights(exponents[:, 0], exponents[:, 1], scale=size, modalities=modalities)


def combination_shares(
    kind: str, diversity: Tensor, discrepancy: Tensor, *, validated: tuple[float, float] = (1.0, 1.0)
) -> tuple[float, float]:
    """Return β of the diversity and γ of the discrepancy.

    COMBINED-STATS uses μ·σ of each score, without Γ, as in the paper's table 1: with Γ = −1 included, μ would be
    negative, and the product would favour the samples that Γ should weaken. In that table μ·σ ranges from 0 to 0.06, so
    the exponents barely differ and the weights are nearly uniform by construction.

    Args:
        kind: "diversity", "discrepancy", "combined", "combined-stats" or "random".
        diversity, discrepancy: (p, 2) scores of all pairs.
        validated: β and γ of "combined" (COMBINED-VAL); the paper selects them on dev.

    Raises:
        ValueError: an unknown kind.

    >>> combination_shares("combined-stats", torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 5.0]]))
    (1.0, 6.0)
    """
    if kind == "combined-stats":
        mean, deviation = mean_and_deviation(diversity)
        other_mean, other_deviation = mean_and_deviation(discrepancy)
        return mean * deviation, other_mean * other_deviation
    shares = {"diversity": (1.0, 0.0), "random": (1.0, 0.0), "discrepancy": (0.0, 1.0), "combined": validated}
    if kind not in shares:
        raise ValueError(f'kind must be "combined-stats" or one of {", ".join(shares)}, got {kind!r}')
    return shares[kind]


def shuffled(scores: Tensor, random: torch.Generator) -> Tensor:
    """Permute the (p, 2) scores over the pairs, for a random control whose weights have the method's distribution.

    The paper's table 3 has a row of random weights but does not say how they are drawn.

    >>> shuffled(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.Generator().manual_seed(0)).sum(0)
    tensor([4., 6.])
    """
    return scores[torch.randperm(len(scores), generator=random).to(scores.device)]


def mean_and_deviation(scores: Tensor) -> tuple[float, float]:
    """Return the mean and population standard deviation over all pairs and both modalities (table 1).

    >>> mean_and_deviation(torch.tensor([[0.0, 2.0]]))
    (1.0, 1.0)
    """
    return float(scores.mean()), float(scores.std(correction=0))


def pair_weights(
    images: Tensor, texts: Tensor, *, scale: float, modalities: Modalities = "difference"
) -> Tensor:
    """Weigh each pair of a batch by the (B,) exponents of its image and of its caption.

    α is λ·softmax over the batch (eq. 3, 6). The outer softmax is printed without λ, but eq. 1 divides by the batch
    size twice and the paper asks for λ of at least the batch size: the weights must sum to λ, so λ multiplies it too.

    Args:
        scale: λ > 0.
        modalities: λ·softmax of |α_X − α_Y| or of α_X + α_Y, or α_X or α_Y itself (table 3).

    Returns:
        (B,) weights that sum to λ.

    Raises:
        ValueError: `modalities` is unknown.

    >>> pair_weights(torch.tensor([3.0, 1.0]).log(), torch.zeros(2), scale=2.0, modalities="image")
    tensor([1.5000, 0.5000])
    """
    of_images = scale * torch.softmax(images, dim=0)
    of_texts = scale * torch.softmax(texts, dim=0)
    if modalities == "image":
        return of_images
    if modalities == "text":
        return of_texts
    if modalities == "difference":
        return scale * torch.softmax((of_images - of_texts).abs(), dim=0)
    if modalities == "sum":
        return scale * torch.softmax(of_images + of_texts, dim=0)
    raise ValueError(f'modalities must be "difference", "sum", "image" or "text", got {modalities!r}')


def within_modality(
    samples: Tensor, candidates: Tensor, neighbours: Tensor, negatives: Tensor, *, margin: float = 0.1
) -> Tensor:
    """Return (B,) n-pairs hinges of samples against those of their own modality, with a neighbour as the positive.

    THOMAS: Thomas and Kovashka 2020, "Preserving Semantic Neighborhoods for Robust Cross-modal Retrieval",
    arXiv:2007.08617, with the hinge that the complementary-samples paper uses for all methods.

    Args:
        samples: (B, D) unit rows of one modality.
        candidates: (C, D) unit rows of the whole batch in the same modality.
        neighbours: (B, D) embedding of one neighbour of each sample.
        negatives: (B, C) bool, true for candidates of another image that are not neighbours.

    >>> images = torch.eye(2)
    >>> within_modality(images, images, images.flip(0), ~torch.eye(2, dtype=torch.bool))
    tensor([0.0250, 0.0250])
    """
    return npairs_hinge(samples @ candidates.T, (samples * neighbours).sum(1), negatives, margin=margin)


def is_neighbour(neighbours: Tensor, candidates: Tensor) -> Tensor:
    """Mark the (C,) candidate captions among each sample's neighbours, (B, N) padded with −1: (B, C) bool.

    >>> is_neighbour(torch.tensor([[3, 5], [7, -1]]), torch.tensor([5, 6, 7]))
    tensor([[ True, False, False],
            [False, False,  True]])
    """
    ordered = neighbours.sort(1).values
    candidates = candidates.expand(len(neighbours), -1).contiguous()
    position = torch.searchsorted(ordered, candidates).clamp_max(ordered.shape[1] - 1)
    return ordered.gather(1, position) == candidates
