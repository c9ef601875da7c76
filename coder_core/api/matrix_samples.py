"""Choose the samples of a similarity matrix: a batch as training sees it, or a whole split."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from coder_core.api.run import Run
from coder_core.api.sides import Array
from coder_core.console.faults import InputError

BatchSource = Literal["seed", "chosen", "hardest", "split"]

# 2,500 images × 12,500 captions, a second for two runs: a larger split is sampled
SCORES_AT_MOST = 31_250_000
_NUMBERS = re.compile(r"[\s,;–-]*\d[\d\s,;–-]*")


@dataclass(frozen=True)
class MatrixSamples:
    """The images and captions of a matrix, in the order in which they are shown."""

    # images, texts: rows in the split
    images: Array
    texts: Array
    # True if text k describes image k, as in a training batch; False for a whole split (or a sample of it)
    paired: bool
    about: str  # describes which samples were chosen, and from how many


@dataclass(frozen=True)
class SampleChoice:
    """Which samples a matrix shows."""

    # "seed": random pairs, as training draws them; "chosen": the captions in `chosen`; "hardest": the captions
    # furthest behind another image, each followed by the image that beats it; "split": all samples, or as many
    # random images with their captions as keep the matrix below 2,500 × 12,500
    source: BatchSource
    size: int = 64  # pairs, at least 2
    seed: int = 0  # of random pairs or images
    chosen: str = ""  # numbers of captions ("0-31, 77"), or words that the captions contain
    # (k,) captions of a slice, ascending: pairs are drawn only from these, but captions chosen by number need
    # not be in the slice. None for the whole split.
    within: Array | None = None


def choose_samples(run: Run, split: str, choice: SampleChoice) -> MatrixSamples:
    """Choose the samples of a matrix. InputError: fewer than two pairs, or a caption that does not exist."""
    source = choice.source
    size = choice.size
    seed = choice.seed
    chosen = choice.chosen
    within = choice.within
    owner = run.image_of_text(split)
    if len(owner) < 2:
        raise InputError.at(f"split {split}", "has 1 pair", "at least 2: a pair alone has no negatives")

    by_number = source == "chosen" and _NUMBERS.fullmatch(chosen) is not None
    if within is not None and not by_number and len(np.unique(owner[within])) < 2:
        fact = "has captions of a single image" if len(within) > 1 else f"has {_count(len(within))}"
        expected = "captions of at least 2 images; captions of the same image are not negatives"
        raise InputError.at("the slice", fact, expected, "clear the slice, or choose a larger one")

    pairs = np.arange(len(owner)) if within is None else within
    of = f"{len(owner):,} pairs" if within is None else f"the slice’s {len(pairs):,} pairs"
    if source == "split":
        return _every_pair(owner, pairs, run.count(split, "image") if within is None else None, seed)
    if size < 2:
        raise InputError.at("the batch", f"has {size} pair", "at least 2: a pair alone has no negatives")

    if source == "chosen":
        texts, about = _chosen(run.captions(split), chosen, by_number, size, within)
    elif source == "hardest":
        texts = _hardest(run, split, pairs, size)
        where = "" if within is None else " if the slice contains them"
        about = f"the {len(texts):,} hardest of {of}: captions with the strongest rival images, and those images{where}"
    else:
        texts = np.random.default_rng(seed).permutation(pairs)[:size]
        about = f"{len(texts):,} of {of}, drawn at random with seed {seed}"

    return MatrixSamples(owner[texts], texts, True, about)


def _every_pair(owner: Array, pairs: Array, of_images: int | None, seed: int) -> MatrixSamples:
    """Choose all images and captions of a split of `of_images` images, or of a slice's `pairs` (None), or a sample."""
    images = np.unique(owner[pairs]) if of_images is None else np.arange(of_images)
    of_slice = " of the slice" if of_images is None else ""
    total = len(images) * len(pairs)
    if total <= SCORES_AT_MOST:
        about = f"all {len(images):,} images and all {len(pairs):,} captions{of_slice}"
        return MatrixSamples(images, pairs, False, about)
    count = max(2, int(len(images) * (SCORES_AT_MOST / total) ** 0.5))
    rows = np.sort(np.random.default_rng(seed).choice(images, count, replace=False))
    texts = pairs[np.isin(owner[pairs], rows)]
    about = f"{count:,} of {len(images):,} images{of_slice}, drawn at random with seed {seed}, "
    about += f"and their {len(texts):,} captions{of_slice}"
    return MatrixSamples(rows, texts, False, about)


def _count(pairs: int) -> str:
    return "1 pair" if pairs else "no pairs"


def _chosen(
    captions: Sequence[str], chosen: str, by_number: bool, size: int, within: Array | None
) -> tuple[Array, str]:
    if by_number:
        matches = _numbers(chosen, len(captions))
        reason = "chosen by number"
    else:
        words = chosen.lower().split()
        pairs = range(len(captions)) if within is None else within.tolist()
        matches = [k for k in pairs if words and all(word in captions[k].lower() for word in words)]
        reason = "that contain the words" if within is None else "of the slice that contain the words"

    if len(matches) < 2:
        fix = "enter caption numbers such as 0-31, 77, or a word that several captions contain"
        raise InputError.at("the selection", f"matches {_count(len(matches))}", "at least 2", fix)

    texts = np.array(matches[:size], dtype=np.int64)
    about = f"{len(texts):,} of the {len(matches):,} pairs {reason}"
    if within is not None and by_number:
        about += f", {int(np.isin(texts, within).sum()):,} of them in the slice"

    return texts, about


def _numbers(chosen: str, count: int) -> list[int]:
    """Parse "0-3, 7" as 0, 1, 2, 3, 7; each number once, in the order of the text."""
    numbers: dict[int, None] = {}
    for part in re.split(r"[,;\s]+", re.sub(r"\s*[-–]\s*", "-", chosen.strip()).strip(",; ")):
        ends = re.fullmatch(r"([0-9]{1,11})(?:-([0-9]{1,11}))?", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if first > last:
            problem = "is neither a number nor a range"
            raise InputError.at(f"the selection, {part[:40]!r}", problem, "0-31, 77")
        if last >= count:
            raise InputError.at(f"caption {last}", "is not in the split", f"0 to {count - 1}")
        numbers.update(dict.fromkeys(range(first, last + 1)))
    return list(numbers)


def _hardest(run: Run, split: str, pairs: Array, size: int) -> Array:
    """Choose the captions among `pairs` that rank furthest behind another image, each followed by the first of them
    that belongs to that image."""
    s = run.sides(split, "text")
    best = run.best(split, "t2i")
    pairs = pairs[run.ranks(split)["t2i"][pairs] >= 0]
    if best.shape[1] < 2:
        return pairs[:size]

    image = run.image_of_text(split)[pairs]
    rival = np.where(best[pairs, 0] != image, best[pairs, 0], best[pairs, 1])
    gap = s.pairs(pairs, rival) - s.pairs(pairs, image)
    first_pair = dict(zip(image[::-1].tolist(), pairs[::-1].tolist(), strict=True))
    hardest: dict[int, None] = {}
    for row in np.argsort(-gap, kind="stable").tolist():
        hardest[int(pairs[row])] = None
        if int(rival[row]) in first_pair:
            hardest[first_pair[int(rival[row])]] = None
        if len(hardest) >= size:
            break

    return np.array(list(hardest)[:size], np.int64)
