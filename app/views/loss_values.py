"""Sliders for μ, γ and ε of the loss, which start at a run's own values."""

from dataclasses import replace

import streamlit as st

from app import questions
from app.ask import Loss, RunSummary, ask, similarity
from app.choice import Choice, bound_number, put
from app.components import cards
from app.components.controls import button

PAPER = Loss()


def slider(
    label: str, key: str, low: float, high: float, step: float, start: float, width: int, term: str = ""
) -> float:
    """A slider bound to the URL. At its start, which the bounds include, it follows to the start of the next run."""
    former = f"{key}-start"
    if former in st.session_state and st.session_state.get(key) == st.session_state[former]:
        put(key, start)
    st.session_state[former] = start
    bounds, help_text = (min(low, start), max(high, start), start, step), cards.tip(term or key)
    return float(st.slider(label, *bounds, format="%.3g", help=help_text, width=width, **bound_number(key)))


def choose_loss(choice: Choice, width: int) -> Loss:
    """The sliders; the rest of the loss is that of the last run."""
    loss = ask(questions.starting_loss, choice.last, choice.split)
    mu = slider("μ", "mu", 0.005, 0.5, 0.005, loss.temperature, width)
    gamma = slider("γ", "gamma", -1.0, 1.0, 0.005, loss.gamma, width)
    epsilon = slider("ε", "epsilon", 0.01, 1.0, 0.01, loss.epsilon, width)
    return replace(loss, temperature=mu, gamma=gamma, epsilon=epsilon)


def offer_paper_values(choice: Choice, current: Loss) -> None:
    """For imported embeddings, buttons to the paper's μ and γ, and back to the run's fit."""
    run = choice.last
    if not run.imported:
        return
    start = ask(questions.starting_loss, run, choice.split)
    with st.container(horizontal=True):
        for label, loss in ((f"{run.name}’s own values", start), ("The paper’s values", PAPER)):
            text = cards.literal(f"{label}: μ = {loss.temperature:g}, γ = {loss.gamma:g}")
            taken = (current.temperature, current.gamma) == (loss.temperature, loss.gamma)
            values = {"mu": loss.temperature, "gamma": loss.gamma}
            button(text, f"values-{loss is PAPER}", "", st.session_state.update, values, disabled=taken)


def own_values_in_words(run: RunSummary, split: str, *, starts: bool) -> str:
    """μ and γ that fit imported embeddings; where the sliders start at them, also how they follow."""
    fit = ask(similarity.values_from_similarities, run, split)
    if fit.negatives != fit.negatives:
        return f"{run.name} is imported and has no negatives here (its own values are the paper’s)."
    mu, gamma = f"{fit.loss.temperature:g}", f"{fit.loss.gamma:g}"
    if not starts:
        return f"{run.name} is imported; its own values would be μ = {mu}, γ = {gamma}."
    return (
        f"{run.name} is imported, so μ and γ start from its own similarities: γ = {gamma} is midway between the 99th "
        f"percentile of other pairs ({fit.negatives_top:.2f}) and the median of matching pairs ({fit.positives:.2f}); "
        f"μ = {mu} is a third of the distance between the two medians ({fit.negatives:.2f}, {fit.positives:.2f})."
    )
