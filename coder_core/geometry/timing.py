"""Estimated time of a layout, from measurements."""

from __future__ import annotations

import numpy as np

from coder_core.geometry.settings import Method

# Points → processor seconds of one layout, 512 numbers a point, on one core of a two-core machine, UMAP compiled
MEASURED: dict[Method, dict[int, float]] = {
    "pca": {120: 0.01, 20_000: 0.3},
    "umap": {120: 0.13, 600: 0.6, 2_000: 2.0, 6_000: 6.1, 20_000: 16.0, 50_000: 77.0},
    "tsne": {120: 2.5, 600: 8.6, 2_000: 25.0, 6_000: 57.0},
}
STARTING = 5.0  # seconds until a process has imported what it needs


def layout_seconds(method: Method, points: int) -> float:
    """Seconds that a layout of so many points takes, the start of its process included.

    Between and beyond the measured sizes a power law holds: a straight line through the nearest two, both logarithmic.
    """
    sizes, seconds = (
        np.log(np.array(list(values))) for values in (MEASURED[method], MEASURED[method].values())
    )
    at = float(np.log(max(points, 1)))
    right = int(np.clip(np.searchsorted(sizes, at), 1, len(sizes) - 1))
    slope = (seconds[right] - seconds[right - 1]) / (sizes[right] - sizes[right - 1])
    return STARTING + float(np.exp(seconds[right] + slope * (at - sizes[right])))
