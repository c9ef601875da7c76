"""Exchanged captions that two runs find in each other's train pairs, and that a run finds in its own.

    python -m benchmarks.cross_fitting FOLDER [flags of training …]

A tenth of the demo's train captions is exchanged among images, before two runs of `demo-baseline` train on a half of
the images each: area under the ROC curve of the suspicion, and its precision among as many captions as were exchanged.
FOLDER keeps the data and the runs.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from coder_core.api import open_run
from coder_core.api.data_quality import cross_fitted, mismatches, unseen_images
from coder_core.api.sampling import sample_of
from coder_core.data.dataset import read_split
from coder_core.evaluate import main as evaluate
from coder_core.model.splits import data_folder
from coder_core.train import main as train

SHARE, SEED, SPLIT = 0.1, 0, "train"
HALVES = {"half": ["--train-part", "0.5"], "other-half": ["--train-part", "0.5", "--other-part"]}


def exchange(source: Path, folder: Path) -> np.ndarray:
    """Copy a data set with a tenth of its train captions exchanged. Returns (m,) bool: True for captions of another image."""
    if not folder.is_dir():
        shutil.copytree(source, folder)
    split = read_split(source, SPLIT)
    owner, moved = split.image_of_text, np.random.default_rng(SEED).permutation(split.n_texts)
    moved = moved[: int(SHARE * split.n_texts)]
    rows = np.arange(split.n_texts)
    rows[moved] = np.roll(moved, 1)
    (folder / f"{SPLIT}_caps.txt").write_text(
        "".join(f"{split.captions[row]}\n" for row in rows.tolist()), "utf-8"
    )
    return np.asarray(owner[rows] != owner)


def main(arguments: list[str]) -> int:
    """Train the missing runs, and print the table."""
    folder, flags = Path(arguments[0]), arguments[1:]
    wrong = exchange(data_folder("demo"), folder / "data")
    paths = [folder / "runs" / name for name in HALVES]
    for path, (name, half) in zip(paths, HALVES.items(), strict=True):
        flags_of_run = ["--data", str(folder / "data"), "--root", str(folder / "runs"), "--name", name]
        if not path.is_dir() and train(["demo-baseline", *flags_of_run, *half, *flags]):
            return 1
    if evaluate([*map(str, paths), "--split", SPLIT]):
        return 1
    first, second = map(open_run, paths)
    owner, n = first.image_of_text(SPLIT), first.count(SPLIT, "image")
    seen = [
        mismatches(run, SPLIT, sample=sample_of(images, n, owner))
        for run, images in zip((second, first), unseen_images(first, second), strict=True)
    ]
    for what, table in (
        ("the run that did not see the image", cross_fitted(first, second)),
        ("the run that trained on it", pd.concat(seen).sort_values("score", ascending=False)),
    ):
        exchanged = wrong[table["caption"]]
        auroc, precision = roc_auc_score(exchanged, table["score"]), exchanged[: wrong.sum()].mean()
        print(f"judged by {what}: AUROC {auroc:.3f}, precision {precision:.3f}")
    print(f"{wrong.sum():,} of {len(wrong):,} captions belong to another image")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
