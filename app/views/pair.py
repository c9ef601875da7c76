"""One pair of the matrix: the picture, the caption, and every number of eq. 3 and 4 filled in."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

from app.backend import runs as backend
from app.backend import similarity as matrices
from app.backend.similarity import Batch, Pair, Scaled, Settings
from app.ui import cards
from app.ui.state import Choice

Step = tuple[str, str, str]


def steps(pair: Pair, function: str) -> list[Step]:
    """(symbol, how it comes about with the numbers in it, value), from S to the loss. Own pairs carry no weight."""
    mu, gamma, epsilon = pair.loss.temperature, pair.loss.gamma, pair.loss.epsilon
    spread = "SD" if function == "std" else "H"
    over = f"{pair.similarity:.4f} − {gamma:g}"
    found: list[Step] = [
        ("S", "cosine of the two embeddings", f"{pair.similarity:.4f}"),
        ("γ", "where pushing begins", f"{gamma:g}"),
        (spread, f"of the anchor’s similarities to its {pair.negatives:,} negatives here", f"{pair.spread:.4f}"),
        ("raw", f"1 / sigmoid(ε / {spread}) = 1 + exp(−{epsilon:g} / {pair.spread:.4f})", f"{pair.raw:.4f}"),
        ("div", f"raw / largest raw = {pair.raw:.4f} / {pair.largest:.4f}", f"{pair.diversity:.4f}"),
        ("μ·div", f"{mu:g} × {pair.diversity:.4f}", f"{pair.effective:.4f}"),
    ]
    if pair.own:
        found.append(("x, p", "it is the anchor’s own: no negative, so it has no exponent and no share", "–"))
    else:
        found += [
            ("x without div", f"(S − γ) / μ = ({over}) / {mu:g}", f"{pair.plain:.3f}"),
            ("x", f"(S − γ) / (μ·div) = ({over}) / {pair.effective:.4f}", f"{pair.exponent:.3f}"),
            ("p without div", f"exp({pair.plain:.3f}) / {_large(pair.total_plain)}", _percent(pair.share_plain)),
            ("p", f"exp(x) / (1 + Σ exp) = exp({pair.exponent:.3f}) / {_large(pair.total)}", _percent(pair.share)),
        ]
    if pair.positive == pair.positive:
        text = f"μ·log(1 + Σ exp) − log(1 + S⁺) = {mu:g} × log({_large(pair.total)}) − log(1 + {pair.positive:.4f})"
        found += [
            ("S⁺", "the anchor’s similarity to its own partner", f"{pair.positive:.4f}"),
            ("loss without div", "the same with div = 1", f"{pair.loss_plain:.4f}"),
            ("loss", text, f"{pair.loss_value:.4f}"),
        ]
    return found


def steps_html(lines: Sequence[Step]) -> str:
    """The steps as a table; it holds numbers and our own words only, and is escaped all the same."""
    rows = "".join(
        f"<tr><th>{html.escape(symbol)}</th><td>{html.escape(how)}</td><td>{html.escape(value)}</td></tr>"
        for symbol, how, value in lines
    )
    return f'<table class="cl-steps"><tbody>{rows}</tbody></table>'


def show_pair(
    choice: Choice, batch: Batch, scaled: dict[str, Scaled], chosen: Settings, place: tuple[int, int]
) -> None:
    """The picture with the caption, then the steps of every run side by side; `place` is (anchor, candidate)."""
    image, text = place if chosen.direction == "i2t" else place[::-1]
    number, caption = int(batch.images[image]), int(batch.texts[text])
    last = choice.runs[-1]
    data = backend.open_summary(last)
    own = int(data.image_of_text(choice.split)[caption])
    whose = "its own" if own == number else f"which belongs to image {own}"
    words = [data.captions(choice.split)[caption]]
    title = f"Image {number} with caption {caption}, {whose}"
    cards.sample(backend.thumbnail(last, choice.split, number), words, title)
    for run, column in zip(choice.runs, st.columns(len(choice.runs), gap="large"), strict=True):
        with column:
            cards.label(run.name)
            pair = matrices.opened(run, chosen, batch, scaled[run.name], place)
            st.html(steps_html(steps(pair, chosen.loss.function)))


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %" if share >= 0.0001 else f"{100 * share:.1g} %"


def _large(value: float) -> str:
    return f"{value:.3f}" if value < 1e5 else f"{value:.3e}"
