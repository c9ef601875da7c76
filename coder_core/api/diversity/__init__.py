"""Diversity of a run's anchors, in NumPy, and one anchor opened. CODER eq. 3 and 4."""

from coder_core.api.diversity.anchor import Anchor, Loss, negative_weights, open_anchor
from coder_core.api.diversity.fitting import fitting_images
from coder_core.api.diversity.negatives import BANK_SIZE, Candidates, DiversitySettings, spread
from coder_core.api.diversity.table import Measure, normalise

__all__ = [
    "BANK_SIZE",
    "Anchor",
    "Candidates",
    "DiversitySettings",
    "Loss",
    "Measure",
    "fitting_images",
    "negative_weights",
    "normalise",
    "open_anchor",
    "spread",
]
