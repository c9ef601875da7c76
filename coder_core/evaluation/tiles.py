"""Checked scores of all images with all captions, computed tile by tile: fast ones in float32, or exact ones.

The exact score of a pair is the weighted sum of its sources in float64, rounded to float32. Rounding makes the value
independent of the order of summation, so equal embeddings score equal at any position, and for any tile size, thread
count or math library.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix, Source

_PAIRS_AT_ONCE = 32  # two float64 blocks of 32 · D stay in cache
_UNIT = 2.0**-24  # rounding error of one float32 operation
_SMALLEST = 2.0**-126  # … of one whose result is not a normal float32
_BOUNDED_SIZE = 64
_LENGTH_SLACK = 1 + 2.0**-10  # a length computed in float32 may be too short, by less than this
_OTHER_ROUNDINGS = 6  # of the weight, the sum of sources, the thresholds and the exact score

Rows = slice | Tensor
EVERY = slice(None)


@dataclass(frozen=True)
class ScoreTiles:
    """Scores of n images with m captions; made by `score_tiles`.

    >>> scores = score_tiles([EmbeddingPair(np.eye(2), np.eye(2)), ScoreMatrix(np.ones((2, 2)), 0.5)], [0, 1])
    >>> scores.exact(slice(0, 1), slice(None))
    tensor([[1.5000, 0.5000]])
    >>> scores.pairs(torch.tensor([0, 1]), torch.tensor([0, 0]))
    tensor([1.5000, 0.5000])
    """

    sources: Sequence[Source]  # their weighted scores are added up; embeddings are float32 tensors
    image_of_text: Tensor  # (m,) int64
    error: float  # largest error to expect of a fast score; 0 if `fast` is exact

    @property
    def n(self) -> int:
        """Number of images."""
        return self.sources[0].shape[0]

    @property
    def m(self) -> int:
        """Number of captions."""
        return len(self.image_of_text)

    @cached_property
    def own(self) -> Tensor:
        """(m,) float32 exact score of every caption with its image."""
        return self.pairs(self.image_of_text, torch.arange(self.m))

    def fast(self, images: Rows, texts: Rows, out: Tensor | None = None) -> Tensor:
        """Return (h, w) float32 scores of h images and w captions with the rounding of a matrix product; exact if a
        matrix is among the sources. `out`: (h, w) float32, may be overwritten."""
        if any(isinstance(source, ScoreMatrix) for source in self.sources):
            return self.exact(images, texts)
        for k, source in enumerate(self.sources):
            assert isinstance(source, EmbeddingPair)
            left = source.image[images]
            right = source.text[texts].T
            out = torch.empty(len(left), right.shape[1]) if out is None else out
            torch.addmm(out, left, right, beta=min(k, 1), alpha=source.weight, out=out)
        assert out is not None
        return out

    def exact(self, images: Rows, texts: Rows) -> Tensor:
        """Return (h, w) float32 exact scores of h images and w captions; at most one of the arguments may be a tensor.
        InputError: a matrix holds a score that is NaN or infinite."""
        total: Tensor | float = 0.0
        for source in self.sources:
            if isinstance(source, EmbeddingPair):
                part = source.image[images].double() @ source.text[texts].double().T
            else:
                values = np.array(source.scores[_index(images), _index(texts)], np.float32)
                _refuse_not_finite(values, np.arange(self.n)[_index(images)])
                part = torch.from_numpy(values).double()
            total = part.mul_(source.weight).add_(total)
        assert isinstance(total, Tensor)
        return total.float()

    def pairs(self, images: Tensor, texts: Tensor) -> Tensor:
        """Return (P,) float32 exact scores of P pairs."""
        scores = np.empty(len(images), np.float32)
        for start in range(0, len(images), _PAIRS_AT_ONCE):
            i, j = (side[start : start + _PAIRS_AT_ONCE].numpy() for side in (images, texts))
            total = np.zeros(len(i))
            for source in self.sources:
                if isinstance(source, EmbeddingPair):
                    left = source.image.numpy()[i]
                    right = source.text.numpy()[j]
                    total += source.weight * np.vecdot(left, right, dtype=np.float64)
                else:
                    total += source.weight * source.scores[i, j].astype(np.float32).astype(np.float64)
            scores[start : start + _PAIRS_AT_ONCE] = total
        return torch.from_numpy(scores)


def score_tiles(sources: Sequence[Source], image_of_text: Any) -> ScoreTiles:
    """Convert the sources to float32, and refuse those that cannot be ranked.

    Raises:
        InputError: NaN or infinite rows (named), shapes that do not fit, a caption of an image that does not exist.

    >>> from coder_core.evaluation.sources import EmbeddingPair
    >>> score_tiles([EmbeddingPair(np.eye(2), np.eye(2))], [0, 1]).own
    tensor([1., 1.])
    """
    if not sources:
        raise InputError(Fault("embeddings", "none are given", "at least one pair"))
    checked = [_float32(source, k) for k, source in enumerate(sources)]
    n, m = checked[0].shape
    for k, source in enumerate(checked):
        if source.shape != (n, m):
            fact = f"scores {source.shape} images and captions"
            raise InputError(Fault(f"source {k}", fact, f"{n:,} × {m:,}"))
    weights = [source.weight for source in checked]
    if not np.isfinite(weights).all():
        raise InputError(Fault("weights", f"are {weights}", "finite numbers"))
    owner = _check_owners(image_of_text, n, m)
    errors = [_rounding_error(s, k) for k, s in enumerate(checked) if isinstance(s, EmbeddingPair)]
    return ScoreTiles(checked, owner, sum(errors) if len(errors) == len(checked) else 0.0)


def _rounding_error(source: EmbeddingPair, k: int) -> float:
    """Return the largest error to expect of a fast score, from the longest image and the longest caption.

    Up to D = 64 this is the strict bound D · u · |image| · |text|, because a typical error is unreliable for short rows.
    For longer rows it is √D · u · |image| · |text| (Higham & Mary 2019), which the caller verifies.
    """
    longest = _LENGTH_SLACK**2
    for rows, kind in ((source.image, "image"), (source.text, "text")):
        longest *= _longest_row(rows, f"{kind} embeddings of source {k}")
    if longest * abs(source.weight) > torch.finfo(torch.float32).max:
        raise InputError(Fault(f"source {k}", "scores overflow float32", "unit rows"))
    size = source.image.shape[1]
    terms = (size if size <= _BOUNDED_SIZE else math.sqrt(size)) + _OTHER_ROUNDINGS
    return abs(source.weight) * (longest * terms * _UNIT + size * _SMALLEST)


def _float32(source: Source, k: int) -> Source:
    """Check the source's shapes, and convert embeddings to float32 tensors."""
    if isinstance(source, ScoreMatrix):
        if source.scores.ndim != 2 or 0 in source.shape:
            raise InputError(Fault(f"source {k}", f"scores have shape {source.shape}", "(images, captions)"))
        return replace(source, weight=float(source.weight))
    image = _matrix(source.image, f"image embeddings of source {k}")
    text = _matrix(source.text, f"text embeddings of source {k}")
    if image.shape[1] != text.shape[1]:
        widths = f"image width {image.shape[1]}", f"the captions' width {text.shape[1]}"
        raise InputError(Fault(f"source {k}", *widths))
    return EmbeddingPair(image, text, float(source.weight))


