"""Faults in the data: captions that belong to other images, and the splits of a run's data with their content report.

Captions that probably belong to another image are found by a run's embeddings. A run has also learned the mistakes in
its training pairs, so the list is for held-out splits, or for train by cross-fitting: two runs train on complementary
halves of its images, and each scores the pairs that it did not see.

Three pieces of evidence, each standardised over the split (median and median absolute deviation):

1.  the mean of the image's similarity to its nearest other captions and the caption's similarity to its nearest other
    images, minus the pair's own similarity (CSLS of Conneau et al. 2018, eq. 4);
2.  the caption's dissimilarity to the image's other captions in the run's embeddings;
3.  the same in a TF-IDF space, independent of the run.

The score is their sum. The second and third replace the neighbours' captions of LEMoN (Zhang et al. 2024), which found
fewer exchanged captions; for an image with one caption only the first exists. `python -m benchmarks.mismatches`
measures the quality of the list.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from coder_core.api.run import Run
from coder_core.api.sampling import Sample, SplitPart, sample_of
from coder_core.api.sides import BOTH, TILE_ELEMENTS, Array, Sides, slices
from coder_core.api.stored_run import StoredResult, read_stored
from coder_core.config.data import CleaningConfig
from coder_core.console.faults import InputError
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.captioned.layouts import holds_pictures_only
from coder_core.data.captioned.positions import Files, ParquetRows, TarMembers
from coder_core.data.captioned.reading import read_captioned
from coder_core.data.content.duplicates import caption_words, content_words
from coder_core.data.content.report import ContentReport, Finding, cached_report, content_key
from coder_core.data.dataset import available_splits, leaves, read_split
from coder_core.data.pictures import jpeg, picture_path, read_picture
from coder_core.data.split import Split, captions_checksum, part_images
from coder_core.demo import DEMO_FOLDER
from coder_core.evaluation.nearest import NearestRows, too_many
from coder_core.evaluation.relevance import Relation
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix, Source
from coder_core.geometry.captions import caption_vectors

KEY_SHOWN = 24
FIRST = {"train": 0, "dev": 1, "val": 1}
NEIGHBOURS = 10
LIKE_RANDOM = 50.0
DOUBTFUL = 10.0
"""A pair counts as like a random one, or as doubtful, if at least this percentage of random pairs look better. With a
tenth of Flickr8k's dev captions exchanged, all of the first group and 84% of the second were exchanged ones."""
CLEAN_ABOVE = CleaningConfig().clean_above  # least probability of being wrong to be left out
RARE = 2e-4  # share of right pairs that look like random ones; 4 of Flickr8k's 30,000 with three seeds each
LEVELS = ("probably wrong", "doubtful", "plausible")
STEPS = 50  # bins of the percentage of random pairs that look better, for estimating a probability
LEAST_WEIGHT = 0.01  # weight of a certainly wrong caption when captions of an image are compared
# batch and temperature of the losses that `small_losses` compares
PAIRS = 128
SHARPNESS = 0.07
TRAIN = "train"
CPU = "cpu"
QUERIES_ON_DEVICE = 4_096  # at once
Splits = Sequence[CaptionedSplit]
HALVES = "train one with --train-part 0.5, one with --train-part 0.5 --other-part, all else equal"


def mismatches(run: Run, split: str, *, sample: Sample | None = None, device: str = CPU) -> pd.DataFrame:
    """Score every caption with its image, or, of a large split, the pairs of a sample; the most suspicious pair first.
    `device` as for `suspicion`.
    Return caption, image (rows of the split), score (higher is worse), random (% of pairs of a caption and a random
    other image that look better; 50 is a typical random pair), level (one of `LEVELS`)."""
    part = run.compared(split).of_sample(sample)
    captions = run.captions(split)
    vectors = caption_vectors([captions[row] for row in part.text_rows.tolist()])
    spaces = [part.texts] if part.scores is None else []
    score, random = suspicion(part, spaces if vectors is None else [*spaces, vectors], device)
    better = random_ones_better(score, random)
    level = np.select([better >= LIKE_RANDOM, better >= DOUBTFUL], LEVELS[:2], LEVELS[2])
    rows = {"caption": part.text_rows, "image": part.image_rows[part.owner]}
    table = pd.DataFrame(rows | {"score": score, "random": better, "level": level})
    return table.sort_values("score", ascending=False, kind="stable", ignore_index=True)


