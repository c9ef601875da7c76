"""Find captions of train that probably belong to another image by a regression, in seconds and without a trained run.

Ridge regression predicts the features of an image from each of its captions. Wrong captions are independent of their
image, so they weaken such an average but do not turn it, and features are never exchanged: the premise of IN2R (Liu et
al. 2026), which finds an image's neighbours within its own modality. Every caption is predicted by a regression that
saw no caption of its image. How well the prediction fits the image, and how like the caption is to the image's other
captions and to those of similar images, is weighed by a classifier (`pair_evidence`). The whole is repeated with every
pair weighted by the probability that it is right, as in an EM algorithm.
"""

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, logit

from coder_core.api.data_quality import LEAST_WEIGHT, error_probability, random_ones_better
from coder_core.api.pair_evidence import (
    CaptionEvidence,
    PlacedCaptions,
    given_and_drawn,
    like_images,
    told_apart,
)
from coder_core.api.sides import Array, slices
from coder_core.console.faults import InputError
from coder_core.geometry.captions import caption_space
from coder_core.geometry.text_space import unit_rows

NAME = "regression"
TEXT_SIZE = 1500  # components of the TF-IDF space
PARTS = 5  # of the images; each part is predicted from the others
ROUNDS = 2
RIDGE = 1e-3  # penalty, as a share of the sum of the weights
IMAGES_AT_ONCE = 1024
LARGEST_SHIFT = 100.0  # of log odds
# Evidence is strong if this share of the right pairs look better than all but so many percent of the random ones. With
# Flickr8k's literal captions 84% to 98% do, with the demo's vague ones 58% to 64% (lab/wrong_captions.md).
CONVINCING = 0.75
RANDOM_ABOVE = 5.0


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
    directions = unit_rows(pictures)
    like = like_images(directions)
    given, drawn = given_and_drawn(owner)
    part = np.random.default_rng(0).permutation(n) % PARTS
    of_given = part[owner]
    of_drawn = part[owner[drawn.places]]
    weights = np.ones(len(owner))
    shares = []
    for _ in range(ROUNDS):
        predicted = unit_rows(_predicted_pictures(texts, pictures, owner, weights, part))
        evidence = CaptionEvidence(directions, PlacedCaptions(texts, predicted, owner, weights), like)
        score, random = told_apart(evidence.of(given), evidence.of(drawn), of_given, of_drawn)
        better = random_ones_better(score, random)
        probability = error_probability(better)
        shares.append(float(probability.mean()))
        weights = np.maximum(1 - probability, LEAST_WEIGHT)

    # with weights, captions of an image confirm one another, and too few seem wrong
    probability = _with_mean(probability, shares[0])
    rows = {"caption": np.arange(len(owner)), "image": owner, "score": score, "random": better}
    table = pd.DataFrame(rows | {"probability": probability}).assign(scorer=NAME)
    return table.sort_values("score", ascending=False, kind="stable", ignore_index=True)


def tells_apart(table: pd.DataFrame) -> bool:
    """True if a regression's evidence is strong enough to be trusted: most right pairs look better than nearly all random
    ones. `table`: of `regression_suspicion`. A vague caption fits its image hardly better than a random one does."""
    right = 1 - table["probability"].to_numpy()
    convincing = right[table["random"].to_numpy() < RANDOM_ABOVE].sum()
    return bool(convincing >= CONVINCING * right.sum() > 0)


def _with_mean(probability: Array, mean: float) -> Array:
    """Multiply the odds of all probabilities by one factor so that their mean becomes `mean`; 0 and 1 stay."""
    within = (probability > 0) & (probability < 1)
    lowest = float((probability == 1).mean())
    highest = lowest + float(within.mean())
    if not lowest < mean < highest:
        return probability
    odds = logit(probability)
    shift = brentq(lambda shift: expit(odds + shift).mean() - mean, -LARGEST_SHIFT, LARGEST_SHIFT)
    return np.asarray(expit(odds + shift))


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
