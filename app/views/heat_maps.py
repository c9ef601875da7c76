"""Heat maps: the regions that each word of a text reads, over the picture and as a table."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from app import charts, questions
from app.ask import InputError, Modality, Run, RunSummary, ask, heat_maps
from app.choice import Choice, bound, theme
from app.components import cards, downloads
from app.components.controls import choose_one
from app.components.glossary import tip

WORD, MOST_WORDS = "word", 60
LABELS = {"cosine": "Cosine", "attention": "Scorer’s attention", "tower": "Tower’s attention"}
UNITS = {"cosine": "cosine", "attention": "attention", "tower": "attention"}
NOTES = {
    "cosine": "",
    "attention": "Attention of each word over the regions; the weights sum to 1.",
    "tower": "Attention of the picture’s embedding, computed without any text: the same for every word.",
}


@dataclass(frozen=True)
class Pair:
    """A text, and the image of the split (its number) or the uploaded picture (its bytes) that it is compared with."""

    text: str
    image: int | bytes


Pairs = Mapping[str, Pair]


def candidate_pairs(
    choice: Choice,
    run: RunSummary,
    modality: Modality,
    query: str | int | bytes,
    candidates: list[int],
    own: str = "",
) -> dict[str, Pair]:
    """The query with each of a run's candidates, by their places from 1; the own match first, where `own` names it.

    Args:
        modality: of the query. query: its number, a free text, or an uploaded picture.
    """
    opened, split = run, choice.split
    captions = ask(Run.captions, opened, split)
    numbers = {str(place): candidate for place, candidate in enumerate(candidates, start=1)}
    if own and isinstance(query, int):
        match = (
            int(ask(Run.image_of_text, opened, split)[query])
            if modality == "text"
            else _best_caption(choice, query)
        )
        numbers = ({own: match} if match >= 0 else {}) | numbers
    if modality == "text":
        text = captions[query] if isinstance(query, int) else str(query)
        return {label: Pair(text, image) for label, image in numbers.items()}
    return {label: Pair(captions[caption], query) for label, caption in numbers.items()}  # type: ignore[arg-type]


def _best_caption(choice: Choice, image: int) -> int:
    """The image's own caption with the highest score in the last run; −1 without captions."""
    run = choice.last
    own = ask(Run.captions_of, run, choice.split, image)
    if not len(own):
        return -1
    return int(own[ask(Run.similarity, run, [image], own, split=choice.split)[0].argmax()])


def show_heat_maps(choice: Choice, label: str, pairs_of: Callable[[RunSummary], Pairs]) -> None:
    """Every run's heat map of one pair and one word, side by side.

    Args:
        label: of the control that chooses the pair. pairs_of: a run's pairs by their labels; raises like a search.
    """
    cards.heading(
        "Which regions does each word read?",
        "Pick a word: the brighter a region, the closer it is to the word. A frame marks the closest. Where regions "
        "overlap, their mean is shown.",
    )
    if not st.toggle("Show heat maps", **bound("heat"), help=tip("heat map")):
        return
    pairs, reasons = _collect(choice, pairs_of)
    labels = list(dict.fromkeys(name for named in pairs.values() for name in named))
    maps: dict[str, tuple[Pair, heat_maps.HeatMap, str]] = {}
    if labels:
        offered = list(
            dict.fromkeys(
                way for run in choice.runs for way in ask(heat_maps.heat_map_ways, run, choice.split)
            )
        )
        with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
            chosen = choose_one(label, {name: name for name in labels}, "pair")
            way = (
                choose_one("Map", {name: LABELS[name] for name in offered}, "map") if len(offered) > 1 else ""
            )
        for run in choice.runs:
            pair = pairs.get(run.name, {}).get(chosen)
            own = ask(heat_maps.heat_map_ways, run, choice.split)
            if pair is None:
                reasons.setdefault(run.name, "This run has no such result.")
                continue
            used = way if way in own else own[0] if own else "cosine"
            try:
                maps[run.name] = (
                    pair,
                    ask(questions.word_regions, run, choice.split, pair.text, pair.image, used),
                    used,
                )
            except (InputError, OSError, ImportError) as error:
                reasons[run.name] = str(error)
    word = _choose_word(
        [numbered(heat.words) for _, heat, _ in maps.values()], [heat for _, heat, _ in maps.values()]
    )
    for position, (run, column) in enumerate(
        zip(choice.runs, st.columns(len(choice.runs), gap="small"), strict=True)
    ):
        with column:
            cards.label(run.name)
            if run.name in maps:
                _show(choice, run, position, *maps[run.name], word)
            else:
                cards.empty("There is no heat map of this run.", reasons.get(run.name, ""))


