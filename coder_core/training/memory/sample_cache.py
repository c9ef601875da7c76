"""The latest embedding of every training sample, collected from the batches."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SampleCache(nn.Module):
    """Unit embeddings of all images and captions, each from the last batch that held it; (n + m) · D float32 numbers.

    Args:
        images: n.
        texts: m.
        dimension: D.
    """

    images: Tensor
    texts: Tensor
    known_images: Tensor
    known_texts: Tensor

    def __init__(self, images: int, texts: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("images", torch.zeros(images, dimension))
        self.register_buffer("texts", torch.zeros(texts, dimension))
        self.register_buffer("known_images", torch.zeros(images, dtype=torch.bool))
        self.register_buffer("known_texts", torch.zeros(texts, dtype=torch.bool))

    @torch.no_grad()
    def write(self, images: Tensor, texts: Tensor, image_ids: Tensor, text_ids: Tensor) -> None:
        """Store a batch's embeddings.

        Args:
            images, texts: (B, D) unit rows.
            image_ids: (B,); of an image that occurs twice the last embedding is stored.
            text_ids: (B,), each once.
        """
        is_last = ~(image_ids[:, None] == image_ids[None, :]).triu(1).any(1)
        last = image_ids[is_last]
        self.images[last] = images[is_last].to(self.images.dtype)
        self.texts[text_ids] = texts.to(self.texts.dtype)
        self.known_images[last] = True
        self.known_texts[text_ids] = True