def error_probability(random: Array) -> Array:
    """Estimate the probability that a caption belongs to another image: (m,) float64, non-decreasing in `random`.

    Wrong pairs look like random ones, so their percentage of random pairs that look better is uniform from 0 to 100.
    Almost no right pair is above `LIKE_RANDOM` (a share of `RARE`), so the pairs there are half of the wrong ones. The
    probability is the expected number of wrong pairs over that of all pairs, whose density decreases (a local false
    discovery rate, Efron 2004, with Grenander's estimate of the density). Its mean over the pairs that are kept is the
    expected share of errors among them.
    `random` is that column of `mismatches` or `cross_fitted`.
    """
    from sklearn.isotonic import IsotonicRegression

    step = np.minimum((random / 100 * STEPS).astype(int), STEPS - 1)
    surplus = max((random >= LIKE_RANDOM).sum() - RARE * len(random), 0.0)
    wrong = surplus / (STEPS * (1 - LIKE_RANDOM / 100))  # in every step
    counts = np.bincount(step, minlength=STEPS)
    density = IsotonicRegression(increasing=False).fit_transform(np.arange(STEPS), counts)
    return np.asarray(np.minimum(wrong / np.maximum(density, 1e-9), 1)[step])


def cross_fitted(first: Run, second: Run, *, sample: Sample | None = None, device: str = CPU) -> pd.DataFrame:
    """Find `mismatches` of train: each pair is scored by the run that did not see its image, among other pairs that it
    did not see. Return the columns of `mismatches`, and scorer: the name of the run. `first`, `second`: trained on
    complementary parts of the same train images, and evaluated on train; InputError describes what is not so. `sample`:
    for a large split. `device` as for `suspicion`."""
    tables = []
    for run, unseen in zip((first, second), unseen_images(first, second), strict=True):
        images = unseen if sample is None else np.intersect1d(unseen, sample.images)
        half = sample_of(images, run.count(TRAIN, "image"), run.image_of_text(TRAIN))
        tables.append(mismatches(run, TRAIN, sample=half, device=device).assign(scorer=run.name))
    return pd.concat(tables).sort_values("score", ascending=False, kind="stable", ignore_index=True)


def unseen_images(first: Run, second: Run) -> tuple[Array, Array]:
    """Return the rows of the train images that each of two runs did not train on; together these are all train images.
    Errors as for `cross_fitted`."""
    runs = (first, second)
    part, seed, other = _trained_on(first)
    if part == 1 or _trained_on(second) != (part, seed, not other):
        facts = "; ".join(f"{run.name}: {_flags(run)}" for run in runs)
        where = f"runs {first.name} and {second.name}"
        raise InputError.at(where, f"did not train on complementary halves ({facts})", fix=HALVES)

    metadata: list[Mapping[str, Any]] = [run.config.get("about", {}) for run in runs]
    files = {run.config.get("data", {}).get("reviews", "") for run in runs}
    reviews = ("reviews",) if len(files) > 1 else ()  # one file may have grown between the runs
    for content in ("train_captions", "train_features", *reviews):
        if metadata[0].get(f"{content}_sha256") != metadata[1].get(f"{content}_sha256"):
            fact = f"was trained on different {content.removeprefix('train_')} than run {second.name}"
            raise InputError.at(f"run {first.name}", fact, "the same data", HALVES)

    for run in runs:
        command = f"coder-lab evaluate {run.path} --split {TRAIN}"
        if TRAIN not in run.splits:
            raise InputError.at(f"run {run.name}", "was not evaluated on train", fix=command)
        checksum = captions_checksum(run.captions(TRAIN), run.image_of_text(TRAIN))
        if checksum != metadata[0].get("train_captions_sha256"):
            fact = "was evaluated on a different train split than it was trained on"
            raise InputError.at(f"run {run.name}", fact, fix=command)

    n = first.count(TRAIN, "image")
    drawn, rest = (part_images(n, part, seed, other=other) for other in (False, True))
    return (drawn, rest) if other else (rest, drawn)


