"""Runs and splits that cannot be shown: the reason, and how to fix it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import streamlit as st

from app import questions
from app.ask import InputError, RunSummary, all_runs, ask, comparable, has_embeddings, runs_root
from app.choice import NO_RUN, Choice, put
from app.components import cards

LONGEST = 80  # characters of a name from a link
_SPLIT = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Problem:
    """Why the run `name` is not shown, and what to do about it."""

    name: str
    fact: str
    fix: str


def run(name: str, summary: RunSummary | None) -> Problem:
    """A run that a link names: there is none, it is damaged, or not evaluated yet."""
    short = name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
    if summary is None:
        fix = "It was deleted or renamed, or the link comes from another folder of runs."
        return Problem(name, f"There is no run {short} in {runs_root()}.", fix)
    if summary.fault:
        return Problem(name, f"{short} cannot be opened.", summary.fault)
    if summary.damaged:
        return Problem(name, f"The analysis of {short} is damaged.", " ".join(summary.damaged.values()))
    if summary.state == "running":
        return Problem(
            name, f"{short} is still training.", "It is evaluated when training ends; see the Train page."
        )
    fix = f"Evaluate it on the Train page, or: {_evaluate(summary, 'dev')}"
    return Problem(name, f"{short} is not evaluated yet (state: {summary.state}).", fix)


def split(summary: RunSummary, name: str) -> Problem:
    """A split that a link names and the run was not evaluated on, or whose analysis lacks files."""
    if name in summary.damaged:
        fact = f"The analysis of {summary.name} on {name} is damaged."
        return Problem(summary.name, fact, f"{summary.damaged[name]} {_again(summary, name)}")
    fix = f"It was evaluated on {', '.join(summary.splits)}."
    if _SPLIT.fullmatch(name) and not summary.imported:
        fix += f" To add {name}: {_evaluate(summary, name)}"
    return Problem(summary.name, f"{summary.name} was not evaluated on {name[:LONGEST]}.", fix)


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


OTHER_PAGES = (
    "Overview, Diversity, Similarity and Retrieval work with such a run. Choose another run for this page."
)


def runs_with(
    choice: Choice,
    has: Callable[[RunSummary, str], bool],
    *,
    trained: str,
    imported: str,
    fix: str,
    preset: str = "",
) -> list[RunSummary]:
    """The chosen runs that have it, after naming those that do not; where none has it, a button to another run that
    does, and how to train one.

    Args:
        choice: runs and split. has: whether a run has it on a split.
        trained: how a run without it was trained, for example "without a concept branch".
        imported: what imported embeddings lack, for example "which have no concept branch".
        fix: how to get a run that has it. preset: one on the built-in pictures that has it, for the Train page.
    """
    matches = [run for run in choice.runs if has(run, choice.split)]
    without = [run for run in choice.runs if run not in matches]

    def lack(run: RunSummary) -> str:
        reason = f"holds imported embeddings, {imported}" if run.imported else f"was trained {trained}"
        return f"{run.name} {reason}."

    if not matches:
        if len(without) == 2 and not any(run.imported for run in without):
            fact = f"{without[0].name} and {without[1].name} were trained {trained}."
        else:
            fact = " ".join(map(lack, without))
        cards.empty(fact, fix)
        _offer_another(choice, has)
        label = f"Open the Train page with {preset}" if preset else "Open the Train page"
        query = {"preset": preset} if preset else None
        st.page_link("pages/train.py", label=label, icon=":material/model_training:", query_params=query)
    elif without:
        cards.note(f"{lack(without[0])} Only {matches[0].name} is shown.")
    return matches


def _offer_another(choice: Choice, has: Callable[[RunSummary, str], bool]) -> None:
    """A button that chooses another run that has it: beside the first one where both are of the same samples."""
    split = choice.split
    others = [run for run in all_runs() if run.usable and split in run.splits and run not in choice.runs]
    others.sort(key=lambda run: not comparable(choice.first, run, split))
    for run in others:
        with suppress(InputError):  # damaged: named on the Overview
            if has(run, split):
                break
    else:
        return
    beside = comparable(choice.first, run, split)
    first, second = (choice.first.name, run.name) if beside else (run.name, NO_RUN)
    label = (
        f"Compare {cards.literal(first)} with {cards.literal(second)}"
        if beside
        else f"Show {cards.literal(first)}"
    )
    st.button(label, type="primary", key="another-run", on_click=_choose, args=(first, second))


def _choose(first: str, second: str) -> None:
    put("run", first)
    put("versus", second)


def embedded(choice: Choice) -> Choice | None:
    """The runs with one embedding per sample, after naming those without; None where no run has them."""
    without = [run for run in choice.runs if not has_embeddings(run, choice.split)]
    if not without:
        return choice
    names, verb = " and ".join(run.name for run in without), "scores" if len(without) == 1 else "score"
    fact = f"{names} {verb} every image with every caption as a pair, so a sample has no single embedding."
    matches = [run for run in choice.runs if run not in without]
    if not matches:
        cards.empty(fact, OTHER_PAGES)
        return None
    cards.note(f"{fact} Only {matches[0].name} is shown.")
    return replace(choice, first=matches[0], second=None)
