"""Choose and order the samples of a similarity matrix: a batch as training sees it, or a whole split."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from coder_core.api.sides import Array, slices
from coder_core.console.faults import Fault, InputError

if TYPE_CHECKING:
    from coder_core.api.run import Run

Source = Literal["seed", "chosen", "hardest", "split"]
Order = Literal["drawn", "diversity", "cluster"]

SCORES_AT_MOST = 31_250_000  # 2,500 images × 12,500 captions, a second for two runs: a larger split is sampled
TREE_AT_MOST = 2_000  # a tree of all distances above this takes seconds
PIECE = 65_536  # captions whose scores are looked at together
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
    if source == "split":
        return _whole(owner, len(run.ranks(split)["i2t"]), seed)
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
        order = np.argsort(diversity, kind="stable") if by == "diversity" else _alike(_vectors(run, split, samples))
        return replace(samples, images=samples.images[order], texts=samples.texts[order])
    owner = np.searchsorted(samples.images, run.image_of_text(split)[samples.texts])  # drawn in ascending order
    if by == "cluster":
        v, _, scores = run.compared(split)
        images = _alike(v[samples.images] if scores is None else scores[np.ix_(samples.images, samples.texts)])
    elif anchors == "image":
        images = np.argsort(diversity, kind="stable")
    else:
        count = np.maximum(np.bincount(owner, minlength=len(samples.images)), 1)
        images = np.argsort(np.bincount(owner, diversity, minlength=len(samples.images)) / count, kind="stable")
    place = np.empty(len(images), dtype=np.int64)
    place[images] = np.arange(len(images))
    by_image = by == "cluster" or anchors == "image"
    texts = np.argsort(place[owner] if by_image else diversity, kind="stable")
    return replace(samples, images=samples.images[images], texts=samples.texts[texts])


def _whole(owner: Array, images: int, seed: int) -> MatrixSamples:
    total = images * len(owner)
    if total <= SCORES_AT_MOST:
        about = f"all {images:,} images and all {len(owner):,} captions"
        return MatrixSamples(np.arange(images), np.arange(len(owner)), False, about)
    keep = max(2, int(images * (SCORES_AT_MOST / total) ** 0.5))
    drawn = np.sort(np.random.default_rng(seed).choice(images, keep, replace=False))
    texts = np.flatnonzero(np.isin(owner, drawn))
    about = f"{keep:,} of {images:,} images, drawn at random with seed {seed}, and their {len(texts):,} captions"
    return MatrixSamples(drawn, texts, False, about)


def _chosen(captions: object, chosen: str, size: int) -> tuple[Array, str]:
    texts = list(captions)  # type: ignore[call-overload]
    if _NUMBERS.fullmatch(chosen) and any(letter.isdigit() for letter in chosen):
        found = _numbers(chosen, len(texts))
        what = "chosen by number"
    else:
        words = chosen.lower().split()
        found = [k for k, caption in enumerate(texts) if words and all(word in caption.lower() for word in words)]
        what = "that hold the words"
    if len(found) < 2:
        place, fact = "the selection", f"gives {len(found)} pairs"
        raise InputError(Fault(place, fact, "at least 2", "name captions as 0-31, 77, or a word that several hold"))
    kept = np.array(found[:size], dtype=np.int64)
    return kept, f"{len(kept):,} of the {len(found):,} pairs {what}"


def _numbers(chosen: str, count: int) -> list[int]:
    """ "0-3, 7" is 0, 1, 2, 3, 7; each once, in the order given."""
    found: dict[int, None] = {}
    for part in re.split(r"[,;\s]+", re.sub(r"\s*[-–]\s*", "-", chosen.strip())):
        if not part:
            continue
        first, _, last = part.partition("-")
        ends = (first, last or first)
        if not all(end.isdigit() and len(end) < 12 for end in ends) or int(ends[0]) > int(ends[1]):
            raise InputError(Fault(f"the selection, {part[:40]!r}", "is no number and no range", "0-31, 77"))
        if int(ends[1]) >= count:
            raise InputError(Fault(f"caption {ends[1]}", "is not in the split", f"0 to {count - 1}"))
        found.update(dict.fromkeys(range(int(ends[0]), int(ends[1]) + 1)))
    return list(found)


def _hardest(run: Run, split: str, size: int) -> Array:
    """Captions by how far their best wrong image stands above their own, each followed by a caption of that image."""
    s = run.sides(split, "text")
    owner, best = run.image_of_text(split), np.asarray(run.analysis(split).text_best)
    if best.shape[1] < 2:
        return np.arange(min(size, len(owner)))
    rival = np.where(best[:, 0] != owner, best[:, 0], best[:, 1])
    gap = np.empty(len(owner))
    for part in slices(len(owner), PIECE):
        texts = np.arange(len(owner))[part]
        gap[part] = s.pairs(texts, rival[part]) - s.pairs(texts, owner[part])
    first = run.first_captions(split)
    kept: dict[int, None] = {}
    for text in np.argsort(-gap, kind="stable").tolist():
        kept[text] = None
        beaten_by = int(first[rival[text]])
        if beaten_by >= 0 and len(kept) < size:
            kept[beaten_by] = None
        if len(kept) >= size:
            break
    return np.fromiter(kept, np.int64, len(kept))


def _vectors(run: Run, split: str, samples: MatrixSamples) -> Array:
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
