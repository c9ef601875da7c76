"""A folder of Flickr30K's shapes, filled at random: what the speed of loading and training is measured on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

IMAGES, REGIONS, FEATURES = 512, 36, 2048
CAPTIONS_AN_IMAGE = 5
VOCABULARY = 8_000
MEAN_WORDS, SPREAD_WORDS = (
    12.3,
    5.2,
)  # Flickr30K's training captions: mean and standard deviation of their length
SHORTEST, LONGEST = 3, 60


def write_folder(folder: Path, seed: int = 0, features: int = FEATURES) -> None:
    """train_ims.npy (float32, about 150 MB with 2048 features) and train_caps.txt; word frequencies fall as one over
    their rank."""
    random = np.random.default_rng(seed)
    shape = (IMAGES, REGIONS, features)
    regions = np.lib.format.open_memmap(folder / "train_ims.npy", mode="w+", dtype=np.float32, shape=shape)
    for row in regions:
        row[:] = random.random((REGIONS, features), dtype=np.float32)
    regions.flush()
    chances = 1 / np.arange(1, VOCABULARY + 1)
    chances /= chances.sum()
    variance = np.log1p((SPREAD_WORDS / MEAN_WORDS) ** 2)
    captions = IMAGES * CAPTIONS_AN_IMAGE
    drawn = random.lognormal(np.log(MEAN_WORDS) - variance / 2, np.sqrt(variance), captions)
    lengths = drawn.round().clip(SHORTEST, LONGEST).astype(int)
    words = [random.choice(VOCABULARY, length, p=chances) for length in lengths]
    text = "".join(" ".join(f"word{number}" for number in caption) + "\n" for caption in words)
    (folder / "train_caps.txt").write_text(text, encoding="utf-8")