def _matrix(values: Any, name: str) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a memory map is read-only, and nothing writes to it
        tensor = torch.as_tensor(values).detach().cpu()
    if tensor.ndim != 2 or not tensor.is_floating_point() or tensor.numel() == 0:
        problem = f"have shape {tuple(tensor.shape)} and dtype {tensor.dtype}"
        raise InputError(Fault(name, problem, "a matrix of floats, one row per sample"))
    return tensor.float().contiguous()


def _longest_row(matrix: Tensor, name: str) -> float:
    """Return the length of the longest row; refuse rows that are not finite."""
    norms = torch.linalg.vector_norm(matrix, dim=1)
    bad = torch.nonzero(~torch.isfinite(norms))[:, 0].tolist()
    if bad:
        problem = f"rows {', '.join(map(str, bad[:5]))} … contain NaN, infinite or overflowing values"
        raise InputError(Fault(name, problem, "finite numbers", "a NaN has no rank"))
    return float(norms.max())


def _refuse_not_finite(scores: np.ndarray, images: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(scores).all(1))
    if len(bad):
        name = f"scores of image {images[bad[0]]}"
        raise InputError(Fault(name, "contain NaN or infinite values", fix="a NaN has no rank"))


def _check_owners(image_of_text: Any, n: int, m: int) -> Tensor:
    """Return (m,) int64 the image of every caption. InputError: wrong shape or type, or no such image."""
    owners = np.asarray(image_of_text)
    if owners.shape != (m,) or owners.dtype.kind not in "iu":
        problem = f"has shape {owners.shape} and dtype {owners.dtype}"
        raise InputError(Fault("image_of_text", problem, f"{m:,} whole numbers, one per caption"))
    outside = np.flatnonzero((owners < 0) | (owners >= n))
    if len(outside):
        row = int(outside[0])
        raise InputError(Fault(f"image_of_text row {row}", f"names image {owners[row]}", f"0 to {n - 1}"))
    return torch.from_numpy(owners.astype(np.int64))


def _index(rows: Rows) -> slice | np.ndarray:
    return rows if isinstance(rows, slice) else rows.numpy()
