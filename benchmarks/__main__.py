"""Print all speed targets ("bars") in one table: `python -m benchmarks [--threads N] [--rounds N] [--only NAME …]`.

A line is usually the ratio of two programs measured alternately in the same run, so that it holds on slow or busy
machines too. Missed bars are printed as well.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks import app, embedding, gradient_caching, kernels, pictures, training
from benchmarks.synthetic import write_features
from benchmarks.timing import GPU, Line, Seconds, clock, milliseconds, quotient
from coder_core.console.output import open_console
from coder_core.model.device import product_library, use_onednn

COMMANDS = ("train", "evaluate", "ablate", "check_data", "embed", "project", "cluster")
COMMAND_BAR = 1.0  # seconds of processor time


def commands(rounds: int) -> list[Line]:
    """Measure every command with --help, and train with a mistyped preset, ÷ importing only tyro and rich."""
    programs: dict[str, tuple[str, ...]] = {"reference": ("-c", "import tyro, rich")}
    programs |= {f"{name} --help": ("-m", f"coder_core.{name}", "--help") for name in COMMANDS}
    programs["train, a mistyped preset"] = ("-m", "coder_core.train", "flickr9k")
    taken: dict[str, list[Seconds]] = {name: [] for name in programs}
    for _ in range(max(3, rounds // 2)):
        for name, arguments in programs.items():
            run = partial(subprocess.run, [sys.executable, *arguments], capture_output=True, check=False)
            taken[name].append(clock(run, children=True))

    reference = taken.pop("reference")
    lines = []
    for name, seconds in taken.items():
        note = f"{statistics.median(second.wall for second in seconds):.2f} s of wall time"
        spent = milliseconds(seconds)
        title = f"{name} ÷ import tyro, rich"
        bar = f"{COMMAND_BAR:g} s"
        reached = spent <= 1e3 * COMMAND_BAR
        lines.append(Line(title, bar, *quotient(seconds, reference), spent, reached, note))

    return lines


PARTS: dict[str, Callable[[Path, int], list[Line]]] = {
    "evaluation": lambda folder, rounds: kernels.ranking(max(3, rounds // 2)),
    "objectives": lambda folder, rounds: kernels.losses(4 * rounds),
    "prototypes": lambda folder, rounds: kernels.kmeans(rounds),
    "training": training.lines,
    "whole": training.whole,
    "boosting": training.boosting,
    "pieces": gradient_caching.lines,
    "loading": lambda folder, rounds: kernels.loading(folder, 4 * rounds),
    "pooling": lambda folder, rounds: kernels.pooling(2 * rounds),
    "embedding": embedding.lines,
    "pictures": pictures.lines,
    "answers": lambda folder, rounds: embedding.answers(folder, max(3, rounds // 2)),
    "app": lambda folder, rounds: [line for images in app.SIZES for line in app.lines(folder, images)],
    "commands": lambda folder, rounds: commands(rounds),
}
NEED_FEATURES = {"training", "whole", "boosting", "pieces", "loading"}


@dataclass(frozen=True)
class SpeedArguments:
    """Choose what to measure."""

    threads: int = 0  # of torch; 0 keeps its default
    rounds: int = 8  # measurements of a slow program; fast ones get more
    products: Literal["quick", "default"] = "quick"  # float32 products as in training, or PyTorch's default
    only: tuple[str, ...] = tuple(PARTS)  # parts to measure


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
        table.add_row(line.name, line.bar, *numbers, spent, line.verdict, line.note)
    console.print(table)


def main(arguments: SpeedArguments) -> None:
    """Measure and print."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.products == "quick" and not GPU:
        use_onednn()
    console = open_console()
    lines = list[Line]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if NEED_FEATURES & set(arguments.only):
            write_features(folder)
        for part in arguments.only:
            with console.status(f"measuring {part}"):
                lines += PARTS[part](folder, arguments.rounds)
    show(lines, console)


if __name__ == "__main__":
    main(tyro.cli(SpeedArguments))
