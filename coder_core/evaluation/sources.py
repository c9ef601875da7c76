"""What is ranked: one or several pairs of embeddings whose weighted inner products add up to a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coder_core.console.faults import Fault, InputError

_PASS = 64  # captions at a time: their rows and their images' stay in cache


@dataclass(frozen=True)
class Source:
    """One pair of embeddings; its share of a score is weight · ⟨image, text⟩.

    Args:
        image: (n, D) image embeddings, NumPy or torch, unit rows for cosine scores.
        text: (m, D) text embeddings.
        weight: share in the sum.
    """

    image: Any
    text: Any
    weight: float = 1.0


@dataclass(frozen=True)
class Scored:
    """Checked sources with the image of every caption.

    Args:
        images: one (n, D_k) float32 tensor a source.
        texts: one (m, D_k) float32 tensor a source.
        weights: one number a source.
        image_of_text: (m,) int64.
        own: (m,) score of every caption with its own image, a float32 product with its rounding.
    """

    images: list[Tensor]
    texts: list[Tensor]
    weights: list[float]
    image_of_text: Tensor
    own: Tensor

    @property
    def n(self) -> int:
        """Number of images."""
        return len(self.images[0])

    @property
    def m(self) -> int:
        """Number of captions."""
        return len(self.texts[0])

    def best_by_image(self, own: Tensor) -> Tensor:
        """(n,) the best of every image's own captions; +inf for an image without captions: nothing stands above it.

        Args:
            own: (m,) score of every caption with its own image.
        """
        nothing = torch.full((self.n,), torch.inf)
        return nothing.scatter_reduce(0, self.image_of_text, own, "amax", include_self=False)


def check_sources(sources: Sequence[Source], image_of_text: Any) -> Scored:
    """Bring the sources to float32 and refuse what cannot be ranked.

    Raises:
        InputError: NaN or infinite rows (named), shapes that do not fit, a caption of an image that is not there.
    """
    if not sources:
        raise InputError(Fault("embeddings", "there are none", "at least one pair"))
    images = [_matrix(source.image, f"image embeddings of source {k}") for k, source in enumerate(sources)]
    texts = [_matrix(source.text, f"text embeddings of source {k}") for k, source in enumerate(sources)]
    for k, (image, text) in enumerate(zip(images, texts, strict=True)):
        counts = (len(image), len(text), image.shape[1])
        expected = (len(images[0]), len(texts[0]), text.shape[1])
        if counts != expected:
            found = f"{counts[0]:,} images, {counts[1]:,} captions, image width {counts[2]}"
            wanted = f"{expected[0]:,} images, {expected[1]:,} captions, the captions' width {expected[2]}"
            raise InputError(Fault(f"source {k}", found, wanted))
    weights = [float(source.weight) for source in sources]
    if not np.isfinite(weights).all():
        raise InputError(Fault("weights", f"are {weights}", "finite numbers"))
    owner = check_owners(image_of_text, len(images[0]), len(texts[0]))
    own = torch.zeros(len(texts[0]))
    for k, (image, text, weight) in enumerate(zip(images, texts, weights, strict=True)):
        _refuse_not_finite(image, f"image embeddings of source {k}")
        scores = _own_scores(image, text, owner)
        if not bool(torch.isfinite(scores).all()):  # a row that is not finite has no finite score: one pass tells
            _refuse_not_finite(text, f"text embeddings of source {k}")
            raise InputError(Fault(f"source {k}", "scores overflow float32", "unit rows"))
        own += weight * scores
    return Scored(images, texts, weights, owner, own)


def _matrix(values: Any, name: str) -> Tensor:
    tensor = values.detach().cpu() if isinstance(values, Tensor) else torch.from_numpy(np.array(values, copy=None))
    if tensor.ndim != 2 or not tensor.is_floating_point() or tensor.numel() == 0:
        found = f"have shape {tuple(tensor.shape)} and dtype {tensor.dtype}"
        raise InputError(Fault(name, found, "a matrix of floats, one row a sample"))
    return tensor.float().contiguous()


def _own_scores(image: Tensor, text: Tensor, owner: Tensor) -> Tensor:
    """(m,) every caption's score with its image."""
    images, texts, owners = image.numpy(), text.numpy(), owner.numpy()
    scores = np.empty(len(texts), np.float32)
    for start in range(0, len(texts), _PASS):
        part = slice(start, start + _PASS)
        np.vecdot(images[owners[part]], texts[part], out=scores[part])
    return torch.from_numpy(scores)


def _refuse_not_finite(matrix: Tensor, name: str) -> None:
    norms = torch.linalg.vector_norm(matrix, dim=1)
    bad = torch.nonzero(~torch.isfinite(norms))[:, 0].tolist()
    if bad:
        found = f"rows {', '.join(map(str, bad[:5]))} … hold NaN, infinite or overflowing values"
        raise InputError(Fault(name, found, "finite numbers", "a NaN has no rank"))


def check_owners(image_of_text: Any, n: int, m: int) -> Tensor:
    """(m,) int64 the image of every caption, refused when it cannot be."""
    owners = np.asarray(image_of_text)
    if owners.shape != (m,) or owners.dtype.kind not in "iu":
        found = f"has shape {owners.shape} and dtype {owners.dtype}"
        raise InputError(Fault("image_of_text", found, f"{m:,} whole numbers, one a caption"))
    outside = np.flatnonzero((owners < 0) | (owners >= n))
    if len(outside):
        row = int(outside[0])
        raise InputError(Fault(f"image_of_text row {row}", f"says image {owners[row]}", f"0 to {n - 1}"))
    return torch.from_numpy(owners.astype(np.int64))
