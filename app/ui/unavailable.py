"""Runs and splits that a link names and that cannot be shown: why, and what to do about it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from app import questions
from app.ask import RunSummary, ask, runs_root

LONGEST = 80  # characters of a name from a link
_SPLIT = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Problem:
    """Why the run `name` is not shown, and what to do about it."""

    name: str
    fact: str
    way_out: str


def run(name: str, summary: RunSummary | None) -> Problem:
    """A run that a link names: there is none, it is damaged, or not evaluated yet."""
    short = name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
    if summary is None:
        way_out = "It was deleted or renamed, or the link comes from another folder of runs."
        return Problem(name, f"There is no run {short} in {runs_root()}.", way_out)
    if summary.fault:
        return Problem(name, f"{short} cannot be opened.", summary.fault)
    if summary.damaged:
        return Problem(name, f"The analysis of {short} is damaged.", " ".join(summary.damaged.values()))
    if summary.state == "running":
        return Problem(
            name, f"{short} is still training.", "It is evaluated when training ends; see the Train page."
        )
    way_out = f"Evaluate it on the Train page, or: {_evaluate(summary, 'dev')}"
    return Problem(name, f"{short} is not evaluated yet (state: {summary.state}).", way_out)


def split(summary: RunSummary, name: str) -> Problem:
    """A split that a link names and the run was not evaluated on, or whose analysis lacks files."""
    if name in summary.damaged:
        fact = f"The analysis of {summary.name} on {name} is damaged."
        return Problem(summary.name, fact, f"{summary.damaged[name]} {_again(summary, name)}")
    way_out = f"It was evaluated on {', '.join(summary.splits)}."
    if _SPLIT.fullmatch(name) and not summary.imported:
        way_out += f" To add {name}: {_evaluate(summary, name)}"
    return Problem(summary.name, f"{summary.name} was not evaluated on {name[:LONGEST]}.", way_out)


def analysis(summary: RunSummary, name: str) -> Problem | None:
    """A split whose analysis is damaged; None where it is sound."""
    fault = ask(questions.analysis_fault, summary, name)
    fact = f"The analysis of {summary.name} on {name} is damaged."
    return Problem(summary.name, fact, f"{fault} {_again(summary, name)}") if fault else None


def other_samples(first: RunSummary, second: RunSummary, split: str) -> Problem:
    """Two runs whose analyses are of different images or captions."""
    fact = f"{first.name} and {second.name} were evaluated on different samples of {split}."
    return Problem(second.name, fact, "Ranks of different samples cannot be compared.")


def _evaluate(summary: RunSummary, split: str) -> str:
    return f"{shlex.join(['python', '-m', 'coder_core.evaluate', str(summary.path), '--split', split])}"


def _again(summary: RunSummary, split: str) -> str:
    return "Import it again." if summary.imported else f"Evaluate it again: {_evaluate(summary, split)}"
