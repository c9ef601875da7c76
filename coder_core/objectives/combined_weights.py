"""Weights for complementary samples: DIVERSITY, DISCREPANCY, COMBINED-VAL and COMBINED-STATS.

Thomas and Kovashka 2022, eq. 3 and 6-8; the scores come from `neighbour_scores.py`. A batch's weights sum to λ and
carry no gradient. B counts the pairs of all processes.
"""

from typing import Literal

import torch
from torch import Tensor

Modalities = Literal["difference", "sum", "image", "text"]


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
        (mean, deviation), (other_mean, other) = map(mean_and_deviation, (diversity, discrepancy))
        return mean * deviation, other_mean * other
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
    of_images, of_texts = (scale * torch.softmax(exponents, dim=0) for exponents in (images, texts))
    if modalities in ("image", "text"):
        return of_images if modalities == "image" else of_texts
    if modalities not in ("difference", "sum"):
        raise ValueError(f'modalities must be "difference", "sum", "image" or "text", got {modalities!r}')
    both = (of_images - of_texts).abs() if modalities == "difference" else of_images + of_texts
    return scale * torch.softmax(both, dim=0)
