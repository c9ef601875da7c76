"""Cost of a large collection: python -m benchmarks.scale [IMAGES], one caption per image, 128 numbers each.

Measures CPU time at a quarter, a half and the whole of IMAGES (200,000 unless given), on random embeddings in groups of
fifty. Ranks are reported as a ratio to their plain product in the same process. The last columns are the factor from the
half to the whole, and the time at a million by that power law: arithmetic, not a measurement.
"""

import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import clock
from coder_core.api import Run, data_quality, open_run
from coder_core.data.content.duplicates import duplicate_captions
from coder_core.data.embeddings import Embeddings
from coder_core.evaluation.nearest import NearestRows
from coder_core.evaluation.sampled import RankOptions
from coder_core.geometry.kmeans import cluster_pairs
from coder_core.geometry.layout import nearly_nearest
from coder_core.geometry.settings import ClusterSettings
from coder_core.model.device import use_onednn
from coder_core.runs.analysis.import_embeddings import import_run

WIDTH = 128
IMAGES = 200_000
GROUP = 50  # images near one centre
QUERIES = 1_000  # ranked per direction; the cost of more grows with their number
ROWS = 419  # candidates of a block when 10,000 queries are ranked
LEAST = 8 * QUERIES
MILLION = 1_000_000
LANDMARKS = 50_000
SUSPICION = "wrong captions, of a sample"
NEIGHBOURS = "neighbours of at most 50,000 landmarks"
INDEX = "index of the captions"
CANDIDATES = 60  # found for a query
BOUNDED = {SUSPICION: 5_000, NEIGHBOURS: LANDMARKS}
"""Works that cost the same from so many images on."""

WORDS = ("dog", "car", "boat", "house", "tree", "child", "street", "river", "horse", "table")


def embeddings(images: int, width: int = WIDTH) -> Embeddings:
    """Return random unit rows; image and caption differ by noise."""
    random = np.random.default_rng(images)
    centres = random.standard_normal((images // GROUP, width), dtype=np.float32)
    centre = random.integers(0, len(centres), images)
    pictures = centres[centre] + 0.8 * random.standard_normal((images, width), dtype=np.float32)
    texts = pictures + random.standard_normal((images, width), dtype=np.float32)
    for rows in (pictures, texts):
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    captions = [
        f"{WORDS[row % 10]} {row} beside a {WORDS[row // 10 % 10]} in place {row % 977}"
        for row in range(images)
    ]
    return Embeddings(pictures, texts, captions, np.arange(images))


def plain_product(data: Embeddings) -> None:
    """Multiply the candidates of both directions with as many queries as are ranked, block by block."""
    images = torch.from_numpy(data.images)
    texts = torch.from_numpy(data.texts)
    for candidates, queries in ((texts, images[:QUERIES]), (images, texts[:QUERIES])):
        buffer = torch.empty(ROWS, QUERIES)
        for rows in candidates.split(ROWS):
            torch.mm(rows, queries.T, out=buffer[: len(rows)])


def works(data: Embeddings, folder: Path) -> dict[str, Callable[[], object]]:
    """Return the measured works by name, in the order in which they run: the import comes first."""

    def imported() -> object:
        return import_run(data, folder, "run", "dev", options=RankOptions(QUERIES))

    def run() -> Run:
        return open_run(folder / "run")

    def suspicion() -> object:
        return data_quality.mismatches(run(), "dev", sample=run().query_sample("dev"))

    opened: list[Run] = []

    def first_query() -> object:
        opened.append(run())
        return opened[0].rank_of("dev", "t2i", _unranked(opened[0], 0))

    indexes: list[NearestRows] = []
    landmarks = data.images[:LANDMARKS]
    return {
        f"import with {QUERIES:,} ranked queries": imported,
        "open the run, rank one more query": first_query,
        "rank another query": lambda: opened[0].rank_of("dev", "t2i", _unranked(opened[0], 1)),
        SUSPICION: suspicion,
        "near-duplicate captions": lambda: duplicate_captions(data.captions),
        "k-means, 50 clusters": lambda: cluster_pairs(
            data.images, data.texts, data.image_of_text, ClusterSettings()
        ),
        NEIGHBOURS: lambda: nearly_nearest(landmarks, landmarks, 15),
        INDEX: lambda: indexes.append(NearestRows(data.texts)),
        f"{QUERIES:,} queries in it": lambda: indexes[0].search(data.images[:QUERIES], CANDIDATES),
    }


def _unranked(run: Run, number: int) -> int:
    """Return a caption that is not ranked."""
    return int(np.flatnonzero(run.ranks("dev")["t2i"] < 0)[number])


def measure(images: int) -> dict[str, float]:
    """Return the CPU seconds of every work, and those of the plain product."""
    data = embeddings(images)
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        measured = {"plain product": lambda: plain_product(data), **works(data, Path(folder))}
        for name, work in measured.items():
            seconds[name] = clock(work).processor
            print(f"  {name:42}{seconds[name]:10.2f}", flush=True)
    return seconds


def main(arguments: list[str]) -> int:
    """Measure the three sizes and print a table."""
    whole = int(arguments[0]) if arguments else IMAGES
    if whole < LEAST:
        raise SystemExit(f"{whole:,} images are too few: at least {LEAST:,}")

    use_onednn()
    sizes = [whole // 4, whole // 2, whole]
    measured = []
    for size in sizes:
        print(f"measuring {size:,} images …", flush=True)
        measured.append(measure(size))

    print(
        f"\n{'CPU seconds':42}"
        + "".join(f"{size:>12,}" for size in sizes)
        + f"{'factor':>9}{'1,000,000':>12}"
    )
    for name in measured[0]:
        times = [of_size[name] for of_size in measured]
        factor = times[2] / max(times[1], 1e-9)
        seconds = "".join(f"{time:12.2f}" for time in times)
        print(f"{name:42}{seconds}{factor:9.2f}{_at_a_million(name, whole, times[2], factor):>12}")

    print(f"\n{time.process_time():.0f} CPU seconds in all, with the random embeddings")
    return 0


def _at_a_million(name: str, whole: int, seconds: float, factor: float) -> str:
    """Extrapolate by the power law of the last doubling; a bounded work stays at its bound, below which it is unknown."""
    if name in BOUNDED:
        return f"{seconds:.1f}" if whole >= BOUNDED[name] else "–"
    exponent = max(math.log2(max(factor, 1e-9)), 0.0)
    return f"{seconds * (MILLION / whole) ** exponent:.1f}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
