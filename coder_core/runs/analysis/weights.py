"""The sample weights of a split in its analysis folder: raw scores and weights of every pair, `weighting.json`.

Neighbours are found among the split's own captions, in the text space that was fitted on the train captions.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.config.training import OF_NEIGHBOURHOODS, WeightingConfig
from coder_core.console.output import Progress, silent
from coder_core.data.split import Split
from coder_core.model.encode import Encoded, SplitScores
from coder_core.objectives.batch_weights import batch_weights
from coder_core.objectives.complementary import (
    combined_weights,
    mean_and_deviation,
    neighbour_scores,
    shuffled,
)
from coder_core.runs.derived.neighbours import run_text_space, split_neighbours

DOCUMENT = "weighting"
SEED = 0  # of the batches for weights that depend on the batch, and of random weights


def weight_settings(weighting: WeightingConfig) -> dict[str, Any]:
    """Return the arguments of `combined_weights` in a configuration, except the kind."""
    return {
        "shares": (weighting.diversity_share, weighting.discrepancy_share),
        "direction": weighting.weight_direction,
        "scale": weighting.weight_scale,
        "modalities": weighting.weight_modalities,
    }


def weight_tables(
    folder: Path, config: Config, known: Encoded, split: Split, progress: Progress = silent
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Compute arrays and documents of a split's sample weights; both are empty for a run without weights. `known`: the
    split's embeddings, or its scores with mean parts. InputError: the text space is damaged or missing.

    Arrays: `sample_weight` (m,) float32, mean 1; for complementary samples as if the split were one batch, for HAL,
    MITHUN and AMRANI in random batches of the training's size, on which they depend. For complementary samples also
    `weight_diversity` and `weight_discrepancy` (m, 2) float32, DIV and DIS of image and caption: Γ times the raw score
    (−1 if Γ is 0), over all N² neighbours of neighbours. Documents: `weighting`, with mean and standard deviation of
    the raw scores without Γ, as in the paper's table 1.
    """
    weighting = config.weighting
    batch_size = config.training.batch_size
    kind = weighting.sample_weights
    scale = weighting.weight_scale
    if kind == "none":
        return {}, {}

    document: dict[str, object] = {"sample_weights": kind, "scale": scale, "lambda": scale * batch_size}
    if kind not in OF_NEIGHBOURHOODS:
        in_batches = _in_batches(kind, known, split.image_of_text, batch_size)
        return {"sample_weight": in_batches}, {DOCUMENT: document}

    space = run_text_space(folder, config)
    count = weighting.neighbours
    neighbours = split_neighbours(space, split.captions, split.image_of_text, count, progress=progress)
    raw = _raw(known, split.image_of_text, torch.from_numpy(neighbours).long())
    diversity = raw["diversity"]
    if kind == "random":
        diversity = shuffled(diversity, torch.Generator().manual_seed(SEED))

    weights = combined_weights(kind, diversity, raw["discrepancy"], **weight_settings(weighting)) / scale
    measured = {name: mean_and_deviation(values) for name, values in raw.items()}
    document |= {
        "mean": {name: mean for name, (mean, _) in measured.items()},
        "std": {name: deviation for name, (_, deviation) in measured.items()},
        "direction": weighting.weight_direction,
        "modalities": weighting.weight_modalities,
        "diversity_share": weighting.diversity_share,
        "discrepancy_share": weighting.discrepancy_share,
        "neighbours": count,
        "fewest_neighbours": int((neighbours >= 0).sum(1).min()),
        "text_space": space.name,
    }
    direction = weighting.weight_direction or -1
    arrays = {f"weight_{name}": (direction * values).float().numpy() for name, values in raw.items()}
    return arrays | {"sample_weight": weights.float().numpy()}, {DOCUMENT: document}


def _vectors(known: Encoded) -> tuple[np.ndarray, np.ndarray]:
    """Return one vector per image and one per caption."""
    if isinstance(known, SplitScores):
        return known.image_means, known.text_means
    return known.images, known.texts


def _raw(known: Encoded, image_of_text: np.ndarray, neighbours: Tensor) -> dict[str, Tensor]:
    """Compute the raw diversity and discrepancy of every pair's image and caption: (m, 2) each."""
    images, texts = map(torch.from_numpy, _vectors(known))
    sides = [
        neighbour_scores(values, torch.ones(len(values), dtype=torch.bool), rows, neighbours, neighbours)
        for values, rows in (
            (images, torch.from_numpy(image_of_text).long()),
            (texts, torch.arange(len(texts))),
        )
    ]
    names = ("diversity", "discrepancy")
    return {name: torch.stack([getattr(side, name) for side in sides], 1) for name in names}


def _in_batches(kind: str, known: Encoded, image_of_text: np.ndarray, size: int) -> np.ndarray:
    images, texts = _vectors(known)
    weights = np.empty(len(texts), np.float32)
    order = np.random.default_rng(SEED).permutation(len(weights))
    for pairs in np.array_split(order, max(1, round(len(order) / size))):
        owners = image_of_text[pairs]
        of_images = torch.from_numpy(np.asarray(images[owners]))
        of_texts = torch.from_numpy(np.asarray(texts[pairs]))
        negatives = torch.from_numpy(owners[:, None] != owners[None, :])
        stored = known.scores[np.ix_(owners, pairs)] if isinstance(known, SplitScores) else None
        scores = images[owners] @ texts[pairs].T if stored is None else stored
        between = torch.from_numpy(np.ascontiguousarray(scores))  # images `owners` and captions `pairs`
        of_batch = batch_weights(kind, between, of_images, of_texts, negatives, scale=float(len(pairs)))
        weights[pairs] = of_batch.numpy()
    return weights
