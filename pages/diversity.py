"""Which anchors are ambiguous?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from app.backend import runs as backend
from app.backend.runs import Loss
from app.ui import cards, sidebar
from app.ui.controls import choose_one, step_through
from app.ui.glossary import tip
from app.ui.state import Choice, bound_number
from app.views import diversity as diversity_view
from app.views.anchor import open_anchor


def slider(label: str, low: float, high: float, used: float, step: float, key: str, term: str) -> float:
    """A number between bounds that hold what training used, where it begins."""
    bounds = (min(low, used), max(high, used), used, step)
    return float(st.slider(label, *bounds, format="%.3g", help=tip(term), width=170, **bound_number(key)))


def settings(choice: Choice) -> tuple[dict[str, Any], Loss]:
    """The controls of the page: which anchors, which measure, over which candidates; μ, γ, ε and τ."""
    last = backend.open_summary(choice.runs[-1])
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        modality = choose_one("Anchors", {"text": "Captions", "image": "Images"}, "anchors", tip("anchor"))
        function = choose_one(
            "Measure", {"std": "Standard deviation", "entropy": "Entropy"}, "measure", f"{tip('SD')} {tip('entropy')}"
        )
        over = {"split": "Whole split", "batch": "A batch", "bank": "A bank"}
        candidates = choose_one("Candidates", over, "over", tip("candidates"))
        drawn = {}
        if candidates == "batch":
            size = last.config.get("training", {}).get("batch_size", 128)
            drawn["batch_size"] = int(st.number_input("Batch size", 2, 8192, size, **bound_number("batch"), width=130))
        elif candidates == "bank":
            size = last.config.get("memory", {}).get("bank_size", 0) or backend.BANK_SIZE
            drawn["bank_size"] = int(st.number_input("Bank size", 1, 1 << 20, size, **bound_number("bank"), width=130))
        if drawn:
            drawn["seed"] = int(st.number_input("Seed", 0, 9999, 0, **bound_number("seed"), width=110))
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        epsilon = slider("ε", 0.01, 1.0, last.loss.epsilon, 0.01, "epsilon", "epsilon")
        mu = slider("μ", 0.005, 0.5, last.loss.temperature, 0.005, "mu", "mu")
        gamma = slider("γ", -0.2, 0.9, last.loss.gamma, 0.01, "gamma", "gamma")
        tau = slider("τ of entropy", 0.01, 1.0, last.loss.entropy_temperature, 0.01, "tau", "entropy temperature")
    cards.note("Training used: " + " · ".join(used_by(run.name, backend.open_summary(run).loss) for run in choice.runs))
    chosen = {"modality": modality, "function": function, "candidates": candidates, "temperature": tau, **drawn}
    return chosen, replace(last.loss, temperature=mu, gamma=gamma, epsilon=epsilon)


def used_by(name: str, loss: Loss) -> str:
    """What a run was trained with, in words."""
    if not loss.trained:
        return f"{name}: Not trained with CODER’s eq. 4; μ, γ and ε are the paper’s"
    values = f"{name}: ε {loss.epsilon:g}, μ {loss.temperature:g}, γ {loss.gamma:g}, measured by "
    return values + ("standard deviation" if loss.function == "std" else f"entropy, τ {loss.entropy_temperature:g}")


def measured(choice: Choice, chosen: dict[str, Any], epsilon: float) -> dict[str, pd.DataFrame]:
    """Every run's table by the chosen measure; the other measure stands beside it where it is shown."""
    tables, shown = {}, st.session_state.get("shown")
    sample = backend.sample(choice.runs[-1], choice.split)
    for run in choice.runs:
        table = backend.diversity(run, choice.split, epsilon=epsilon, sample=sample, **chosen)
        for name, function in (("SD", "std"), ("entropy", "entropy")):
            if run is not choice.runs[-1] and name != shown:
                continue
            table[name] = backend.spread(run, choice.split, sample=sample, **(chosen | {"function": function}))
        tables[run.name] = table
    return tables


def show(choice: Choice) -> None:
    chosen, loss = settings(choice)
    modality, sample = str(chosen["modality"]), backend.sample(choice.runs[-1], choice.split)
    if sample is not None:
        cards.note(
            f"This split is large: {len(sample.images):,} of {sample.of_images:,} images, drawn at random, with their "
            f"{len(sample.texts):,} of {sample.of_texts:,} captions, are looked at, as anchors and as candidates. "
            "Ranks are those in the whole split."
        )
    tables = measured(choice, chosen, loss.epsilon)
    unit = "captions" if modality == "text" else "images"
    diversity_view.distributions(tables, unit)
    changes = None
    if choice.second is not None:
        changes = backend.diversity_changes(tables[choice.first.name], tables[choice.second.name])
    left, right = st.columns(2, gap="large")
    with left if changes is not None else st.container():
        diversity_view.two_measures(choice.runs[-1].name, tables[choice.runs[-1].name], unit)
    if changes is not None:
        with right:
            diversity_view.what_changed(choice, changes, unit)
    target = "caption" if modality == "text" else "image"
    order = diversity_view.ranked(choice, tables, changes, modality, target)
    cards.heading(
        "One anchor, opened", "Its similarity to every negative, and which negatives the loss then listens to."
    )
    opened = backend.open_summary(choice.runs[-1])
    count = opened.count(choice.split, "text" if modality == "text" else "image")
    number = step_through(f"Number of the {target}", target, order, count, "The row of the sample in its split.")
    open_anchor(choice, number, chosen, loss)


choice = sidebar.choose()
cards.question(
    "Which anchors are ambiguous?",
    "An anchor is ambiguous when all its negatives look alike to it: its similarities hardly vary, its diversity is "
    "low, and CODER lowers its temperature.",
)
sidebar.answer(choice, show)