def _trained_on(run: Run) -> tuple[float, int, bool]:
    """Return the share of train images drawn (1: all), the seed, and True if the run used the images not drawn."""
    data = run.config.get("data", {})
    training = run.config.get("training", {})
    part = min(float(data.get("train_part", 1.0)), 1.0)
    return part, int(training.get("seed", 0)), bool(data.get("other_part", False))


def _flags(run: Run) -> str:
    part, seed, other = _trained_on(run)
    return "all images" if part == 1 else f"--train-part {part:g}{' --other-part' * other} --seed {seed}"


def small_losses(run: Run) -> pd.DataFrame:
    """Score the pairs of train by the losses of a run that saw all of it for a few epochs: wrong pairs are learned last.

    The loss is InfoNCE (0.07, both directions) in random batches of 128. A mixture of two Gaussians is fitted to the
    losses, as in DivideMix (Li et al. 2020, section 3.1) and NCR (Huang et al. 2021, eq. 4).

    Return caption, image (rows of train), score (the loss), probability (of the component with the larger losses) and
    scorer; the largest loss first."""
    from sklearn.mixture import GaussianMixture

    part = run.compared(TRAIN)
    owner = part.owner
    loss = np.zeros(len(part.owner))
    order = np.random.default_rng(0).permutation(len(owner))
    last = max(len(order) - PAIRS, 0)  # the last batch is full too
    for start in [*range(0, last, PAIRS), last]:
        rows = order[start : start + PAIRS]
        scores = part.similarities(owner[rows], rows).astype(np.float64) / SHARPNESS
        own = scores.diagonal().copy()
        scores[(owner[rows][:, None] == owner[rows]) & ~np.eye(len(rows), dtype=bool)] = -np.inf
        loss[rows] = sum(np.logaddexp.reduce(scores, axis) for axis in (0, 1)) / 2 - own
    scaled = ((loss - loss.min()) / max(np.ptp(loss), 1e-12))[:, None]
    mixture = GaussianMixture(2, tol=1e-2, reg_covar=5e-4, random_state=0).fit(scaled)
    probability = mixture.predict_proba(scaled)[:, mixture.means_.argmax()]
    pairs = {"caption": part.text_rows, "image": part.image_rows[owner]}
    table = pd.DataFrame(pairs | {"score": loss, "probability": probability}).assign(scorer=run.name)
    return table.sort_values("score", ascending=False, kind="stable", ignore_index=True)


