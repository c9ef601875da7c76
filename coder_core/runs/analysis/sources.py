"""The scores that an analysis was ranked by. NumPy alone."""

from __future__ import annotations

from coder_core.evaluation.sources import ScoreMatrix, Source, mixture
from coder_core.runs.analysis.read import Analysis


def stored_sources(analysis: Analysis) -> list[Source]:
    """The scores of an analysis."""
    if analysis.scores is not None:
        return [ScoreMatrix(analysis.scores)]
    if (concepts := analysis.concepts) is None:
        return mixture(analysis.image_embeddings, analysis.text_embeddings)
    second = concepts.image_embeddings, concepts.text_embeddings
    return mixture(analysis.image_embeddings, analysis.text_embeddings, second, concepts.beta)
