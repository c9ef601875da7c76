"""Sliders of μ, γ and ε: they start at what training used, or at what fits imported embeddings."""

from __future__ import annotations

import streamlit as st

from app.ask import Loss, RunSummary, ask, similarity
from app.choice import bound_number, put
from app.ui import cards
from app.ui.glossary import tip

PAPER = Loss()


def slider(label: str, key: str, low: float, high: float, step: float, start: float, width: int) -> float:
    """A slider bound to the URL; the bounds include its start.

    One that stands at its start follows to the start of the next run; one that was moved stays.
    """
    former = f"{key}-start"
    if former in st.session_state and st.session_state.get(key) == st.session_state[former]:
        put(key, start)
    st.session_state[former] = start
    bounds = (min(low, start), max(high, start), start, step)
    return float(st.slider(label, *bounds, format="%.3g", help=tip(key), width=width, **bound_number(key)))


def offer_paper_values(run: RunSummary, own: Loss, mu: float, gamma: float) -> None:
    """Buttons to the paper's μ and γ, and back to the run's own."""
    with st.container(horizontal=True):
        for label, loss in ((f"{run.name}’s own values", own), ("The paper’s values", PAPER)):
            st.button(
                cards.literal(f"{label}: μ = {loss.temperature:g}, γ = {loss.gamma:g}"),
                on_click=_take,
                args=(loss,),
                disabled=(mu, gamma) == (loss.temperature, loss.gamma),
                key=f"values-{loss is PAPER}",
            )


def _take(loss: Loss) -> None:
    put("mu", loss.temperature)
    put("gamma", loss.gamma)


def own_values_in_words(run: RunSummary, split: str, *, starts: bool) -> str:
    """μ and γ that fit imported embeddings; where the sliders start at them, also how they follow."""
    own = ask(similarity.values_from_similarities, run, split)
    if own.negatives != own.negatives:
        return f"{run.name} is imported and has no negatives here (its own values are the paper’s)."
    mu, gamma = f"{own.loss.temperature:g}", f"{own.loss.gamma:g}"
    if not starts:
        return f"{run.name} is imported; its own values would be μ = {mu}, γ = {gamma}."
    return (
        f"{run.name} is imported, so μ and γ start from its own similarities: γ = {gamma} is midway between the 99th "
        f"percentile of other pairs ({own.negatives_top:.2f}) and the median of matching pairs ({own.positives:.2f}); "
        f"μ = {mu} is a third of the distance between the two medians ({own.negatives:.2f}, {own.positives:.2f})."
    )
