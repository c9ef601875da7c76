"""What counting ranks costs beyond its one product, and the memory it takes: `python -m benchmarks.evaluation`.

Both are timed in turn in one run, so that a busy machine slows both. The limit is one float32 product of all image
embeddings with all caption embeddings.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from coder_core.cpu.products import use_onednn
from coder_core.evaluation.recall import retrieval_metrics

SIZES = ((1_000, 5_000), (5_000, 25_000))
WIDTH = 1024
REPEATS = 5
NOISE = 0.15  # captions lie around their image as a trained model's do


@dataclass(frozen=True)
class Row:
    """One size: medians of the ratios to the product, and the peak memory above the embeddings."""

    images: int
    texts: int
    cpu: float
    wall: float
    product_seconds: float
    mebibytes: float


def embeddings(images: int, texts: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Unit rows; caption j belongs to image j // 5."""
    generator = torch.Generator().manual_seed(0)
    owner = torch.arange(texts) // (texts // images)
    image = torch.nn.functional.normalize(torch.randn(images, WIDTH, generator=generator))
    text = torch.randn(texts, WIDTH, generator=generator).mul_(NOISE).add_(image[owner])
    return image, torch.nn.functional.normalize(text, out=text), owner


def measure(images: int, texts: int, repeats: int) -> Row:
    """Time the product and the metrics in turn."""
    image, text, owner = embeddings(images, texts)
    scores = torch.empty(images, texts)

    def product() -> None:
        torch.mm(image, text.T, out=scores)

    def metrics() -> None:
        retrieval_metrics(image, text, owner)

    cpu, wall, seconds = [], [], []
    product()
    metrics()
    for _ in range(repeats):
        limit, found = clock(product), clock(metrics)
        cpu.append(found[0] / limit[0])
        wall.append(found[1] / limit[1])
        seconds.append(limit[1])
    middle = statistics.median
    return Row(images, texts, middle(cpu), middle(wall), middle(seconds), peak_memory(images, texts))


def clock(work: Callable[[], None]) -> tuple[float, float]:
    """Processor and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def peak_memory(images: int, texts: int) -> float:
    """MiB above the embeddings, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.evaluation", "--memory", str(images), str(texts)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def own_peak(images: int, texts: int) -> float:
    """The growth of this process's peak while it ranks; a small ranking before loads what libraries load once."""
    image, text, owner = embeddings(images, texts)
    retrieval_metrics(image[:300], text[:1500], owner[:1500])
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is held now
    before = held("VmRSS")
    retrieval_metrics(image, text, owner)
    return held("VmHWM") - before


def held(what: str) -> float:
    """MiB this process holds now (VmRSS) or held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def main() -> None:
    """Print one table."""
    if "--memory" in sys.argv:
        print(own_peak(*map(int, sys.argv[-2:])))
        return
    use_onednn()
    print(f"R@K both ways ÷ one product, D = {WIDTH}, {torch.get_num_threads()} threads, float32")
    print(f"{'images × captions':>20} {'CPU':>6} {'wall':>6} {'product s':>10} {'MiB above':>10}")
    for images, texts in SIZES:
        row = measure(images, texts, REPEATS)
        size = f"{row.images:,} × {row.texts:,}"
        print(
            f"{size:>20} {row.cpu:6.2f} {row.wall:6.2f} {row.product_seconds:10.3f} {row.mebibytes:10.1f}", flush=True
        )


if __name__ == "__main__":
    main()