def suspicion(part: SplitPart, spaces: list[Array], device: str = CPU) -> tuple[Array, Array]:
    """Score the suspicion of every pair, and of every caption with a random other image. Return (m,) and (m,) float64,
    higher is more suspicious; the second is empty if there is only one image.

    A pair is suspicious if its similarity is low compared with its nearest foreign pairs, and if its caption is unlike
    the image's other captions in the spaces; the evidence is added. The other captions are weighted by the probability
    that they are right, estimated from their similarity alone, so that wrong ones do not count against a right one.
    `part`: n images and m captions. `spaces`: (m, ·) rows of the captions; the inner product of two is their likeness.
    `device`: of the products of images and captions; other devices than the CPU give the same up to rounding, and load
    torch."""
    n = len(part.image_rows)
    owner = part.owner
    pairs = [owner]
    if n > 1:
        pairs.append((owner + np.random.default_rng(0).integers(1, n, len(owner))) % n)

    image_level, text_level = foreign_levels(part, device)
    similarities = (part.sides("text").pairs(np.arange(len(owner)), images) for images in pairs)
    levels = ((image_level[images] + text_level) / 2 for images in pairs)
    beside = [np.asarray(level - similarity) for level, similarity in zip(levels, similarities, strict=True)]
    scores = [standardised(values, beside[0]) for values in beside]
    if n > 1 and spaces:
        better = random_ones_better(scores[0], scores[1])
        weights = np.maximum(1 - error_probability(better), LEAST_WEIGHT)
        for space in spaces:
            unlike = [_unlike_the_others(space, weights, owner, images, n) for images in pairs]
            for score, values in zip(scores, unlike, strict=True):
                score += standardised(values, unlike[0])

    return scores[0], scores[1] if n > 1 else np.zeros(0)


def random_ones_better(scores: Array, random: Array) -> Array:
    """Return (m,) the percentage of random pairs that look better than each pair."""
    return 100 * np.searchsorted(np.sort(random), scores) / max(len(random), 1)


def standardised(values: Array, matching: Array) -> Array:
    """Return the distance of values from the median of `matching` in robust standard deviations; 0 for NaN."""
    finite = matching[np.isfinite(matching)]
    if not len(finite):
        return np.zeros(len(values))
    centre = np.median(finite)
    width = 1.4826 * float(np.median(np.abs(finite - centre)))
    if width < 1e-6:  # more than half are equal
        width = max(float(np.std(finite)), 1e-6)
    return np.nan_to_num((values - centre) / width)


def foreign_levels(part: SplitPart, device: str = CPU) -> list[Array]:
    """Return the mean similarity of every image to its nearest foreign captions (n,), and of every caption to its
    nearest foreign images (m,); 0 if there are none."""
    levels = []
    for modality in BOTH:
        sides = part.sides(modality)
        level = np.zeros(len(sides.anchors))
        if device != CPU:
            blocks = _foreign_on(sides, device)
        elif sides.scores is None and too_many(len(sides.anchors), len(sides.candidates)):
            blocks = _most_foreign(sides)
        else:
            blocks = _foreign(sides)
        for rows, nearest in blocks:
            exists = np.isfinite(nearest)
            level[rows] = np.where(exists, nearest, 0).sum(1) / np.maximum(exists.sum(1), 1)
        levels.append(level)
    return levels


def _foreign(sides: Sides) -> Iterator[tuple[slice, Array]]:
    """Yield some anchors at a time, and (k, ≤ NEIGHBOURS) their largest similarities to candidates of other images; −∞
    where there are fewer."""
    for rows, tile, own in sides.tiles(TILE_ELEMENTS):
        tile[own] = -np.inf
        yield rows, np.partition(tile, -min(NEIGHBOURS, tile.shape[1]), axis=1)[:, -NEIGHBOURS:]


def _foreign_on(sides: Sides, device: str) -> Iterator[tuple[slice, Array]]:
    """Yield the same, computed on another device; unclear pairs are scored again in float64, as for ranks."""
    import torch

    from coder_core.evaluation.best_candidates import best_lists
    from coder_core.evaluation.scores import check_scores

    counts, anchor, candidate = sides.own_pairs()
    own = Relation.of(anchor, candidate, queries_in_all=len(counts))
    source: Source = EmbeddingPair(sides.anchors, sides.candidates)
    if sides.scores is not None:
        source = ScoreMatrix(sides.scores)
    scores = check_scores([source], device)
    wanted = NEIGHBOURS + int(counts.max(initial=0))
    for rows in slices(len(counts), QUERIES_ON_DEVICE):
        queries = np.arange(rows.start, rows.stop)
        asking = torch.from_numpy(queries)
        found, similarities = best_lists(scores, own, wanted, by_image=True, asking=asking)
        similarities[own.contains(queries[:, None], found)] = -np.inf
        yield rows, np.sort(similarities, axis=1)[:, -NEIGHBOURS:]


