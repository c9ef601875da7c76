"""The sample weights of a split in its analysis folder: raw scores and weights of every pair, `weighting.json`.

Neighbours are found among the split's own captions, in the text space that was fitted on the train captions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.config.weighting import OF_NEIGHBOURHOODS, WeightingConfig
from coder_core.console.progress import Progress, silent
from coder_core.data.split import Split
from coder_core.model.encode import SplitEmbeddings, SplitScores
from coder_core.objectives.batch_weights import batch_weights
from coder_core.objectives.combined_weights import (
    combination_shares,
    combined_weights,
    mean_and_deviation,
    shuffled,
)
from coder_core.objectives.neighbour_scores import neighbour_scores
from coder_core.runs.derived.neighbours import run_text_space, split_neighbours

IMAGE, TEXT = 0, 1  # columns of the raw scores
DOCUMENT = "weighting"
SEED = 0  # of the batches that weights of a batch are taken in, and of random weights
Tables = tuple[dict[str, np.ndarray], dict[str, Any]]


def weights_of(diversity: Tensor, discrepancy: Tensor, pairs: Tensor, weighting: WeightingConfig) -> Tensor:
    """(B,) weights of some pairs, taken as one batch.

    Args:
        diversity: (m, 2) raw scores of all pairs, image and text.
        discrepancy: (m, 2).
        pairs: (B,) which of them.
        weighting: how scores become weights.
    """
    shares = combination_shares(
        weighting.sample_weights,
        diversity,
        discrepancy,
        validated=(weighting.diversity_share, weighting.discrepancy_share),
    )
    return combined_weights(
        diversity[pairs],
        discrepancy[pairs],
        shares=shares,
        direction=weighting.weight_direction,
        scale=weighting.weight_scale * len(pairs),
        modalities=weighting.weight_modalities,
    )


class _Single(NamedTuple):
    """A split with one vector a sample, and how a batch of its pairs scores."""

    images: np.ndarray
    texts: np.ndarray
    scores: Callable[[np.ndarray], Tensor]


def _single(known: SplitEmbeddings | SplitScores, image_of_text: np.ndarray) -> _Single:
    if isinstance(known, SplitScores):
        every = known.scores
        return _Single(
            known.image_means,
            known.text_means,
            lambda pairs: torch.from_numpy(np.ascontiguousarray(every[np.ix_(image_of_text[pairs], pairs)])),
        )
    images, texts = known.images, known.texts
    return _Single(
        images, texts, lambda pairs: torch.from_numpy(images[image_of_text[pairs]] @ texts[pairs].T)
    )


def weight_tables(
    folder: Path,
    config: Config,
    known: SplitEmbeddings | SplitScores,
    split: Split,
    progress: Progress = silent,
) -> Tables:
    """Sample weights of a split; empty for a run without weights.

    Args:
        folder: of the run, which holds its text space.
        config: of the run.
        known: the split's embeddings, or its scores with the means of what they compare.
        split: the data.
        progress: of the search for neighbours.

    Returns:
        Arrays: `sample_weight` (m,) float32, mean 1: of complementary samples as if the split were one batch, of HAL,
        MITHUN and AMRANI in random batches of the training's size, because they say what a batch looks like. Of
        complementary samples also `weight_diversity` and `weight_discrepancy` (m, 2) float32, DIV and DIS of image and
        caption: Γ times the raw score (Γ = −1 for a run with 0), all N² neighbours of neighbours counted. Documents:
        `weighting`, with mean and standard deviation of the raw scores, Γ left out, as in the paper's table 1.

    Raises:
        InputError: the text space is damaged or gone.
    """
    weighting = config.weighting
    about: dict[str, Any] = {
        "sample_weights": weighting.sample_weights,
        "scale": weighting.weight_scale,
        "lambda": weighting.weight_scale * config.training.batch_size,
    }
    if weighting.sample_weights == "none":
        return {}, {}
    scores = _single(known, split.image_of_text)
    if weighting.sample_weights not in OF_NEIGHBOURHOODS:
        in_batches = _in_batches(
            weighting.sample_weights, scores, split.image_of_text, config.training.batch_size
        )
        return {"sample_weight": in_batches}, {DOCUMENT: about}
    space = run_text_space(folder, config)
    rows = split_neighbours(
        space, split.captions, split.image_of_text, weighting.neighbours, progress=progress
    )
    raw = _raw(scores, split.image_of_text, torch.from_numpy(rows).long())
    every = torch.arange(len(rows))
    diversity = raw["diversity"]
    if weighting.sample_weights == "random":
        diversity = shuffled(diversity, torch.Generator().manual_seed(SEED))
    weights = weights_of(diversity, raw["discrepancy"], every, weighting) / weighting.weight_scale
    measured = {name: mean_and_deviation(values) for name, values in raw.items()}
    about |= {
        "mean": {name: mean for name, (mean, _) in measured.items()},
        "std": {name: deviation for name, (_, deviation) in measured.items()},
        "direction": weighting.weight_direction,
        "modalities": weighting.weight_modalities,
        "diversity_share": weighting.diversity_share,
        "discrepancy_share": weighting.discrepancy_share,
        "neighbours": weighting.neighbours,
        "fewest_neighbours": int((rows >= 0).sum(1).min()),
        "text_space": space.name,
    }
    direction = weighting.weight_direction or -1
    arrays = {f"weight_{name}": (direction * values).float().numpy() for name, values in raw.items()}
    return arrays | {"sample_weight": weights.float().numpy()}, {DOCUMENT: about}


def _raw(found: _Single, image_of_text: np.ndarray, neighbours: Tensor) -> dict[str, Tensor]:
    """(m, 2) raw scores of both kinds."""
    images, texts = torch.from_numpy(found.images), torch.from_numpy(found.texts)
    owner, every = torch.from_numpy(image_of_text).long(), torch.arange(len(texts))
    sides = [
        neighbour_scores(values, torch.ones(len(values), dtype=torch.bool), rows, neighbours, neighbours)
        for values, rows in ((images, owner), (texts, every))
    ]
    return {
        "diversity": torch.stack([side.diversity for side in sides], 1),
        "discrepancy": torch.stack([side.discrepancy for side in sides], 1),
    }


def _in_batches(kind: str, found: _Single, image_of_text: np.ndarray, size: int) -> np.ndarray:
    weights = np.empty(len(found.texts), np.float32)
    order = np.random.default_rng(SEED).permutation(len(weights))
    for pairs in np.array_split(order, max(1, round(len(order) / size))):
        images = torch.from_numpy(np.asarray(found.images[image_of_text[pairs]]))
        texts = torch.from_numpy(np.asarray(found.texts[pairs]))
        ids = torch.from_numpy(image_of_text[pairs])
        taken = batch_weights(
            kind, found.scores(pairs), images, texts, ids[:, None] != ids[None, :], scale=float(len(pairs))
        )
        weights[pairs] = taken.numpy()
    return weights
