"""Imported runs that resemble contrastive pre-training: images and captions in two cones, with low cosines."""

from pathlib import Path

import numpy as np

from coder_core.embed import main
from tests.support.run_folders import CAPTIONS_PER_IMAGE, draw_pictures

DIMENSION = 256
THEMES = 8  # images of one theme are hard negatives for each other
CONE = 0.6  # first coordinate of every image; captions have −CONE


def clip_like(images, *, noise, seed):
    """Return (n, D) images and (5n, D) captions with a modality gap; most cosines are between −0.4 and 0.1."""
    rng = np.random.default_rng(seed)
    counts = (THEMES, images, images * CAPTIONS_PER_IMAGE)
    themes, own, words = (rng.normal(size=(rows, DIMENSION)) / np.sqrt(DIMENSION) for rows in counts)
    v = 0.8 * themes[np.arange(images) % THEMES] + 0.6 * own
    w = 0.45 * np.repeat(v, CAPTIONS_PER_IMAGE, axis=0) + noise * words
    v[:, 0], w[:, 0] = CONE, -CONE
    return v.astype(np.float32), w.astype(np.float32)


def import_clip(root, name, *, images=60, noise=1.0, seed=0):
    """Import such embeddings and pictures with `python -m coder_core.embed import`; return the run folder."""
    given = root.parent / f"{name}-embeddings"
    names = draw_pictures(given / "pictures", images)
    lines = [f"view {k} of scene {i}" for i in range(images) for k in range(CAPTIONS_PER_IMAGE)]
    for stem, rows in zip(("images", "texts"), clip_like(images, noise=noise, seed=seed), strict=True):
        np.save(given / f"{stem}.npy", rows)
    for stem, texts in (("captions", lines), ("ids", names)):
        (given / f"{stem}.txt").write_text("".join(f"{text}\n" for text in texts))
    files = ("images.npy", "texts.npy", "captions.txt", "ids.txt", "pictures")
    arguments = [f"--{Path(file).stem}={given / file}" for file in files]
    assert main(["import", *arguments, f"--name={name}", f"--root={root}"]) == 0
    return root / name
