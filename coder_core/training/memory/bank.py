"""The coupled banks: a ring of momentum keys per modality, with shared slots. CODER section 3.3, eq. 6."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coder_core.ops import EMPTY_ID


class CoupledBank(nn.Module):
    """Momentum keys of past batches: slot k holds a pair's image key, text key and image id. Buffers only.

    Args:
        size: slots.
        dimension: D.
    """

    images: Tensor
    texts: Tensor
    image_ids: Tensor
    position: Tensor
    filled: Tensor

    def __init__(self, size: int, dimension: int) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"a bank needs at least one slot, got {size}")
        self.size = size
        self.register_buffer("images", torch.zeros(size, dimension))
        self.register_buffer("texts", torch.zeros(size, dimension))
        self.register_buffer("image_ids", torch.full((size,), EMPTY_ID, dtype=torch.int64))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    @property
    def count(self) -> int:
        """Slots that hold a key."""
        return int(self.filled)

    @torch.no_grad()
    def enqueue(self, images: Tensor, texts: Tensor, image_ids: Tensor) -> None:
        """Overwrite the oldest keys with a batch's. Call it after backward(), as autograd reads the slots until then.

        Args:
            images: (B, D) image keys of all processes.
            texts: (B, D) text keys.
            image_ids: (B,).

        Raises:
            ValueError: the three have different lengths.
        """
        if not len(images) == len(texts) == len(image_ids):
            raise ValueError(
                f"{len(images)} image keys, {len(texts)} text keys and {len(image_ids)} ids do not pair up"
            )
        end = int(self.position) + len(images)
        newest = torch.arange(max(int(self.position), end - self.size), end, device=images.device)
        for ring, keys in ((self.images, images), (self.texts, texts), (self.image_ids, image_ids)):
            ring[newest % self.size] = keys[len(keys) - len(newest) :]
        self.position.fill_(end % self.size)
        self.filled.fill_(min(self.size, int(self.filled) + len(images)))
