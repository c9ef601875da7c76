"""Score every image with every caption, by one unit vector each or by several (PVSE)."""

from __future__ import annotations

from torch import Tensor, nn


class Scorer(nn.Module):
    """Scores of n images with m captions, (n, m), from their pooled vectors.

    Attributes:
        by_pair: scores are no inner products of one vector each, so a split is scored pair by pair into a matrix.
        local: samples are padded (…, L, D) with lengths; other scorers ignore lengths.
    """

    by_pair = False
    local = False

    def forward(
        self,
        images: Tensor,
        texts: Tensor,
        image_lengths: Tensor | None = None,
        text_lengths: Tensor | None = None,
    ) -> Tensor:
        """(n, …, D) images and (m, …, D) captions, with (n,) and (m,) lengths where `local`, -> (n, m)."""
        raise NotImplementedError


class CosineScorer(Scorer):
    """Inner product of one unit vector each."""

    def forward(
        self,
        images: Tensor,
        texts: Tensor,
        image_lengths: Tensor | None = None,
        text_lengths: Tensor | None = None,
    ) -> Tensor:
        """(n, D), (m, D) -> (n, m)."""
        return images @ texts.T


class PVSEScorer(Scorer):
    """The largest of the K² cosines between K unit vectors each. Song & Soleymani 2019 (PVSE), section 3.3."""

    by_pair = True

    def forward(
        self,
        images: Tensor,
        texts: Tensor,
        image_lengths: Tensor | None = None,
        text_lengths: Tensor | None = None,
    ) -> Tensor:
        """(n, K, D), (m, K, D) -> (n, m). Where several are largest, the gradient is shared among them."""
        cosines = images.flatten(0, 1) @ texts.flatten(0, 1).T
        return cosines.view(*images.shape[:2], *texts.shape[:2]).amax((1, 3))
