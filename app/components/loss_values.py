"""Sliders for μ, γ and ε of the loss, which start at a run's own values."""

from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from app import questions
from app.address import bound_number, put, put_all
from app.ask import LossSettings, RunSummary, ask, opened_run, similarity
from app.choice import Choice
from app.components import cards
from app.components.controls import button

PAPER = LossSettings()


@dataclass(frozen=True)
class Slider:
    """A slider of a number between `low` and `high`, which the address holds under `key`; `term` explains it."""

    label: str
    key: str
    term: str
    low: float
    high: float
    step: float

    def draw(self, start: float) -> float:
        """Draw the slider; its bounds include `start`. While it is at its start, it follows to the next run's start."""
        former = f"{self.key}-start"
        before = st.session_state.get(former, start)
        if before != start and st.session_state.get(self.key) == before:
            put(self.key, start)
        st.session_state[former] = start
        low = min(self.low, start)
        high = max(self.high, start)
        help_text = cards.tip(self.term)
        bind = bound_number(self.key)
        value = st.slider(self.label, low, high, start, self.step, format="%.3g", help=help_text, **bind)
        return float(value)


def choose_loss(choice: Choice, page: str = "") -> LossSettings:
    """Draw the sliders and, for imported embeddings, buttons for the paper's μ and γ and for those fitted to the run;
    return the last run's loss with these values. `page` begins the names of its controls."""
    run = choice.last
    start = ask(questions.starting_loss, run, choice.split)
    mu = Slider("μ", f"{page}mu", "mu", 0.005, 0.5, 0.005).draw(start.temperature)
    gamma = Slider("γ", f"{page}gamma", "gamma", -1.0, 1.0, 0.005).draw(start.gamma)
    epsilon = Slider("ε", f"{page}epsilon", "epsilon", 0.01, 1.0, 0.01).draw(start.epsilon)
    offered = {f"{run.name}’s own values": start, "The paper’s values": PAPER} if run.imported else {}
    for label, loss in offered.items():
        text = cards.literal(f"{label}: μ = {loss.temperature:g}, γ = {loss.gamma:g}")
        taken = (mu, gamma) == (loss.temperature, loss.gamma)
        values = {f"{page}mu": loss.temperature, f"{page}gamma": loss.gamma}
        button(text, f"{page}values-{loss is PAPER}", "", partial(put_all, values), disabled=taken)
    return replace(start, temperature=mu, gamma=gamma, epsilon=epsilon)


def in_words(choice: Choice, loss: LossSettings) -> str:
    """Describe the values used for every run here, and each run's own."""
    start = ask(questions.starting_loss, choice.last, choice.split)
    same = all(getattr(loss, name) == getattr(start, name) for name in ("temperature", "gamma", "epsilon"))
    source = f"those of {choice.last.name}" if same else "set under Advanced"
    by_values: dict[str, list[str]] = {}
    for run in choice.runs:
        by_values.setdefault(_own_values(run, choice.split, run is choice.last), []).append(run.name)
    own = " ".join(f"{', '.join(names)}: {values}." for values, names in by_values.items())
    return f"Shown with {_values(loss)}, {source}. {own}"


def _values(loss: LossSettings) -> str:
    return f"μ = {loss.temperature:g}, γ = {loss.gamma:g}, ε = {loss.epsilon:g}"


def _own_values(run: RunSummary, split: str, derived: bool) -> str:
    """Describe the values that a run was trained with, or their substitutes, and with `derived` the origin of these."""
    usual = "so the paper’s values are used instead"
    if not run.imported:
        loss = opened_run(run).loss
        by = "standard deviation" if loss.function == "std" else f"entropy, τ {loss.entropy_temperature:g}"
        used = f"trained with {_values(loss)}, diversity by {by}"
        return used if loss.trained else f"trained without CODER’s eq. 4, {usual}"
    fit = ask(similarity.values_from_similarities, run, split)
    if fit.negatives != fit.negatives:
        return f"imported, and without negatives here, {usual}"
    values = f"imported; its similarities suggest μ = {fit.loss.temperature:g}, γ = {fit.loss.gamma:g}"
    origin = cards.HOW_TO_READ["values from similarities"].format(fit=fit)
    return f"{values}. {origin}" if derived else values
