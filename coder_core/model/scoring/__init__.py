"""Scores of image-caption pairs: `scorer` (cosine, best of PVSE's cosines), `interaction` (words attend to regions)."""

from coder_core.model.scoring.interaction import InteractionScorer
from coder_core.model.scoring.scorer import CosineScorer, PVSEScorer, Scorer

__all__ = ["CosineScorer", "InteractionScorer", "PVSEScorer", "Scorer"]
