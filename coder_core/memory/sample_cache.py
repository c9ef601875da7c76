"""The last embedding of every training sample, kept as training goes by: nothing is encoded for it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SampleCache(nn.Module):
    """Unit embeddings of all images and captions, each as the model embedded it when it last stood in a batch.

    Saved with the training state, (n + m) · D numbers of float32.

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
        """Take in a batch.

        Args:
            images: (B, D) unit rows.
            texts: (B, D) unit rows.
            image_ids: (B,) rows of the features; an image that stands there twice keeps its last embedding.
            text_ids: (B,) captions, each once.
        """
        comes_again = (image_ids[:, None] == image_ids[None, :]).triu(1).any(1)
        last = image_ids[~comes_again]
        self.images[last] = images[~comes_again].to(self.images.dtype)
        self.texts[text_ids] = texts.to(self.texts.dtype)
        self.known_images[last] = True
        self.known_texts[text_ids] = True
