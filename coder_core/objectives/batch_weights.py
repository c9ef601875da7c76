"""Sample weights by HAL, MITHUN and AMRANI, the baselines of complementary samples: one weight per pair of a batch.

Thomas and Kovashka 2022 train all methods with the same n-pairs hinge and vary only the weights; each function here
describes the part of its method that becomes a weight. A batch's weights always sum to λ, so methods differ in what
they emphasise, not in the size of the loss. Weights must carry no gradient: detach the arguments.

    scores     (B, B) similarity of images (rows) to captions, over all processes
    negatives  (B, B) bool, symmetric: true for pairs of different images
    scale      λ; the result is (B,) weights that sum to it
"""

import torch
from torch import Tensor

from coder_core.ops import full_precision

# γ and ε of HAL's published program on MS-COCO
HAL_SHARPNESS = 30.0
HAL_THRESHOLD = 0.3
AMRANI_NEIGHBOURS = 8
"""k, the nearest pairs that measure the density around a pair. Our choice: a batch of 128 contains few near pairs."""


def batch_weights(
    kind: str, scores: Tensor, images: Tensor, captions: Tensor, negatives: Tensor, *, scale: float
) -> Tensor:
    """Weigh pairs by one of the methods "hal", "mithun" or "amrani"; `images` and `captions` are (B, D) unit rows.

    Raises:
        ValueError: an unknown kind.

    >>> scores, rows = torch.tensor([[0.9, 0.6], [0.1, 0.9]]), torch.eye(2)
    >>> batch_weights("mithun", scores, rows, rows, ~torch.eye(2, dtype=torch.bool), scale=2.0)
    tensor([1., 1.])
    """
    if kind == "hal":
        return hub_weights(scores, negatives, scale=scale)
    if kind == "mithun":
        return rank_weights(scores, negatives, scale=scale)
    if kind == "amrani":
        return density_weights(images @ images.T, captions @ captions.T, negatives, scale=scale)
    raise ValueError(f'kind must be "hal", "mithun" or "amrani", got {kind!r}')


def hub_weights(scores: Tensor, negatives: Tensor, *, scale: float) -> Tensor:
    """Weigh pairs by HAL: hubs, samples near many queries at once, weigh more. Liu et al. 2020, arXiv:1911.10097.

    HAL is a loss, (1/γ)·log(1 + Σ_j exp(γ(S_qj − ε))) over a query's negatives, in which a wrong candidate j of query q
    has the share exp(γ(S_qj − ε)) / (1 + Σ_j' exp(γ(S_qj' − ε))). Summed over the queries, this share is a soft count
    of the queries whose closest wrong answer is j: its hubness h_j. A pair's weight is 1 + h, averaged over its image
    and its caption as candidates. The 1 keeps samples that are not hubs in training, like the 1 in HAL's logarithm.

    >>> scores = torch.tensor([[0.9, 0.8, 0.1], [0.1, 0.9, 0.1], [0.1, 0.8, 0.9]])  # caption 1 is near every image
    >>> hub_weights(scores, ~torch.eye(3, dtype=torch.bool), scale=3.0)
    tensor([0.8336, 1.3328, 0.8336])
    """
    powers = HAL_SHARPNESS * (full_precision(scores) - HAL_THRESHOLD)
    powers = torch.where(negatives, powers, float("-inf"))
    captions = _shares(powers).sum(0)
    images = _shares(powers.T).sum(0)
    return _to_scale(1 + (captions + images) / 2, scale)


def rank_weights(scores: Tensor, negatives: Tensor, *, scale: float) -> Tensor:
    """Weigh pairs by MITHUN: more if the positive ranks worse. Mithun et al. 2018, "Webly Supervised Joint Embedding".

    L(r) = 1 + 1/(N − r + 1) for rank r (1 is first) among N candidates: just above 1 for the first, 2 for the last. The
    authors' program uses it in each direction; a pair's weight is the mean of both. Equal scores rank above the
    positive, as in evaluation. N counts the positive and its negatives, not other captions of the image.

    >>> scores = torch.tensor([[0.1, 0.2, 0.3], [0.0, 0.9, 0.1], [0.0, 0.1, 0.9]])  # the first image ranks its own last
    >>> rank_weights(scores, ~torch.eye(3, dtype=torch.bool), scale=3.0)
    tensor([1.1538, 0.9231, 0.9231])
    """

    def of(rows: Tensor) -> Tensor:
        behind = (negatives & (rows < rows.diagonal()[:, None])).sum(1)  # N − r
        return 1 + 1 / (behind.to(rows.dtype) + 1)

    scores = full_precision(scores)
    return _to_scale((of(scores) + of(scores.T)) / 2, scale)


def density_weights(images: Tensor, captions: Tensor, negatives: Tensor, *, scale: float) -> Tensor:
    """Weigh pairs by AMRANI: more if image and caption are both in dense clusters. Amrani et al., arXiv:2003.03186.

    The method takes the density around a pair as the probability that it is not noise. The similarity of two pairs is
    the smaller one of their two modalities, so both must agree. The density is the mean similarity to the k nearest
    other pairs of the batch, and the weights are λ·softmax of it, like those of complementary samples (eq. 3 and 6).
    The mean over k, the minimum and the softmax are our choices: the paper does not describe batches.

    Args:
        images, captions: (B, B) cosines between images and between captions, over all processes.

    >>> images = torch.tensor([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])  # the first two pairs are alike
    >>> density_weights(images, images, ~torch.eye(3, dtype=torch.bool), scale=3.0)
    tensor([1.1374, 1.1374, 0.7252])
    """
    both = torch.minimum(full_precision(images), full_precision(captions))
    similar = torch.where(negatives, both, float("-inf"))
    nearest = similar.topk(min(AMRANI_NEIGHBOURS, similar.shape[1]), dim=1).values
    exists = torch.isfinite(nearest)
    density = torch.where(exists, nearest, 0.0).sum(1) / exists.sum(1).clamp_min(1)
    return scale * torch.softmax(density, dim=0)


def _shares(powers: Tensor) -> Tensor:
    """Return exp(x) / (1 + Σ exp(x)) for every row, without overflow."""
    return torch.softmax(torch.cat([powers.new_zeros(len(powers), 1), powers], dim=1), dim=1)[:, 1:]


def _to_scale(weights: Tensor, scale: float) -> Tensor:
    return scale * weights / weights.sum()
