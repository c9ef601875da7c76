"""Sections of the Similarity page: sliders, matrices, and one pair with every number of eq. 3 and 4."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np
import streamlit as st

from app import charts, questions
from app.ask import Loss, Run, RunSummary, ask, similarity
from app.choice import Choice, bound_number, put, theme
from app.components import cards, downloads, reviewing, words
from app.components.glossary import tip
from app.views.samples import similar_button

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


Cell = tuple[int, int]
Names = tuple[list[str], list[str]]
"""Labels of the rows and of the columns."""
AXES = {"i2t": ("images", "captions"), "t2i": ("captions", "images")}
# kind → (heading, how to read it, name of a value)
KINDS = {
    "similarity": (
        "Before: S",
        "Cosines. Vermilion is above γ, blue below; the colours end where the values end. Matching pairs lie on the "
        "diagonal of a batch in its own order.",
        "S",
    ),
    "exponent": (
        "After: (S − γ) / (μ·div)",
        "The exponents of the loss. The row of an ambiguous anchor gains contrast. Matching pairs are left out.",
        "x",
    ),
    "change": (
        "The difference: what diversity adds to (S − γ) / μ",
        "Vermilion pairs are pushed away more than without diversity, blue pairs less.",
        "x − x without div",
    ),
    "share": (
        "Negative probabilities",
        "Each negative’s share of the anchor’s loss: the model learns from strong colours.",
        "p",
    ),
}


def draw_matrices(
    scaled: dict[str, similarity.Scaled],
    batch: similarity.MatrixSamples,
    settings: questions.MatrixSettings,
    marked: Cell,
    captions: Sequence[str],
) -> list[str]:
    """Every matrix of every run with one colour scale per kind; returns the keys of the charts.

    Args:
        scaled: run -> matrices. batch: their samples. settings: of the page. marked: the open cell.
        captions: of the split, to name cells by on hover.
    """
    keys = []
    names = similarity.labels(next(iter(scaled.values())), batch, settings.direction, captions)
    alone = len(scaled) == 1
    columns = st.columns(2, gap="medium") if alone else []
    for position, (kind, (heading, how, unit)) in enumerate(KINDS.items()):
        values = [getattr(matrices, kind) for matrices in scaled.values()]
        if kind == "similarity":
            scale = charts.heat_scale(values, settings.loss.gamma, "γ")
        else:
            scale = charts.heat_scale(values, None if kind == "share" else 0.0)
        with columns[position % 2] if alone else st.container():
            cards.heading(heading, how)
            parts = [st.container()] if alone else st.columns(2, gap="medium")
        for number, (name, part) in enumerate(zip(scaled, parts, strict=True)):
            keys.append(f"matrix-{kind}-{number}")
            with part:
                if not alone:
                    cards.label(name)
                alt = f"{heading.partition(':')[0]}, {name}"
                _draw(values[number], names, settings, marked, scale, unit, keys[-1], alt)
    if not alone:
        keys.append(_draw_difference(scaled, names, settings, marked))
    return keys


def _draw_difference(
    scaled: dict[str, similarity.Scaled], names: Names, settings: questions.MatrixSettings, marked: Cell
) -> str:
    """The second run's similarities minus the first run's."""
    (first_name, first), (second_name, second) = scaled.items()
    heading = f"S of {second_name} minus S of {first_name}"
    cards.heading(heading, "Vermilion pairs are closer in the second run.")
    difference = second.similarity - first.similarity
    scale = charts.heat_scale([difference])
    with st.columns(2)[0]:
        _draw(difference, names, settings, marked, scale, "ΔS", "matrix-between", heading)
    return "matrix-between"


def _draw(
    values: np.ndarray,
    names: Names,
    settings: questions.MatrixSettings,
    marked: Cell,
    scale: charts.HeatScale,
    unit: str,
    key: str,
    alt: str,
) -> None:
    anchors, candidates = AXES[settings.direction]
    figure = charts.heat_map(
        values,
        *names,
        scale,
        charts.tone(theme()),
        unit=unit,
        row_name=f"anchors: {anchors}",
        column_name=candidates,
        marked=marked,
    )
    downloads.chart(figure, key, alt, height="stretch")  # style.css: as high as the column is wide


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
                _percent_of_pair(pair.share_plain),
            ),
            (
                "p",
                f"exp(x) / (1 + Σ exp) = exp({pair.exponent:.3f}) / {_large(pair.total)}",
                _percent_of_pair(pair.share),
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
    """Every number of the pair with its formula, run beside run."""
    for (name, steps_of_run), column in zip(rows.items(), st.columns(len(rows), gap="large"), strict=True):
        with column:
            cards.label(name)
            st.html(steps_html(steps_of_run))


def _percent_of_pair(share: float) -> str:
    return f"{100 * share:.2f} %" if share >= 0.0001 else f"{100 * share:.1g} %"


def _large(value: float) -> str:
    return f"{value:.3f}" if value < 1e5 else f"{value:.3e}"
