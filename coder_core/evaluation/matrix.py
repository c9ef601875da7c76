"""Ranks from a matrix of scores, for models whose score is no inner product; and from such matrices mixed with others.

The float32 score is what counts: a tie is an equal score, the own captions of an image never count against its best,
and a candidate that scores equal counts above, as in `ranking`. The matrix is read in blocks of rows, then of columns,
so it may be a memory map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.evaluation.best import SPARE, listed
from coder_core.evaluation.scores import MatrixSource
from coder_core.evaluation.sources import Source, check_owners
from coder_core.evaluation.unclear import Counts

_SCORES = 1 << 24  # 64 MiB of float32 at a time

Rows = slice | np.ndarray  # some images or captions
Block = Callable[[Rows, Rows], Tensor]
AnySource = Source | MatrixSource


@dataclass(frozen=True)
class Table:
    """Scores to be had block by block.

    Args:
        n: images. m: captions.
        block: some images, some captions (one of them a slice) -> their scores, float32; the same block gives the same
            numbers again.
        image_of_text: (m,) int64.
        sources: whose weighted sum it is.
    """

    n: int
    m: int
    block: Block
    image_of_text: Tensor
    sources: Sequence[AnySource]

    def rows(self) -> list[slice]:
        """Blocks of images with all captions."""
        return _slices(self.n, self.m)

    def columns(self) -> list[slice]:
        """Blocks of captions with all images."""
        return _slices(self.m, self.n)


def table_of(sources: Sequence[AnySource], image_of_text: Any) -> Table:
    """The weighted sum of matrices and of inner products.

    Raises:
        InputError: shapes that do not fit one another, or a caption of an image that is not there.
    """
    shapes = [one.scores.shape if isinstance(one, MatrixSource) else (len(one.image), len(one.text)) for one in sources]
    for k, shape in enumerate(shapes):
        if len(shape) != 2 or tuple(shape) != tuple(shapes[0]) or 0 in shape:
            wanted = " × ".join(f"{size:,}" for size in shapes[0])
            raise InputError(Fault(f"source {k}", f"scores {tuple(shape)} images and captions", wanted))
    n, m = shapes[0]

    def block(rows: Rows, columns: Rows) -> Tensor:
        parts = []
        for one in sources:
            if isinstance(one, MatrixSource):
                part = torch.from_numpy(np.array(one.scores[rows, columns], np.float32))
            else:
                images, texts = (
                    torch.from_numpy(np.array(side, np.float32)) for side in (one.image[rows], one.text[columns])
                )
                part = images @ texts.T
            parts.append(part if one.weight == 1 else one.weight * part)
        return torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]

    return Table(n, m, block, check_owners(image_of_text, n, m), sources)


def count_in_table(table: Table) -> tuple[Counts, Counts]:
    """Candidates of other images above and level with every right answer: images asking, captions asking.

    Raises:
        InputError: a score is NaN or infinite; its image is named.
    """
    owner = table.image_of_text
    own = torch.empty(table.m)
    for rows in table.rows():  # the blocks of the next loop again, so that their numbers are the same
        scores = table.block(rows, slice(0, table.m))
        _refuse_not_finite(scores, rows.start)
        texts = _owned(owner, rows)
        own[texts] = scores[owner[texts] - rows.start, texts]
    best = torch.full((table.n,), torch.inf).scatter_reduce(0, owner, own, "amax", include_self=False)
    images, texts_ = (Counts(*torch.zeros(2, size, dtype=torch.int64)) for size in (table.n, table.m))
    for rows in table.rows():
        scores = table.block(rows, slice(0, table.m))
        texts = _owned(owner, rows)
        scores[owner[texts] - rows.start, texts] = -torch.inf
        threshold = best[rows].unsqueeze(1)
        images.above[rows], images.level[rows] = (scores > threshold).sum(1), (scores == threshold).sum(1)
        texts_.above += (scores > own).sum(0)
        texts_.level += (scores == own).sum(0)
    return images, texts_


def best_in_table(table: Table, best: int) -> tuple[np.ndarray, np.ndarray]:
    """The best captions of every image (n, min(best, m)) and images of every caption (m, min(best, n)), int32.

    By score; among equals own ones come last, then the lower index first.
    """
    images, texts = torch.arange(table.n), table.image_of_text
    forward = np.empty((table.n, min(best, table.m)), np.int32)
    for rows in table.rows() if forward.size else []:
        forward[rows] = _top(table.block(rows, slice(0, table.m)), texts, images[rows], best)
    backward = np.empty((table.m, min(best, table.n)), np.int32)
    for columns in table.columns() if backward.size else []:
        backward[columns] = _top(table.block(slice(0, table.n), columns).T, images, texts[columns], best)
    return forward, backward


def _top(scores: Tensor, candidate_image: Tensor, query_image: Tensor, best: int) -> np.ndarray:
    found = torch.topk(scores, min(best + SPARE, scores.shape[1]), dim=1)
    own = candidate_image[found.indices] == query_image.unsqueeze(1)
    return listed(found.indices, found.values, own, min(best, scores.shape[1]))


def _owned(owner: Tensor, rows: slice) -> Tensor:
    """The captions of a block of images."""
    return ((owner >= rows.start) & (owner < rows.stop)).nonzero()[:, 0]


def _slices(count: int, width: int) -> list[slice]:
    step = max(1, _SCORES // width)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _refuse_not_finite(scores: Tensor, first: int) -> None:
    bad = (~torch.isfinite(scores).all(1)).nonzero()[:, 0]
    if len(bad):
        row = first + int(bad[0])
        raise InputError(Fault(f"scores of image {row}", "hold NaN or infinite values", fix="a NaN has no rank"))
