"""The graph of concepts that occur together in captions. CODER supplement A.2; rescaled as in CVSE (2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

GraphNorm = Literal["columns", "rows-columns", "cvse"]
RESCALE_BASE, RESCALE_SHIFT = 5.0, 0.02  # CVSE: P → 5^(P − 0.02) − 5^(−0.02)


def count_together(captions: Sequence[Sequence[int]], concepts: int) -> tuple[np.ndarray, np.ndarray]:
    """Count captions: B_ij name both concept i and concept j, N_i name concept i.

    A caption counts once however often it names a concept, so that B_ij / N_i is a probability. B_ii = 0: the graph's
    loops come from the + I of Â.

    Args:
        captions: for every caption the numbers of its concepts, repeats allowed.
        concepts: g.

    Returns:
        (g, g) and (g,) int64.
    """
    from scipy import sparse

    named = [sorted(set(caption)) for caption in captions]
    starts = np.cumsum([0, *map(len, named)])
    columns = np.fromiter((concept for caption in named for concept in caption), np.int64, starts[-1])
    occurs = sparse.csr_matrix(
        (np.ones(len(columns), np.int64), columns, starts), shape=(len(named), concepts)
    )
    together = np.asarray((occurs.T @ occurs).todense(), dtype=np.int64)
    occurrences = together.diagonal().copy()
    np.fill_diagonal(together, 0)
    return together, occurrences


def conditional(together: np.ndarray, occurrences: np.ndarray) -> np.ndarray:
    """P_ij = B_ij / N_i, the probability of concept j in a caption that names concept i.

    (The paper's prose has it the other way round.) The row of a concept in no caption is zero.

    Args:
        together: (g, g) B.
        occurrences: (g,) N.
    """
    return np.asarray(together / np.maximum(occurrences, 1)[:, None], dtype=np.float64)


def rescale(probability: np.ndarray) -> np.ndarray:
    """5^(P − 0.02) − 5^(−0.02): 0 stays 0, and the threshold 0.3 is a raw P of 0.168."""
    return np.asarray(RESCALE_BASE ** (probability - RESCALE_SHIFT) - RESCALE_BASE**-RESCALE_SHIFT)


def connect(probability: np.ndarray, *, threshold: float) -> np.ndarray:
    """H_ij = 1 where P_ij ≥ threshold, otherwise 0; (g, g) float64. A threshold of 0 or less connects everything."""
    return (probability >= threshold).astype(np.float64)


def normalise_graph(edges: np.ndarray, norm: GraphNorm = "columns") -> np.ndarray:
    """H → Â, in one of three readings of D^(−1/2) H D^(−1/2) + I.

    H is not symmetric: many rare concepts point at a frequent one, and nothing points back, so many columns have degree
    zero. D^(−1/2) of zero is zero, so "columns" drops every edge from such a concept; the other two keep all edges.

    Args:
        edges: (g, g) H.
        norm: "columns", D_jj = Σ_i H_ij on both sides; "rows-columns", row sums on the left and column sums on the
            right; "cvse", D^(−1/2) (H + I) D^(−1/2) with the row sums of H + I.

    Returns:
        (g, g) float32.

    Raises:
        ValueError: an unknown norm.
    """
    loops = np.eye(len(edges))
    if norm == "cvse":
        root = _inverse_root((edges + loops).sum(1))
        return np.asarray(root[:, None] * (edges + loops) * root[None, :], dtype=np.float32)
    if norm not in ("columns", "rows-columns"):
        raise ValueError(f'norm must be "columns", "rows-columns" or "cvse", got {norm!r}')
    right = _inverse_root(edges.sum(0))
    left = right if norm == "columns" else _inverse_root(edges.sum(1))
    return np.asarray(left[:, None] * edges * right[None, :] + loops, dtype=np.float32)


def _inverse_root(degree: np.ndarray) -> np.ndarray:
    """D^(−1/2) as a vector, 0 where the degree is."""
    return np.where(degree > 0, 1.0 / np.sqrt(np.where(degree > 0, degree, 1.0)), 0.0)


def concept_graph(
    together: np.ndarray,
    occurrences: np.ndarray,
    *,
    threshold: float = 0.3,
    rescaled: bool = True,
    norm: GraphNorm = "columns",
) -> np.ndarray:
    """Counts → Â, (g, g) float32.

    Args:
        together: (g, g) B.
        occurrences: (g,) N.
        threshold: ε of the graph, on the rescaled probability or, literally, on the raw one.
        rescaled: rescale first, as CVSE does.
        norm: as in `normalise_graph`.
    """
    probability = conditional(together, occurrences)
    edges = connect(rescale(probability) if rescaled else probability, threshold=threshold)
    return normalise_graph(edges, norm)
