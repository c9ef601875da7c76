"""How soon every command answers --help, and a mistyped preset: `python -m benchmarks --only commands`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from benchmarks.timing import Line, Seconds, milliseconds, quotient

REFERENCE = ("-c", "import tyro, rich")
COMMANDS = ("train", "evaluate", "ablate", "check_data", "embed", "project", "cluster")
ANSWERS = {f"{name} --help": ("-m", f"coder_core.{name}", "--help") for name in COMMANDS}
ANSWERS["train, a mistyped preset"] = ("-m", "coder_core.train", "flickr9k")
SECONDS = 1.0  # of a processor


def run(arguments: tuple[str, ...]) -> Seconds:
    """Processor and wall time of a Python program of its own."""
    before, wall = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    after, wall = os.times(), time.perf_counter() - wall
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return Seconds(spent, wall)


def lines(rounds: int) -> list[Line]:
    """Each answer ÷ importing tyro and rich alone; the bar is a second of processor time."""
    taken: dict[str, list[Seconds]] = {name: [] for name in ("reference", *ANSWERS)}
    for _ in range(max(3, rounds // 2)):
        for name, arguments in {"reference": REFERENCE, **ANSWERS}.items():
            taken[name].append(run(arguments))
    answers = []
    for name in ANSWERS:
        note = f"{statistics.median(seconds.wall for seconds in taken[name]):.2f} s on the clock"
        quotients, spent = quotient(taken[name], taken["reference"]), milliseconds(taken[name])
        answers.append(
            Line(f"{name} ÷ import tyro, rich", "1 s", *quotients, spent, spent <= 1e3 * SECONDS, note)
        )
    return answers