def _collect(
    choice: Choice, pairs_of: Callable[[RunSummary], Pairs]
) -> tuple[dict[str, Pairs], dict[str, str]]:
    pairs, reasons = {}, {}
    for run in choice.runs:
        try:
            pairs[run.name] = pairs_of(run)
        except (InputError, OSError, ImportError) as error:
            reasons[run.name] = str(error)
    return pairs, reasons


def numbered(words: list[str]) -> list[str]:
    """The words, each a second time with its count: "a", "a (2)"."""
    seen: Counter[str] = Counter()
    names = []
    for word in words:
        seen[word] += 1
        names.append(word if seen[word] == 1 else f"{word} ({seen[word]})")
    return names


def _choose_word(named: list[list[str]], maps: list[heat_maps.HeatMap]) -> str:
    """One of the words of all runs; the one whose map varies most in the last run to begin with."""
    options = list(dict.fromkeys(name for names in named for name in names[:MOST_WORDS]))
    if not options:
        return ""
    if st.session_state.get(WORD) not in (None, *options):
        del st.session_state[WORD]
    first = named[-1][min(maps[-1].most_varied(), MOST_WORDS - 1)]
    if any(len(names) > MOST_WORDS for names in named):
        cards.note(f"The first {MOST_WORDS} words can be picked; the table has all.")
    word = st.pills("Word", options, default=first, required=True, format_func=cards.literal, **bound(WORD))
    return str(word)


def _show(
    choice: Choice, run: RunSummary, position: int, pair: Pair, heat: heat_maps.HeatMap, way: str, word: str
) -> None:
    names, unit = numbered(heat.words), UNITS[way]
    row = names.index(word) if word in names else 0 if way == "tower" else None
    if row is None:
        cards.empty(f"This run does not read “{word}” as one word.", "Pick another word.")
        return
    values, strongest = heat.values[row], int(heat.strongest()[row])
    picture, colours = ask(questions.picture_of, run, choice.split, pair.image), charts.tone(theme())
    if heat.boxes is not None and picture is not None:
        laid = [heat_maps.lay_over(word_values, heat.boxes) for word_values in heat.values]
        figure = charts.regions_over_picture(
            *laid[row],
            cards.data_url(picture[0]),
            picture[1],
            _bounds([part.values for part in laid]),
            heat.boxes[strongest],
            unit,
            colours,
        )
    else:
        figure = charts.region_bars(values, _bounds([heat.values]), unit, colours)
        cards.note(heat.unknown or "This run has no readable picture of the image.")
    downloads.chart(figure, f"heat-{position}", f"heat map {position + 1}")
    cards.note(
        f"“{names[row]}” reads region {strongest + 1} most ({unit} {values[strongest]:.3f}). {NOTES[way]}"
    )
    with st.expander("All words and regions as a table"):
        st.html(table_html(names, heat.values, unit))
        downloads.table(_long(names, heat), f"heat-map-{position}")


def _bounds(values: list[np.ndarray]) -> tuple[float, float]:
    """The smallest and the largest value of all words, so that words can be compared."""
    return min(float(np.nanmin(part)) for part in values), max(float(np.nanmax(part)) for part in values)


def table_html(words: list[str], values: np.ndarray, unit: str) -> str:
    """Words × regions; the strongest region of a word is bold."""
    head = "".join(f'<th scope="col">{number}</th>' for number in range(1, values.shape[1] + 1))
    lines = []
    for word, row in zip(words, values, strict=True):
        best = np.nanmax(row)
        cells = "".join(_cell(float(value), bool(value == best)) for value in row)
        lines.append(f'<tr><th scope="row">{html.escape(word)}</th>{cells}</tr>')
    return (
        f'<div class="cl-wide" tabindex="0" role="region" aria-label="words and regions"><table class="cl-values">'
        f"<caption>{html.escape(unit)} of each word with each region</caption>"
        f'<thead><tr><th scope="col">word</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def _cell(value: float, strongest: bool) -> str:
    text = f"{value:.2f}" if np.isfinite(value) else "–"
    return f"<td>{f'<b>{text}</b>' if strongest else text}</td>"


def _long(words: list[str], heat: heat_maps.HeatMap) -> pd.DataFrame:
    """One row a word and region, with the region's box where it is known."""
    count = heat.values.shape[1]
    frame = pd.DataFrame(
        {
            "word": np.repeat(words, count),
            "region": np.tile(np.arange(1, count + 1), len(words)),
            "value": heat.values.ravel(),
        }
    )
    if heat.boxes is not None:
        for side, column in enumerate(("left", "top", "right", "bottom")):
            frame[column] = np.tile(heat.boxes[:, side], len(words))
    return frame
