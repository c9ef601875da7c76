"""Prototype-guided classification: which prototype does an image, or a caption, belong to? CODER eq. 7.

    L_PGC = L_cls(softmax(P^C v^C), Z) + L_cls(softmax(P^C w^C), Z)

L_cls is the cross-entropy; Z is the prototype of the PAIR, the same label for its image and its caption. P^C (K, F) is
learned, with one row per prototype and no bias, and shared by the two modalities. It is not used after training.
"""

import torch
from torch import Tensor

from coder_core.ops import full_precision


def prototype_logits(vectors: Tensor, classifier: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Compute P^C v for every row: (B, F) vectors, (K, F) classifier -> (B, K).

    Args:
        vectors: (B, F) unit rows.
        classifier: (K, F).
        temperature: divides the logits; eq. 7 has none (1). Unit vectors and a classifier with small initial weights
            give nearly equal probabilities at first; a smaller temperature separates them sooner.

    Raises:
        ValueError: temperature is not positive.

    >>> prototype_logits(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 5.0], [0.0, 5.0]]))
    tensor([[2., 0.]])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    # There are far fewer vectors than classifier rows, so dividing them touches about a hundredth of the memory.
    return (full_precision(vectors) / temperature) @ full_precision(classifier).mT


def prototype_guided(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the cross-entropy of one modality's logits with the pairs' prototypes. CODER eq. 7.

    Args:
        logits: (B, K) from `prototype_logits`.
        labels: (B,) int64 prototype of every pair.

    Returns:
        (B,) losses; add those of both modalities.

    Raises:
        ValueError: a label is not a row of the classifier.

    >>> prototype_guided(torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
    tensor([2.1269])
    """
    count = logits.shape[1]
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < count:
        raise ValueError(f"labels run from 0 to {count - 1}, got {int(labels.min())} … {int(labels.max())}")
    return torch.nn.functional.cross_entropy(full_precision(logits), labels, reduction="none")
