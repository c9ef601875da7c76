"""Diversity page: ambiguous anchors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from app import questions
from app.ask import Loss, Run, ask, diversity, retrieval
from app.choice import Choice, bound_number, opened
from app.components import cards
from app.components.controls import MODALITIES, choose_one, step_through
from app.components.glossary import tip
from app.frame import sidebar
from app.views import diversity as sections
from app.views import similarity as loss_values
from app.views.samples import say_slice


def slider(label: str, low: float, high: float, used: float, step: float, key: str, term: str) -> float:
    """A number that starts at what training used; the bounds include it."""
    bounds = (min(low, used), max(high, used), used, step)
    return float(st.slider(label, *bounds, format="%.3g", help=tip(term), width=170, **bound_number(key)))


def settings(choice: Choice) -> tuple[dict[str, Any], Loss]:
    """The controls of the page: which anchors, which measure, over which candidates; μ, γ, ε and τ."""
    summary = choice.last
    last, loss = summary, ask(questions.starting_loss, summary, choice.split)
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        modality = choose_one("Anchors", MODALITIES, "anchors", tip("anchor"))
        function = choose_one(
            "Measure",
            {"std": "Standard deviation", "entropy": "Entropy"},
            "measure",
            f"{tip('SD')} {tip('entropy')}",
        )
        over = {"split": "Whole split", "batch": "A batch", "bank": "A bank"}
        candidates = choose_one("Candidates", over, "over", tip("candidates"))
        sizes = {}
        if candidates == "batch":
            size = last.config.get("training", {}).get("batch_size", 128)
            sizes["batch_size"] = int(
                st.number_input("Batch size", 2, 8192, size, **bound_number("batch"), width=130)
            )
        elif candidates == "bank":
            size = last.config.get("memory", {}).get("bank_size", 0) or diversity.BANK_SIZE
            sizes["bank_size"] = int(
                st.number_input("Bank size", 1, 1 << 20, size, **bound_number("bank"), width=130)
            )
        if sizes:
            sizes["seed"] = int(st.number_input("Seed", 0, 9999, 0, **bound_number("seed"), width=110))
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        epsilon = loss_values.slider("ε", "epsilon", 0.01, 1.0, 0.01, loss.epsilon, 170)
        mu = loss_values.slider("μ", "mu", 0.005, 0.5, 0.005, loss.temperature, 170)
        gamma = loss_values.slider("γ", "gamma", -1.0, 1.0, 0.005, loss.gamma, 170)
        tau = slider("τ of entropy", 0.01, 1.0, loss.entropy_temperature, 0.01, "tau", "entropy temperature")
    if summary.imported:
        loss_values.offer_paper_values(summary, loss, mu, gamma)
        cards.note(loss_values.own_values_in_words(summary, choice.split, starts=True))
    trained = [run for run in choice.runs if not run.imported]
    if trained:
        by_loss: dict[str, list[str]] = {}
        for run in trained:
            by_loss.setdefault(describe(ask(questions.loss_of, run)), []).append(run.name)
        cards.note("In training: " + " · ".join(f"{', '.join(names)}{how}" for how, names in by_loss.items()))
    chosen = {
        "modality": modality,
        "function": function,
        "candidates": candidates,
        "temperature": tau,
        **sizes,
    }
    return chosen, replace(loss, temperature=mu, gamma=gamma, epsilon=epsilon)


def describe(loss: Loss) -> str:
    """The values that runs were trained with, in words that follow their names."""
    if not loss.trained:
        return " did not use CODER’s eq. 4 (μ, γ and ε are the paper’s)"
    measure = "standard deviation" if loss.function == "std" else f"entropy, τ {loss.entropy_temperature:g}"
    return f": ε {loss.epsilon:g}, μ {loss.temperature:g}, γ {loss.gamma:g}, measured by {measure}"


def measured(choice: Choice, chosen: dict[str, Any], epsilon: float) -> dict[str, pd.DataFrame]:
    """Every run's table by the chosen measure, with SD and entropy where the page shows them."""
    tables, histogram = {}, st.session_state.get("shown")
    sample = ask(Run.sample, choice.last, choice.split)
    for summary in choice.runs:
        run = summary
        table = ask(Run.diversity, run, choice.split, epsilon=epsilon, sample=sample, **chosen)
        for name, function in (("SD", "std"), ("entropy", "entropy")):
            if summary is choice.last or name == histogram:
                table[name] = ask(
                    Run.spread, run, choice.split, sample=sample, **(chosen | {"function": function})
                )
        tables[summary.name] = table
    return tables


def show(choice: Choice) -> None:
    chosen, loss = settings(choice)
    modality, last = chosen["modality"], choice.last
    sample = ask(Run.sample, last, choice.split)
    if sample is not None:
        cards.note(
            f"This split is large: anchors and candidates are {len(sample.images):,} of {sample.of_images:,} random "
            f"images with their {len(sample.texts):,} of {sample.of_texts:,} captions. Ranks are over the whole split."
        )
    tables = measured(choice, chosen, loss.epsilon)
    unit, target = ("captions", "caption") if modality == "text" else ("images", "image")
    changes = None
    if choice.second is not None:
        changes = retrieval.diversity_changes(tables[choice.first.name], tables[choice.second.name])
    if choice.slice:
        say_slice(choice, modality)
        inside = choice.inside(modality, tables[last.name]["anchor"])
        tables = {name: table[inside].reset_index(drop=True) for name, table in tables.items()}
        changes = None if changes is None else changes[inside].reset_index(drop=True)
        if not inside.any():
            cards.empty(
                "The slice holds none of these anchors.", "Clear it, or write another one in the sidebar."
            )
            return
    sections.distributions(tables, unit)
    if changes is None:
        sections.two_measures(last.name, tables[last.name], unit)
    else:
        left, right = st.columns(2, gap="large")
        with left:
            sections.two_measures(last.name, tables[last.name], unit)
        with right:
            sections.percentile_changes(choice, changes, unit)
    order = sections.ranked_anchors(choice, tables, changes, modality, target)
    if not opened(target, order):
        return
    cards.heading(
        "One anchor in detail", "Its similarity to every negative, and the weight of each in the loss."
    )
    count = ask(Run.count, last, choice.split, modality)
    number = step_through(
        f"{target.capitalize()} number", target, order, count, "The row of the sample in its split."
    )
    sections.show_anchor(choice, number, chosen, loss)


sidebar.page(
    "Which anchors are ambiguous?",
    "An anchor is ambiguous when its similarities to all negatives hardly vary. Its diversity is then low, and CODER "
    "lowers its temperature.",
    show,
)
