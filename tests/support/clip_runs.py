"""Imported runs that resemble contrastive pre-training: images and captions in two cones, with low cosines."""

import numpy as np

from tests.support.run_folders import CAPTIONS_PER_IMAGE, draw_pictures, import_rows

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
    v[:, 0] = CONE
    w[:, 0] = -CONE
    return v.astype(np.float32), w.astype(np.float32)


def import_clip(root, name, *, images=60, noise=1.0, seed=0):
    """Import such embeddings and pictures; return the run folder."""
    pictures = root.parent / f"{name}-pictures"
    draw_pictures(pictures, images)
    captions = [f"view {k} of scene {i}" for i in range(images) for k in range(CAPTIONS_PER_IMAGE)]
    return import_rows(root, name, *clip_like(images, noise=noise, seed=seed), captions, pictures=pictures)
