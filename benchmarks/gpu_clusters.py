"""k-means and near-duplicate pictures on a GPU against a CPU: python -m benchmarks.gpu_clusters PAIRS PICTURES."""

import sys

import numpy as np
import torch

from benchmarks.timing import GPU, clock
from coder_core.data.content.duplicates import duplicate_pictures
from coder_core.geometry.kmeans import cluster_pairs, device_kmeans, first_centroids
from coder_core.geometry.settings import ClusterSettings
from coder_core.geometry.text_space import unit_rows

DEVICE = "cuda" if GPU else "cpu:0"  # which PyTorch computes on, too
WIDTH = 512
CLUSTERS = 200
PASSES = 5
COMPARED = 20_000  # pairs and pictures that the CPU computes too
TINY = 16  # numbers of a tiny image
COPIES = 100


def embeddings(pairs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return images and captions in overlapping groups, and the image of every caption."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((2 * CLUSTERS, WIDTH), dtype=np.float32)
    group = random.integers(0, len(centres), pairs)
    images = unit_rows(centres[group] + random.standard_normal((pairs, WIDTH), dtype=np.float32))
    noise = random.standard_normal((pairs, WIDTH), dtype=np.float32)
    return images, unit_rows(images + 0.02 * noise), np.arange(pairs)


def pictures(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random hashes and tiny images, of which some are nearly copies of the first ones."""
    random = np.random.default_rng(1)
    hashes = random.integers(0, 256, (count, 8), dtype=np.uint8)
    tiny = unit_rows(random.standard_normal((count, TINY), dtype=np.float32))
    hashes[COPIES : 2 * COPIES] = hashes[:COPIES] ^ 1
    tiny[COPIES : 2 * COPIES] = tiny[:COPIES]
    return hashes, tiny


def main(arguments: list[str]) -> int:
    """Print the times and whether the results of some samples are those of the CPU. Return 1 if they are not."""
    pairs, count = map(int, arguments)
    images, texts, owner = embeddings(pairs)
    some = slice(min(COMPARED, pairs))
    here, there = (
        cluster_pairs(images[some], texts[some], owner[some], ClusterSettings(CLUSTERS), device=device)
        for device in ("cpu", DEVICE)
    )
    agree = float((here.text_labels == there.text_labels).mean())
    print(f"{agree:.4f} of {COMPARED:,} captions have the same cluster on cpu and {DEVICE}")

    start = first_centroids(texts[some], CLUSTERS, seed=0)
    rows = torch.from_numpy(texts).to(DEVICE)
    columns = torch.from_numpy(start).to(DEVICE).T

    def products() -> None:
        for _ in range(PASSES):
            for part in rows.split(65_536):
                part @ columns

    products()
    of_products = clock(products).wall
    of_passes = clock(lambda: device_kmeans(texts, start, PASSES, DEVICE)).wall
    print(
        f"{PASSES} passes over {pairs:,} captions {of_passes:.2f} s with the copy, products {of_products:.2f} s"
    )

    hashes, tiny = pictures(count)
    seconds = clock(lambda: duplicate_pictures(hashes, tiny, DEVICE)).wall
    print(f"near-duplicates of {count:,} pictures {seconds:.2f} s")
    few = hashes[:COMPARED], tiny[:COMPARED]
    expected = duplicate_pictures(*few)
    same = len(expected) >= COPIES and str(expected) == str(duplicate_pictures(*few, DEVICE))
    print(
        f"near-duplicates of {COMPARED:,} pictures: {'the same' if same else 'DIFFERENT'} on cpu and {DEVICE}"
    )
    return 0 if same and agree > 0.99 else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
