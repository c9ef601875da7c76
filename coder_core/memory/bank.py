"""The coupled banks: two rings of momentum keys, one per modality, that share their slots. CODER section 3.3, eq. 6."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coder_core.ops import EMPTY_ID


class CoupledBank(nn.Module):
    """Slot k holds the image key and the text key of one pair, and the id of its image. Buffers only, no parameters.

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
        """Write the newest keys over the oldest. Call it after backward(): autograd still reads the slots before.

        Args:
            images: (B, D) image keys of this step, of all processes.
            texts: (B, D) text keys.
            image_ids: (B,) ids of their images.

        Raises:
            ValueError: the three have different lengths.
        """
        if not len(images) == len(texts) == len(image_ids):
            raise ValueError(
                f"{len(images)} image keys, {len(texts)} text keys and {len(image_ids)} ids do not pair up"
            )
        start = int(self.position) + max(0, len(images) - self.size)
        images, texts, image_ids = images[-self.size :], texts[-self.size :], image_ids[-self.size :]
        start %= self.size
        first = min(len(images), self.size - start)
        for ring, new in ((self.images, images), (self.texts, texts), (self.image_ids, image_ids)):
            ring[start : start + first] = new[:first]
            ring[: len(new) - first] = new[first:]
        self.position.fill_((start + len(images)) % self.size)
        self.filled.fill_(min(self.size, int(self.filled) + len(images)))
