"""Complementary samples: DIVERSITY and DISCREPANCY of a pair's semantic neighbourhood, and the weights made of them.

Thomas and Kovashka, "Emphasizing Complementary Samples for Non-literal Cross-modal Retrieval", CVPR workshops 2022,
eq. 2-8. Neighbours are found once, between captions in a fixed text space; what is measured is how the model embeds
them, the images and the captions each on their own. Nothing here carries a gradient.

    p  pairs, one for each caption      N  neighbours of a caption, −1 where there are fewer
    M  rows of embeddings               a raw score is the mean cosine, before Γ

For one unit vector a sample both double sums collapse into means, exactly:
(1/N²) Σ_r Σ_c ⟨s'_r, s'_c⟩ = ‖mean of the neighbours‖² and (1/N²) Σ_r ⟨s''_r, s⟩ = ⟨mean of the neighbours of the
neighbours, s⟩; and that last mean is a mean of sums already taken.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

ABSENT = -1
"""Stands in a table of neighbours where a caption has fewer."""

COLUMNS_AT_ONCE = 128
"""Of the embeddings: a sum over some of the columns, so that no second copy of all embeddings is held."""

Modalities = Literal["difference", "sum", "image", "text"]


class RawScores(NamedTuple):
    """Mean cosines of every pair's neighbourhood in one modality, Γ left out."""

    diversity: Tensor
    """(p,) ‖mean of the neighbours‖²: 1 where all neighbours are embedded alike."""
    discrepancy: Tensor
    """(p,) cosine of a sample with its neighbours' neighbours, on average."""


def neighbour_sums(values: Tensor, rows: Tensor) -> Tensor:
    """Σ of the values in each row's neighbours.

    Args:
        values: (M, D).
        rows: (p, N) int64 rows of `values`; −1 adds nothing.

    Returns:
        (p, D).
    """
    nothing = len(values)
    padded = torch.cat([values, values.new_zeros(1, values.shape[1])])
    return embedding_bag(torch.where(rows < 0, nothing, rows), padded, mode="sum")


def raw_scores(values: Tensor, known: Tensor, owner: Tensor, neighbours: Tensor, again: Tensor) -> RawScores:
    """Eq. 4 and 2 without Γ, for every pair at once.

    A neighbour without an embedding yet is left out. A pair without any neighbour or without an embedding of its own
    has no score; it gets the mean of the others, which weighs it like the average pair.

    Args:
        values: (M, D) unit rows of one modality.
        known: (M,) bool, which of them have been embedded.
        owner: (p,) int64, the row of `values` that belongs to each caption.
        neighbours: (p, N) int64 captions.
        again: (p, K) int64, of each caption the neighbours that count when it is somebody's neighbour: `neighbours`
            for the whole double sum, or some of them (`drawn_neighbours`).
    """
    near, nearer = _rows(owner, neighbours), _rows(owner, again)
    counted = known.to(values.dtype)[:, None]
    first_count = neighbour_sums(counted, near)
    second_count = neighbour_sums(neighbour_sums(counted, nearer), neighbours)
    diversity, discrepancy = values.new_zeros(2, len(owner))
    for start in range(0, values.shape[1], COLUMNS_AT_ONCE):
        block = torch.where(known[:, None], values[:, start : start + COLUMNS_AT_ONCE], 0.0)
        first = neighbour_sums(block, near)
        inner = first if again is neighbours else neighbour_sums(block, nearer)
        diversity += (first / first_count.clamp_min(1)).square().sum(1)
        discrepancy += (neighbour_sums(inner, neighbours) / second_count.clamp_min(1) * block[owner]).sum(1)
    near_known, again_known = first_count[:, 0] > 0, (second_count[:, 0] > 0) & known[owner]
    return RawScores(_with_mean(diversity, near_known), _with_mean(discrepancy, again_known))


