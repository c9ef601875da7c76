"""Measure programs in turn, round by round, so that a busy machine slows all of them equally."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

# Training steps, losses and products are measured on a GPU if there is one; encoders and products in bfloat16 there.
GPU = torch.cuda.is_available()
DEVICE, PRECISION = (torch.device("cuda"), torch.bfloat16) if GPU else (torch.device("cpu"), torch.float32)


class Seconds(NamedTuple):
    """Time of one call in seconds: on all processors together, and wall time."""

    processor: float
    wall: float


@dataclass(frozen=True)
class Line:
    """One line of the table: a quotient and its bar."""

    name: str
    bar: str  # as printed; empty if there is none
    # processor, wall: the quotient in processor and in wall time; None if the line is not a quotient
    processor: float | None
    wall: float | None
    milliseconds: float | None  # processor time of the measured program
    reached: bool | None  # True if the bar is reached; None if there is none
    note: str = ""

    @property
    def verdict(self) -> str:
        """ "yes", "NO", or "" without a bar."""
        return {None: "", True: "yes", False: "NO"}[self.reached]


def clock(work: Callable[[], object], *, children: bool = False) -> Seconds:
    """Time one call; `children` includes the child processes that ended during it. With a GPU both are wall time."""
    wall = time.perf_counter()
    before = os.times()
    processor = time.process_time()
    work()
    if GPU:
        torch.cuda.synchronize()
    processor = time.process_time() - processor
    after = os.times()
    if children:
        processor = sum(after[:4]) - sum(before[:4])
    wall = time.perf_counter() - wall
    return Seconds(wall if GPU else processor, wall)


def in_turn(
    programs: Mapping[str, Callable[[int], object]], rounds: int, warm_up: int = 2
) -> dict[str, list[Seconds]]:
    """Call every program once per round with the round's number; return the times after `warm_up` rounds."""
    taken: dict[str, list[Seconds]] = {name: [] for name in programs}
    for turn in range(warm_up + rounds):
        for name, program in programs.items():
            seconds = clock(lambda program=program, turn=turn: program(turn))  # type: ignore[misc]
            if turn >= warm_up:
                taken[name].append(seconds)
    return taken


def quotient(above: list[Seconds], below: list[Seconds]) -> Seconds:
    """Return the medians over the rounds of above ÷ below."""
    pairs = list(zip(above, below, strict=True))
    processor = statistics.median(a.processor / b.processor for a, b in pairs)
    return Seconds(processor, statistics.median(a.wall / b.wall for a, b in pairs))


def milliseconds(taken: list[Seconds]) -> float:
    """Return the median processor time in milliseconds."""
    return 1e3 * statistics.median(seconds.processor for seconds in taken)


def in_a_process(*arguments: str) -> Any:
    """Run Python with these arguments; return the JSON in the last line of its output."""
    command = [sys.executable, *arguments]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(output.splitlines()[-1])


def no_bar(name: str, above: list[Seconds], below: list[Seconds]) -> Line:
    """Return a line with a quotient but no bar."""
    return Line(name, "", *quotient(above, below), milliseconds(above), None)


def at_most(name: str, bar: float, above: list[Seconds], below: list[Seconds], divisor: str = "") -> Line:
    """Return a line with a quotient that should not exceed its bar; the note has the milliseconds of a named divisor."""
    ratio = quotient(above, below)
    note = f"{divisor} {milliseconds(below):.0f} ms" if divisor else ""
    return Line(name, f"≤ {bar:g}", *ratio, milliseconds(above), ratio.processor <= bar, note)
