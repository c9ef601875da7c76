"""CODER's instance branch: an image and a caption, each one unit vector in the same space. CODER section 3.2.1."""

from __future__ import annotations

from torch import Tensor, nn

from coder_core.encoders.dropout import Dropout
from coder_core.ops import normalise


class Coder(nn.Module):
    """Two encoders, two poolings.

    Args:
        regions: (B, R, F) -> (B, R, D).
        words: (B, T) ids, (B,) lengths -> (B, T, D).
        image_pooling, text_pooling: (B, L, D), (B,) lengths -> (B, D).
        dimension: D.
        dropout: on regions and words just before they are pooled.
    """

    def __init__(
        self, regions: nn.Module, words: nn.Module, image_pooling: nn.Module, text_pooling: nn.Module, *,
        dimension: int, dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dimension = dimension
        self.regions = regions
        self.words = words
        self.image_pooling = image_pooling
        self.text_pooling = text_pooling
        self.dropout = Dropout(dropout)

    def encode_images(self, regions: Tensor, lengths: Tensor) -> Tensor:
        """(B, R, F), (B,) -> (B, D) unit rows in float32."""
        return normalise(self.image_pooling(self.dropout(self.regions(regions)), lengths))

    def encode_texts(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(B, T) ids, (B,) -> (B, D) unit rows in float32."""
        return normalise(self.text_pooling(self.dropout(self.words(words, lengths)), lengths))

    def forward(
        self, regions: Tensor, region_lengths: Tensor, words: Tensor, word_lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Both embeddings of B pairs: (B, D) images, (B, D) texts."""
        return self.encode_images(regions, region_lengths), self.encode_texts(words, word_lengths)
