"""One pair of the matrix: the picture, the caption, and every number of eq. 3 and 4."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import streamlit as st

from app import questions
from app.ask import Run, ask, similarity
from app.choice import Choice
from app.ui import cards, reviewing, words
from app.views.samples import similar_button

Step = tuple[str, str, str]


def steps(pair: similarity.Pair, function: str) -> list[Step]:
    """(symbol, formula with numbers, value), from S to the loss. A matching pair carries no weight."""
    mu, gamma, epsilon = pair.loss.temperature, pair.loss.gamma, pair.loss.epsilon
    spread = "SD" if function == "std" else "H"
    difference = f"{pair.similarity:.4f} − {gamma:g}"
    rows: list[Step] = [
        ("S", "cosine of the two embeddings", f"{pair.similarity:.4f}"),
        ("γ", "margin", f"{gamma:g}"),
        (
            spread,
            f"of the anchor’s similarities to its {words.count(pair.negatives, 'negative')} here",
            f"{pair.spread:.4f}",
        ),
        (
            "undivided",
            f"1 / sigmoid(ε / {spread}) = 1 + exp(−{epsilon:g} / {pair.spread:.4f})",
            f"{pair.raw:.4f}",
        ),
        (
            "div",
            f"undivided over the largest of all anchors here = {pair.raw:.4f} / {pair.largest:.4f}",
            f"{pair.diversity:.4f}",
        ),
        ("μ·div", f"{mu:g} × {pair.diversity:.4f}", f"{pair.effective:.4f}"),
    ]
    if pair.own:
        rows.append(("x, p", "a matching pair is no negative, so it has no exponent and no share", "–"))
    else:
        rows += [
            ("x without div", f"(S − γ) / μ = ({difference}) / {mu:g}", f"{pair.plain:.3f}"),
            ("x", f"(S − γ) / (μ·div) = ({difference}) / {pair.effective:.4f}", f"{pair.exponent:.3f}"),
            (
                "p without div",
                f"exp({pair.plain:.3f}) / {_large(pair.total_plain)}",
                _percent(pair.share_plain),
            ),
            (
                "p",
                f"exp(x) / (1 + Σ exp) = exp({pair.exponent:.3f}) / {_large(pair.total)}",
                _percent(pair.share),
            ),
        ]
    if pair.positive == pair.positive:
        formula = f"μ·log(1 + Σ exp) − log(1 + S⁺) = {mu:g} × log({_large(pair.total)}) − log(1 + {pair.positive:.4f})"
        rows += [
            ("S⁺", "similarity of the anchor to its own match", f"{pair.positive:.4f}"),
            ("loss without div", "the same with div = 1", f"{pair.loss_plain:.4f}"),
            ("loss", formula, f"{pair.loss_value:.4f}"),
        ]
    return rows


def steps_html(rows: Sequence[Step]) -> str:
    """The steps as an HTML table, escaped."""
    lines = ((html.escape(text) for text in row) for row in rows)
    body = "".join(
        f"<tr><th>{symbol}</th><td>{formula}</td><td>{value}</td></tr>" for symbol, formula, value in lines
    )
    return f'<table class="cl-steps"><tbody>{body}</tbody></table>'


def values_html(rows: Mapping[str, Sequence[Step]]) -> str:
    """The values of every run beside each other: run → steps, each with the same symbols."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in rows)
    lines = []
    for same in zip(*rows.values(), strict=True):
        values = "".join(f"<td>{html.escape(value)}</td>" for _, _, value in same)
        lines.append(f'<tr><th scope="row">{html.escape(same[0][0])}</th>{values}</tr>')
    body = "".join(lines)
    return f'<table class="cl-values"><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>'


def pair_steps(
    choice: Choice,
    batch: similarity.MatrixSamples,
    scaled: dict[str, similarity.Scaled],
    settings: questions.MatrixSettings,
    cell: tuple[int, int],
) -> dict[str, list[Step]]:
    """Run → the steps from S to the loss of one pair; `cell` is (anchor, candidate)."""
    return {
        run.name: steps(
            ask(questions.pair_numbers, run, settings, batch, scaled[run.name], cell), settings.loss.function
        )
        for run in choice.runs
    }


def show_pair(
    choice: Choice,
    batch: similarity.MatrixSamples,
    settings: questions.MatrixSettings,
    cell: tuple[int, int],
    rows: Mapping[str, Sequence[Step]],
) -> None:
    """The picture with the caption, and the numbers of every run."""
    image, text = cell if settings.direction == "i2t" else cell[::-1]
    number, caption = int(batch.images[image]), int(batch.texts[text])
    last = choice.last
    opened = last
    owner = int(ask(Run.image_of_text, opened, choice.split)[caption])
    relation = "its own" if owner == number else f"which belongs to image {owner}"
    title = f"Image {number} with caption {caption}, {relation}"
    cards.sample(
        ask(Run.picture, last, choice.split, number),
        [ask(Run.captions, opened, choice.split)[caption]],
        title,
    )
    with reviewing.judge(choice, number, caption, "pair"):
        similar_button(choice, "text", caption, "pair")
    st.html(values_html(rows))


def show_steps(rows: Mapping[str, Sequence[Step]]) -> None:
    """How every number of the pair is computed, run beside run."""
    for (name, steps_of_run), column in zip(rows.items(), st.columns(len(rows), gap="large"), strict=True):
        with column:
            cards.label(name)
            st.html(steps_html(steps_of_run))


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %" if share >= 0.0001 else f"{100 * share:.1g} %"


def _large(value: float) -> str:
    return f"{value:.3f}" if value < 1e5 else f"{value:.3e}"
