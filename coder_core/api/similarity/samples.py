"""Choose and order the samples of a similarity matrix: a batch as training sees it, or a whole split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from coder_core.api.sides import Array
from coder_core.console.faults import Fault, InputError

if TYPE_CHECKING:
    from coder_core.api.run import Run

Source = Literal["seed", "chosen", "hardest", "split"]
Order = Literal["drawn", "diversity", "cluster"]

SCORES_AT_MOST = 31_250_000  # 2,500 images × 12,500 captions, a second for two runs: a larger split is sampled
TREE_AT_MOST = 2_000  # a tree of all distances above this takes seconds
_NUMBERS = re.compile(r"[\d\s,;–-]+")


@dataclass(frozen=True)
class MatrixSamples:
    """The images and captions of a matrix, in the order in which they are shown.

    Args:
        images: rows in the split. texts: likewise.
        paired: text k was written for image k, as in a training batch; otherwise a whole split (or a sample of it).
        about: one sentence: what was taken, and of how many.
    """

    images: Array
    texts: Array
    paired: bool
    about: str


def choose_samples(
    run: Run, split: str, source: Source, *, size: int = 64, seed: int = 0, chosen: str = ""
) -> MatrixSamples:
    """Choose the samples of a matrix.

    Args:
        run: whose split; "hardest" also asks its ranks.
        source: "seed": random pairs, as training draws them; "chosen": what `chosen` says; "hardest": the captions
            furthest behind another image, each followed by the image that beats it; "split": all samples, or as many
            random images with their captions as keep the matrix below 2,500 × 12,500.
        size: pairs, at least 2.
        chosen: numbers of captions ("0-31, 77"), or words that the captions hold.

    Raises:
        InputError: fewer than two pairs, or a caption that is not there.
    """
    owner = run.image_of_text(split)
    if len(owner) < 2:
        raise InputError(Fault(f"split {split}", "has 1 pair", "at least 2: a pair alone has no negatives"))
    if source == "split":
        return _whole_split(owner, len(run.ranks(split)["i2t"]), seed)
    if size < 2:
        raise InputError(Fault("the batch", f"has {size} pair", "at least 2: a pair alone has no negatives"))
    if source == "chosen":
        texts, about = _chosen(run.captions(split), chosen, size)
    elif source == "hardest":
        texts = _hardest(run, split, min(size, len(owner)))
        about = f"the {len(texts):,} hardest pairs of {len(owner):,}: captions behind another image, and that image"
    else:
        texts = np.random.default_rng(seed).permutation(len(owner))[:size]
        about = f"{len(texts):,} of {len(owner):,} pairs, drawn at random with seed {seed}"
    return MatrixSamples(owner[texts], texts, True, about)


def order_samples(
    run: Run, split: str, samples: MatrixSamples, by: Order, diversity: Array, anchors: str
) -> MatrixSamples:
    """Put samples into another order.

    Args:
        by: "drawn"; "diversity" of the anchors, the most ambiguous first; "cluster", alike ones side by side.
        diversity: of the anchors, in the batch's present order.
        anchors: "image" or "text", the modality `diversity` belongs to.
    """
    if by == "drawn":
        return samples
    if samples.paired:
        order = (
            np.argsort(diversity, kind="stable") if by == "diversity" else _alike(_pair_vectors(run, split, samples))
        )
        return replace(samples, images=samples.images[order], texts=samples.texts[order])
    owner = np.searchsorted(samples.images, run.image_of_text(split)[samples.texts])  # images ascend
    if by == "cluster":
        v, _, scores = run.compared(split)
        image_order = _alike(v[samples.images] if scores is None else scores[np.ix_(samples.images, samples.texts)])
    elif anchors == "image":
        image_order = np.argsort(diversity, kind="stable")
    else:
        count = np.maximum(np.bincount(owner, minlength=len(samples.images)), 1)
        image_order = np.argsort(np.bincount(owner, diversity, minlength=len(count)) / count, kind="stable")
    by_image = by == "cluster" or anchors == "image"
    text_order = np.argsort(np.argsort(image_order)[owner] if by_image else diversity, kind="stable")
    return replace(samples, images=samples.images[image_order], texts=samples.texts[text_order])


def _whole_split(owner: Array, images: int, seed: int) -> MatrixSamples:
    total = images * len(owner)
    if total <= SCORES_AT_MOST:
        about = f"all {images:,} images and all {len(owner):,} captions"
        return MatrixSamples(np.arange(images), np.arange(len(owner)), False, about)
    count = max(2, int(images * (SCORES_AT_MOST / total) ** 0.5))
    rows = np.sort(np.random.default_rng(seed).choice(images, count, replace=False))
    texts = np.flatnonzero(np.isin(owner, rows))
    about = f"{count:,} of {images:,} images, drawn at random with seed {seed}, and their {len(texts):,} captions"
    return MatrixSamples(rows, texts, False, about)


def _chosen(captions: Sequence[str], chosen: str, size: int) -> tuple[Array, str]:
    if _NUMBERS.fullmatch(chosen) and any(letter.isdigit() for letter in chosen):
        matches = _numbers(chosen, len(captions))
        reason = "chosen by number"
    else:
        words = chosen.lower().split()
        matches = [k for k, caption in enumerate(captions) if words and all(word in caption.lower() for word in words)]
        reason = "that hold the words"
    if len(matches) < 2:
        fix = "name captions as 0-31, 77, or a word that several hold"
        pairs = "1 pair" if matches else "no pair"
        raise InputError(Fault("the selection", f"gives {pairs}", "at least 2", fix))
    texts = np.array(matches[:size], dtype=np.int64)
    return texts, f"{len(texts):,} of the {len(matches):,} pairs {reason}"


def _numbers(chosen: str, count: int) -> list[int]:
    """ "0-3, 7" is 0, 1, 2, 3, 7; each once, in the order of the text."""
    numbers: dict[int, None] = {}
    for part in re.split(r"[,;\s]+", re.sub(r"\s*[-–]\s*", "-", chosen.strip()).strip(",; ")):
        ends = re.fullmatch(r"([0-9]{1,11})(?:-([0-9]{1,11}))?", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if first > last:
            raise InputError(Fault(f"the selection, {part[:40]!r}", "is no number and no range", "0-31, 77"))
        if last >= count:
            raise InputError(Fault(f"caption {last}", "is not in the split", f"0 to {count - 1}"))
        numbers.update(dict.fromkeys(range(first, last + 1)))
    return list(numbers)


def _hardest(run: Run, split: str, size: int) -> Array:
    """Captions by how far their best wrong image stands above their own, each followed by a caption of that image."""
    s = run.sides(split, "text")
    owner, best = run.image_of_text(split), np.asarray(run.analysis(split).text_best)
    if best.shape[1] < 2:
        return np.arange(min(size, len(owner)))
    rival = np.where(best[:, 0] != owner, best[:, 0], best[:, 1])
    texts = np.arange(len(owner))
    gap = s.pairs(texts, rival) - s.pairs(texts, owner)
    first = run.first_captions(split)
    hardest: dict[int, None] = {}
    for text in np.argsort(-gap, kind="stable").tolist():
        for pair in (text, int(first[rival[text]])):
            if pair >= 0 and len(hardest) < size:
                hardest[pair] = None
        if len(hardest) >= size:
            break
    return np.fromiter(hardest, np.int64, len(hardest))


def _pair_vectors(run: Run, split: str, samples: MatrixSamples) -> Array:
    """What makes pairs alike: the sum of their embeddings, or how their images score the batch's captions."""
    v, w, scores = run.compared(split)
    if scores is not None:
        return np.asarray(scores[np.ix_(samples.images, samples.texts)])
    return np.asarray(v[samples.images] + w[samples.texts])


def _alike(vectors: Array) -> Array:
    """An order in which alike vectors are neighbours: the leaves of an average-linkage tree of cosine distances.

    Above 2,000 of them: by angle in the plane of the two largest principal components.
    """
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    if len(unit) < 3:
        return np.arange(len(unit))
    if len(unit) <= TREE_AT_MOST:
        from scipy.cluster.hierarchy import leaves_list, linkage  # a third of a second to import

        return np.asarray(leaves_list(linkage(unit, "average")))  # on unit rows euclidean orders as cosine does
    centred = unit - unit.mean(0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    plane = centred @ axes[:, -2:]
    return np.argsort(np.arctan2(plane[:, 0], plane[:, 1]), kind="stable")
