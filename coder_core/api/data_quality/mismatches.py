"""Find captions that probably belong to another image: every pair beside its neighbours, by a run's embeddings.

A run that trained on a pair has learned its mistake, too, so the list is for splits that were held out, or for train by
cross-fitting: of two runs that trained on complementary halves of its images, each judges what it did not see.

Three pieces of evidence, each standardised over the split (median and median absolute deviation):

1.  the pair's similarity, less that of the nearest captions to the image and of the nearest images to the caption: a
    pair counts as dissimilar only beside its neighbours in both modalities (CSLS of Conneau et al. 2018, eq. 4);
2.  the caption's similarity to the image's other captions, as the run embeds them;
3.  the same in a TF-IDF space, which the run has no part in.

The score is the first plus the mean of the others. These take the place of the neighbours' captions in LEMoN (Zhang et
al. 2024), which found fewer exchanged captions; an image with one caption has the first piece alone. What the list is
worth: `python -m benchmarks.mismatches`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from coder_core.api.sampling import Sample, SplitPart, part_of, sample_of
from coder_core.api.sides import TILE_ELEMENTS, Array
from coder_core.console.faults import Fault, InputError
from coder_core.data.split import captions_checksum, part_images
from coder_core.geometry.captions import caption_vectors

if TYPE_CHECKING:
    from coder_core.api.run import Run

NEIGHBOURS = 10
LIKE_RANDOM, DOUBTFUL = 50.0, 10.0
"""From this percentage of random pairs that look better on, a pair counts as like a random one, or as doubtful. With a
tenth of Flickr8k's dev captions exchanged, 99% of the first group were exchanged ones and 75% of the second."""
VERDICTS = ("like a random pair", "doubtful", "plausible")
TRAIN = "train"
HALVES = "train one with --train-part 0.5, one with --train-part 0.5 --other-part, all else equal"


def mismatches(run: Run, split: str, *, sample: Sample | None = None) -> pd.DataFrame:
    """Score every caption with its image; the most suspicious pair first.

    Args:
        sample: of a large split: only its pairs, compared with its images and captions.

    Returns:
        caption, image (rows of the split), score (higher is worse), random (% of pairs of a caption and a random other
        image that look better; 50 is a typical random pair), verdict (one of `VERDICTS`).
    """
    v, w, scores = run.compared(split)
    part = part_of(v, w, run.image_of_text(split), sample, scores)
    captions = run.captions(split)
    vectors = caption_vectors([captions[row] for row in part.text_rows.tolist()])
    spaces = [part.texts] if scores is None else []
    own, random = suspicion(part, spaces if vectors is None else [*spaces, vectors])
    better = 100 * np.searchsorted(np.sort(random), own) / max(len(random), 1)
    verdict = np.select([better >= LIKE_RANDOM, better >= DOUBTFUL], VERDICTS[:2], VERDICTS[2])
    table = pd.DataFrame(
        {
            "caption": part.text_rows,
            "image": part.image_rows[part.owner],
            "score": own,
            "random": better,
            "verdict": verdict,
        }
    )
    return table.sort_values("score", ascending=False, kind="stable", ignore_index=True)


def cross_fitted(first: Run, second: Run, *, sample: Sample | None = None) -> pd.DataFrame:
    """`mismatches` of train, each pair by the run that did not see its image, among other pairs that it did not see.

    Args:
        first, second: trained on complementary parts of the same train images, and evaluated on train.
        sample: of a large split.

    Returns:
        The columns of `mismatches`, and judge: the name of the run.

    Raises:
        InputError: the runs are not such a pair; says what they were trained on.
    """
    tables = []
    for run, unseen in zip((first, second), unseen_images(first, second), strict=True):
        images = unseen if sample is None else np.intersect1d(unseen, sample.images)
        half = sample_of(images, run.count(TRAIN, "image"), run.image_of_text(TRAIN))
        tables.append(mismatches(run, TRAIN, sample=half).assign(judge=run.name))
    return pd.concat(tables).sort_values("score", ascending=False, kind="stable", ignore_index=True)


def unseen_images(first: Run, second: Run) -> tuple[Array, Array]:
    """The rows of the train images that each of two runs did not train on; together they are all of them.

    Raises:
        InputError: as for `cross_fitted`.
    """
    runs = (first, second)
    trained = [_trained_on(run) for run in runs]
    (part, seed, other, about), (_, _, _, others_about) = trained
    if part is None or (part, seed, not other) != trained[1][:3]:
        said = "; ".join(
            f"{run.name}: {_flags(*facts[:3])}" for run, facts in zip(runs, trained, strict=True)
        )
        place = f"runs {first.name} and {second.name}"
        raise InputError(Fault(place, f"did not train on complementary halves ({said})", fix=HALVES))
    for name in ("train_captions_sha256", "train_features_sha256"):
        if about.get(name) != others_about.get(name):
            fact = f"trained on other {name.split('_')[1]} than run {second.name}"
            raise InputError(Fault(f"run {first.name}", fact, "the same data", HALVES))
    for run in runs:
        command = f"python -m coder_core.evaluate {run.path} --split {TRAIN}"
        if TRAIN not in run.splits:
            raise InputError(Fault(f"run {run.name}", "was not evaluated on train", fix=command))
        if captions_checksum(run.analysis(TRAIN)) != about.get("train_captions_sha256"):
            fact = "was evaluated on another train split than it trained on"
            raise InputError(Fault(f"run {run.name}", fact, fix=command))
    n = first.count(TRAIN, "image")
    drawn, rest = (part_images(n, part, seed, other=other) for other in (False, True))
    return (drawn, rest) if other else (rest, drawn)


