"""Metrics that count several right answers: by group and by equal texts, beside those by the labels."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from app.ask import ask, opened_run, read_each, retrieval
from app.choice import Choice
from app.components import cards
from app.components.table import Column, plain_table


def show_several(choice: Choice, columns: Mapping[str, Column], labels: Mapping[str, str]) -> None:
    """Draw a row per run and way to count, if images share a group or a text; explain how to get what is missing.
    `labels`: key of a metric → its column in `columns`."""
    split = choice.split
    shared = ask(retrieval.shared_answers, choice.first, split)
    facts = []
    if shared.groups:
        facts.append(f"{shared.groups:,} groups have several images")
    if shared.texts:
        facts.append(f"{shared.texts:,} captions have a text that another image has too")
    if not facts or not any(run.metrics.get(split) for run in choice.runs):
        return

    stored, faults = read_each(choice.runs, lambda run: retrieval.several_metrics(opened_run(run), split))
    cards.faults(faults)
    how = cards.HOW_TO_READ["several right answers"].format(facts=" and ".join(facts))
    rows = []
    for run in choice.runs:
        ways = {"labels": run.metrics.get(split, {}), **stored.get(run.name, {})}
        for way, metrics in ways.items():
            values = {label: metrics.get(key) for key, label in labels.items()}
            rows.append({"run": run.name, "right by": way, **values})

    of_metrics = {name: columns[name] for name in labels.values()}
    shown = {"run": columns["run"], "right by": Column("right by"), **of_metrics}
    with st.expander("Several right answers", expanded=bool(shared.groups) and any(stored.values())):
        cards.note(how)
        plain_table(pd.DataFrame(rows, columns=list(shown)), shown, "several", "rows")
        missing = [name for name, of_run in stored.items() if not of_run]
        if missing:
            command = f"coder-lab evaluate {missing[0]} --split {split}"
            cards.note(f"Only the labels are known for {', '.join(missing)}: {command} adds the other rows.")
