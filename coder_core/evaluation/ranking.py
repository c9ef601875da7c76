"""Ranks of every image and every caption among all candidates, ties counted. Section 4 of docs/equations.md.

The score of a pair is its weighted inner product in float64, rounded to float32 (`exact`), and a tie is an equal score.
How they are counted without sorting and without that cost for every pair is in `counting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from coder_core.evaluation.best import best_lists
from coder_core.evaluation.counting import count_above
from coder_core.evaluation.matrix import AnySource, Table, best_in_table, count_in_table, table_of
from coder_core.evaluation.sources import Scored, Source, check_sources

Checked = Scored | Table
Ties = Literal["pessimistic", "optimistic"]


@dataclass(frozen=True)
class Ranks:
    """Where the right answers stand; 0 is first.

    Args:
        image_ranks: (n,) int64, rank of an image's best own caption; −1 for an image without captions.
        text_ranks: (m,) int64, rank of a caption's image.
        image_ties: (n,) int64, candidates of other images that score exactly like the best own caption.
        text_ties: (m,) int64, other images that score exactly like the own one.
        image_best: (n, min(best, m)) int32, the best captions of every image, best first.
        text_best: (m, min(best, n)) int32, the best images of every caption, best first.
    """

    image_ranks: np.ndarray
    text_ranks: np.ndarray
    image_ties: np.ndarray
    text_ties: np.ndarray
    image_best: np.ndarray
    text_best: np.ndarray


def ranks(
    image_embeddings: Any,
    text_embeddings: Any,
    image_of_text: Any,
    *,
    ties: Ties = "pessimistic",
    second: tuple[Any, Any] | None = None,
    weight: float = 0.9,
    best: int = 10,
) -> Ranks:
    """Rank one model's embeddings both ways.

    The other captions of the same image never count against the best own one. Any number of captions per image is
    legal; an image without captions asks no question (rank −1) but stays a candidate for the captions.

    Args:
        image_embeddings: (n, D), unit rows for cosine scores.
        text_embeddings: (m, D).
        image_of_text: (m,) the image each caption belongs to.
        ties: "pessimistic" counts candidates scoring equal above the right answer, "optimistic" below.
        second: a second pair of embeddings, the concept branch.
        weight: score = weight · first + (1 − weight) · second (CODER eq. 8: 0.9).
        best: length of the lists of best candidates; 0 leaves them out.

    Raises:
        InputError: NaN or infinite embeddings, shapes or owners that do not fit.
    """
    sources = pair_sources(image_embeddings, text_embeddings, second, weight)
    return ensemble_ranks(sources, image_of_text, ties=ties, best=best)


def ensemble_ranks(
    sources: Sequence[AnySource], image_of_text: Any, *, ties: Ties = "pessimistic", best: int = 10
) -> Ranks:
    """Rank the sum of several sources of scores, for example two runs, without holding the whole matrix."""
    return scored_ranks(checked(sources, image_of_text), ties=ties, best=best)


def checked(sources: Sequence[AnySource], image_of_text: Any) -> Checked:
    """Refuse what cannot be ranked. Inner products alone are counted as `counting` tells; as soon as there is a matrix
    of scores, block by block (`matrix`).

    Raises:
        InputError: as `check_sources` and `table_of`.
    """
    products = [one for one in sources if isinstance(one, Source)]
    return check_sources(products, image_of_text) if len(products) == len(sources) else table_of(sources, image_of_text)


def scored_ranks(scored: Checked, *, ties: Ties = "pessimistic", best: int = 10) -> Ranks:
    """Rank sources that were checked."""
    if ties not in ("pessimistic", "optimistic"):
        raise ValueError(f'ties must be "pessimistic" or "optimistic", got {ties!r}')
    if isinstance(scored, Scored):
        images, texts = count_above(scored)
        image_best, text_best = best_lists(scored, best)
    else:
        images, texts = count_in_table(scored)
        image_best, text_best = best_in_table(scored, best)
    asked = torch.bincount(scored.image_of_text, minlength=scored.n) > 0
    counted = int(ties == "pessimistic")
    return Ranks(
        torch.where(asked, images.above + counted * images.level, -1).numpy(),
        (texts.above + counted * texts.level).numpy(),
        images.level.numpy(),
        texts.level.numpy(),
        image_best,
        text_best,
    )


def pair_sources(image: Any, text: Any, second: tuple[Any, Any] | None, weight: float) -> list[Source]:
    """One model's sources: the instance branch alone, or mixed with the concept branch."""
    if second is None:
        return [Source(image, text)]
    return [Source(image, text, weight), Source(second[0], second[1], 1.0 - weight)]
