"""Explain a score by what masking changes: interactions of a picture's cells with words, and how faithful a map is.

A masked picture has an embedding f(x), x ∈ {0, 1}^L: the cells that are kept; a text without some of its words one g(y),
y ∈ {0, 1}^T. The score is f(x) · g(y). Baniecki et al. 2025 (FIxLIP, arXiv:2508.05430) explain it by Banzhaf interactions
of cells and words and judge a map by the area between its insertion and deletion curves.
"""

import numpy as np
from scipy.linalg import hadamard

Array = np.ndarray
ALL_SUBSETS = 6  # players up to which every subset is a mask
LEAST_ORDER = 64  # of the Hadamard matrix for more players: 128 masks
STEPS = 10  # of an insertion or deletion curve


def draw_masks(players: int, seed: int = 0) -> Array:
    """Return (n, players) bool masks, True for the players that are kept, each player in half of the masks.

    Up to 6 players: all 2^players subsets. Above: a Hadamard matrix of the next power of two, at least 64, with a
    random choice and random signs of its columns, and its complement. Columns are uncorrelated, and in a mask and its
    complement all interactions of an even number of players cancel, so `effects` has the least variance that so many
    masks allow.

    >>> draw_masks(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    if players <= ALL_SUBSETS:
        numbers = np.arange(1 << players)
        return (numbers[:, None] >> np.arange(players)) & 1 == 1
    order = LEAST_ORDER
    while order <= players:
        order *= 2
    random = np.random.default_rng(seed)
    columns = 1 + random.permutation(order - 1)[:players]  # the first column is constant
    signs = random.choice([-1, 1], players)
    kept = hadamard(order)[:, columns] * signs > 0
    return np.concatenate([kept, ~kept])


def effects(masks: Array, rows: Array) -> Array:
    """Return (players, D) the effect of each player on the embedding: the mean of the rows of masks that keep it minus
    the mean of those that do not. `masks`: (n, players) from `draw_masks`; `rows`: (n, D), the embedding of each.

    >>> effects(draw_masks(2), draw_masks(2) @ np.array([[2.0], [3.0]])).tolist()
    [[2.0], [3.0]]
    """
    signs = np.where(masks, 1.0, -1.0)
    return np.asarray(2 / len(masks) * (signs.T @ rows.astype(np.float64)))


def interactions(word_effects: Array, cell_effects: Array) -> Array:
    """Return (T, L) float32 Banzhaf interaction of each word with each cell, from (T, D) and (L, D) `effects`.

    The interaction is the mean over all other words and cells of what the cell adds to what the word adds to the
    score. The score is linear in either embedding and the masks of pictures and texts are independent, so the mean of
    the products is the product of the means: ψ_i · φ_j.

    >>> interactions(np.array([[2.0]]), np.array([[3.0], [1.0]])).tolist()
    [[6.0, 2.0]]
    """
    return np.asarray(word_effects @ cell_effects.T, dtype=np.float32)


def curve_masks(importance: Array) -> tuple[Array, Array]:
    """Return the masks of the insertion and of the deletion curve of a map, (STEPS + 1, L) bool each.

    Insertion keeps the k most important cells, deletion all others, for k from 0 to L. `importance`: (L,); NaN for
    cells that the map does not cover, which come last.

    >>> inserted, deleted = curve_masks(np.arange(20.0))
    >>> inserted.sum(1).tolist(), deleted.sum(1)[:3].tolist(), inserted[1].nonzero()[0].tolist()
    ([0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20], [20, 18, 16], [18, 19])
    """
    order = np.argsort(-np.nan_to_num(importance, nan=-np.inf), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    counts = np.linspace(0, len(order), STEPS + 1).round().astype(np.int64)
    inserted = place < counts[:, None]
    return inserted, ~inserted


def area_between(inserted: Array, deleted: Array) -> float:
    """Return the area between an insertion and a deletion curve over the share of cells, in units of the score.

    0 is what an order at random gets on average; larger is more faithful. `inserted`, `deleted`: (STEPS + 1,) scores.

    >>> area_between(np.ones(11), np.zeros(11))
    1.0
    """
    difference = inserted - deleted
    return float(np.trapezoid(difference, dx=1 / (len(difference) - 1)))
