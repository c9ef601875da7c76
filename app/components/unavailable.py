"""Runs and splits that cannot be shown: the reason, and how to fix it."""

import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from app import questions
from app.address import RUNS, put
from app.ask import InputError, Run, Runs, RunSummary, all_runs, ask, comparable, runs_root
from app.choice import Choice
from app.components import cards, links
from app.components.controls import button
from app.components.run_names import name_html
from app.components.words import listed

LONGEST = 80  # characters of a name from a link
_SPLIT = re.compile(r"[A-Za-z0-9_]+")
Has = Callable[[RunSummary, str], bool]


@dataclass(frozen=True)
class Problem:
    """Why the run `name` is not shown, without a period, and what to do about it."""

    name: str
    fact: str
    fix: str


def run(name: str, summary: RunSummary | None) -> Problem:
    """Explain why a run named by a link cannot be shown: it does not exist, is damaged, or is not evaluated yet."""
    short = name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
    if summary is None:
        fix = f"It was deleted or renamed, or the link comes from another folder than {runs_root()}."
        return Problem(name, f"There is no run {short}", fix)
    if summary.fault:
        return Problem(name, f"{short} cannot be opened", summary.fault)
    if summary.damaged:
        return Problem(name, f"The analysis of {short} is damaged", " ".join(summary.damaged.values()))
    if summary.state == "running":
        fix = "It is evaluated when training ends; see the Train page."
        return Problem(name, f"{short} is still training", fix)
    fix = f"Evaluate it on the Train page, or: {_evaluate(summary, 'dev')}"
    return Problem(name, f"{short} is not evaluated yet (state: {summary.state})", fix)


def split(summary: RunSummary, name: str) -> Problem | None:
    """Explain why a split named by a link cannot be shown: not evaluated, or a damaged analysis; None if it can."""
    known = name in summary.splits
    if fault := ask(questions.analysis_fault, summary, name) if known else summary.damaged.get(name):
        again = f"Evaluate it again: {_evaluate(summary, name)}"
        fix = f"{fault} {'Import it again.' if summary.imported else again}"
        return Problem(summary.name, f"The analysis of {summary.name} on {name} is damaged", fix)
    if known:
        return None
    fix = f"It was evaluated on {', '.join(summary.splits)}."
    if _SPLIT.fullmatch(name) and not summary.imported:
        fix += f" To add {name}: {_evaluate(summary, name)}"
    return Problem(summary.name, f"{summary.name} was not evaluated on {name[:LONGEST]}", fix)


def _evaluate(summary: RunSummary, split: str) -> str:
    return shlex.join(["coder-lab", "evaluate", str(summary.path), "--split", split])


def runs_with(choice: Choice, has: Has, texts: Mapping[str, str]) -> Runs:
    """Return the chosen runs for which `has` is true, and name them alone beside the question, after naming the others.
    If none has it, draw how to get such a run, a button to another run that does, and a link to the Train page, with a
    preset on the built-in pictures that has it. `texts`: those of headings.toml on runs without something."""
    trained = texts["trained"]
    imported = texts["imported"]
    preset = texts.get("preset", "")
    matches = [run for run in choice.runs if has(run, choice.split)]
    without = [run for run in choice.runs if run not in matches]
    kinds = {True: f"has imported embeddings, {imported}", False: f"was trained {trained}"}
    facts = [f"{run.name} {kinds[run.imported]}." for run in without]
    if not matches:
        if len(without) == 2 and not any(run.imported for run in without):
            facts = [f"{without[0].name} and {without[1].name} were trained {trained}."]
        none = f"{without[0].name} {texts['has_not']}"
        if len(without) > 1:
            none = f"None of these runs {texts['has']}"
        cards.missing(none, texts["remedy"], f"{' '.join(facts)} {texts['fix']}")
        _offer_another(choice, has)
        label = f"Open the Train page with {preset}" if preset else "Open the Train page"
        links.page_link("train", label, **({"preset": preset} if preset else {}))
    elif without:
        names = [run.name for run in matches]
        verb = "is" if len(matches) == 1 else "are"
        cards.note(f"{' '.join(facts)} Only {' and '.join(names)} {verb} shown.")
        cards.name_runs(name_html(choice, run) for run in matches)

    return matches


def _offer_another(choice: Choice, has: Has) -> None:
    """Draw a button that chooses another run for which `has` is true, beside the first run if it has equal samples."""
    split = choice.split
    candidates = [run for run in all_runs() if run.usable and split in run.splits and run not in choice.runs]
    for run in sorted(candidates, key=lambda run: not comparable(choice.first, run, split)):
        with suppress(InputError):  # damaged, which the Overview reports
            if has(run, split):
                break
    else:
        return
    names = [run.name]
    label = f"Show {cards.literal(run.name)}"
    if comparable(choice.first, run, split):
        names = [choice.first.name, run.name]
        label = f"Compare {cards.literal(names[0])} with {cards.literal(run.name)}"
    button(label, "another-run", "", partial(put, RUNS, names), type="primary")


def embedded(choice: Choice) -> Choice | None:
    """Return the runs with one embedding per sample, after naming those without; None if no run has them."""
    of_lists = [run for run in choice.runs if ask(Run.lists, run, choice.split) is not None]
    of_pairs = [run for run in choice.runs if ask(Run.scores, run, choice.split) is not None]
    without = of_lists + of_pairs
    if not without:
        return choice

    facts = []
    if of_pairs:
        verb = "scores" if len(of_pairs) == 1 else "score"
        names = listed([run.name for run in of_pairs])
        facts.append(
            f"{names} {verb} every image with every caption as a pair, so a sample has no single embedding."
        )

    if of_lists:
        verb = "has" if len(of_lists) == 1 else "have"
        names = listed([run.name for run in of_lists])
        facts.append(f"{names} {verb} only the lists of another system, without embeddings.")

    fact = " ".join(facts)
    matches = [run for run in choice.runs if run not in without]
    if not matches:
        which = "None of these runs has" if len(without) > 1 else f"{without[0].name} has no"
        details = f"{fact} {cards.HOW_TO_READ['without embeddings']}"
        cards.missing(f"{which} embeddings of single samples", "choose a run that has", details)
        return None

    verb = "is" if len(matches) == 1 else "are"
    cards.note(f"{fact} Only {listed([run.name for run in matches])} {verb} shown.")
    return choice.of(matches)
