"""Ranking both ways against its one product, and the memory it takes.

The limit is one float32 product of all image embeddings with all caption embeddings.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.timing import Line, in_turn, milliseconds, quotient
from coder_core.evaluation.recall import retrieval_metrics

SIZES = ((1_000, 5_000), (5_000, 25_000))
WIDTH = 1024
NOISE = 0.15  # captions lie around their image as a trained model's do
BAR, MEMORY_BAR = 1.2, 64.0


def embeddings(images: int, texts: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Unit rows; caption j belongs to image j // 5."""
    generator = torch.Generator().manual_seed(0)
    owner = torch.arange(texts) // (texts // images)
    image = torch.nn.functional.normalize(torch.randn(images, WIDTH, generator=generator))
    text = torch.randn(texts, WIDTH, generator=generator).mul_(NOISE).add_(image[owner])
    return image, torch.nn.functional.normalize(text, out=text), owner


def lines(rounds: int) -> list[Line]:
    """Ranking ÷ its product, of every size, with the peak memory above the embeddings."""
    return [_line(images, texts, rounds) for images, texts in SIZES]


def _line(images: int, texts: int, rounds: int) -> Line:
    image, text, owner = embeddings(images, texts)
    scores = torch.empty(images, texts)
    programs: dict[str, Callable[[int], object]] = {
        "product": lambda _: torch.mm(image, text.T, out=scores),
        "metrics": lambda _: retrieval_metrics(image, text, owner),
    }
    taken = in_turn(programs, rounds, warm_up=1)
    ratio, mebibytes = quotient(taken["metrics"], taken["product"]), memory_in_process(images, texts)
    reached = ratio.processor <= BAR and mebibytes <= MEMORY_BAR
    product = f"product {milliseconds(taken['product']):.0f} ms"
    note = f"{product}; {mebibytes:.0f} MiB above the embeddings (bar {MEMORY_BAR:g})"
    name = f"ranks both ways, {images:,} × {texts:,} ÷ their product"
    return Line(name, f"≤ {BAR:g}", *ratio, milliseconds(taken["metrics"]), reached, note)


def memory_in_process(images: int, texts: int) -> float:
    """`peak_memory` of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.evaluation", str(images), str(texts)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def peak_memory(images: int, texts: int) -> float:
    """MiB by which this process's peak grows while it ranks; a small ranking before loads what libraries load once."""
    image, text, owner = embeddings(images, texts)
    retrieval_metrics(image[:300], text[:1500], owner[:1500])
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the present size
    before = memory("VmRSS")
    retrieval_metrics(image, text, owner)
    return memory("VmHWM") - before


def memory(field: str) -> float:
    """MiB of this process now (VmRSS) or at its peak (VmHWM)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024


if __name__ == "__main__":
    print(peak_memory(*map(int, sys.argv[1:])))
