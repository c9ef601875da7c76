"""From scores to an anchor's temperature, CODER eq. 3 and 4, for NumPy arrays (the app) and torch tensors (training).

scores -> spread (deviation or entropy) -> squash -> raw in [1, 2) -> normalise_by_largest -> diversity in (0.5, 1]
-> sharpness 1 / (μ·div)
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Numbers = TypeVar("Numbers", np.ndarray, "Tensor")
NumbersOrOne = TypeVar("NumbersOrOne", float, np.ndarray, "Tensor")
Measure = Literal["std", "entropy"]

LARGEST_EXPONENT = 100.0  # 1 + exp(-100) equals 1 in both float32 and float64


def spread(
    scores: Numbers, excluded: tuple[Any, Any], measure: Measure = "std", temperature: float = 1.0
) -> Numbers:
    """Measure the spread of each anchor's scores over its negatives by standard deviation (CODER eq. 3) or by entropy
    (supplement eq. 16).

    Args:
        scores: (Q, C) of any finite values, float32 or float64.
        excluded: rows (P,) and columns (P,) of the entries that are not negatives, each listed once. A list, because
            nearly every entry is a negative and a mask would cost a pass over the scores.
        measure: "std" or "entropy".
        temperature: τ of the entropy's softmax.

    Returns:
        (Q,) >= 0, a standard deviation, or an entropy in bits; 0, with a zero gradient, for an anchor without negatives.

    Raises:
        ValueError: an unknown measure, or a temperature that is not positive.

    >>> last = np.array([0]), np.array([2])
    >>> spread(np.array([[0.1, 0.3, 0.9]]), last).round(4)
    array([0.1])
    >>> spread(np.array([[0.5, 0.5, 0.9]]), last, "entropy")
    array([1.])
    """
    if measure not in get_args(Measure):
        raise ValueError(f'measure must be "std" or "entropy", got {measure!r}')
    if measure == "std":
        return _deviation(scores, excluded)
    return _entropy(scores, excluded, temperature)


def _deviation(scores: Numbers, excluded: tuple[Any, Any]) -> Numbers:
    """Return (Q,) sqrt(E[(S − E[S])²]) over each anchor's negatives."""
    library = _library(scores)
    rows, columns = excluded
    negatives = scores.shape[1] - library.bincount(rows, minlength=len(scores))
    count = library.asarray(negatives.clip(1), dtype=scores.dtype)
    mean = _subtract_at(scores.sum(1), rows, scores[rows, columns]) / count
    centred = scores - mean[:, None]
    centred[rows, columns] = 0.0
    length: Numbers = library.linalg.vector_norm(centred, axis=1)
    return length / library.sqrt(count)


def _entropy(scores: Numbers, excluded: tuple[Any, Any], temperature: float) -> Numbers:
    """Return (Q,) −Σ P log2 P in bits, where P is the softmax of S / τ over each anchor's negatives.

    With x = S / τ and Z = Σ exp(x), it is log Z − Σ x · exp(x) / Z, which needs one exponential per entry.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")

    library = _library(scores)
    if not scores.shape[1]:
        return scores.sum(1)

    logits = scores * (1.0 / temperature)
    logits[excluded[0], excluded[1]] = -math.inf
    largest = library.amax(logits, 1)[:, None]
    logits = logits - library.where(library.isfinite(largest), largest, 0.0)
    weights = library.exp(logits)
    logits[excluded[0], excluded[1]] = 0.0  # 0 · −∞ is not 0
    total = _sum_in_float64(weights)
    mass = library.where(total == 0, 1.0, total)
    mean = library.einsum("qc,qc->q", weights, logits) / mass
    nats: Numbers = library.log(mass) - mean
    return nats / math.log(2.0)


def _library(values: Any) -> Any:
    """Return numpy or torch. A tensor implies that torch is imported; the app works without it."""
    return np if isinstance(values, np.ndarray) else sys.modules["torch"]


def _subtract_at(totals: Numbers, rows: Any, values: Numbers) -> Numbers:
    """Subtract (P,) values from the (Q,) totals of their rows."""
    if isinstance(totals, np.ndarray):
        np.subtract.at(totals, rows, values)
        return totals
    return totals.index_add(0, rows, values, alpha=-1)


def _sum_in_float64(weights: Numbers) -> Numbers:
    """Return (Q,) sums of the rows, in NumPy as float64: at τ = 1, entropies of a split differ in the fourth digit."""
    total = weights.sum(1)
    return total.astype(np.float64) if isinstance(total, np.ndarray) else total


def squash(spread: Numbers, epsilon: float) -> Numbers:
    """Return 1 / sigmoid(ε / spread) = 1 + exp(−ε / spread), 1 for no spread and almost 2 for a large one. CODER eq. 3.
    ValueError: epsilon is not positive.

    Args:
        spread: (Q,) >= 0, a standard deviation or an entropy.
        epsilon: > 0.

    Returns:
        (Q,) in [1, 2); at zero spread the gradient is zero, its limit.

    >>> squash(np.array([0.0, 0.1, 1.0]), epsilon=0.1).round(4)
    array([1.    , 1.3679, 1.9048])
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon must be > 0, got {epsilon}")
    library = _library(spread)
    vanishes = spread <= epsilon / LARGEST_EXPONENT
    exponent = -epsilon / library.where(vanishes, epsilon, spread)
    raw: Numbers = 1.0 + library.where(vanishes, 0.0, library.exp(exponent))
    return raw


def normalise_by_largest(raw: Numbers, largest: Numbers | None = None) -> Numbers:
    """Divide by the largest raw diversity over the anchors of one modality (the paper's index Q is a misprint).

    Args:
        raw: (Q,) in [1, 2).
        largest: the maximum over the anchors of ALL processes, () or (Q,); None takes that of `raw`.

    Returns:
        (Q,) in (0.5, 1].

    >>> normalise_by_largest(np.array([1.2, 1.6]))
    array([0.75, 1.  ])
    """
    return raw / (raw.max() if largest is None else largest)


def sharpness(diversity: NumbersOrOne, temperature: float) -> NumbersOrOne:
    """Return 1 / (μ·div_i), the factor of S − γ in the exponents of CODER eq. 4. ValueError: temperature is not > 0.

    Args:
        diversity: (Q,) in (0.5, 1], or 1 for every anchor.
        temperature: μ > 0.

    >>> sharpness(np.array([0.5, 1.0]), temperature=0.1)
    array([20., 10.])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    return 1 / (temperature * diversity)
