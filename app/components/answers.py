"""Titles of pages: what a page finds, in one sentence with its numbers."""

from collections.abc import Mapping

import numpy as np

from app.ask import Modality, Run, ask, ask_both, retrieval
from app.choice import DIRECTIONS, QUERIES, Choice
from app.components.words import gain_cell, listed

EMPTY_SLICE = "This slice contains no caption: change or clear it in the sidebar"


def main_recall(metrics: Mapping[str, Mapping[str, float]]) -> tuple[str, str]:
    """Return the key and the name of the recall by which all of these runs can be compared: R@sum or, where one of them
    answers only one direction, R@1 of that direction."""
    names = {"rsum": "R@sum", **{f"{way}_r1": f"{label} R@1" for way, label in DIRECTIONS.items()}}
    shared = (key for key in names if all(key in of_run for of_run in metrics.values()))
    key = next(shared, "rsum")
    return key, names[key]


def not_ranked(choice: Choice) -> str:
    """Say which of the runs have ranked no query of the split; "" if all have."""
    names = [
        run.name for run in choice.runs if not run.metrics.get(choice.split) and choice.split in run.sampled
    ]
    verb = "have" if len(names) > 1 else "has"
    return f"{listed(names)} {verb} not ranked {choice.split} yet" if names else ""


def better(choice: Choice, recall: str, name: str, values: tuple[float, float]) -> str:
    """Say which of the first and the last run is better by a recall of the metrics, called `name`, or that the
    difference may be noise. `values`: of the first and the last run."""
    gains = ask_both(retrieval.gains, choice.first, choice.last, choice.split, choice.captions)
    if recall not in gains:
        return f"{choice.first.name} and {choice.last.name} have no query of this direction in common"
    return better_by(choice, gains[recall], name, values)


def better_by(choice: Choice, gain: retrieval.Difference, name: str, values: tuple[float, float]) -> str:
    """Say which of the first and the last run is better by a metric called `name`, of which `gain` is the difference."""
    first = choice.first.name
    last = choice.last.name
    before, after = values
    change = gain_cell(gain.mean, gain.low, gain.high)
    if gain.beyond_noise and gain.mean > 0:
        return f"{last} is better: {name} {after:.1f} against {before:.1f}, {change}"
    if gain.beyond_noise:
        lead = gain_cell(-gain.mean, -gain.high, -gain.low)
        return f"{first} is better: {name} {before:.1f} against {after:.1f}, {lead}"
    if before == after:
        return f"No difference: {name} of both runs is {after:.1f}"
    return f"No clear winner: {name} {after:.1f} of {last}, {before:.1f} of {first}, {change}"


def reached(choice: Choice, recall: str, name: str, value: float) -> str:
    """Say which value a single run reaches in a recall of the metrics, called `name`, with its 95% interval."""
    low, high = ask(retrieval.recall_ends, choice.first, choice.split, choice.captions)[recall]
    most = 600 if recall == "rsum" else 100
    return f"{choice.first.name} reaches {name} {value:.1f} [{low:.1f}, {high:.1f}] of {most}"


def log_values(choice: Choice) -> dict[str, tuple[float, float, float]]:
    """Return nDCG@10 of every run on a search log, or on its slice, with the ends of its 95% interval."""
    return {run.name: ask(retrieval.log_ndcg, run, choice.split, choice.captions) for run in choice.runs}


def of_log(choice: Choice) -> str:
    """Say which run answers a search log best, by nDCG@10, which counts grades and all right results of a query."""
    name = "nDCG@10"
    values = log_values(choice)
    means = {run: mean for run, (mean, _, _) in values.items()}
    if choice.second is None:
        mean, low, high = values[choice.first.name]
        return f"{choice.first.name} reaches {name} {mean:.1f} [{low:.1f}, {high:.1f}] of 100"
    if choice.between:
        return of_several(choice, name, means)
    gain = ask_both(retrieval.log_gain, choice.first, choice.last, choice.split, choice.captions)
    return better_by(choice, gain, name, (means[choice.first.name], means[choice.last.name]))


def changed(choice: Choice, at: int = 1) -> tuple[int, int]:
    """Count the captions that the last run fixes and breaks."""
    changes = ask_both(retrieval.compare, choice.first, choice.last, choice.split, at=at)
    changes = changes[changes["direction"] == "t2i"]
    changes = changes[choice.inside("text", changes["query"])]
    outcomes = changes["outcome"].value_counts()
    return int(outcomes.get("fixed", 0)), int(outcomes.get("broken", 0))


def of_several(choice: Choice, name: str, values: dict[str, float]) -> str:
    """Say which of several runs has the highest value."""
    order = sorted(values, key=lambda run: -values[run])
    best = order[0]
    others = listed([f"{run} {values[run]:.1f}" for run in order[1:]])
    return f"{best} has the highest {name}, {values[best]:.1f}; {others}"


def recall_at(choice: Choice, modality: Modality, at: int) -> dict[str, float]:
    """Return recall (%) at a rank of every run, on the slice if there is one."""
    direction = QUERIES[modality]
    recalls = {}
    inside = choice.samples(modality)
    for name, ranks in choice.ask_each(Run.ranks).items():
        of_queries = ranks[direction] if inside is None else ranks[direction][inside]
        of_queries = of_queries[of_queries >= 0]
        recalls[name] = 100 * float((of_queries < at).mean()) if len(of_queries) else float("nan")
    return recalls


def retrieves(choice: Choice, modality: Modality, at: int) -> str:
    """Say how well the runs retrieve in one direction at a rank."""
    direction = QUERIES[modality]
    name = f"{DIRECTIONS[direction]} R@{at}"
    if told := not_ranked(choice):
        return told

    values = recall_at(choice, modality, at)
    if choice.second is None and np.isnan(values[choice.first.name]):
        return f"{choice.first.name} answers no query {DIRECTIONS[direction]}"
    if choice.second is None:
        missed = 100 - values[choice.first.name]
        return (
            f"{choice.first.name} misses {missed:.1f}% of its queries: {name} {values[choice.first.name]:.1f}"
        )

    if choice.between:
        return of_several(choice, name, values)

    ends = values[choice.first.name], values[choice.last.name]
    return better(choice, f"{direction}_r{at}", name, ends)
