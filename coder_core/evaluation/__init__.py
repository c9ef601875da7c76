"""Retrieval metrics: recalls from ranks with exact ties, c-way accuracy, matching pairs against all others.

sources      what scores come from: embeddings, a matrix, or several of them mixed
tiles        their scores, fast or exact, tile by tile
ranking      the rank of every right answer, the best candidates of every query
recall       R@K, MedR, MeanR, R@sum, five folds
c_way        accuracy among c options
separation   mean distance MD, distributions of similarities

A name is imported when it is first asked for, so that `sources` and `separation` come without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coder_core.evaluation.c_way import Accuracy, c_way_accuracy
    from coder_core.evaluation.ranking import Ranks, rank
    from coder_core.evaluation.recall import ensemble_metrics, five_fold, retrieval_metrics
    from coder_core.evaluation.separation import Distributions, Separation, distributions, own_similarity
    from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix, mixture
    from coder_core.evaluation.tiles import ScoreTiles, score_tiles

__all__ = [
    "Accuracy",
    "Distributions",
    "EmbeddingPair",
    "Ranks",
    "ScoreMatrix",
    "ScoreTiles",
    "Separation",
    "c_way_accuracy",
    "distributions",
    "ensemble_metrics",
    "five_fold",
    "half_metrics",
    "mixture",
    "own_similarity",
    "rank",
    "retrieval_metrics",
    "score_tiles",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in ("sources", "separation", "tiles", "ranking", "recall", "c_way"):
            home = import_module(f"{__name__}.{module}")
            if hasattr(home, name):
                return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