def _trained_on(run: Run) -> tuple[float | None, int, bool, Mapping[str, Any]]:
    """Share of the train images, seed of the draw, whether the other images, and the table [about] of a run's
    configuration; None for all images, or without a configuration."""
    data, training = (run.config.get(section, {}) for section in ("data", "training"))
    part = float(data.get("train_part", 1.0))
    seed, other = int(training.get("seed", 0)), bool(data.get("other_part", False))
    return part if part < 1 else None, seed, other, run.config.get("about", {})


def _flags(part: float | None, seed: int, other: bool) -> str:
    return "all images" if part is None else f"--train-part {part:g}{' --other-part' * other} --seed {seed}"


def suspicion(part: SplitPart, spaces: list[Array], *, seed: int = 0) -> tuple[Array, Array]:
    """Suspicion of every pair, and of every caption with a random other image.

    Args:
        part: n images and m captions.
        spaces: (m, ·) rows of the captions; the inner product of two is how like they are.
        seed: of the random images.

    Returns:
        (m,) and (m,) float64, higher is more suspicious; the second is empty where there is one image.
    """
    n, owner = len(part.image_rows), part.owner
    image_level, text_level = _neighbour_levels(part)
    shift = np.random.default_rng(seed).integers(1, n, len(owner)) if n > 1 else np.zeros(0, np.int64)
    pairs = [owner, (owner + shift) % n] if n > 1 else [owner]
    pictured = [_beside_neighbours(part, images, image_level, text_level) for images in pairs]
    told = [[_unlike_the_others(space, owner, images, n) for images in pairs] for space in spaces]
    scores = [standardised(values, pictured[0]) for values in pictured]
    for likeness in told:
        for score, values in zip(scores, likeness, strict=True):
            score += standardised(values, likeness[0]) / len(told)
    return scores[0], scores[1] if n > 1 else np.zeros(0)


def standardised(values: Array, matching: Array) -> Array:
    """Distance of values from the median of matching pairs in robust standard deviations; 0 for NaN, which is no
    evidence."""
    finite = matching[np.isfinite(matching)]
    if not len(finite):
        return np.zeros(len(values))
    centre = np.median(finite)
    width = max(1.4826 * float(np.median(np.abs(finite - centre))), 1e-6)
    return np.nan_to_num((values - centre) / width)


def _neighbour_levels(part: SplitPart) -> tuple[Array, Array]:
    """Mean similarity of every image to its nearest foreign captions (n,), and of every caption to its nearest foreign
    images (m,); 0 where there are none."""
    levels = []
    for s in (part.sides("image"), part.sides("text")):
        level = np.zeros(len(s.anchors))
        for rows, tile, own in s.tiles(TILE_ELEMENTS):
            tile[own] = -np.inf
            nearest = np.partition(tile, -min(NEIGHBOURS, tile.shape[1]), axis=1)[:, -NEIGHBOURS:]
            exists = np.isfinite(nearest)
            level[rows] = np.where(exists, nearest, 0).sum(1) / np.maximum(exists.sum(1), 1)
        levels.append(level)
    return levels[0], levels[1]


def _beside_neighbours(part: SplitPart, images: Array, image_level: Array, text_level: Array) -> Array:
    """(m,) mean level of the neighbours less the similarity of every caption with an image."""
    similarity = part.sides("text").pairs(np.arange(len(images)), images)
    return np.asarray((image_level[images] + text_level) / 2 - similarity)


def _unlike_the_others(space: Array, owner: Array, images: Array, n: int) -> Array:
    """(m,) minus the mean likeness of every caption to the other captions of an image; NaN where it has no others."""
    order = np.argsort(owner, kind="stable")
    captioned, starts = np.unique(owner[order], return_index=True)
    total = np.zeros((n, space.shape[1]), np.float32)
    total[captioned] = np.add.reduceat(space[order], starts, axis=0)
    count = np.bincount(owner, minlength=n)[images] - (images == owner)
    likeness = np.einsum("md,md->m", space, total[images]) - (images == owner) * np.einsum(
        "md,md->m", space, space
    )
    return np.asarray(np.where(count > 0, -likeness / np.maximum(count, 1), np.nan))
