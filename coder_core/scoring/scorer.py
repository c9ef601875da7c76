"""How a pair is scored: by what the encoders say of an image and of a caption, every image with every caption.

A scorer sees samples as the model's poolings leave them: one unit vector, several, or one for every region and word.
"""

from __future__ import annotations

from torch import Tensor, nn


class Scorer(nn.Module):
    """Scores of n images with m captions, (n, m).

    Attributes:
        by_pair: a score is no inner product of one vector each, so a whole split is scored pair by pair into a matrix.
        local: samples are (…, L, D) with a length each, padded; otherwise no length is read.
    """

    by_pair = False
    local = False

    def forward(
        self, images: Tensor, texts: Tensor, image_lengths: Tensor | None = None, text_lengths: Tensor | None = None
    ) -> Tensor:
        """(n, …, D) images and (m, …, D) captions, with (n,) and (m,) lengths where `local`, -> (n, m)."""
        raise NotImplementedError


class CosineScorer(Scorer):
    """Inner product of one unit vector each."""

    def forward(
        self, images: Tensor, texts: Tensor, image_lengths: Tensor | None = None, text_lengths: Tensor | None = None
    ) -> Tensor:
        """(n, D), (m, D) -> (n, m)."""
        return images @ texts.T


class BestPairScorer(Scorer):
    """The largest of the K² cosines between K unit vectors each. Song & Soleymani 2019 (PVSE), section 3.3."""

    by_pair = True

    def forward(
        self, images: Tensor, texts: Tensor, image_lengths: Tensor | None = None, text_lengths: Tensor | None = None
    ) -> Tensor:
        """(n, K, D), (m, K, D) -> (n, m). Where several are largest, the gradient is shared among them."""
        cosines = images.flatten(0, 1) @ texts.flatten(0, 1).T
        return cosines.view(*images.shape[:2], *texts.shape[:2]).amax((1, 3))
