"""A split under a model: scored by embeddings where scores are inner products, by a matrix of scores otherwise."""

from __future__ import annotations

import torch

from coder_core.data.dataset import Split
from coder_core.data.words import Tokens
from coder_core.evaluation.sources import ScoreMatrix, Source, mixture
from coder_core.model.coder import Coder
from coder_core.model.encode import Progress, SplitEmbeddings, encode_split
from coder_core.model.pair_scores import SplitScores, score_split


def scored_split(
    model: Coder, split: Split, tokens: Tokens, *, beta: float, device: torch.device, precision: str = "float32",
    progress: Progress | None = None, attention: bool = False,
) -> tuple[list[Source], SplitEmbeddings | SplitScores]:  # fmt: skip
    """What a split's pairs are scored by, and what that was made of.

    Args:
        model: on `device`.
        split: with its features mapped.
        tokens: the split's captions as numbers.
        beta: share of the instance branch in a score, where there is a concept branch.
        device: where the model is.
        precision: see `autocast`.
        progress: called with what is done (samples, or pairs) and what there is in all; may raise to stop.
        attention: keep the concept attention too.
    """
    if model.scorer.by_pair:
        scored = score_split(model, split, tokens, device=device, precision=precision, progress=progress)
        return [ScoreMatrix(scored.scores)], scored
    found = encode_split(
        model, split, tokens, device=device, precision=precision, progress=progress, attention=attention
    )
    return mixture(found.images, found.texts, found.second, beta), found