def _most_foreign(sides: Sides) -> Iterator[tuple[slice, Array]]:
    """Yield the same of the candidates that an index finds, because comparing all would take hours."""
    counts, _, _ = sides.own_pairs()
    wanted = NEIGHBOURS + int(counts.max(initial=0))
    for rows, similarities, found in NearestRows(sides.candidates).blocks(sides.anchors, wanted):
        is_own = sides.candidate_images[found] == sides.anchor_images[rows, None]
        similarities[is_own] = -np.inf
        yield rows, np.sort(similarities, axis=1)[:, -NEIGHBOURS:]


def _unlike_the_others(space: Array, weights: Array, owner: Array, images: Array, n: int) -> Array:
    """Return (m,) minus the weighted mean likeness of each caption to an image's other captions; NaN without any."""
    order = np.argsort(owner, kind="stable")
    captioned, starts = np.unique(owner[order], return_index=True)

    total = np.zeros((n, space.shape[1]), np.float32)
    count = np.zeros(n)
    weighed = (weights[:, None] * space).astype(np.float32)
    total[captioned] = np.add.reduceat(weighed[order], starts, axis=0)
    count[captioned] = np.add.reduceat(weights[order], starts)

    own = weights * (images == owner)
    likeness = np.einsum("md,md->m", space, total[images]) - own * np.einsum("md,md->m", space, space)
    others = count[images] - own  # at least LEAST_WEIGHT each, up to rounding
    others[others < LEAST_WEIGHT / 2] = np.nan
    return np.asarray(-likeness / others)


@dataclass
class GuardedFiles(Files):
    """Picture files that are read only inside their folder, because their names come from a run."""

    def _path(self, image: int) -> Path | None:
        try:
            return picture_path(self.folder, self.names[image]) if self.folder is not None else None
        except InputError:
            return None


def splits_of_run(run: Run) -> list[CaptionedSplit]:
    """Return the splits a run was evaluated on, train first, and the other splits of its data, if its folder still
    exists with the same captions."""
    splits = {split.name: split for split in _data_splits(run)}
    for name in run.splits:
        splits[name] = split_of_run(run, name)
    return sorted(splits.values(), key=lambda split: (FIRST.get(split.name, 2), split.name))


def split_of_run(run: Run, name: str) -> CaptionedSplit:
    """Return a split that a run was evaluated on, with its pictures."""
    analysis = run.analysis(name)
    names = list(run.image_names(name))
    captions = list(run.captions(name))
    folder = Path(analysis.picture_folder) if analysis.picture_folder else None
    files = analysis.packed_pictures or GuardedFiles(folder, names)
    rows = np.arange(len(names))
    owner = run.image_of_text(name)
    groups = analysis.image_groups
    return CaptionedSplit(name, names, captions, owner, files, rows, image_groups=groups)


def splits_of_data(splits: Sequence[Split | CaptionedSplit]) -> list[CaptionedSplit]:
    """Return splits of region features or of pictures with the files that a content check reads."""
    return [split if isinstance(split, CaptionedSplit) else _with_files(split) for split in splits]


def _with_files(split: Split) -> CaptionedSplit:
    names = split.image_names or [f"image {i}" for i in range(split.n_images)]
    files = GuardedFiles(split.picture_folder, names)
    rows = np.arange(len(names))
    owner = split.image_of_text
    groups = split.image_groups
    return CaptionedSplit(split.name, names, split.captions, owner, files, rows, image_groups=groups)


def _data_splits(run: Run) -> list[CaptionedSplit]:
    """Return the splits of the data in the run's configuration; [] unless those it was evaluated on are unchanged."""
    data = run.config.get("data", {})
    splits = data_splits(str(data.get("data", "")), str(data.get("pictures", "")) or None)
    shared = [split for split in splits if split.name in run.splits]
    same = bool(shared) and all(split.captions == list(run.captions(split.name)) for split in shared)
    return splits if same else []