def drawn_neighbours(neighbours: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """`count` of every caption's neighbours, drawn without repetition.

    The paper draws at most 1,000 of a sample's N² neighbours of neighbours. Drawing 1,000 / N of every neighbour is the
    same number, equally spread over the neighbours, and lets captions share what was summed.

    Args:
        neighbours: (p, N) int64.
        count: how many to keep, at least 1.
        generator: of the draw.

    Returns:
        (p, min(count, N)) int64; −1 where a caption has fewer.
    """
    if count >= neighbours.shape[1]:
        return neighbours
    chance = torch.rand(neighbours.shape, generator=generator, device=neighbours.device)
    chosen = torch.where(neighbours < 0, 2.0, chance).topk(count, dim=1, largest=False).indices
    return neighbours.gather(1, chosen)


def upsilon(
    diversity: Tensor, discrepancy: Tensor, *, diversity_share: float, discrepancy_share: float, direction: int
) -> Tensor:
    """β·Γ·DIV + γ·Γ·DIS of every pair, the exponent of eq. 3, 6, 7 and 8: (…,).

    Args:
        diversity: raw scores.
        discrepancy: raw scores.
        diversity_share: β; 0 is discrepancy alone.
        discrepancy_share: γ; 0 is diversity alone.
        direction: Γ.
    """
    return direction * (diversity_share * diversity + discrepancy_share * discrepancy)


def statistics(raw: Tensor) -> tuple[float, float]:
    """Mean and population standard deviation over all pairs and both modalities (table 1)."""
    return float(raw.mean()), float(raw.std(correction=0))


def stats_share(raw: Tensor) -> float:
    """μ·σ, which stands for β and γ in eq. 8.

    Of the raw scores, Γ left out, as the paper's table 1 has them: with Γ = −1 inside, μ would turn negative and the
    product would favour the very samples that Γ is there to leave behind. Between 0 and 0.06 in that table, so the
    exponents hardly differ and the weights are nearly uniform by construction.
    """
    mean, deviation = statistics(raw)
    return mean * deviation


def attention(exponents: Tensor, scale: float) -> Tensor:
    """λ·softmax over the batch (eq. 3, 6): (B,), which sum to λ."""
    return scale * torch.softmax(exponents, dim=0)


def pair_weights(images: Tensor, texts: Tensor, *, scale: float, modalities: Modalities = "difference") -> Tensor:
    """One weight for each pair of a batch, from the exponents of its image and of its caption.

    The outer softmax is printed without λ, but eq. 1 divides by the batch size twice and the paper asks for λ of at
    least the batch size: the weights must sum to λ, so λ multiplies it.

    Args:
        images: (B,) `upsilon` of the images, B over all processes.
        texts: (B,) of the captions.
        scale: λ > 0.
        modalities: λ·softmax of |α_X − α_Y| or of α_X + α_Y, or α_X or α_Y itself (table 3).

    Returns:
        (B,) weights that sum to λ.

    Raises:
        ValueError: an unknown way of combining.
    """
    alpha_images, alpha_texts = attention(images, scale), attention(texts, scale)
    if modalities == "image":
        return alpha_images
    if modalities == "text":
        return alpha_texts
    if modalities == "difference":
        return attention((alpha_images - alpha_texts).abs(), scale)
    if modalities == "sum":
        return attention(alpha_images + alpha_texts, scale)
    raise ValueError(f'modalities must be "difference", "sum", "image" or "text", got {modalities!r}')


def _rows(owner: Tensor, captions: Tensor) -> Tensor:
    """The rows of a modality's embeddings that belong to captions; −1 stays."""
    return torch.where(captions < 0, ABSENT, owner[captions.clamp_min(0)])


def _with_mean(scores: Tensor, defined: Tensor) -> Tensor:
    if bool(defined.all()):
        return scores
    mean = scores[defined].mean() if bool(defined.any()) else scores.new_zeros(())
    return torch.where(defined, scores, mean)
