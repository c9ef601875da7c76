"""HAL, MITHUN and AMRANI as one weight for each pair of a batch: what complementary samples are compared with.

Thomas and Kovashka 2022 train all methods with the same n-pairs hinge and vary the weights alone; each function names
the part of its method that becomes a weight. All are normalised alike: a batch's weights sum to λ, so that methods
differ in what they emphasise, not in the size of the loss. Weights carry no gradient: detach the arguments.

    scores     (B, B) similarity of images (rows) to captions, over all processes
    negatives  (B, B) bool, symmetric: pairs of another image
    scale      λ; the result is (B,) weights that sum to it
"""

import torch
from torch import Tensor

from coder_core.ops import full_precision

HAL_SHARPNESS, HAL_THRESHOLD = 30.0, 0.3  # γ and ε of HAL's published program on MS-COCO
AMRANI_NEIGHBOURS = 8
"""k: pairs of a batch that say how dense it is around one of them. Our choice; a batch of 128 holds few near ones."""


def batch_weights(
    kind: str, scores: Tensor, images: Tensor, captions: Tensor, negatives: Tensor, *, scale: float
) -> Tensor:
    """Weigh pairs by a kind, "hal", "mithun" or "amrani"; `images` and `captions` are (B, D) unit rows.

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
    """HAL: samples that come near to many queries at once weigh more. Liu et al. 2020, arXiv:1911.10097.

    HAL is a loss, (1/γ)·log(1 + Σ_j exp(γ(S_qj − ε))) over a query's negatives. Its share of a wrong candidate j of
    query q is exp(γ(S_qj − ε)) / (1 + Σ_j' exp(γ(S_qj' − ε))); summed over the queries, that is a soft count
    of the queries whose closest wrong answer j is: its hubness h_j. A pair's weight is 1 + h, averaged over its image
    and its caption as candidates. The 1 keeps samples that are no hubs in training, as the 1 in HAL's logarithm does.

    >>> scores = torch.tensor([[0.9, 0.8, 0.1], [0.1, 0.9, 0.1], [0.1, 0.8, 0.9]])  # caption 1 comes near every image
    >>> hub_weights(scores, ~torch.eye(3, dtype=torch.bool), scale=3.0)
    tensor([0.8336, 1.3328, 0.8336])
    """
    powers = HAL_SHARPNESS * (full_precision(scores) - HAL_THRESHOLD)
    powers = torch.where(negatives, powers, float("-inf"))
    captions, images = _shares(powers).sum(0), _shares(powers.T).sum(0)
    return _to_scale(1 + (captions + images) / 2, scale)


def rank_weights(scores: Tensor, negatives: Tensor, *, scale: float) -> Tensor:
    """MITHUN: a positive weighs more the worse it ranks. Mithun et al. 2018, "Webly Supervised Joint Embedding".

    L(r) = 1 + 1/(N − r + 1) for the rank r (1 is first) among N candidates: just above 1 for the first, 2 for the last.
    The authors' program takes it for each direction; a pair's weight is the mean of both. Equal scores rank above it, as in
    evaluation. N is the positive and its negatives: other captions of the image are no candidates.

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
    """AMRANI: pairs whose image and caption both lie in tight clusters weigh more. Amrani et al., arXiv:2003.03186.

    They take the density of a pair's surroundings as the chance that it is not noise. Two pairs are as similar as the
    less similar of their two modalities, so that both have to agree; the density is the mean similarity of the k
    nearest other pairs of the batch, and the weights are λ·softmax of it, as eq. 3 and 6 have it for their scores.
    The mean over k, the smaller of the two and the softmax are our choice: the text does not describe batches.

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
    """exp(x) / (1 + Σ exp(x)) of every row, for x of any size."""
    return torch.softmax(torch.cat([powers.new_zeros(len(powers), 1), powers], dim=1), dim=1)[:, 1:]


def _to_scale(weights: Tensor, scale: float) -> Tensor:
    return scale * weights / weights.sum()
