"""The time every command takes to answer --help, and train a mistyped preset: `python -m benchmarks --only commands`."""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks.timing import Line, Seconds, clock, milliseconds, quotient

COMMANDS = ("train", "evaluate", "ablate", "check_data", "embed", "project", "cluster")
SECONDS = 1.0  # of a processor


def lines(rounds: int) -> list[Line]:
    """Each answer ÷ importing tyro and rich alone; the bar is a second of processor time."""
    programs: dict[str, tuple[str, ...]] = {"reference": ("-c", "import tyro, rich")}
    programs |= {f"{name} --help": ("-m", f"coder_core.{name}", "--help") for name in COMMANDS}
    programs["train, a mistyped preset"] = ("-m", "coder_core.train", "flickr9k")
    taken: dict[str, list[Seconds]] = {name: [] for name in programs}
    for _ in range(max(3, rounds // 2)):
        for name, arguments in programs.items():
            command = [sys.executable, *arguments]
            seconds = clock(lambda: subprocess.run(command, capture_output=True, check=False), children=True)  # noqa: B023
            taken[name].append(seconds)
    made = []
    for name in list(programs)[1:]:
        note = f"{statistics.median(seconds.wall for seconds in taken[name]):.2f} s on the clock"
        ratio, spent = quotient(taken[name], taken["reference"]), milliseconds(taken[name])
        reached = spent <= 1e3 * SECONDS
        made.append(Line(f"{name} ÷ import tyro, rich", f"{SECONDS:g} s", *ratio, spent, reached, note))
    return made
