"""Find captions of train that probably belong to another image by a regression, in seconds and without a trained run.

Ridge regression predicts the features of an image from each of its captions. Wrong captions are independent of their
image, so they weaken such an average but do not turn it, and features are never exchanged: the premise of IN2R (Liu et
al. 2026), which finds an image's neighbours within its own modality. Every caption is predicted by a regression that
saw no caption of its image. The predictions are then judged like the embeddings of a run (`data_quality.suspicion`),
and the regression is repeated with every pair weighted by the probability that it is right, as in an EM algorithm.
"""

import numpy as np
import pandas as pd

from coder_core.api.data_quality import LEAST_WEIGHT, error_probability, random_ones_better, suspicion
from coder_core.api.sampling import whole_split
from coder_core.api.sides import Array, slices
from coder_core.console.faults import InputError
from coder_core.geometry.captions import caption_space
from coder_core.geometry.text_space import unit_rows

NAME = "regression"
TEXT_SIZE = 600  # components of the TF-IDF space
PARTS = 5  # of the images; each part is predicted from the others
ROUNDS = 2
RIDGE = 1e-3  # penalty, as a share of the sum of the weights
IMAGES_AT_ONCE = 1024


def regression_suspicion(features: Array, captions: list[str], owner: Array) -> pd.DataFrame:
    """Score every pair by regression. `features`: (n, L, D) or (n, D). `owner`: (m,) the image of each caption.

    Return caption, image (rows), score (higher is worse), random (% of random pairs that look better), probability (of
    belonging to another image) and scorer; the most suspicious pair first. InputError: there are fewer than `PARTS`
    images, or the captions share no words."""
    n = len(features)
    space = caption_space(captions, TEXT_SIZE)
    if n < PARTS or space is None:
        fact = f"cannot score {len(captions):,} captions of {n:,} images"
        needed = f"at least {PARTS} images, and captions that share words"
        raise InputError.at(f"--clean-by {NAME}", fact, needed, "use --clean-by halves")
    texts = space.encode(captions)
    pictures = _picture_vectors(features)
    part = np.random.default_rng(0).permutation(n) % PARTS
    weights = np.ones(len(owner))
    for _ in range(ROUNDS):
        predicted = unit_rows(_predicted_pictures(texts, pictures, owner, weights, part))
        pairs = whole_split(unit_rows(pictures), predicted, owner)
        score, random = suspicion(pairs, [texts, predicted])
        better = random_ones_better(score, random)
        probability = error_probability(better)
        weights = np.maximum(1 - probability, LEAST_WEIGHT)
    rows = {"caption": np.arange(len(owner)), "image": owner, "score": score, "random": better}
    table = pd.DataFrame(rows | {"probability": probability}).assign(scorer=NAME)
    return table.sort_values("score", ascending=False, kind="stable", ignore_index=True)


def _picture_vectors(features: Array) -> Array:
    """Return (n, D) float32: the mean of each image's regions, every region at length 1, standardised over the images."""
    size = features.shape[-1]
    means = np.empty((len(features), size), np.float32)
    for rows in slices(len(features), IMAGES_AT_ONCE):
        block = np.asarray(features[rows], np.float32)
        regions = unit_rows(block.reshape(-1, size))
        means[rows] = regions.reshape(len(block), -1, size).mean(1)
    spread = means.std(0)
    spread[spread == 0] = 1
    return np.asarray((means - means.mean(0)) / spread)


def _predicted_pictures(texts: Array, pictures: Array, owner: Array, weights: Array, part: Array) -> Array:
    """Predict the picture vector of every caption from the captions of the other parts' images, by weighted ridge
    regression.

    Args:
        texts: (m, S) vectors of the captions.
        pictures: (n, D) vectors of the images, with the mean 0.
        owner: (m,) the image of each caption.
        weights: (m,) weight of each pair.
        part: (n,) the part of each image.

    Returns:
        (m, D) float32.
    """
    texts = texts - np.average(texts, axis=0, weights=weights).astype(np.float32)
    weighed = texts * weights[:, None].astype(np.float32)
    penalty = RIDGE * weights.sum() * np.eye(texts.shape[1])
    sums = np.zeros((len(pictures), texts.shape[1]), np.float32)
    np.add.at(sums, owner, weighed)
    inside = [part[owner] == number for number in range(PARTS)]
    squares = [weighed[rows].T @ texts[rows] for rows in inside]
    products = [sums[part == number].T @ pictures[part == number] for number in range(PARTS)]
    predicted = np.empty((len(owner), pictures.shape[1]), np.float32)
    for number, rows in enumerate(inside):
        others = [other for other in range(PARTS) if other != number]
        square = sum((squares[other] for other in others), penalty)
        product = sum((products[other] for other in others), np.zeros_like(products[0]))
        predicted[rows] = texts[rows] @ np.linalg.solve(square, product).astype(np.float32)
    return predicted
