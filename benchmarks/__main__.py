"""Print every speed bar in one table: `python -m benchmarks [--threads N] [--rounds N] [--only NAME …]`.

Each line is a quotient of two programs measured in turn in this run, so it means the same on a slow or busy machine.
A bar that is not reached is printed too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks import (
    app,
    boosting,
    commands,
    embedding,
    evaluation,
    first_answers,
    gradient_caching,
    loading,
    objectives,
    pooling,
    prototypes,
    training,
    whole_model,
)
from benchmarks.flickr_sized import write_folder
from benchmarks.timing import Line
from coder_core.console.output import open_console
from coder_core.cpu.allocation import keep_buffers
from coder_core.cpu.products import product_library, use_onednn

NAMES = (
    "evaluation",
    "objectives",
    "prototypes",
    "training",
    "whole",
    "boosting",
    "pieces",
    "loading",
    "pooling",
    "embedding",
    "answers",
    "app",
    "commands",
)


@dataclass(frozen=True)
class SpeedArguments:
    """Choose what to measure.

    Args:
        threads: of torch; 0 leaves its own choice.
        rounds: measurements of a slow program; quick ones get more.
        products: float32 products as training has them (`coder_core.cpu.products`), or as PyTorch has them by default.
        only: some of evaluation, objectives, prototypes, training, whole, boosting, pieces, loading, pooling,
            embedding, answers, app, commands.
    """

    threads: int = 0
    rounds: int = 8
    products: Literal["quick", "default"] = "quick"
    only: tuple[str, ...] = NAMES


def show(lines: list[Line], console: Console) -> None:
    """Print the table."""
    title = (
        f"Speed, {torch.get_num_threads()} threads, float32 products by {product_library()}, "
        f"torch {torch.__version__}: medians of rounds in turn"
    )
    table = Table("what", "bar", "CPU", "wall", "CPU ms", "reached", "", title=title)
    for line in lines:
        numbers = ["–" if value is None else f"{value:.2f}" for value in (line.processor, line.wall)]
        spent = "–" if line.milliseconds is None else f"{line.milliseconds:.1f}"
        reached = "" if line.reached is None else ("yes" if line.reached else "NO")
        table.add_row(line.name, line.bar, *numbers, spent, reached, line.note)
    console.print(table)


def main(arguments: SpeedArguments) -> None:
    """Measure and print."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    keep_buffers()
    if arguments.products == "quick":
        use_onednn()
    console, lines, rounds = open_console(), list[Line](), arguments.rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts: dict[str, Callable[[], list[Line]]] = {
            "evaluation": lambda: evaluation.lines(max(3, rounds // 2)),
            "objectives": lambda: objectives.lines(4 * rounds),
            "prototypes": lambda: prototypes.lines(rounds),
            "whole": lambda: whole_model.lines(folder, rounds),
            "training": lambda: training.lines(folder, rounds),
            "boosting": lambda: boosting.lines(folder, rounds),
            "pieces": lambda: gradient_caching.lines(folder, rounds),
            "loading": lambda: loading.lines(folder, 4 * rounds),
            "pooling": lambda: pooling.lines(2 * rounds),
            "commands": lambda: commands.lines(rounds),
            "embedding": lambda: embedding.lines(folder, rounds),
            "answers": lambda: first_answers.lines(folder, max(3, rounds // 2)),
            "app": lambda: [line for images in app.SIZES for line in app.lines(folder, images)],
        }
        if {"training", "whole", "boosting", "pieces", "loading"} & set(arguments.only):
            write_folder(folder)
        for part in arguments.only:
            with console.status(f"measuring {part}"):
                lines += parts[part]()
    show(lines, console)


if __name__ == "__main__":
    main(tyro.cli(SpeedArguments))
