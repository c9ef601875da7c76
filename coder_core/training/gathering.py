"""One branch's embeddings of a batch: this process's pairs beside those of all processes, and their scores."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coder_core.training import parallel


@dataclass(frozen=True)
class Anchors:
    """This process's pairs and everything they are compared with."""

    images: Tensor  # (B, D) with gradient
    texts: Tensor  # (B, D) with gradient
    all_images: Tensor  # (world · B, D) with gradient
    all_texts: Tensor  # (world · B, D) with gradient
    image_ids: Tensor  # (B,)
    all_image_ids: Tensor  # (world · B,)
    offset: int  # where this process's pairs stand among all


def gather_anchors(images: Tensor, texts: Tensor, image_ids: Tensor) -> Anchors:
    """One branch's embeddings of this process's pairs, beside those of all processes."""
    return Anchors(
        images,
        texts,
        parallel.gather_with_gradient(images),
        parallel.gather_with_gradient(texts),
        image_ids,
        parallel.gather_rows(image_ids),
        parallel.rank() * len(image_ids),
    )


def batch_scores(anchors: Anchors) -> tuple[Tensor, Tensor]:
    """(B, world · B) scores of this process's images to all texts, and of its texts to all images."""
    forward = anchors.images @ anchors.all_texts.T
    if parallel.world_size() == 1:
        return forward, forward.T
    return forward, anchors.texts @ anchors.all_images.T
