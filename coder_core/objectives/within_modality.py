"""THOMAS: losses within each modality that keep samples close whose captions are neighbours in the text space.

Thomas and Kovashka 2020, "Preserving Semantic Neighborhoods for Robust Cross-modal Retrieval", arXiv:2007.08617, with
the hinge that the complementary-samples paper uses for all methods: besides the loss between modalities there is one
within each, whose positive is a sample that belongs to one of the caption's neighbours.
"""

import torch
from torch import Tensor

from coder_core.objectives.triplet import npairs_hinge


def within_modality(
    samples: Tensor, candidates: Tensor, neighbours: Tensor, negatives: Tensor, *, margin: float = 0.1
) -> Tensor:
    """Return (B,) n-pairs hinges of samples against those of their own modality, with a neighbour as the positive.

    Args:
        samples: (B, D) unit rows of one modality.
        candidates: (C, D) unit rows of the whole batch in the same modality.
        neighbours: (B, D) embedding of one neighbour of each sample.
        negatives: (B, C) bool, true for candidates of another image that are not neighbours.

    >>> images = torch.eye(2)
    >>> within_modality(images, images, images.flip(0), ~torch.eye(2, dtype=torch.bool))
    tensor([0.0250, 0.0250])
    """
    return npairs_hinge(samples @ candidates.T, (samples * neighbours).sum(1), negatives, margin=margin)


def is_neighbour(neighbours: Tensor, candidates: Tensor) -> Tensor:
    """Mark the (C,) candidate captions among each sample's neighbours, (B, N) padded with −1: (B, C) bool.

    >>> is_neighbour(torch.tensor([[3, 5], [7, -1]]), torch.tensor([5, 6, 7]))
    tensor([[ True, False, False],
            [False, False,  True]])
    """
    ordered = neighbours.sort(1).values
    candidates = candidates.expand(len(neighbours), -1).contiguous()
    position = torch.searchsorted(ordered, candidates).clamp_max(ordered.shape[1] - 1)
    return ordered.gather(1, position) == candidates
