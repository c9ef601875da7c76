"""Checked scores of all images with all captions, on the device of the embeddings: fast ones in float32, or exact ones.

The exact score of a pair is the weighted sum of its sources in float64, rounded to float32. Rounding makes the value
independent of the order of summation, so equal embeddings score equal at any position, and for any block size, thread
count or math library.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.evaluation.sources import TILE_ELEMENTS, EmbeddingPair, ScoreMatrix, Source, slices

_PAIRS_AT_ONCE = 1 << 16
_PAIRS_IN_CACHE = 32  # their rows fit the core's cache
_EXACT_COLUMNS = 512  # columns scored in float64 at once
_UNIT = 2.0**-24  # rounding error of one float32 operation
_SMALLEST = 2.0**-126  # … of one whose result is not a normal float32
_LENGTH_SLACK = 1 + 2.0**-10  # a length computed in float32 may be too short, by less than this
_OTHER_ROUNDINGS = 6  # of the weight, the sum of sources, the thresholds and the exact score

Rows = slice | Tensor
EVERY = slice(None)
Ties = Literal["pessimistic", "optimistic"]  # equal scores count against a query, or for it


@dataclass(frozen=True)
class Scores:
    """Scores of n images (rows) with m captions (columns); made by `check_scores`.

    >>> scores = check_scores([EmbeddingPair(np.eye(2), np.eye(2)), ScoreMatrix(np.ones((2, 2)), 0.5)])
    >>> scores.exact(slice(0, 1), slice(None))
    tensor([[1.5000, 0.5000]])
    >>> scores.pairs(torch.tensor([0, 1]), torch.tensor([0, 0]))
    tensor([1.5000, 0.5000])
    """

    # their weighted scores are added up; embeddings are float32 tensors of one device
    sources: Sequence[Source]
    error: float  # no fast score differs by more from the exact one; 0 if `fast` is exact
    device: torch.device

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers n of images and m of captions."""
        n, m = self.sources[0].shape
        return n, m

    @property
    def of_embeddings(self) -> bool:
        """True if no matrix is among the sources."""
        return all(isinstance(source, EmbeddingPair) for source in self.sources)

    def turned(self) -> Scores:
        """Return the scores with captions as rows and images as columns."""
        sources: list[Source] = []
        for source in self.sources:
            if isinstance(source, EmbeddingPair):
                sources.append(EmbeddingPair(source.text, source.image, source.weight))
            else:
                sources.append(ScoreMatrix(source.scores.T, source.weight))
        return replace(self, sources=sources)

    def of_rows(self, rows: Tensor) -> Scores:
        """Return the scores of some images (k,) with all captions; embeddings and scores are copied."""
        sources: list[Source] = []
        for source in self.sources:
            if isinstance(source, EmbeddingPair):
                sources.append(replace(source, image=source.image[rows]))
            else:
                sources.append(replace(source, scores=source.scores[_index(rows)]))
        return replace(self, sources=sources)

    def fast(self, rows: Rows, columns: Rows = EVERY, out: Tensor | None = None) -> Tensor:
        """Return (h, w) float32 scores with the rounding of a matrix product; exact if a matrix is among the sources.
        `out`: (h, w) float32, may be overwritten."""
        if not self.of_embeddings:
            return self.exact(rows, columns)
        for k, source in enumerate(self.sources):
            assert isinstance(source, EmbeddingPair)
            left = source.image[rows]
            right = source.text[columns].T
            out = left.new_empty(len(left), right.shape[1]) if out is None else out
            torch.addmm(out, left, right, beta=min(k, 1), alpha=source.weight, out=out)
        assert out is not None
        return out

    def exact(self, rows: Rows, columns: Rows = EVERY) -> Tensor:
        """Return (h, w) float32 exact scores; at most one of the arguments may be a tensor."""
        if isinstance(columns, slice):
            start, stop, _ = columns.indices(self.shape[1])
            parts = [
                slice(start + part.start, start + part.stop) for part in slices(stop - start, _EXACT_COLUMNS)
            ]
            return torch.cat([self._exact(rows, part) for part in parts], 1)
        return self._exact(rows, columns)

    def _exact(self, rows: Rows, columns: Rows) -> Tensor:
        total: Tensor | float = 0.0
        for source in self.sources:
            if isinstance(source, EmbeddingPair):
                part = source.image[rows].double() @ source.text[columns].double().T
            else:
                values = np.array(source.scores[_index(rows), _index(columns)], np.float32)
                part = torch.from_numpy(values).to(self.device).double()
            total = part.mul_(source.weight).add_(total)
        assert isinstance(total, Tensor)
        return total.float()

    def pairs(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return (P,) float32 exact scores of P pairs."""
        scores = torch.empty(len(rows), device=self.device)
        for part in slices(len(rows), _PAIRS_AT_ONCE):
            total = torch.zeros(len(rows[part]), dtype=torch.float64, device=self.device)
            for source in self.sources:
                total += source.weight * self._products(source, rows[part], columns[part])
            scores[part] = total.float()
        return scores

    def _products(self, source: Source, rows: Tensor, columns: Tensor) -> Tensor:
        """Return (P,) float64 scores of pairs by one source."""
        if isinstance(source, ScoreMatrix):
            values = source.scores[_index(rows), _index(columns)].astype(np.float32)
            return torch.from_numpy(values).to(self.device).double()
        if self.device.type == "cpu":
            return torch.from_numpy(_products_on_cpu(source, rows.numpy(), columns.numpy()))
        return (source.image[rows].double() * source.text[columns].double()).sum(1)


def _products_on_cpu(pair: EmbeddingPair, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return (P,) float64 scores of pairs; by NumPy, which takes a third of the time of PyTorch."""
    image = pair.image.numpy()
    text = pair.text.numpy()
    products = np.empty(len(rows))
    for part in slices(len(rows), _PAIRS_IN_CACHE):
        left = image[rows[part]]
        right = text[columns[part]]
        np.vecdot(left, right, dtype=np.float64, out=products[part])
    return products


def check_scores(sources: Sequence[Source], device: str | torch.device | None = None) -> Scores:
    """Convert the sources to float32, and refuse those that cannot be ranked.

    `device`: of all computations; None: that of the embeddings.

    Raises:
        InputError: NaN or infinite rows (named), shapes that do not fit.

    >>> from coder_core.evaluation.sources import EmbeddingPair
    >>> check_scores([EmbeddingPair(np.eye(2), np.eye(3, 2))]).shape
    (2, 3)
    """
    if not sources:
        raise InputError(Fault("embeddings", "none are given", "at least one pair"))

    sides = [source.image for source in sources if isinstance(source, EmbeddingPair)]
    devices = {side.device for side in sides if isinstance(side, Tensor)}
    if device is None:
        device = devices.pop() if len(devices) == 1 else "cpu"

    device = torch.device(device)
    checked = [_float32(source, k, device) for k, source in enumerate(sources)]
    n, m = checked[0].shape
    for k, source in enumerate(checked):
        if source.shape != (n, m):
            fact = f"scores {source.shape} images and captions"
            raise InputError(Fault(f"source {k}", fact, f"{n:,} × {m:,}"))

    weights = [source.weight for source in checked]
    if not np.isfinite(weights).all():
        raise InputError(Fault("weights", f"are {weights}", "finite numbers"))

    errors = [_largest_error(s, k) for k, s in enumerate(checked) if isinstance(s, EmbeddingPair)]
    return Scores(checked, sum(errors) if len(errors) == len(checked) else 0.0, device)


def check_owners(image_of_text: Any, n: int, m: int) -> np.ndarray:
    """Return (m,) int64, the image of every caption. InputError: wrong shape or type, or no such image.

    >>> check_owners([0, 0, 1], n=2, m=3)
    array([0, 0, 1])
    """
    owners = np.asarray(image_of_text.cpu() if isinstance(image_of_text, Tensor) else image_of_text)
    if owners.shape != (m,) or owners.dtype.kind not in "iu":
        problem = f"has shape {owners.shape} and dtype {owners.dtype}"
        raise InputError(Fault("image_of_text", problem, f"{m:,} whole numbers, one per caption"))
    outside = np.flatnonzero((owners < 0) | (owners >= n))
    if len(outside):
        row = int(outside[0])
        raise InputError(Fault(f"image_of_text row {row}", f"names image {owners[row]}", f"0 to {n - 1}"))
    return owners.astype(np.int64)


def _largest_error(source: EmbeddingPair, k: int) -> float:
    """Bound the rounding error of a float32 product of any pair, whatever the order of summation:
    γ_D · |image| · |text| with γ_D = D u / (1 − D u) (Higham 2002, section 3.1), for the longest image and caption."""
    longest = _LENGTH_SLACK**2
    for rows, kind in ((source.image, "image"), (source.text, "text")):
        longest *= _longest_row(rows, f"{kind} embeddings of source {k}")
    if longest * abs(source.weight) > torch.finfo(torch.float32).max:
        raise InputError(Fault(f"source {k}", "scores overflow float32", "unit rows"))
    size = source.image.shape[1]
    roundings = (size + _OTHER_ROUNDINGS) * _UNIT
    return abs(source.weight) * (longest * roundings / (1 - roundings) + size * _SMALLEST)


def _float32(source: Source, k: int, device: torch.device) -> Source:
    """Check the source's shapes, and convert embeddings to float32 tensors on one device."""
    if isinstance(source, ScoreMatrix):
        if source.scores.ndim != 2 or 0 in source.shape:
            raise InputError(Fault(f"source {k}", f"scores have shape {source.shape}", "(images, captions)"))
        _refuse_not_finite(source.scores)
        return replace(source, weight=float(source.weight))
    image = _matrix(source.image, f"image embeddings of source {k}", device)
    text = _matrix(source.text, f"text embeddings of source {k}", device)
    if image.shape[1] != text.shape[1]:
        found = f"image width {image.shape[1]}"
        expected = f"the captions' width {text.shape[1]}"
        raise InputError(Fault(f"source {k}", found, expected))
    return EmbeddingPair(image, text, float(source.weight))


def _matrix(values: Any, name: str, device: torch.device) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a memory map is read-only, and nothing writes to it
        tensor = torch.as_tensor(values).detach().to(device)
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


def _refuse_not_finite(scores: np.ndarray) -> None:
    for part in slices(len(scores), TILE_ELEMENTS // scores.shape[1]):
        values = np.asarray(scores[part], np.float32)
        bad = np.flatnonzero(~np.isfinite(values).all(1))
        if len(bad):
            name = f"scores of image {part.start + bad[0]}"
            raise InputError(Fault(name, "contain NaN or infinite values", fix="a NaN has no rank"))


def _index(rows: Rows) -> slice | np.ndarray:
    return rows if isinstance(rows, slice) else rows.cpu().numpy()
