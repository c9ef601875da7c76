"""PVSE's two regularisers: heads should attend to different things, and modalities should fill the same space.

Song & Soleymani 2019 (PVSE, arXiv:1906.04402), as in the authors' program.
"""

import torch
from torch import Tensor

from coder_core.ops import full_precision, normalise

SHARPNESS = 0.5  # γ of the kernel in the authors' program


def head_diversity(residuals: Tensor) -> Tensor:
    """Measure the similarity of a sample's K heads: ‖G − I‖ / K², where G are the cosines between their residuals.

    The residuals are the vectors that the heads add to the pooled vector. The embeddings share that vector, so they
    could never be orthogonal. The norm is the Frobenius norm, not squared, as in the authors' program.

    Args:
        residuals: (B, K, D), before the pooled vector is added.

    Returns:
        (B,) from 0, if all heads are orthogonal, to √(K² − K) / K².

    >>> head_diversity(torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [3.0, 0.0]]]))
    tensor([0.0000, 0.3536])
    """
    units = normalise(full_precision(residuals))
    heads = residuals.shape[1]
    same = torch.eye(heads, dtype=torch.bool, device=residuals.device)
    between = (units @ units.transpose(1, 2)).masked_fill(same, 0.0)
    return torch.linalg.vector_norm(between, dim=(1, 2)) / heads**2


def mean_discrepancy(images: Tensor, texts: Tensor, all_images: Tensor, all_texts: Tensor) -> Tensor:
    """Compute each pair's share of the maximum mean discrepancy (MMD) between all images and all captions.

    The mean over all pairs is E k(v, v') − 2 E k(v, w) + E k(w, w') over all their embeddings, including each with
    itself, with the kernel k(x, y) = exp(−γ ‖x − y‖), γ = 0.5. The distance is not squared, as in the authors' program,
    which calls the kernel RBF.

    Args:
        images: (B, K, D) of this process's pairs.
        texts: (B, K, D) of the same pairs.
        all_images: (C, K, D) of all pairs, including these.
        all_texts: (C, K, D).

    Returns:
        (B,) shares; a single share may be negative, but their mean over all pairs is not.

    >>> images, texts = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[-1.0, 0.0]]])
    >>> mean_discrepancy(images, images, images, images), mean_discrepancy(images, texts, images, texts)
    (tensor([0.]), tensor([1.2642]))
    """
    images, texts, all_images, all_texts = map(full_precision, (images, texts, all_images, all_texts))
    alike = _mean_kernel(images, all_images) + _mean_kernel(texts, all_texts)
    return alike - _mean_kernel(images, all_texts) - _mean_kernel(texts, all_images)


def _mean_kernel(samples: Tensor, candidates: Tensor) -> Tensor:
    """Return the kernel's mean over each sample's K · C · K pairs of embeddings: (B, K, D), (C, K, D) -> (B,)."""
    distances = torch.cdist(samples.flatten(0, 1), candidates.flatten(0, 1))
    return torch.exp(-SHARPNESS * distances).view(len(samples), -1).mean(1)
