"""From a spread to an anchor's temperature, CODER eq. 3 and 4, for NumPy arrays (the app) and torch tensors (training).

spread -> squash -> raw in [1, 2) -> normalise_by_largest -> diversity in (0.5, 1] -> sharpness 1 / (μ·div)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Numbers = TypeVar("Numbers", np.ndarray, "Tensor")
NumbersOrOne = TypeVar("NumbersOrOne", float, np.ndarray, "Tensor")

LARGEST_EXPONENT = 100.0  # 1 + exp(-100) equals 1 in both float32 and float64


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
    # A tensor implies that torch is imported; the app works without it.
    library: Any = np if isinstance(spread, np.ndarray) else sys.modules["torch"]
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
