"""Detection rates of the Data page's lists on exchanged captions and planted copies.

    python -m benchmarks.mismatches RUN [RUN …]
    python -m benchmarks.mismatches --cross-fit FOLDER [flags of training …]
    python -m benchmarks.mismatches --scorers RUN RUN
    python -m benchmarks.mismatches --regression FOLDER SHARE SEED [SEED …]

A tenth of a run's dev captions is exchanged among images, five times. The table has the area under the ROC curve and the
precision of the suspicion and of the pair's similarity alone, and the exchanged share of each list. Then modified copies
of 200 of the run's dev pictures, and of 200 captions, are planted and searched.

With --cross-fit, two runs of `demo-baseline` in FOLDER train on complementary halves, with a tenth of the train captions
exchanged. It compares the suspicion by the run that did not see a pair with that by the run that trained on it, and
shows what `train --clean` leaves out. --scorers does this for two such runs that exist. --regression shows the same of
`train --clean --clean-by regression`, for a folder of region features with that share of its train captions exchanged.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

from coder_core.api import Run, open_run
from coder_core.api.data_quality import (
    DOUBTFUL,
    LIKE_RANDOM,
    GuardedFiles,
    cross_fitted,
    error_probability,
    mismatches,
    suspicion,
    unseen_images,
)
from coder_core.api.regression import regression_suspicion
from coder_core.api.sampling import sample_of
from coder_core.console.output import silent
from coder_core.data.augmentation import exchange_captions
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.content.duplicates import duplicate_captions, duplicate_pictures
from coder_core.data.content.report import look_at_pictures
from coder_core.data.dataset import read_split
from coder_core.evaluate import main as evaluate
from coder_core.geometry.captions import caption_vectors
from coder_core.train import main as train

SPLIT = "dev"
SHARE = 0.1
SEEDS = 5
COPIES = 200
HALVES = {"half": ["--train-part", "0.5"], "other-half": ["--train-part", "0.5", "--other-part"]}
Copy = Callable[[Image.Image], Image.Image]
ARTICLES = ("a", "an", "the")


def cut(picture: Image.Image) -> Image.Image:
    """Cut off 3% on every side."""
    width, height = picture.size
    return picture.crop((width // 33, height // 33, width - width // 33, height - height // 33))


def as_jpeg(picture: Image.Image) -> Image.Image:
    """Compress as a JPEG of quality 20."""
    content = BytesIO()
    picture.save(content, "JPEG", quality=20)
    return Image.open(content)


def misspell(caption: str) -> str:
    """Leave a letter out of the longest word."""
    word = max(caption.split(), key=len)
    return caption.replace(word, word[:2] + word[3:])


PICTURES: dict[str, Copy] = {
    "at half the size": lambda picture: picture.resize((picture.width // 2, picture.height // 2)),
    "as JPEG of quality 20": as_jpeg,
    "in grey": lambda picture: picture.convert("L"),
    "brighter by a fifth": lambda picture: picture.point(lambda value: min(255, int(1.2 * value))),
    "cut by 3 % at every side": cut,
    "mirrored": lambda picture: picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
}
CAPTIONS: dict[str, Callable[[str], str]] = {
    "in capitals": str.upper,
    "without articles and full stop": lambda text: " ".join(
        word for word in text.strip(" .").split() if word.lower() not in ARTICLES
    ),
    "a letter left out of the longest word": misspell,
}


def detection(wrong: np.ndarray, score: np.ndarray) -> tuple[float, float]:
    """Return the area under the ROC curve, and the precision among as many top captions as were exchanged."""
    first = np.argsort(-score)[: wrong.sum()]
    return float(roc_auc_score(wrong, score)), float(wrong[first].mean())


def exchanged(run: Run) -> list[tuple[float, ...]]:
    """Return per seed: AUROC and precision of similarity and of suspicion; for the pairs like a random one, and for the
    doubtful ones, the share that is exchanged, and the share of all exchanged pairs that they contain."""
    whole = run.compared(SPLIT)
    owner = whole.owner
    texts = None if whole.scores is not None else whole.texts
    spaces = [space for space in (texts, caption_vectors(run.captions(SPLIT))) if space is not None]
    rows = []
    for seed in range(SEEDS):
        moved = np.random.default_rng(seed).choice(len(owner), int(SHARE * len(owner)), replace=False)
        images = owner.copy()
        images[moved] = np.roll(owner[moved], 1)
        wrong = images != owner
        part = replace(whole, owner=images)
        scores_of_pairs, random = suspicion(part, spaces)
        similarity = part.sides("text").pairs(np.arange(len(images)), images)
        better = 100 * np.searchsorted(np.sort(random), scores_of_pairs) / len(random)
        values = [*detection(wrong, -similarity), *detection(wrong, scores_of_pairs)]
        for group in (better >= LIKE_RANDOM, (better >= DOUBTFUL) & (better < LIKE_RANDOM)):
            share = float(wrong[group].mean()) if group.any() else np.nan
            values += [share, float(wrong[group].sum() / wrong.sum())]
        rows.append(tuple(values))

    return rows


def planted_pictures(run: Run) -> dict[str, float]:
    """Return kind of copy → share of the copies that are grouped with their original and nothing else."""
    images = np.random.default_rng(0).permutation(run.count(SPLIT, "image"))[:COPIES]
    originals = [run.open_picture(SPLIT, int(image)) for image in images]
    shares = {}
    for kind, copy in PICTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            names = [f"{number}.png" for number in range(2 * len(originals))]
            for number, picture in enumerate(originals):
                picture.save(Path(folder) / names[number])
                copy(picture).save(Path(folder) / names[len(originals) + number])
            files = GuardedFiles(Path(folder), names)
            rows = np.arange(len(names))
            split = CaptionedSplit(kind, names, [], rows[:0], files, rows)
            _, hashes, tiny = look_at_pictures(split, silent)
        pairs = {tuple(group.tolist()) for group, _ in duplicate_pictures(hashes, tiny)}
        joined = sum((number, number + len(originals)) in pairs for number in range(len(originals)))
        shares[kind] = joined / len(originals)

    return shares


def planted_captions(run: Run) -> dict[str, float]:
    """Return kind of copy → share of the copies that are grouped with their original."""
    captions = list(run.captions(SPLIT))
    order = np.random.default_rng(0).permutation(len(captions))
    copied = [row for row in order if len(captions[row].split()) > 5][:COPIES]
    shares = {}
    for kind, copy in CAPTIONS.items():
        groups = duplicate_captions([*captions, *(copy(captions[row]) for row in copied)])
        group_of = {row: number for number, (rows, _) in enumerate(groups) for row in rows.tolist()}
        joined = sum(
            group_of.get(row, -1) == group_of.get(len(captions) + number, -2)
            for number, row in enumerate(copied)
        )
        shares[kind] = joined / len(copied)
    return shares


def cross_fit(folder: Path, flags: Sequence[str]) -> int:
    """Train the missing runs, evaluate both, and print the detection rates of both ways to judge."""
    paths = [folder / name for name in HALVES]
    flags = ["--wrong-captions", str(SHARE), *flags]
    for path in paths:
        destination = ["--data", "demo", "--root", str(folder), "--name", path.name]
        if not path.is_dir() and train(["demo-baseline", *destination, *HALVES[path.name], *flags]):
            return 1
    return evaluate([*map(str, paths), "--split", "train"]) or judge(*paths)


def judge(*paths: Path) -> int:
    """Print how well two runs on complementary halves detect the captions that their configuration exchanged."""
    first, second = map(open_run, paths)
    owner = first.image_of_text("train")
    n = first.count("train", "image")
    share = first.config["data"]["wrong_captions"]
    seed = first.config["training"]["seed"]
    wrong = exchange_captions(owner, share, seed) != np.arange(len(owner))
    trained_on = zip((second, first), unseen_images(first, second), strict=True)
    seen = [mismatches(run, "train", sample=sample_of(images, n, owner)) for run, images in trained_on]
    judged = {"did not see the image": cross_fitted(first, second), "trained on it": pd.concat(seen)}
    for by, table in judged.items():
        auroc, precision = detection(wrong[table["caption"]], table["score"].to_numpy())
        print(f"scored by the run that {by}: AUROC {auroc:.3f}, precision {precision:.3f}")
    table = judged["did not see the image"]
    print_left_out(wrong, table["caption"].to_numpy(), error_probability(table["random"].to_numpy()))
    return 0


def regress(folder: str, share: float, seeds: Sequence[int]) -> int:
    """Print how well a regression detects exchanged captions, and its CPU time."""
    split = read_split(folder, "train")
    owner = split.image_of_text
    for seed in seeds:
        rows = exchange_captions(owner, share, seed)
        wrong = rows != np.arange(len(owner))
        began = time.process_time()
        table = regression_suspicion(split.features, [split.captions[row] for row in rows], owner)
        seconds = time.process_time() - began
        captions = table["caption"].to_numpy()
        auroc = detection(wrong[captions], table["score"].to_numpy())[0] if wrong.any() else np.nan
        print(f"seed {seed}: AUROC {auroc:.4f}, {seconds:.0f} s of CPU time")
        print_left_out(wrong, captions, table["probability"].to_numpy())
    return 0


def print_left_out(wrong: np.ndarray, captions: np.ndarray, probability: np.ndarray) -> None:
    """Print what cleaning leaves out. `wrong`: of all captions; `captions`, `probability`: of the judged pairs."""
    of_wrong = wrong[captions]
    print(
        f"{wrong.sum():,} of {len(wrong):,} captions belong to another image; estimated {probability.sum():,.0f}"
    )
    for above in (0.3, 0.5, 0.7):
        left_out = probability >= above
        found = of_wrong[left_out]
        stay = of_wrong[~left_out]
        facts = f"left out at {above} or more: {left_out.sum():,}, {found.mean():.1%} of them wrong"
        errors = f"wrong among the rest {stay.mean():.1%}, estimated {probability[~left_out].mean():.1%}"
        print(f"{facts}, {found.sum() / max(of_wrong.sum(), 1):.1%} of all wrong ones; {errors}")


def main(arguments: Sequence[str]) -> int:
    """Print the tables."""
    if not arguments or arguments == ["--cross-fit"]:
        print(__doc__)
        return 2
    if arguments[0] == "--cross-fit":
        return cross_fit(Path(arguments[1]), arguments[2:])
    if arguments[0] in ("--scorers", "--judges"):  # the second is its former name
        return judge(*map(Path, arguments[1:]))
    if arguments[0] == "--regression":
        folder, of_captions, *seeds = arguments[1:]
        return regress(folder, float(of_captions), [int(seed) for seed in seeds])

    runs = [open_run(Path(name)) for name in arguments]
    console = Console(width=170)
    columns = ("run", "captions", "AUROC, similarity alone", "precision", "AUROC, suspicion", "precision")
    groups = ("probably wrong: exchanged", "of all exchanged", "doubtful: exchanged", "of all exchanged")
    title = f"{SHARE:.0%} of the captions of {SPLIT} exchanged: mean of {SEEDS} draws ± standard deviation"
    table = Table(*columns, *groups, title=title)
    for run in runs:
        values = np.array(exchanged(run))
        numbers = zip(np.nanmean(values, 0), np.nanstd(values, 0), strict=True)
        cells = (f"{mean:.3f} ± {std:.3f}" for mean, std in numbers)
        table.add_row(run.name, f"{run.count(SPLIT, 'text'):,}", *cells)

    console.print(table)
    for run in runs:
        copies = Table("copies", "found", title=f"Planted copies, {run.name}")
        for kind, share in (planted_pictures(run) | planted_captions(run)).items():
            copies.add_row(kind, f"{share:.1%}")
        console.print(copies)

    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
