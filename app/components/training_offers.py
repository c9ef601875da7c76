"""Offers of other pages to train or to evaluate: a link that fills in the form, and a button that evaluates a run."""

from collections.abc import Iterable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import streamlit as st

from app import jobs, judging, questions, training
from app.ask import RunSummary, ask_both
from app.choice import Choice
from app.components import cards, links
from app.components.controls import button
from app.components.refusals import attempt
from app.training import NOT_STARTED, starting

EVERY_TWO_SECONDS = "2s"
METHODS = ("boosting", "weighting")  # sections with their own fields in the form
SCENARIO = "boosting_scenario"
START = "boosting_start"
WEIGHTS = "sample_weights"
USUAL = ("epochs", "batch_size", "learning_rate", "seed")
Scorers = tuple[RunSummary, ...]


def words(key: str) -> str:
    """Return the label of a setting in the form."""
    return key.replace("_", " ")


def scorers_among(runs: Iterable[RunSummary]) -> dict[str, Scorers]:
    """Return, by their names, every two runs that trained on complementary halves of the same images."""
    halves = [run for run in runs if run.config.get("data", {}).get("train_part", 1) != 1 and not run.unknown]
    pairs = [
        (first, second)
        for first, second in combinations(halves, 2)
        if not ask_both(questions.why_not_cross_fitted, first, second)
    ]
    return {" and ".join(sorted(run.name for run in pair)): pair for pair in pairs}


def data_set(run: RunSummary) -> starting.DataSet | None:
    """Return the data set that a run's configuration names, if the app offers it."""
    data = judging.data_of(run)
    return next((entry for entry in training.data_sets() if data and judging.same_data(entry, data)), None)


def show_link(
    label: str, choice: Choice, run: RunSummary, ending: str, scorers: str = "", **more: Any
) -> None:
    """Draw a link that fills the form with a run's configuration and the changes in `more`, the reviews of its samples,
    the scorers, and a new name with this ending. Settings are given by their labels, as widgets read them. Draw nothing
    if the app does not offer the run's data, or this version does not know all of its configuration."""
    data = data_set(run)
    if data is None or run.unknown:
        return

    preset, changes = starting.like_run(run, data)
    options = {option.key: option for option in starting.options(preset)}
    changes = {key: value for key, value in (changes | more).items() if value != options[key].value}
    values: dict[str, str | list[str]] = {
        "data": data.name,
        "preset": preset,
        "use-reviews": "true",
        "reviewed": run.name,
    }
    values |= {"scorers": scorers} if scorers else {}
    values["name"] = training.free_name(f"{run.name}-{ending}")
    for key, value in changes.items():
        plain = np.format_float_positional(value, trim="-") if options[key].kind == "decimal" else str(value)
        values[f"{preset}-{key}"] = plain.lower() if options[key].kind == "switch" else plain

    general = [key for key in changes if options[key].section not in METHODS]
    values["set"] = list(dict.fromkeys(map(words, (*USUAL, *general))))
    for section in METHODS:
        apart = (section, SCENARIO, START, WEIGHTS)
        keys = [key for key in changes if options[key].section == section and key not in apart]
        values[f"set-{section}"] = list(map(words, keys))

    st.html(cards.links_html([(label, links.address("train", choice, **values))]))


def offer_evaluation(run: RunSummary, split: str) -> None:
    """Draw a button that evaluates a run on dev or train, or a note while that is running; nothing if it is done."""
    if not run.has_best or split in run.splits:
        return
    started = training.evaluation(run, split)

    @st.fragment(run_every=EVERY_TWO_SECONDS if started else None)
    def watch() -> None:
        job = training.evaluation(run, split)
        entry = training.find(run.name)
        if bool(job) != bool(started) or (entry and entry.run and split in entry.run.splits):
            st.rerun()
        if job is not None and job.running:
            cards.note(f"Evaluating the best model of {run.name} on {split} …")
            return
        if job is not None and not run.damaged:
            cards.empty("The evaluation ended without a result.", jobs.last_line(job))
        with st.container(horizontal=True, vertical_alignment="center"):
            start = partial(attempt, NOT_STARTED, training.evaluate, run, split)
            button(f"Evaluate on {split}", f"evaluate-{split}", "leaderboard", start)
            cards.note(cards.HOW_TO_READ[f"evaluate on {split}"])

    watch()
