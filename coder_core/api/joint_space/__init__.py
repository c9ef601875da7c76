"""The joint space of a run: modality gap, similarity distributions, maps, and every sample in numbers."""

from coder_core.api.joint_space.layouts import (
    FEWEST,
    METHODS,
    MOST_TSNE,
    Layout,
    LayoutSettings,
    Method,
    Modalities,
    draw_points,
    layout_seconds,
    principal_layout,
    stored_layout,
)
from coder_core.api.joint_space.modality_gap import (
    ModalityGap,
    distributions,
    modality_gap,
    score_distributions,
    score_separation,
)
from coder_core.api.joint_space.samples import samples
from coder_core.evaluation.separation import Distributions, Separation

__all__ = [
    "FEWEST",
    "METHODS",
    "MOST_TSNE",
    "Distributions",
    "Layout",
    "LayoutSettings",
    "Method",
    "Modalities",
    "ModalityGap",
    "Separation",
    "distributions",
    "draw_points",
    "layout_seconds",
    "modality_gap",
    "principal_layout",
    "samples",
    "score_distributions",
    "score_separation",
    "stored_layout",
]