def data_splits(data: str, pictures: str | None = None) -> list[CaptionedSplit]:
    """Return the splits of a data set; [] if it cannot be read. Both arguments are as in a configuration."""
    path = Path(os.environ.get("CODER_DEMO") or DEMO_FOLDER) if data == "demo" else Path(data)
    try:
        if not data or not path.exists() or leaves(path, path if path.is_dir() else path.parent):
            return []
        if holds_pictures_only(path, None):
            return [_guarded(split, path) for split in read_captioned(path, pictures=pictures).splits]
        names = available_splits(path)
        read = partial(read_split, path, pictures=pictures, check_values=False)
        return splits_of_data([read(name) for name in names])
    except (InputError, OSError):
        return []


def _guarded(split: CaptionedSplit, path: Path) -> CaptionedSplit:
    """Return the split without links that lead out of its folder of pictures or, for packed ones, out of the data."""
    positions = split.positions
    if isinstance(positions, TarMembers | ParquetRows):
        files = [Path(os.path.realpath(file)) for file in positions.files]
        if all(file.is_relative_to(os.path.realpath(path)) for file in files):
            return split
        return replace(split, positions=GuardedFiles(None, positions.names))
    assert isinstance(positions, Files)
    return replace(split, positions=GuardedFiles(positions.folder, positions.names))


def stored_report(key: str) -> StoredResult[ContentReport]:
    """Return the report that `coder_core.check_data --content` stored under a `content_key`, named like its job."""
    return read_stored(f"content-{key[:KEY_SHOWN]}", lambda: cached_report(key))


def finding_table(findings: Sequence[Finding], splits: Splits, *, captions: bool) -> pd.DataFrame:
    """Return one row per finding: first (caption or file of its first sample), what, samples, splits, likeness (%)."""
    by_name = {split.name: split for split in splits}
    rows = []
    for finding in findings:
        name, row = finding.samples[0]
        first = by_name[name].captions[row] if captions else by_name[name].image_names[row]
        names = ", ".join(finding.splits)
        likeness = 100 * finding.likeness
        rows.append((first, finding.what, len(finding.samples), names, likeness))
    return pd.DataFrame(rows, columns=["first", "what", "samples", "splits", "likeness"])


def sample_rows(findings: Sequence[Finding], splits: Splits, *, captions: bool) -> pd.DataFrame:
    """Return one row per sample of every finding, for a download: group, split, row, file, caption, what, likeness."""
    by_name = {split.name: split for split in splits}
    rows = []
    for group, finding in enumerate(findings):
        for name, row in finding.samples:
            split = by_name[name]
            image = int(split.image_of_text[row]) if captions else row
            caption = split.captions[row] if captions else " | ".join(captions_of(split, row))
            rows.append((group, name, row, split.image_names[image], caption, finding.what, finding.likeness))
    kind = "caption id" if captions else "image id"
    return pd.DataFrame(rows, columns=["group", "split", kind, "file", "caption", "what", "likeness"])


def captions_of(split: CaptionedSplit, image: int) -> list[str]:
    """Return the captions of an image."""
    return [split.captions[row] for row in np.flatnonzero(split.image_of_text == image).tolist()]


def split_thumbnail(split: CaptionedSplit, image: int, size: int) -> bytes | None:
    """Return a picture of a split as JPEG bytes; None if it is missing or cannot be read."""
    try:
        return jpeg(read_picture(split.read(image), "the picture", size=size))
    except InputError:
        return None


def caption_table(captions: Sequence[str]) -> pd.DataFrame:
    """Return one row per caption: caption (its row), words, content (number of words that describe something)."""
    rows = [(row, len(caption_words(text)), content_words(text)) for row, text in enumerate(captions)]
    return pd.DataFrame(rows, columns=["caption", "words", "content"])
